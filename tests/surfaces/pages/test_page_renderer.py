"""What pages say, without a browser: figures, lists, links, and that nothing becomes markup."""

from xml.etree import ElementTree

import msgspec
import pytest
from jinja2 import UndefinedError

from assay.core.run_result import RunListing
from assay.presentation.charts import Chart, FlipChartData
from assay.surfaces.charts import Caption, interval_plot
from assay.surfaces.pages.page_renderer import (
    NARROW,
    WIDE,
    FileLinks,
    ServerLinks,
    chart_pair,
    drawing,
    environment,
    escaped,
    titled,
)
from assay.surfaces.pages.runs import RunsChoice, is_wanted, sort_runs

RUNS = (
    RunListing(run_id="c", state="running", dataset="law", candidate="big", judges=("wise",)),
    RunListing(run_id="b", state="completed", dataset="law", candidate="small", pass_rate=0.5, cost_usd=2.0),
    RunListing(run_id="a", state="failed", dataset="tax", candidate="big", pass_rate=0.9, cost_usd=None),
)


def shown(choice: RunsChoice) -> list[str]:
    return [run.run_id for run in sort_runs([run for run in RUNS if is_wanted(run, choice)], choice)]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (RunsChoice(), ["c", "b", "a"]),
        (RunsChoice(order="asc"), ["a", "b", "c"]),
        (RunsChoice(sort="pass_rate"), ["a", "b", "c"]),
        (RunsChoice(sort="pass_rate", order="asc"), ["b", "a", "c"]),
        (RunsChoice(sort="cost"), ["b", "c", "a"]),
        (RunsChoice(sort="dataset", order="asc"), ["c", "b", "a"]),
        (RunsChoice(state="unfinished"), ["c"]),
        (RunsChoice(state="finished"), ["b", "a"]),
        (RunsChoice(q="LAW wise"), ["c"]),
        (RunsChoice(model="big", dataset="tax"), ["a"]),
    ],
)
def test_runs_are_found_and_ordered_and_unknown_figures_come_last(choice: RunsChoice, expected: list[str]) -> None:
    assert shown(choice) == expected


def test_addresses_hold_any_text() -> None:
    place = ServerLinks()
    assert place.run("a/b?c", "records") == "/runs/a%2Fb%3Fc/records"
    assert place.records("a", slice="tags:x&y") == "/runs/a/records?slice=tags%3Ax%26y"
    assert place.artifact("a", "../x") == "/v1/runs/a/artifacts/..%2Fx"


def test_a_file_holds_everything_and_leads_nowhere() -> None:
    head = FileLinks().head()
    assert "src=" not in head
    assert "<link" not in head
    assert FileLinks().export("a", "csv") == ""


def test_only_our_own_charts_are_markup() -> None:
    chart = environment().from_string("{{ chart|svg }}")
    drawn = chart.render(chart=interval_plot([], Caption("<b>Nothing</b>")))
    assert "<style" not in drawn
    assert "&lt;b&gt;Nothing" in drawn
    with pytest.raises(ValueError, match="only charts of ours"):
        chart.render(chart="<svg onload=alert(1)>")


def test_every_text_is_escaped_and_loses_what_would_reorder_it() -> None:
    text = environment().from_string('<a title="{{ text }}">{{ text }}</a>').render(text='"<b>\u202e\x1b\n\tend')
    assert text == '<a title="&#34;&lt;b&gt;\ufffd\u241b\n\tend">&#34;&lt;b&gt;\ufffd\u241b\n\tend</a>'


def test_a_text_without_blanks_says_where_its_lines_may_end_and_stays_whole() -> None:
    text = "<&>" * 1_000
    assert escaped(text).count("<wbr>") == 29
    assert escaped(text).replace("<wbr>", "").unescape() == text
    assert "<wbr>" not in escaped("a word " * 1_000)


def test_a_name_that_a_view_lacks_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        environment().from_string("{{ view.nothing }}").render(view=msgspec.defstruct("Empty", [])())


@pytest.mark.parametrize(
    ("text", "shown"), [("pass rate", "Pass rate"), ("n", "n"), ("p (Holm)", "p (Holm)"), ("p50", "p50"), ("SHA-256", "SHA-256")]
)
def test_labels_begin_with_a_capital_and_symbols_do_not(text: str, shown: str) -> None:
    assert titled(text) == shown


def test_a_drawing_is_made_for_a_screen_and_for_a_phone() -> None:
    asked = []

    def draw(width: int) -> str:
        asked.append(width)
        return f"<svg>{width}</svg>"

    pair = drawing("Scores", draw)
    assert (asked, pair.title, pair.wide, pair.narrow) == ([WIDE, NARROW], "Scores", f"<svg>{WIDE}</svg>", f"<svg>{NARROW}</svg>")


def test_a_chart_is_drawn_in_both_widths_under_its_heading() -> None:
    plot = FlipChartData(both_passed=7, gained=1, lost=2, both_failed=0)
    pair = chart_pair(Chart(name="flips", title="Flips", note="", subject="nightly", plot=plot))
    assert pair.title == Chart(name="flips", title="Flips", note="", subject="nightly", plot=plot).heading
    assert [ElementTree.fromstring(text).get("width") for text in (pair.wide, pair.narrow)] == [str(WIDE), str(NARROW)]
