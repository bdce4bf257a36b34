"""Charts: well-formed and harmless whatever they are given, and true to their numbers."""

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from assay.surfaces import charts
from assay.surfaces.charts import (
    Caption,
    FlipChartData,
    IntervalRow,
    PlottedEstimate,
    PlottedRun,
    ReferenceLine,
    ScoreBin,
    ScoreLevel,
)
from assay.surfaces.charts.svg import MINUS, LinearScale, estimate_text, number_label, rounded_range

SVG = "{http://www.w3.org/2000/svg}"
KNOWN = {f"{SVG}{name}" for name in ("svg", "title", "desc", "style", "text", "line", "rect", "circle", "path")}
REACHES_OUT = re.compile(r"href|url\(|@import|javascript:|data:|on\w+=", re.IGNORECASE)
CAPTION = Caption("Pass rate", "95 % intervals")


def estimate(middle: float, n: int = 50) -> PlottedEstimate:
    return PlottedEstimate(middle - 0.1, middle, middle + 0.1, n)


def elements(svg: str, name: str, style: str = "") -> list[ElementTree.Element]:
    root = ElementTree.fromstring(svg)
    return [found for found in root.iter(f"{SVG}{name}") if style in found.get("class", "").split() or not style]


def shown(svg: str) -> list[str]:
    """Texts that can be seen without pointing at anything."""
    return [found.text or "" for found in elements(svg, "text")]


numbers = st.one_of(st.none(), st.floats(), st.integers(-(10**30), 10**30).map(float))
some_numbers = st.one_of(st.floats(), st.floats(-5, 5))
words = st.one_of(st.text(max_size=40), st.sampled_from(["</svg><script>x</script>", "\u202eabc", "\ufffe\x00\ud800", "&amp;\"'<"]))
estimates = st.builds(PlottedEstimate, numbers, numbers, numbers, st.integers(0, 10**12))
captions = st.builds(Caption, words, words, st.integers(-10, 3000))
domains = st.sampled_from([None, (0.0, 1.0), (1.0, 5.0)])
references = st.one_of(st.none(), st.builds(ReferenceLine, st.floats(-5, 5), words))
drawings: list[Any] = [
    st.builds(
        charts.interval_plot,
        st.lists(st.builds(IntervalRow, words, estimates, words), max_size=8),
        captions,
        domain=domains,
        reference=references,
        omitted=st.integers(0, 5),
    ),
    st.builds(charts.difference_plot, st.lists(st.builds(IntervalRow, words, estimates, words), max_size=8), captions),
    st.builds(
        charts.score_distribution,
        st.lists(st.builds(ScoreLevel, some_numbers, some_numbers, st.integers(0, 10**9)), max_size=12),
        captions,
        domain=domains,
        mean=st.one_of(st.none(), estimates),
    ),
    st.builds(
        charts.trend_chart,
        st.lists(st.builds(PlottedRun, words, estimates, words), max_size=60),
        captions,
        domain=domains,
        reference=references,
    ),
    st.builds(charts.reliability_diagram, st.lists(st.builds(ScoreBin, some_numbers, estimates), max_size=12), captions),
    st.builds(charts.flip_chart, st.builds(FlipChartData, *[st.integers(0, 10**9)] * 4), captions),
]


@settings(max_examples=300, deadline=None)
@given(st.one_of(drawings))
def test_any_input_gives_well_formed_svg_that_runs_and_loads_nothing(svg: str) -> None:
    root = ElementTree.fromstring(svg.encode())
    attributes = [f"{name}={value}" for found in root.iter() for name, value in found.attrib.items()]
    assert {found.tag for found in root.iter()} <= KNOWN
    assert [text for text in [*attributes, charts.STYLESHEET] if REACHES_OUT.search(text)] == []
    assert not re.search(r'="[^"]*(nan|inf)[^"]*"', svg)


@pytest.mark.parametrize(
    "draw",
    [
        lambda label: charts.interval_plot([IntervalRow(label, estimate(0.5), label)], Caption(label, label)),
        lambda label: charts.trend_chart([PlottedRun(label, estimate(0.5), label)] * 2, Caption(label, label)),
        lambda label: charts.reliability_diagram([], Caption(label, label), axes=(label, label)),
    ],
)
def test_a_label_of_a_megabyte_is_cut_with_an_ellipsis(draw: Callable[[str], str]) -> None:
    svg = draw("<b>" * 350_000)
    assert len(svg) < 20_000
    assert any(text.endswith("…") for text in shown(svg))


def test_a_label_that_is_cut_can_be_read_whole_when_pointed_at() -> None:
    label = "a name that is much longer than the chart is wide, and then some more of it"
    svg = charts.interval_plot([IntervalRow(label, estimate(0.5))], CAPTION)
    assert label not in shown(svg)
    assert label in [found.text for found in elements(svg, "title")]


def test_the_same_values_give_the_same_bytes() -> None:
    rows = [IntervalRow("a", estimate(0.1 + 0.2)), IntervalRow("b", estimate(1 / 3))]
    assert charts.interval_plot(rows, CAPTION) == charts.interval_plot(list(rows), CAPTION)


def test_a_chart_tells_what_it_shows_to_those_who_cannot_see_it() -> None:
    svg = charts.interval_plot([IntervalRow("careful", PlottedEstimate(0.78, 0.83, 0.87, 120))], Caption("Pass rate"))
    root = ElementTree.fromstring(svg)
    assert root.get("role") == "img"
    assert [root[0].text, root[1].text] == ["Pass rate", "Interval plot. careful: 0.83 [0.78, 0.87], n = 120."]


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.integers(2, 8))
@example(low=-524288.453125, span=0.03125, count=2)
def test_ticks_are_few_round_and_inside(low: float, span: float, count: int) -> None:
    begin, end = rounded_range([low, low + span], count=count)
    ticks = LinearScale(begin, end, 0, 100).ticks(count)
    assert 2 <= len(ticks) <= count + 2
    assert begin - low <= span * 1e-6
    assert low + span - end <= span * 1e-6
    assert [ticks[0], ticks[-1]] == pytest.approx([begin, end], abs=span * 1e-6)


@pytest.mark.parametrize(
    ("value", "options", "label"),
    [
        (None, {}, "no score"),
        (0.83, {}, "0.83"),
        (0.83333, {"is_rate": True}, "83.3 %"),
        (-0.5, {}, f"{MINUS}0.50"),
        (0.04, {"is_signed": True}, "+0.04"),
        (-0.042, {"is_signed": True, "is_rate": True}, f"{MINUS}4.2 pp"),
        (12_345.678, {}, "12,345.68"),
    ],
)
def test_a_number_is_written_in_its_unit(value: float | None, options: dict[str, bool], label: str) -> None:
    assert number_label(value, **options) == label


def test_an_estimate_has_its_interval_and_its_n() -> None:
    assert estimate_text(PlottedEstimate(0.781, 0.833, 0.874, 1200, is_rate=True)) == "83.3 % [78.1 %, 87.4 %], n = 1,200"
    assert estimate_text(PlottedEstimate(None, 0.5, None, 1)) == "0.50, n = 1"


def test_an_estimate_without_a_score_is_no_zero() -> None:
    assert estimate_text(PlottedEstimate(None, None, None, 12)) == "no score, n = 12"
