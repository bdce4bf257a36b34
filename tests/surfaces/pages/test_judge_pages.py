"""Judges in a real browser: their cards, labels of people in, how far both agree, and what to do where there is nothing yet."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from assay import api
from tests.surfaces.pages.browsing import Visit, aside, barriers, make_run
from tests.surfaces.server.serving import Serving

HOSTILE = "<script>alert(1)</script> <img src=http://elsewhere.invalid/x>"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server with a judged run without labels, another with ten, a sound judge and a gullible one."""
    serving = Serving(tmp_path_factory.mktemp("judged"), settings="requests_per_minute: 100000\n")
    serving.runs_dir.mkdir()
    make_run(serving.runs_dir, "judged", records=60)
    make_run(serving.runs_dir, "talked-about", records=20)
    run = api.open_run("talked-about", runs_dir=serving.runs_dir)
    for line in list(run.predictions())[:10]:
        api.keep_label(run, line.index, api.LabelInput(rater="ann", passed=line.passed))
    for judge in ("judge-sound", "judge-gullible"):
        card = aside(api.probe, api.ProbeRequest(judge=f"scripted/{judge}"))
        api.keep_card(card, serving.runs_dir)
    with serving:
        yield serving


def labels(serving: Serving, path: Path, **members: Any) -> Path:
    """A sample of the run's answers on which people agree with the judge, but for every seventh."""
    sample = api.label_text(api.label_sample("judged", 40, runs_dir=serving.runs_dir))
    judged = {line.record_id: line for line in api.open_run("judged", runs_dir=serving.runs_dir).predictions()}
    rows = [json.loads(line) for line in sample.splitlines()]
    said = [judged[row["record_id"]].passed != (place % 7 == 0) for place, row in enumerate(rows)]
    told = [{**row, "passed": passed, **members} for row, passed in zip(rows, said, strict=True)]
    path.write_text("".join(json.dumps(row) + "\n" for row in told), encoding="utf-8")
    return path


def test_every_judge_is_listed_with_what_its_probe_found(served: Serving, visit: Visit) -> None:
    page = visit(served, "/judges").page
    assert "not sound" in page.get_by_role("row", name="scripted/judge-gullible").inner_text()
    assert "not probed" in page.get_by_role("row", name="scripted/judge-any").inner_text()


def test_a_card_says_what_was_found_and_what_a_sound_judge_does(served: Serving, visit: Visit) -> None:
    page = visit(served, "/judges").page
    page.get_by_role("link", name="scripted/judge-gullible").click()
    probe = page.get_by_role("article", name="injection")
    expect(probe).to_contain_text("not passed")
    expect(probe).to_contain_text("16/16")
    expect(probe).to_contain_text("Expected: the judge gives no more for a wrong answer that asks for a better score")
    expect(page.get_by_role("img", name="How often the judge slipped").first).to_be_visible()


def test_without_labels_the_page_says_how_to_come_by_some(served: Serving, visit: Visit) -> None:
    page = visit(served, "/runs/judged").page
    page.get_by_role("link", name="Judge", exact=True).click()
    expect(page.get_by_role("heading", name="No labels yet")).to_be_visible()
    expect(page.get_by_text("assay label judged -o labels.csv")).to_be_visible()


def test_labels_from_a_file_show_how_far_the_judge_can_be_trusted(served: Serving, visit: Visit, tmp_path: Path) -> None:
    page = visit(served, "/runs/judged/judge").page
    page.locator("input[type=file]").set_input_files(labels(served, tmp_path / "labels.jsonl"))
    page.get_by_role("button", name="Calibrate").click()
    expect(page.get_by_role("heading", name="Agreement with people")).to_be_visible()
    expect(page.locator(".key").filter(has_text="Agreement")).to_contain_text("85.0 %")
    expect(page.get_by_role("img", name="Judge's score, people's verdict").first).to_be_visible()
    expect(page.get_by_role("region", name="Corrected results")).to_contain_text("PPI++")
    assert served.left_over() == []


def test_labels_given_on_the_pages_are_taken_without_a_file(served: Serving, visit: Visit) -> None:
    page = visit(served, "/runs/talked-about/judge").page
    assert "10 labels on 10 graded records by ann" in page.get_by_role("region", name="Agreement with people").inner_text()


def test_labels_that_cannot_be_read_are_told_with_their_lines(served: Serving, visit: Visit, tmp_path: Path) -> None:
    visitor = visit(served, "/runs/judged/judge")
    visitor.page.locator("input[type=file]").set_input_files(labels(served, tmp_path / "bad.jsonl", passed=HOSTILE))
    visitor.page.get_by_role("button", name="Calibrate").click()
    visitor.expect_status(400)
    alert = visitor.page.get_by_role("alert")
    expect(alert).to_contain_text("The labels in bad.jsonl cannot be used.")
    expect(alert).to_contain_text("line 1: passed is '<script>alert(1)</script>")
    assert str(served.runs_dir) not in alert.inner_text()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("path", ["/judges", "/runs/talked-about/judge", "card"])
def test_nothing_keeps_anybody_from_looking_at_judges(served: Serving, visit: Visit, path: str, theme: str) -> None:
    card = f"/judges/{api.kept_cards(served.runs_dir).cards[0].id}"
    page = visit(served, path.replace("card", card), color_scheme=theme, viewport={"width": 380, "height": 800}).page
    assert barriers(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_card_that_cannot_be_read_is_said_to_be_damaged(served: Serving, visit: Visit) -> None:
    (served.runs_dir / ".judges" / "00000000-torn.json").write_text('{"judge": 1', encoding="utf-8")
    expect(visit(served, "/judges").page.get_by_text("The judge card 00000000-torn.json cannot be read.")).to_be_visible()
