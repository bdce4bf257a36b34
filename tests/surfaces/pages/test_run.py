"""One run in a browser."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.surfaces.pages.browsing import Visit, barriers, make_run
from tests.surfaces.server.serving import Serving


def test_the_decision_and_its_reason_stand_at_the_top(gallery: Serving, visit: Visit) -> None:
    decision = visit(gallery, "/runs/poor").page.get_by_role("region", name="Decision").inner_text()
    assert "missed" in decision.lower()
    assert "is below 90.0 %" in decision


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("run_id", ["good", "poor", "broken"])
def test_nothing_keeps_anybody_from_using_the_page(gallery: Serving, visit: Visit, run_id: str, theme: str) -> None:
    assert barriers(visit(gallery, f"/runs/{run_id}", color_scheme=theme).page) == []


def test_a_number_explains_itself_when_it_is_focused(gallery: Serving, visit: Visit) -> None:
    page = visit(gallery, "/runs/good").page
    page.locator(".key-value .tip").first.focus()
    expect(page.get_by_role("tooltip")).to_contain_text("95 % interval")


def test_a_number_in_a_table_is_explained_by_the_head_of_its_column(gallery: Serving, visit: Visit) -> None:
    page = visit(gallery, "/runs/good").page
    page.get_by_role("row", name="Whole record").get_by_role("cell").nth(1).hover()
    expect(page.get_by_role("tooltip")).to_contain_text("half of the records took less")


def test_a_run_that_nobody_knows_is_a_page_that_leads_back(gallery: Serving, visit: Visit) -> None:
    visitor = visit(gallery, "/runs/nobody")
    visitor.expect_status(404)
    assert "Not found" in visitor.page.get_by_role("heading", level=1).inner_text()
    assert visitor.page.get_by_role("link", name="Show all runs").get_attribute("href") == "/runs"


def test_programs_still_get_the_envelope(gallery: Serving) -> None:
    assert gallery.ask("GET", "/runs/nobody").json["error"]["code"] == "not_found"
    assert gallery.ask("GET", "/v1/runs/nobody", headers={"Accept": "text/html"}).json["error"]["code"] == "not_found"


def test_a_run_without_a_score_tells_no_scale_and_shows_no_empty_table(gallery: Serving, visit: Visit) -> None:
    page = visit(gallery, "/runs/broken").page
    expect(page.get_by_text("no record has a score")).to_have_count(2)
    assert page.locator("main table tbody:not(:has(tr))").count() == 0


def test_files_are_verified_when_asked_for(tmp_path: Path, visit: Visit) -> None:
    serving = Serving(tmp_path)
    serving.runs_dir.mkdir()
    make_run(serving.runs_dir, "kept", records=3)
    with serving:
        page = visit(serving, "/runs/kept").page
        page.get_by_role("link", name="Verify the files").click()
        expect(page.get_by_role("region", name="Artifacts")).to_contain_text("verified")
        metrics = serving.runs_dir / "kept" / "failures.jsonl"
        metrics.chmod(0o600)
        metrics.write_bytes(metrics.read_bytes() + b" ")
        page.reload()
        expect(page.get_by_role("region", name="Artifacts")).to_contain_text("failures.jsonl: was changed")


def test_every_chart_has_a_title_and_fits_its_width(gallery: Serving, visit: Visit) -> None:
    page = visit(gallery, "/runs/good", viewport={"width": 380, "height": 800}).page
    charts = page.locator(".chart-narrow svg")
    assert charts.count() == 3
    assert page.locator(".chart-wide svg").first.is_hidden()
    assert page.evaluate("document.documentElement.scrollWidth") <= 380


@pytest.mark.parametrize("run_id", ["good", "poor", "broken"])
def test_every_number_of_a_table_has_a_head_that_explains_it(gallery: Serving, visit: Visit, run_id: str) -> None:
    heads = visit(gallery, f"/runs/{run_id}").page.locator("th.number")
    assert heads.count() > 5
    assert heads.filter(has_not=heads.page.locator(".tip")).all_inner_texts() == []


def test_the_theme_that_a_reader_chose_stays(gallery: Serving, visit: Visit) -> None:
    page = visit(gallery, "/runs/good", color_scheme="light").page
    dark = page.get_by_role("button", name="Theme: ")
    dark.click()
    dark.click()
    page.reload()
    expect(dark).to_have_text("Theme: dark")
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"


def test_times_are_shown_in_the_zone_of_the_reader(gallery: Serving, visit: Visit) -> None:
    page = visit(gallery, "/runs/good", timezone_id="Asia/Tokyo").page
    assert "Asia/Tokyo" in (page.locator("time").first.get_attribute("title") or "")


def test_a_printed_page_has_its_charts_and_no_buttons(gallery: Serving, visit: Visit) -> None:
    page = visit(gallery, "/runs/good", color_scheme="dark").page
    page.emulate_media(media="print")
    expect(page.locator(".chart-wide rect.bar").first).to_be_visible()
    expect(page.get_by_role("link", name="Verify the files")).to_be_hidden()
    expect(page.get_by_role("banner")).to_be_hidden()
