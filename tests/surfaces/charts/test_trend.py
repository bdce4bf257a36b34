"""A metric over runs."""

from assay.surfaces import charts
from assay.surfaces.charts import (
    PlottedEstimate,
    PlottedRun,
)
from tests.surfaces.charts.test_svg import CAPTION, elements, estimate, shown


def test_a_run_without_a_score_leaves_a_gap_in_the_trend() -> None:
    gap = PlottedRun("broken", PlottedEstimate(None, None, None, 0))
    svg = charts.trend_chart(
        [PlottedRun("a", estimate(0.4)), PlottedRun("b", estimate(0.5)), gap, *[PlottedRun("d", estimate(0.6))] * 2], CAPTION
    )
    assert len(elements(svg, "path", "trace")) == 2
    assert len(elements(svg, "circle")) == 4


def test_a_point_that_stands_out_says_why() -> None:
    svg = charts.trend_chart(
        [PlottedRun("a", estimate(0.4)), PlottedRun("b", estimate(0.2), "regression"), PlottedRun("c", estimate(0.5))], CAPTION
    )
    assert "regression" in shown(svg)
    assert len(elements(svg, "circle", "dot-warn")) == 1
