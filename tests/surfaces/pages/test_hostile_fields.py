"""Whatever others write in whatever field, no page changes but in its text, and no command says what it did not mean to."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, FilePayload, Page, expect

from tests.surfaces.pages.browsing import SETTLED, Visit, Visitor, expect_view, visiting
from tests.surfaces.pages.hostile import DATASET, RUNS, build, hostile_card
from tests.surfaces.server.serving import Serving

RECORDS = range(10)
PHONE, DESK = {"width": 380, "height": 800}, {"width": 1440, "height": 900}
MADE_OF_DATA = (
    "main img, main script, main iframe, main object, main embed, main style, main link, main base, main meta, main video,"
    "main svg:not(.whisker-bar):not(.share-bar):not(.assay-chart), main [onerror], main [onload], main [style*=evil],"
    'main a:not([href^="/"]):not([href^="#"]):not([href^="?"]), main [src], main [srcdoc], main form[action]:not([action^="/"])'
    ':not([action^="#"])'
)
REORDERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
PATHS = (
    "/runs",
    "/runs/x",
    "/runs/x?verify=1",
    "/runs/x/records",
    "/runs/x/records?text=%3Cscript%3E&tag=%3Cimg%20src%3Dx%3E%1b&sort=-score",
    "/runs/x/records?status=invalid_record",
    *(f"/runs/x/records/{index}" for index in RECORDS),
    "/compare?before=x&after=y",
    "/compare?before=x&after=y&cluster=%3Cb%3E",
    "/judges",
    "/judges/{card}",
    "/runs/x/judge",
    "/groups/both",
    *(f"/compare/flip?before=x&after=y&start={number}" for number in range(4)),
)
PLACES = ("", "#records", "#records?text=%3Cscript%3E&tag=%3Cimg%20src%3Dx%3E", *(f"#record-{index}" for index in RECORDS))


class Hostile:
    """A server with hostile runs, their file, and what commands said of them."""

    def __init__(self, folder: Path) -> None:
        self.said = build(folder)
        self.card = hostile_card(folder / "runs")
        self.serving = Serving(folder, settings="requests_per_minute: 100000\n")
        self.report = (folder / "x.html").as_uri()


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hostile]:
    found = Hostile(tmp_path_factory.mktemp("fields"))
    with found.serving:
        yield found


def harm(visitor: Visitor) -> dict[str, object]:
    """Everything that a text has done beside being shown."""
    page: Page = visitor.page
    expect(page.locator(SETTLED)).to_be_attached()
    page.wait_for_timeout(50)
    return {
        name: found
        for name, found in {
            "script": page.evaluate("window.hacked"),
            "elements": page.locator(MADE_OF_DATA).evaluate_all("found => found.map(one => one.outerHTML.slice(0, 200))"),
            "bold": page.locator("main b").filter(has_text=re.compile("^(bold|w)")).count(),
            "characters": sorted({hex(ord(mark)) for mark in REORDERING.findall(page.locator("html").inner_text())}),
            "wide": page.evaluate("document.documentElement.scrollWidth > innerWidth"),
        }.items()
        if found
    }


def watched(visitor: Visitor) -> Visitor:
    """A dialog is a complaint."""
    visitor.page.on("dialog", lambda dialog: visitor.complaints.append(dialog.message))
    return visitor


@pytest.mark.parametrize("path", PATHS)
def test_no_page_of_the_server_is_changed_by_what_it_shows(hostile: Hostile, visit: Visit, path: str) -> None:
    visitor = watched(visit(hostile.serving, path.format(card=hostile.card), viewport=PHONE))
    assert visitor.page.locator("h1").count() == 1
    assert harm(visitor) == {}
    visitor.page.set_viewport_size(DESK)
    assert harm(visitor) == {}


@pytest.mark.parametrize("place", PLACES)
def test_no_page_of_a_file_is_changed_by_what_it_shows(hostile: Hostile, browser: Browser, place: str) -> None:
    with visiting(browser, hostile.report, offline=True, viewport=PHONE) as visitor:
        watched(visitor).go(place)
        expect_view(visitor.page, place)
        assert harm(visitor) == {}
        visitor.page.set_viewport_size(DESK)
        assert harm(visitor) == {}


def test_a_hostile_file_is_validated_and_offered_for_a_run_as_text(hostile: Hostile, visit: Visit) -> None:
    visitor = watched(visit(hostile.serving, "/validate", viewport=PHONE))
    content = (hostile.serving.folder / DATASET).read_bytes()
    file: FilePayload = {"name": DATASET, "mimeType": "application/json", "buffer": content}
    visitor.page.locator("input[type=file]").set_input_files(file)
    visitor.page.get_by_role("button", name="Validate").click()
    visitor.page.wait_for_url("**/validate/*")
    expect(visitor.page.get_by_text("invalid_enum_value").first).to_be_visible()
    assert harm(visitor) == {}
    visitor.page.set_viewport_size(DESK)
    assert harm(visitor) == {}


def test_every_text_of_a_record_is_shown_in_full(hostile: Hostile, visit: Visit) -> None:
    text = visit(hostile.serving, "/runs/x/records/1").page.locator("main").text_content() or ""
    assert text.count("<b>w\u0336ord") > 100_000
    assert "<script>window.hacked = 1</script>" in text
    assert "{{ 7 * 7 }}{% raw %}" in text
    assert "\u241b[31mred" in text


def test_every_record_flips_so_that_flips_are_seen(hostile: Hostile, visit: Visit) -> None:
    page = visit(hostile.serving, "/compare?before=x&after=y").page
    expect(page.locator("details.flip a").filter(has_text="Show both answers in full")).to_have_count(4)


def test_no_command_lets_a_text_move_the_cursor_or_reorder_a_line(hostile: Hostile) -> None:
    assert [sorted(set(map(hex, map(ord, REORDERING.findall(text))))) for text in hostile.said if REORDERING.search(text)] == []


def test_no_command_prints_a_line_that_a_text_has_written(hostile: Hostile) -> None:
    lines = [line for text in hostile.said for line in text.splitlines()]
    assert [line for line in lines if line.startswith(("FORGED", "assay: error: FORGED"))] == []


def test_the_log_of_the_server_cannot_be_forged(hostile: Hostile) -> None:
    for run_id in RUNS:
        hostile.serving.ask("GET", f"/runs/{run_id}%0d%0aFORGED%20200%20GET%1b%5b31m", headers={"User-Agent": "a\x1b[31mFORGED"})
    log = (hostile.serving.folder / "server.log").read_text(encoding="utf-8")
    assert REORDERING.findall(log) == []
    assert [line for line in log.splitlines() if line.startswith("FORGED")] == []
