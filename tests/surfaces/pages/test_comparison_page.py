"""Two runs beside each other in a real browser: the difference, the flips with both answers, what was not compared."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.engine.graded_runs import graded, question
from tests.surfaces.pages.browsing import Visit, aside, barriers
from tests.surfaces.server.serving import Serving

HOSTILE = "<script>alert(1)</script> ![x](http://elsewhere.invalid/x.png) \x1b[31m \u202eevil <img src=x onerror=alert(1)>"
LONG = "The limitation period had not begun, because the claimant did not know of the damage. "
MEGABYTE = "word " * 200_000
COUNT = 24
RIGHT_TO_LEFT = "\u0633\u0624\u0627\u0644"


PAIR = "/compare?before=before&after=after"
FLIP = "/compare/flip?before=before&after=after"


def rows(*, is_changed: bool = False) -> list[dict[str, Any]]:
    """Questions of two datasets, of which the last one says something else in the second run."""
    found = [{**question(f"q{place:02}"), "dataset": ("law", "exam")[place % 2]} for place in range(COUNT)]
    return [*found[:-1], {**found[-1], "prompt": "Is it now?"}] if is_changed else found


def answers(words: str, *, wrong: int) -> dict[str, str]:
    """Long answers whose last word decides; so many of the first are wrong."""
    said = {f"q{place:02}": f"{LONG * 8}{words}\n\nAnswer: {'B' if place < wrong else 'A'}" for place in range(COUNT)}
    return {**said, "q00": f"{HOSTILE} {said['q00']}", "q01": f"{MEGABYTE}{words}\n{said['q01']}"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server with two runs: in the second, fourteen right answers became wrong and a question was changed."""
    folder = tmp_path_factory.mktemp("compared")
    serving = Serving(folder, settings="requests_per_minute: 100000\n")
    aside(graded, folder, "before", rows(), answers("It held for the plaintiff.", wrong=0))
    aside(graded, folder, "after", rows(is_changed=True), answers("It held for the defendant.", wrong=14))
    aside(graded, folder, "from-right", [question(RIGHT_TO_LEFT)], {RIGHT_TO_LEFT: "B"})
    aside(graded, folder, "from-right-too", [question(RIGHT_TO_LEFT)], {RIGHT_TO_LEFT: "A"})
    aside(graded, folder, "alone", [question("other")], {"other": "A"})
    with serving:
        yield serving


def test_two_runs_are_chosen_by_typing_and_compared(served: Serving, visit: Visit) -> None:
    page = visit(served, "/compare").page
    page.get_by_label("Before").fill("before")
    page.get_by_label("After").fill("after")
    page.get_by_role("button", name="Compare").click()
    verdict = page.get_by_role("region", name="Result", exact=True)
    expect(verdict.locator(".mark")).to_have_text("worse", ignore_case=True)
    expect(verdict).to_contain_text("0 better and 14 worse of 23 records")


def test_the_difference_comes_with_its_interval_and_its_n(served: Serving, visit: Visit) -> None:
    page = visit(served, PAIR).page
    assert "-60.9 pp [-77.8 pp, -37.8 pp]" in page.get_by_role("row", name="Pass rate").first.inner_text()
    expect(page.get_by_text("Over 23 records.")).to_be_visible()
    assert "dataset exam" in " ".join(page.get_by_role("region", name="Difference by slice").inner_text().split())


def test_what_differs_between_two_answers_is_marked_on_both_sides(served: Serving, visit: Visit) -> None:
    page = visit(served, f"{PAIR}&start=3").page
    flip = page.locator("details.flip[open]")
    assert flip.locator("del").all_inner_texts() == ["plaintiff", "A"]
    assert flip.locator("ins").all_inner_texts() == ["defendant", "B"]
    assert "characters left out" in flip.locator(".cut").first.inner_text()


