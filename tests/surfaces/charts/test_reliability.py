"""What a judge gave against what the labels say."""

from assay.surfaces import charts
from assay.surfaces.charts import (
    ScoreBin,
)
from tests.surfaces.charts.test_svg import CAPTION, elements, estimate


def test_perfect_agreement_lies_on_the_diagonal() -> None:
    svg = charts.reliability_diagram([ScoreBin(value, estimate(value)) for value in (0.0, 0.5, 1.0)], CAPTION)
    diagonal = elements(svg, "line", "dashed")[0]
    marks = [(found.get("cx"), found.get("cy")) for found in elements(svg, "circle")]
    assert marks[0] == (diagonal.get("x1"), diagonal.get("y1"))
    assert marks[-1] == (diagonal.get("x2"), diagonal.get("y2"))
