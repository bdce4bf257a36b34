"""What pages say, without a browser: figures, lists, links, and that nothing becomes markup."""

import msgspec
import pytest
from jinja2 import UndefinedError

from assay.core.run_result import RunListing
from assay.surfaces.charts import Caption, interval_plot
from assay.surfaces.pages import display_values
from assay.surfaces.pages.links import FileLinks, ServerLinks
from assay.surfaces.pages.page_renderer import environment, told
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


@pytest.mark.parametrize(
    ("count", "total", "text"),
    [(0, 9, "0.0 %"), (9, 9, "100.0 %"), (1, 5000, "0.1 %"), (4999, 5000, "99.9 %"), (1, 0, display_values.DASH)],
)
def test_a_share_is_all_or_nothing_only_where_it_is(count: int, total: int, text: str) -> None:
    assert display_values.share(count, total).text == text


def test_answers_to_records_that_were_asked_several_times_are_no_records() -> None:
    metrics = {"pass_rate_interval": {"low": 0.2, "high": 0.8, "n": 6}, "pass_rate_cluster_interval": None}
    found = display_values.rate(0.5, display_values.ends(metrics, "pass_rate"), over=display_values.basis(18, metrics, "pass_rate"))
    assert (found.n, found.says) == ("n 6", "pass rate 50.0 % of 18 scored answers to 6 records; 95 % interval 20.0 % to 80.0 %")


def test_a_figure_of_records_that_hang_together_has_the_interval_of_their_clusters() -> None:
    plain, wider = {"low": 0.4, "high": 0.6, "n": 30}, {"low": 0.2, "high": 0.8, "n": 6}
    metrics = {"pass_rate_interval": plain, "pass_rate_cluster_interval": wider}
    found = display_values.rate(0.5, display_values.ends(metrics, "pass_rate"), over=display_values.basis(30, metrics, "pass_rate"))
    assert (found.n, found.says) == (
        "n 6 clusters",
        "pass rate 50.0 % of 30 scored records in 6 clusters; 95 % interval 20.0 % to 80.0 %",
    )


@pytest.mark.parametrize(("number", "text"), [(0, "0 bytes"), (1023, "1,023 bytes"), (1024, "1.0 KB"), (5 << 30, "5.0 GB")])
def test_sizes_are_told_in_units_of_1024(number: int, text: str) -> None:
    assert display_values.size(number) == text


def test_a_figure_without_a_value_is_a_dash_and_says_why() -> None:
    assert display_values.rate(None, None, over=display_values.MetricBasis(0)) == display_values.DisplayValue(
        display_values.DASH, "pass rate: no record has a score"
    )
    assert display_values.money(None, unpriced=3).text == "unknown"
    assert display_values.money(1.5, unpriced=3).text == "> $1.50"
    assert display_values.whisker(None, None) is None


def test_a_bar_stays_on_its_line() -> None:
    assert display_values.whisker(4.0, (2.0, 6.0), domain=display_values.domain("1-5")) == display_values.IntervalBar(
        25.0, 75.0, 100.0
    )


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
    assert told(text).count("<wbr>") == 29
    assert told(text).replace("<wbr>", "").unescape() == text
    assert "<wbr>" not in told("a word " * 1_000)


def test_a_name_that_a_view_lacks_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        environment().from_string("{{ view.nothing }}").render(view=msgspec.defstruct("Empty", [])())


@pytest.mark.parametrize(("p95", "words"), [(0.4, "95 % took <1 ms"), (812, "95 % took less than 812 ms"), (None, "")])
def test_how_long_nearly_all_took_is_said_in_one_sentence(p95: float | None, words: str) -> None:
    assert display_values.most_took(p95) == words
