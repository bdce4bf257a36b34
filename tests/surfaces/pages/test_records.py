"""The records of a run in a browser: list, filters, keys, one record, labels."""

import json
import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Locator, expect

from assay import api
from assay.surfaces.server.keys import KeyStore
from tests.engine.graded_runs import graded, question
from tests.surfaces.pages.browsing import Visit, Visitor, barriers, listen, make_run
from tests.surfaces.server.serving import Serving, dataset

THEMES = ("light", "dark")
HOSTILE = [
    "<script>document.title='taken'</script>",
    "![x](http://elsewhere.example/x.png) <img src=http://elsewhere.example/x onerror=alert(1)>",
    "\u202edesrever\u202c \u2066isolated\u2069",
    "</div></details><h1>forged</h1>",
    "{{ 7 * 7 }} {% raw %}",
    "x" * 60_000,
    "My card is 4111 1111 1111 1111.",
]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server with runs whose records are worth a look."""
    serving = Serving(tmp_path_factory.mktemp("archive"), settings="requests_per_minute: 100000\n")
    serving.runs_dir.mkdir()
    # In a thread of their own: the browser's driver has the event loop of this one.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(make_runs, serving).result()
    with serving:
        yield serving


def make_runs(serving: Serving) -> None:
    make_run(serving.runs_dir, "plain", records=120)
    make_run(serving.runs_dir, "other", records=120, judge="scripted/judge-3")
    make_compared(serving)
    make_hostile(serving)
    make_choices(serving)
    make_large(serving)
    graded(serving.folder, "unbroken", [question("one")], {"one": "A" * 1_000_000})


def make_compared(serving: Serving) -> None:
    """Two runs whose records name their criteria, and a comparison of their answers."""
    runs_dir, source = str(serving.runs_dir), serving.folder / "criteria.json"
    named = [{**record, "expected": {"required_criteria": ["overall", "clarity"]}} for record in dataset(2)["records"]]
    source.write_text(json.dumps({**dataset(1), "records": named}), encoding="utf-8")
    for run_id in ("one", "two"):
        api.run(source, run_id=run_id, runs_dir=runs_dir, model="scripted/echo", judge="scripted/judge-any")
    api.rank(api.RankRequest(runs=("one", "two"), judges=("scripted/judge-any",), runs_dir=runs_dir, run_id="ranked"))


def make_large(serving: Serving) -> None:
    """So many bytes that its index is made beside the server."""
    lines = "".join(f"line {number}\n" for number in range(9_000))
    records = [{"record_id": f"large-{number}", "input": {"prompt": lines}} for number in range(60)]
    source = serving.folder / "large.json"
    source.write_text(json.dumps({**dataset(1), "records": records}), encoding="utf-8")
    api.run(source, run_id="large", runs_dir=str(serving.runs_dir), model="scripted/echo", judge="scripted/judge-5")


def make_hostile(serving: Serving) -> None:
    fields = [{"input": {"prompt": text, "context": text}, "reference": {"answer": text}} for text in HOSTILE]
    records = [{"record_id": f"evil-{number}", **record} for number, record in enumerate(fields)]
    broken = {"record_id": "<b>broken</b>", "input": {"prompt": 7}}
    source = serving.folder / "hostile.json"
    source.write_text(json.dumps({**dataset(1), "records": [*records, broken]}), encoding="utf-8")
    options: dict[str, Any] = {"model": "scripted/echo", "judges": ("scripted/judge-1", "scripted/judge-5"), "on_invalid": "skip"}
    api.run(source, run_id="hostile", runs_dir=str(serving.runs_dir), **options)


def make_choices(serving: Serving) -> None:
    choices = [{"id": letter, "text": f"Statement {letter}"} for letter in "ABC"]
    row = {
        "schema_version": "legal_eval_v1",
        "dataset": "exam",
        "task_type": "mcq",
        "correct_choice_ids": ["B"],
        "choices": choices,
    }
    rows = [{**row, "id": f"mcq-{number}", "prompt": f"Question {number}?"} for number in range(4)]
    source = serving.folder / "exam.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    api.run(source, run_id="exam", runs_dir=str(serving.runs_dir), model="scripted/mcq-first", repeat=2)


def names(visitor: Visitor) -> Locator:
    return visitor.page.locator("table.records tbody th a")


def test_list_shows_a_page_of_records_and_leads_to_the_next(archive: Serving, visit: Visit) -> None:
    visitor = visit(archive, "/runs/plain/records")
    expect(names(visitor)).to_have_text([f"q_{number:04}" for number in range(50)])
    expect(visitor.page.locator("#summary")).to_have_text("120 records · 1 to 50 on page 1 of 3")
    visitor.page.get_by_role("link", name="Last").click()
    expect(names(visitor)).to_have_text([f"q_{number:04}" for number in range(100, 120)])


def test_filters_are_in_the_address_and_can_be_taken_away(archive: Serving, visit: Visit) -> None:
    visitor = visit(archive, "/runs/plain/records")
    visitor.page.get_by_label("Search").fill("What is 7")
    visitor.page.wait_for_url("**/records?text=What+is+7*")
    expect(names(visitor)).to_have_text([f"q_{number:04}" for number in (7, *range(70, 80))])
    visitor.page.get_by_text("More filters").click()
    visitor.page.get_by_label("Tag").select_option("hard")
    visitor.page.wait_for_url("**tag=hard*")
    expect(names(visitor)).to_have_text([f"q_{number:04}" for number in (7, *range(71, 80, 2))])
    visitor.page.get_by_role("link", name="text: What is 7").click()
    expect(names(visitor)).to_have_count(50)
    expect(visitor.page).to_have_url(re.compile("tag=hard"))


def test_list_is_sorted_by_its_headings(archive: Serving, visit: Visit) -> None:
    visitor = visit(archive, "/runs/plain/records")
    visitor.page.get_by_role("columnheader", name="Score").get_by_role("link").click()
    visitor.page.wait_for_url("**/records?sort=score")
    scores = visitor.page.locator("table.records td[data-label=Score]").all_inner_texts()
    assert scores == sorted(scores)
    visitor.page.get_by_role("columnheader", name="Score").get_by_role("link").click()
    visitor.page.wait_for_url("**/records?sort=-score")
    scores = visitor.page.locator("table.records td[data-label=Score]").all_inner_texts()
    assert scores == sorted(scores, reverse=True)


def test_keys_move_through_the_list_and_through_records(archive: Serving, visit: Visit) -> None:
    visitor = visit(archive, "/runs/plain/records?text=What+is+7")
    visitor.page.keyboard.press("j")
    visitor.page.keyboard.press("j")
    visitor.page.keyboard.press("Enter")
    visitor.page.wait_for_url("**/records/70?text=What+is+7")
    visitor.page.keyboard.press("j")
    visitor.page.wait_for_url("**/records/71?text=What+is+7")
    visitor.page.keyboard.press("k")
    visitor.page.wait_for_url("**/records/70?text=What+is+7")
    visitor.page.keyboard.press("u")
    visitor.page.wait_for_url("**/records?text=What+is+7")
    visitor.page.keyboard.press("/")
    expect(visitor.page.get_by_label("Search")).to_be_focused()


def test_flips_against_another_run_are_listed(archive: Serving, visit: Visit) -> None:
    visitor = visit(archive, "/runs/plain/records?against=other")
    run = api.open_run("plain", runs_dir=archive.runs_dir)
    passed = [line.record_id for line in run.predictions() if line.passed]
    expect(names(visitor)).to_have_text(passed[:50])
    expect(visitor.page.locator(".chips")).to_contain_text("flipped against: other")


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize(
    "path", ["/runs/plain/records", "/runs/hostile/records/0", "/runs/exam/records/1", "/runs/hostile/records/7"]
)
def test_nothing_keeps_anybody_from_using_the_pages(archive: Serving, visit: Visit, theme: str, path: str) -> None:
    assert barriers(visit(archive, path, color_scheme=theme).page) == []


@pytest.mark.parametrize("width", [380, 768, 1280])
@pytest.mark.parametrize(
    "path", ["/runs/plain/records", "/runs/hostile/records", "/runs/hostile/records/5", "/runs/exam/records/1"]
)
def test_pages_fit_every_width(archive: Serving, visit: Visit, path: str, width: int) -> None:
    visitor = visit(archive, path, viewport={"width": width, "height": 800})
    assert visitor.page.evaluate("document.documentElement.scrollWidth") <= width
    assert (
        visitor.page.evaluate(
            "[...document.querySelectorAll('.table-box')].filter((box) => box.scrollWidth > box.clientWidth).length"
        )
        == 0
    )


@pytest.mark.parametrize("number", range(6))
def test_hostile_text_stays_text(archive: Serving, visit: Visit, number: int) -> None:
    visitor = visit(archive, f"/runs/hostile/records/{number}")
    text = visitor.page.locator("main").inner_text()
    assert visitor.page.title() == f"evil-{number} · hostile · assay"
    assert visitor.page.locator("main img, main script, main h1:not(.run-id)").count() == 0
    assert "\u202e" not in text
    assert HOSTILE[number].replace("\u202e", "\ufffd").replace("\u202c", "\ufffd")[:9] in text


def test_long_text_is_folded_and_whole(archive: Serving, visit: Visit) -> None:
    visitor = visit(archive, "/runs/hostile/records/5")
    answer = visitor.page.locator("section").filter(has=visitor.page.get_by_role("heading", name="Answer"))
    expect(answer.locator(".whole")).to_be_hidden()
    # The model repeats the prompt and the context below it.
    fold = answer.get_by_text(re.compile(r"Show all 120,\d{3} characters"))
    length = int(re.sub(r"\D", "", fold.inner_text()))
    fold.click()
    expect(answer.locator(".whole")).to_be_visible()
    assert answer.locator(".whole").evaluate("element => element.textContent.length") == length


def test_a_megabyte_without_a_blank_opens_and_is_whole(archive: Serving, visit: Visit) -> None:
    page = visit(archive, "/runs/unbroken/records/0").page
    page.get_by_text("Show all 1,000,000 characters").first.click()
    expect(page.locator(".long .whole").first).to_be_visible()
    assert page.locator(".long .whole").first.evaluate("element => element.textContent.length") == 1_000_000


def test_redactions_are_marked(archive: Serving, visit: Visit) -> None:
    visitor = visit(archive, "/runs/hostile/records/6")
    assert visitor.page.locator("mark.redacted").first.inner_text() == "redacted: payment_card"
    assert "4111" not in visitor.page.content()


def test_every_vote_and_attempt_is_shown_with_its_reply(archive: Serving, visit: Visit) -> None:
    visitor = visit(archive, "/runs/hostile/records/0")
    votes = visitor.page.locator(".votes > li")
    assert [vote.split("\n")[0] for vote in votes.all_inner_texts()] == ["scripted/judge-1", "scripted/judge-5"]
    votes.first.get_by_text("Raw reply").click()
    expect(votes.first.locator("details[open]")).to_be_visible()
    assert '"score":1' in votes.first.inner_text().replace(" ", "")
    assert visitor.page.locator(".attempts tbody tr").count() == 3


def test_choices_say_which_was_chosen_and_which_is_right(archive: Serving, visit: Visit) -> None:
    visitor = visit(archive, "/runs/exam/records/1")
    assert [line.split() for line in visitor.page.locator(".choices li").all_inner_texts()] == [
        ["A", "Statement", "A", "chosen"],
        ["B", "Statement", "B", "right"],
        ["C", "Statement", "C"],
    ]
    assert visitor.page.locator(".samples a[aria-current]").inner_text() == "answer 1"


def test_record_that_broke_its_contract_says_where(archive: Serving, visit: Visit) -> None:
    visitor = visit(archive, "/runs/hostile/records?status=invalid_record")
    visitor.page.get_by_role("link", name="<b>broken</b>").click()
    expect(visitor.page.locator(".notice")).to_contain_text("records[7].input.prompt")


def test_record_is_reached_by_its_id_too(archive: Serving, visit: Visit) -> None:
    visitor = visit(archive, "/runs/plain/record/q_0007")
    assert visitor.page.url.endswith("/runs/plain/records/7")
    assert visitor.go("/runs/plain/record/nobody").status == 404
    visitor.expect_status(404)


def test_large_run_says_how_far_its_index_is_and_then_shows_its_records(archive: Serving, visit: Visit) -> None:
    shutil.rmtree(archive.runs_dir / ".index", ignore_errors=True)
    visitor = visit(archive, "/runs")
    # The page says it for a moment only, and is then loaded again.
    keep = "sessionStorage.said = `${sessionStorage.said ?? ''}${document.querySelector('main').textContent}`"
    visitor.page.add_init_script(f"addEventListener('DOMContentLoaded', () => {{ {keep}; }})")
    visitor.go("/runs/large/records")
    expect(visitor.page.locator("table.records tbody tr")).to_have_count(50)
    assert "Indexing records" in visitor.page.evaluate("sessionStorage.said")
    assert archive.ask("GET", "/v1/runs/large/records?text=line+7&limit=1").json["total"] == 60


def test_index_that_is_gone_is_made_while_a_program_waits(archive: Serving) -> None:
    shutil.rmtree(archive.runs_dir / ".index", ignore_errors=True)
    while (answer := archive.ask("GET", "/v1/runs/large/records?text=line+7&limit=1")).status == 503:
        # On a busy machine the service tells the program after a while to ask again.
        assert answer.headers["Retry-After"] == "2"
    assert (answer.status, answer.json.get("total")) == (200, 60), answer.json


def test_reader_without_the_right_to_write_cannot_label(tmp_path: Path) -> None:
    serving = Serving(tmp_path)
    serving.runs_dir.mkdir()
    with ThreadPoolExecutor(1) as thread:
        thread.submit(make_run, serving.runs_dir, "good", records=2).result()
    keys = KeyStore(serving.runs_dir)
    reader, writer = {"x-api-key": keys.add("reader", "read")}, {"x-api-key": keys.add("writer", "write")}
    with serving:
        pages = [serving.ask("GET", "/runs/good/records/0", headers=headers).body.decode() for headers in (reader, writer)]
        serving.headers = {"Origin": f"http://127.0.0.1:{serving.port}"}
        answers = [
            serving.ask("POST", "/runs/good/records/0/labels", b"passed=true&rater=x", headers) for headers in (reader, writer)
        ]
    assert ["Save label" in page for page in pages] == [False, True]
    assert [answer.status for answer in answers] == [403, 303]
    assert [label.rater for label in api.kept_labels(api.open_run("good", runs_dir=serving.runs_dir))] == ["writer"]


def test_record_is_copied_as_json(archive: Serving, visit: Visit) -> None:
    visitor = visit(archive, "/runs/exam/records/1", permissions=["clipboard-read", "clipboard-write"])
    button = visitor.page.locator("[data-copy-from]")
    listen(button)
    button.click()
    expect(button).to_have_attribute("data-said", re.compile("^Copied"))
    copied = json.loads(visitor.page.evaluate("navigator.clipboard.readText()"))
    assert copied == json.loads(msgspec.json.encode(api.open_run("exam", runs_dir=archive.runs_dir).record("mcq-0", sample=1)))


def test_label_is_kept_shown_and_calibrated_with(archive: Serving, visit: Visit) -> None:
    visitor = visit(archive, "/runs/other/records/3")
    for verdict, note in (("passed", "First thought"), ("not passed", "It is <b>wrong</b>; call 4111 1111 1111 1111")):
        visitor.page.get_by_text("Label this answer").click()
        visitor.page.get_by_label(verdict, exact=True).check()
        visitor.page.get_by_label("Your name").fill("Ada")
        visitor.page.get_by_label("Note").fill(note)
        visitor.page.get_by_role("button", name="Save label").click()
        expect(visitor.page.get_by_role("heading", name="Human labels")).to_be_visible()
        expect(visitor.page.locator(".labels li")).to_contain_text(verdict)
    said = visitor.page.locator(".labels li")
    expect(said).to_have_count(1)
    expect(said).to_contain_text("It is <b>wrong</b>; call redacted: payment_card")
    assert barriers(visitor.page) == []
    found = api.calibrate("other", runs_dir=archive.runs_dir)
    assert (found.n_records, "people chose these records" in found.notes[-1]) == (1, True)


def test_labels_are_downloaded_as_calibration_reads_them(archive: Serving, tmp_path: Path) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": f"http://127.0.0.1:{archive.port}"}
    answer = archive.ask("POST", "/runs/plain/records/0/labels", b"passed=true&rater=Bo&score=4", form)
    labels = archive.ask("GET", "/runs/plain/labels.jsonl")
    file = tmp_path / "labels.jsonl"
    file.write_bytes(labels.body)
    assert (answer.status, answer.headers["location"]) == (303, "/runs/plain/records/0")
    assert api.calibrate("plain", file, runs_dir=archive.runs_dir).n_records == 1


def test_label_leads_back_to_the_list_that_led_to_its_record(archive: Serving) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": f"http://127.0.0.1:{archive.port}"}
    page = archive.ask("GET", "/runs/exam/records/0?passed=false").body.decode()
    answer = archive.ask("POST", "/runs/exam/records/0/labels?passed=false", b"passed=true&rater=Cy", form)
    assert 'action="/runs/exam/records/0/labels?passed=false"' in page
    assert answer.headers["location"] == "/runs/exam/records/0?passed=false"


def test_label_is_taken_back(archive: Serving, visit: Visit) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": f"http://127.0.0.1:{archive.port}"}
    archive.ask("POST", "/runs/other/records/5/labels", b"passed=true&rater=Ada+L.", form)
    page = visit(archive, "/runs/other/records/5").page
    page.get_by_role("button", name="Withdraw the label of Ada L.").click()
    expect(page.get_by_role("heading", name="Human labels")).to_have_count(0)
    assert "Ada L." not in {label.rater for label in api.kept_labels(api.open_run("other", runs_dir=archive.runs_dir))}


@pytest.mark.parametrize("index", ["99999999999999999999", "-99999999999999999999", "1000"])
@pytest.mark.parametrize("part", ["records", "record-json"])
def test_record_that_no_run_can_have_is_not_found(archive: Serving, part: str, index: str) -> None:
    assert archive.ask("GET", f"/runs/exam/{part}/{index}").status == 404


@pytest.mark.parametrize(
    "body", [b"passed=true&" * 40, b"passed=maybe", b"passed=true&score=9", b"passed=true&note=" + b"x" * 5000]
)
def test_label_that_calibration_could_not_use_is_refused(archive: Serving, body: bytes) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": f"http://127.0.0.1:{archive.port}"}
    assert archive.ask("POST", "/runs/exam/records/1/labels", body, form).status == 400


def test_label_from_another_site_is_refused(archive: Serving) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": "http://elsewhere.example"}
    assert archive.ask("POST", "/runs/exam/records/1/labels", b"passed=true", form).status == 403


def test_list_without_hits_leads_back(archive: Serving, visit: Visit) -> None:
    visitor = visit(archive, "/runs/plain/records?text=nothing+like+it")
    visitor.page.get_by_role("link", name="Show all records").click()
    expect(names(visitor)).to_have_count(50)


def test_page_behind_the_last_one_says_so(archive: Serving, visit: Visit) -> None:
    visitor = visit(archive, "/runs/plain/records?page=9")
    assert "No records on this page" in visitor.page.locator("main").inner_text()
    visitor.page.get_by_role("link", name="Previous").click()
    expect(names(visitor).last).to_have_text("q_0119")


def test_address_that_cannot_be_is_refused_with_a_page(archive: Serving, visit: Visit) -> None:
    visitor = visit(archive, "/runs/plain/records?sort=luck")
    visitor.expect_status(400)
    assert "Invalid address: sort is 'luck'" in visitor.page.locator("main").inner_text()
    visitor.go("/runs/plain/records/99999")
    visitor.expect_status(404)
    assert "no record with the index 99999" in visitor.page.locator("main").inner_text()


def test_criteria_of_a_comparison_stand_beside_the_question_and_wait_for_no_vote(archive: Serving, visit: Visit) -> None:
    page = visit(archive, "/runs/ranked/records/0").page
    expect(page.get_by_role("region", name="Reference and context")).to_contain_text("Criteria")
    expect(page.get_by_role("region", name="Judge verdicts").locator(".criterion strong")).to_have_text(["in_order", "swapped"])
    expect(page.get_by_text("No votes.")).to_have_count(0)


def test_a_criterion_without_a_title_is_named_once(archive: Serving, visit: Visit) -> None:
    page = visit(archive, "/runs/one/records/0").page
    expect(page.locator(".criterion-head > div").first).to_have_text(re.compile(r"^overall\s+weight 1$"))
