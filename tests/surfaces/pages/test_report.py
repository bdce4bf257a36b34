"""A run as one file, opened from disk without a network."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from playwright.sync_api import Browser, Page, expect

from assay.surfaces.cli.program import program
from tests.surfaces.pages.browsing import Visit, Visitor, aside, barriers, expect_view, listen, visiting
from tests.surfaces.server.serving import Serving

THEMES = ("light", "dark")
PHONE = {"width": 380, "height": 800}


def report(serving: Serving, run_id: str, *options: str) -> str:
    """The address of a file that was just written."""
    path = serving.runs_dir.parent / f"{run_id}.html"
    arguments = ["report", run_id, "--runs-dir", str(serving.runs_dir), "-o", str(path), *options]
    result = aside(CliRunner().invoke, program, arguments, prog_name="assay")
    assert result.exit_code == 0, result.stderr
    return path.as_uri()


@pytest.fixture(scope="module")
def good(gallery: Serving) -> str:
    return report(gallery, "good")


@pytest.fixture
def opened(browser: Browser, good: str) -> Iterator[Visitor]:
    """The file of a run that passed, in a browser without a network."""
    with visiting(browser, good, offline=True) as visitor:
        visitor.go("")
        yield visitor


def turn(visitor: Visitor, place: str) -> None:
    """Go to a place in the file that is open."""
    visitor.page.goto(visitor.address + place)


def names(page: Page) -> list[str]:
    expect_view(page, "#records")
    return page.locator("#rows th a").all_inner_texts()


def test_the_file_opens_with_the_page_of_the_run(opened: Visitor) -> None:
    expect(opened.page.get_by_role("region", name="Decision")).to_contain_text("pass rate")
    expect(opened.page.get_by_text("verified")).to_be_visible()
    assert [url for url in opened.requests if not url.startswith("file:")] == []


def test_the_run_is_shown_as_on_the_server(opened: Visitor, gallery: Serving, visit: Visit) -> None:
    section = 'section[aria-labelledby="slices"]'
    theirs = visit(gallery, "/runs/good").page.locator(section).inner_text()
    assert opened.page.locator(section).inner_text() == theirs


def test_a_record_is_shown_as_on_the_server(opened: Visitor, gallery: Serving, visit: Visit) -> None:
    theirs = visit(gallery, "/runs/good/records/7").page.locator(".record-columns").inner_text()
    turn(opened, "#record-7")
    expect(opened.page.locator("#view-record h1:visible")).to_have_text("q_0007")
    assert opened.page.locator(".record-columns").inner_text() == theirs


@pytest.mark.parametrize(
    "query",
    [
        "passed=false",
        "slice=tags:easy",
        "tag=hard",
        "text=what is 7",
        "text=WHAT i\u017f 7",
        "min_score=2&max_score=3",
        "sort=-score",
        "met=true",
        "status=evaluated&sort=-id",
    ],
)
def test_a_query_finds_what_the_server_finds(opened: Visitor, gallery: Serving, visit: Visit, query: str) -> None:
    theirs = visit(gallery, f"/runs/good/records?{query}").page.locator("[data-rows] tbody th a").all_inner_texts()
    turn(opened, f"#records?{query}")
    assert names(opened.page) == theirs


def test_filters_search_and_sorting_work_in_the_file(opened: Visitor) -> None:
    page = opened.page
    page.get_by_role("link", name="Records", exact=True).first.click()
    assert len(names(page)) == 40
    page.get_by_label("Search").fill("what is 12")
    expect(page.locator("#rows tr")).to_have_count(1)
    page.get_by_label("Search").fill("nobody says this")
    expect(page.get_by_role("heading", name="No records match")).to_be_visible()
    page.get_by_role("link", name="Show all records").click()
    expect(page.locator("#summary")).to_have_text("40 records")
    page.locator("select[name=passed]").select_option("false")
    expect(page.locator("#summary")).to_contain_text("of 40 records")
    page.get_by_role("link", name="Score").click()
    expect(page.get_by_role("columnheader", name="Score")).to_have_attribute("aria-sort", "ascending")


def test_a_figure_leads_to_the_records_behind_it(opened: Visitor) -> None:
    opened.page.get_by_role("link", name="not passed").click()
    assert len(names(opened.page)) == int(opened.page.locator("#summary").inner_text().split()[0])
    expect(opened.page).to_have_url(re.compile("passed=false"))


def test_keys_lead_through_the_file(opened: Visitor) -> None:
    page = opened.page
    turn(opened, "#records?sort=id")
    names(page)
    for key in ("j", "j", "Enter"):
        page.keyboard.press(key)
    expect(page.locator("#view-record h1")).to_have_text("q_0001")
    page.keyboard.press("j")
    expect(page.locator("#view-record h1")).to_have_text("q_0002")
    page.keyboard.press("u")
    expect(page.locator("#rows a:focus")).to_have_text("q_0002")
    page.keyboard.press("/")
    expect(page.get_by_label("Search")).to_be_focused()
    page.get_by_label("Search").blur()
    page.keyboard.press("u")
    expect(page.locator("#view-run")).to_be_visible()


def test_a_record_is_copied_as_json(browser: Browser, good: str) -> None:
    with visiting(browser, good, permissions=["clipboard-read", "clipboard-write"]) as visitor:
        visitor.go("#record-3")
        button = visitor.page.locator("#copy-record")
        listen(button)
        button.click()
        expect(button).to_have_attribute("data-said", re.compile("^Copied"))
        assert json.loads(visitor.page.evaluate("navigator.clipboard.readText()"))["prediction"]["record_id"] == "q_0003"


def test_a_record_that_is_not_in_the_file_is_said_to_be_missing(opened: Visitor) -> None:
    turn(opened, "#record-7")
    expect(opened.page.locator("#view-record h1:visible")).to_have_text("q_0007")
    turn(opened, "#record-4000")
    expect(opened.page.get_by_role("alert")).to_contain_text("record 4000 is not in this file")
    expect(opened.page.locator("#record")).to_be_empty()


def test_records_without_a_grade_are_in_the_file(browser: Browser, gallery: Serving) -> None:
    with visiting(browser, report(gallery, "broken"), offline=True) as visitor:
        visitor.go("#record-1")
        expect(visitor.page.locator("#record .notice")).to_contain_text("invalid_request")


def test_a_count_of_errors_leads_to_them(browser: Browser, gallery: Serving) -> None:
    with visiting(browser, report(gallery, "broken"), offline=True) as visitor:
        visitor.go("#records?status=failed")
        assert len(names(visitor.page)) == 3
        expect(visitor.page.get_by_label("Status")).to_have_value("failed")


def test_without_scripts_the_run_is_still_there(browser: Browser, good: str) -> None:
    with visiting(browser, good, java_script_enabled=False) as visitor:
        visitor.go("")
        expect(visitor.page.get_by_role("region", name="Decision")).to_be_visible()
        assert "Enable scripts to show" in visitor.page.content()


def test_part_of_the_records_are_the_worst_ones(browser: Browser, gallery: Serving) -> None:
    with visiting(browser, report(gallery, "poor", "--records", "5"), offline=True) as visitor:
        visitor.go("#records?sort=score")
        assert len(names(visitor.page)) == 5
        expect(visitor.page.locator("#rows .mark-bad")).to_have_count(5)
        expect(visitor.page.get_by_text("This file has 5 of 40 records").last).to_be_visible()


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("place", ["", "#records", "#record-3"])
def test_nothing_keeps_anybody_from_reading_the_file(browser: Browser, good: str, place: str, theme: str) -> None:
    with visiting(browser, good, offline=True, color_scheme=theme, viewport=PHONE) as visitor:
        visitor.go(place)
        expect_view(visitor.page, place)
        assert barriers(visitor.page) == []
        assert visitor.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_paper_has_charts_tables_and_the_time_but_no_bar(opened: Visitor) -> None:
    page = opened.page
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    expect(page.locator(".assay-chart .bar:visible")).not_to_have_count(0)
    expect(page.locator("header.masthead")).to_be_hidden()
    expect(page.locator("table thead").first).to_be_visible()
    expect(page.locator(".head").first).not_to_contain_text("ago")


def test_the_file_says_nothing_about_where_it_was_made(gallery: Serving, good: str) -> None:
    text = Path(gallery.runs_dir.parent / "good.html").read_text(encoding="utf-8")
    assert str(gallery.runs_dir) not in text
    assert good.endswith("good.html")
