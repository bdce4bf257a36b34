"""Charts of pages in the two widths that a page has for them."""

from xml.etree import ElementTree

from assay.presentation.charts import Chart, FlipChartData
from assay.surfaces.pages.tables import NARROW, WIDE, chart_pair, drawing


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
