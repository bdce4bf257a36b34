"""Rows of estimates with their intervals."""

import pytest

from assay.surfaces import charts
from assay.surfaces.charts import (
    IntervalRow,
    PlottedEstimate,
)
from tests.surfaces.charts.test_svg import CAPTION, elements, estimate, shown


def test_every_row_shows_its_value_and_its_n() -> None:
    svg = charts.interval_plot([IntervalRow("careful", PlottedEstimate(0.78, 0.83, 0.87, 1200))], CAPTION, domain=(0.0, 1.0))
    assert {"careful", "0.83", "1,200", "0.0", "0.5", "1.0"} <= set(shown(svg))


def test_positions_follow_the_values() -> None:
    svg = charts.interval_plot([IntervalRow(str(value), estimate(value)) for value in (0.2, 0.4, 0.6)], CAPTION, domain=(0.0, 1.0))
    places = [float(found.get("cx", "")) for found in elements(svg, "circle", "dot")]
    assert places[0] < places[1] < places[2]
    assert places[1] - places[0] == pytest.approx(places[2] - places[1], abs=0.02)


def test_a_row_without_a_score_is_said_to_have_none_and_has_no_mark() -> None:
    svg = charts.interval_plot([IntervalRow("mute", PlottedEstimate(None, None, None, 0))], CAPTION)
    assert "no score" in shown(svg)
    assert elements(svg, "circle") == []


def test_rows_beyond_the_limit_are_counted() -> None:
    svg = charts.interval_plot([IntervalRow(str(index), estimate(0.5)) for index in range(500)], CAPTION, omitted=7)
    assert "… and 447 more" in shown(svg)


def test_a_difference_has_a_colour_only_when_its_interval_leaves_zero_out() -> None:
    rows = [
        IntervalRow(name, PlottedEstimate(low, (low + high) / 2, high, 9))
        for name, low, high in (("b", 0.1, 0.3), ("w", -0.3, -0.1), ("?", -0.1, 0.2))
    ]
    svg = charts.difference_plot(rows, CAPTION)
    assert [found.get("class") for found in elements(svg, "circle")] == ["dot", "dot-warn", "dot-soft"]
    assert {"+0.20", "\u22120.20", "+0.05"} <= set(shown(svg))
