"""The list of runs in a browser."""

import html
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from assay.surfaces.pages.runs import PAGE
from tests.surfaces.pages.browsing import Visit, Visitor, barriers, make_run
from tests.surfaces.server.serving import Serving

THEMES = ("light", "dark")


def names(visitor: Visitor) -> Locator:
    return visitor.page.locator("table.runs tbody th a")


def test_every_run_has_a_row_with_its_figures(gallery: Serving, visit: Visit) -> None:
    visitor = visit(gallery, "/")
    row = visitor.page.get_by_role("row").filter(has_text="good")
    expect(visitor.page).to_have_url(f"{visitor.address}/runs")
    expect(names(visitor)).to_have_text(["broken", "poor", "good"])
    expect(row).to_contain_text("completed")
    expect(row).to_contain_text("n 40")


@pytest.mark.parametrize("theme", THEMES)
def test_nothing_keeps_anybody_from_using_the_list(gallery: Serving, visit: Visit, theme: str) -> None:
    assert barriers(visit(gallery, "/runs", color_scheme=theme).page) == []


@pytest.mark.parametrize("width", [1100, 1180, 1280])
def test_no_column_of_the_list_is_cut_off(gallery: Serving, visit: Visit, width: int) -> None:
    page = visit(gallery, "/runs", viewport={"width": width, "height": 800}).page
    # As long as the ids that runs get by themselves.
    page.evaluate("document.querySelector('table.runs tbody th a').textContent = 'run_01M7FPWMZ51ZRFNS0DHBXPT6G2'")
    assert page.locator(".table-box").evaluate("box => box.scrollWidth - box.clientWidth") == 0


def test_search_filter_and_sort_are_answered_by_the_server(gallery: Serving, visit: Visit) -> None:
    expect(names(visit(gallery, "/runs?q=po"))).to_have_text(["poor"])
    expect(names(visit(gallery, "/runs?state=completed_with_failures"))).to_have_text(["broken"])
    expect(names(visit(gallery, "/runs?sort=run&order=asc"))).to_have_text(["broken", "good", "poor"])


def test_choosing_a_filter_applies_it(gallery: Serving, visit: Visit) -> None:
    visitor = visit(gallery, "/runs")
    visitor.page.get_by_label("State").select_option("completed_with_failures")
    visitor.page.wait_for_url("**/runs?state=completed_with_failures")
    expect(names(visitor)).to_have_text(["broken"])


def test_a_search_answers_while_somebody_types(gallery: Serving, visit: Visit) -> None:
    visitor = visit(gallery, "/runs?sort=run&order=asc")
    visitor.page.evaluate("window.isTheSame = true")
    visitor.page.get_by_label("Search").press_sequentially("goo", delay=30)
    expect(visitor.page.locator("#summary")).to_have_text("1 of 3 runs")
    visitor.page.keyboard.type("d")
    visitor.page.wait_for_url("**/runs?q=good&sort=run&order=asc")
    expect(names(visitor)).to_have_text(["good"])
    expect(visitor.page.get_by_label("Search")).to_have_value("good")
    assert visitor.page.evaluate("window.isTheSame")
    visitor.page.get_by_role("link", name="Clear filters").click()
    expect(visitor.page.get_by_role("rowheader")).to_have_count(3)


def test_without_runs_the_page_says_how_to_make_one(tmp_path: Path, visit: Visit) -> None:
    with Serving(tmp_path) as serving:
        visitor = visit(serving, "/runs")
        assert "No runs yet" in visitor.page.locator("main").inner_text()
        assert barriers(visitor.page) == []


def test_more_runs_than_a_page_holds_are_paged_by_the_server(tmp_path: Path, visit: Visit) -> None:
    serving = Serving(tmp_path)
    serving.runs_dir.mkdir()
    make_run(serving.runs_dir, "first", records=1)
    for number in range(PAGE):
        shutil.copytree(serving.runs_dir / "first", serving.runs_dir / f"copy-{number:02}")
    with serving:
        page = visit(serving, "/runs?sort=run&order=asc").page
        expect(page.locator("#summary")).to_have_text("51 runs · 1 to 50")
        page.get_by_role("link", name="Next page").click()
        expect(page.locator("#summary")).to_have_text("51 runs · 51 to 51")
        expect(page.get_by_role("rowheader")).to_have_text("first")
        page.get_by_role("link", name="First page").click()
        expect(page.get_by_role("rowheader")).to_have_count(PAGE)


def test_a_damaged_run_hides_no_other(tmp_path: Path, visit: Visit) -> None:
    serving = Serving(tmp_path)
    (serving.runs_dir / "torn").mkdir(parents=True)
    (serving.runs_dir / "torn" / "run_manifest.json").write_text('{"run_id": ', encoding="utf-8")
    make_run(serving.runs_dir, "whole", records=2)
    with serving:
        visitor = visit(serving, "/runs")
        expect(names(visitor)).to_have_text(["whole", "torn"])
        expect(visitor.page.locator("#run-torn")).to_contain_text("damaged")


@pytest.mark.parametrize("query", ["state=nowhere", "sort=luck", "unknown=1", "q=a&q=b"])
def test_what_cannot_be_asked_for_is_said(gallery: Serving, visit: Visit, query: str) -> None:
    visitor = visit(gallery, f"/runs?{query}")
    visitor.expect_status(400)
    assert "Invalid request" in visitor.page.get_by_role("heading", level=1).inner_text()


@pytest.mark.parametrize(("address", "word"), [("/runs", "unfinished"), ("/v1/runs", "completed_with_failures")])
def test_an_unknown_state_is_answered_with_the_allowed_ones(gallery: Serving, address: str, word: str) -> None:
    answer = gallery.ask("GET", f"{address}?state=bogus")
    text = html.unescape(answer.body.decode())
    assert answer.status == 400
    assert "state is 'bogus'; allowed: " in text
    assert word in text
    assert "interrupted" in text


def test_styles_are_kept_for_good_under_the_address_that_names_their_content(gallery: Serving, visit: Visit) -> None:
    address = visit(gallery, "/runs").page.locator("link[rel=stylesheet]").first.get_attribute("href") or ""
    assert "immutable" in gallery.ask("GET", address).headers["cache-control"]
    assert gallery.ask("GET", address.partition("?")[0]).headers["cache-control"] == "no-cache"
    assert gallery.ask("GET", "/static/..%2fplaces.py").status == 404
