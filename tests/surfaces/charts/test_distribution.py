"""Columns of scores."""

import pytest

from assay.surfaces import charts
from assay.surfaces.charts import (
    ScoreLevel,
)
from tests.surfaces.charts.test_svg import CAPTION, elements, estimate, shown


def test_columns_are_as_high_as_their_counts() -> None:
    levels = [ScoreLevel(score, score, count) for score, count in ((1, 10), (2, 0), (3, 20), (4, 40), (5, 30))]
    svg = charts.score_distribution(levels, CAPTION, domain=(1.0, 5.0), mean=estimate(3.8))
    heights = [float(found.get("height", "")) for found in elements(svg, "rect", "bar")]
    assert heights == pytest.approx([heights[2] / 4, heights[2] / 2, heights[2], heights[2] * 0.75], abs=0.02)
    assert {"1", "2", "3", "4", "5", "10", "20", "mean 3.80"} <= set(shown(svg))


def test_columns_without_room_for_their_counts_stand_before_a_grid() -> None:
    svg = charts.score_distribution([ScoreLevel(score / 50, score / 50, 4000 + score) for score in range(50)], CAPTION)
    assert "4,020" not in shown(svg)
    assert {"2,000", "4,000"} <= set(shown(svg))
