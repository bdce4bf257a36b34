"""What holds for every page: both themes, a phone, a keyboard, paper."""

import pytest
from playwright.sync_api import Page, expect

from tests.surfaces.pages.browsing import Visit, barriers
from tests.surfaces.server.serving import Serving

PATHS = (
    "/runs",
    "/runs?q=nobody",
    "/runs/good",
    "/runs/broken?verify=1",
    "/runs/good/records",
    "/runs/good/records?passed=false&min_score=1&tag=easy",
    "/runs/good/records?text=nobody",
    "/runs/good/records/3",
    "/runs/broken/records/1",
    "/compare",
    "/compare?before=good&after=poor",
    "/validate",
    "/runs/good/judge",
    "/groups/pair",
)
WIDTHS = (320, 380, 820, 1440)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("path", PATHS)
def test_nothing_keeps_anybody_from_using_a_page(gallery: Serving, visit: Visit, path: str, theme: str) -> None:
    page = visit(gallery, path, color_scheme=theme).page
    assert barriers(page) == []
    assert [width for width in WIDTHS if is_wide(page, width)] == []


def is_wide(page: Page, width: int) -> bool:
    page.set_viewport_size({"width": width, "height": 900})
    found: bool = page.evaluate("document.documentElement.scrollWidth > innerWidth")
    return found


def test_keys_alone_lead_from_the_list_to_a_vote_and_back(gallery: Serving, visit: Visit) -> None:
    page = visit(gallery, "/runs").page
    tab_to(page, "good")
    page.keyboard.press("Enter")
    page.wait_for_url("**/runs/good")
    tab_to(page, "Records")
    page.keyboard.press("Enter")
    page.wait_for_url("**/records")
    for key in ("j", "j", "Enter"):
        page.keyboard.press(key)
    page.wait_for_url("**/records/1")
    tab_to(page, "Raw reply")
    page.keyboard.press("Enter")
    expect(page.locator("details.folded[open]").first).to_be_visible()
    page.keyboard.press("u")
    page.wait_for_url("**/records*")
    page.keyboard.press("u")
    page.wait_for_url("**/runs/good")


def tab_to(page: Page, text: str) -> None:
    """Press Tab until something with that text has the focus."""
    for _ in range(80):
        page.keyboard.press("Tab")
        if (page.evaluate("document.activeElement.textContent") or "").strip().startswith(text):
            return
    raise AssertionError(f"no key leads to '{text}'")


IS_SEEN = """() => {
  const one = document.activeElement, box = one.getBoundingClientRect();
  const found = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
  const has_ring = getComputedStyle(one).outlineStyle !== "none";
  return one === document.body || one.contains(found) || (found && found.contains(one) && has_ring);
}"""


@pytest.mark.parametrize("width", [320, 1280])
@pytest.mark.parametrize("path", ["/runs", "/runs/good", "/runs/good/records", "/compare?before=good&after=poor"])
def test_whatever_a_key_leads_to_is_seen(gallery: Serving, visit: Visit, path: str, width: int) -> None:
    page = visit(gallery, path, viewport={"width": width, "height": 700}, reduced_motion="reduce").page
    unseen = []
    for _ in range(40):
        page.keyboard.press("Tab")
        if not page.evaluate(IS_SEEN):
            unseen.append(page.evaluate("document.activeElement.outerHTML")[:80])
    assert unseen == []


@pytest.mark.parametrize("path", ["/runs/good", "/runs/good/records/3", "/compare?before=good&after=poor"])
def test_paper_shows_charts_and_tables_and_leaves_out_what_needs_a_screen(gallery: Serving, visit: Visit, path: str) -> None:
    page = visit(gallery, path).page
    page.emulate_media(media="print")
    expect(page.locator("main table thead").first).to_be_visible()
    assert page.locator("header.masthead, .skip, .filters, .crumbs").locator("visible=true").count() == 0
    assert (
        page.locator(".chart-wide .bar").evaluate_all("bars => bars.filter((bar) => getComputedStyle(bar).display === 'none')")
        == []
    )


def test_the_page_of_addresses_fits_a_small_phone(gallery: Serving, visit: Visit) -> None:
    visitor = visit(gallery, "/runs")
    page = visitor.page
    page.goto(f"{visitor.address}/docs")  # made for programs too, it has none of the signs of a page by which `go` knows its end
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert [width for width in WIDTHS if is_wide(page, width)] == []