def test_scores_beside_a_name_from_right_to_left_stay_in_their_order(served: Serving, visit: Visit) -> None:
    page = visit(served, "/compare?before=from-right&after=from-right-too").page
    line = page.locator("details.flip summary").first
    expect(line).to_contain_text("0 → 1")
    assert line.evaluate(PLACES) == ["name", "0", "1"]


PLACES = """line => {
  const words = line.querySelector(".n").firstChild, range = document.createRange();
  const left = (place) => {
    range.setStart(words, place);
    range.setEnd(words, place + 1);
    return range.getBoundingClientRect().left;
  };
  const places = [["name", line.querySelector("code").getBoundingClientRect().left], ["0", left(0)], ["1", left(4)]];
  return places.sort((one, other) => one[1] - other[1]).map(([name]) => name);
}"""
"""What stands on a line, from left to right."""


def test_flips_are_paged_and_filtered(served: Serving, visit: Visit) -> None:
    page = visit(served, PAIR).page
    assert "1 to 10 of 14" in page.get_by_role("region", name="Changed results").inner_text()
    page.get_by_role("link", name="Next", exact=True).click()
    expect(page.locator("details.flip summary .mark-bad")).to_have_count(4)
    page.get_by_role("link", name="Better 0").click()
    expect(page.get_by_role("link", name="Better 0")).to_have_attribute("aria-current", "true")
    expect(page.locator("details.flip summary .mark-bad")).to_have_count(0)


def test_a_flip_has_a_page_with_all_of_both_answers_and_its_neighbours(served: Serving, visit: Visit) -> None:
    page = visit(served, PAIR).page
    page.get_by_role("link", name="Show both answers in full").first.click()
    page.wait_for_url("**/compare/flip?*")
    assert page.locator(".answer").first.inner_text().count("The limitation period") == 8
    first = page.get_by_role("heading", level=1).inner_text()
    page.get_by_role("link", name="Next").click()
    expect(page.get_by_role("heading", level=1)).not_to_have_text(first)
    page.get_by_role("link", name="Comparison").click()
    expect(page.get_by_role("heading", name="Changed results")).to_be_visible()


def test_a_record_with_other_contents_is_listed_and_counts_nowhere(served: Serving, visit: Visit) -> None:
    page = visit(served, PAIR).page
    page.get_by_text("Changed: 1").click()
    expect(page.get_by_role("link", name="q23")).to_be_visible()


@pytest.mark.parametrize("path", [PAIR, f"{FLIP}&start=0", f"{FLIP}&start=1"], ids=["list", "markup", "megabyte"])
def test_hostile_answers_are_text_and_nothing_else(served: Serving, visit: Visit, path: str) -> None:
    visitor = visit(served, path)
    assert visitor.page.locator("main img, main script").count() == 0
    assert "\x1b" not in visitor.page.content()


def test_markup_in_an_answer_is_shown_as_it_was_written(served: Serving, visit: Visit) -> None:
    text = visit(served, f"{FLIP}&start=0").page.locator(".answer").first.text_content() or ""
    assert "<script>alert(1)</script> ![x](http://elsewhere.invalid/x.png) \u241b[31m" in text


def test_runs_without_a_record_in_common_say_so_and_can_be_chosen_anew(served: Serving, visit: Visit) -> None:
    visitor = visit(served, "/compare?before=before&after=alone")
    visitor.expect_status(400)
    assert "have no record in common" in visitor.page.get_by_role("alert").inner_text()
    assert visitor.page.get_by_label("After").input_value() == "alone"


def test_one_chosen_run_brings_those_over_the_same_dataset(served: Serving, visit: Visit) -> None:
    page = visit(served, "/compare?after=after").page
    page.get_by_role("link", name="before", exact=True).click()
    expect(page).to_have_url(f"http://127.0.0.1:{served.port}{PAIR}")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_keeps_anybody_from_looking_at_a_flip(served: Serving, visit: Visit, theme: str) -> None:
    page = visit(served, f"{FLIP}&start=1", color_scheme=theme, viewport={"width": 380, "height": 800}).page
    assert barriers(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
