"""What became of the same records in two runs."""

from assay.surfaces import charts
from assay.surfaces.charts import (
    FlipChartData,
)
from tests.surfaces.charts.test_svg import CAPTION, shown


def test_flips_are_counted_with_their_shares() -> None:
    svg = charts.flip_chart(FlipChartData(both_passed=60, gained=25, lost=5, both_failed=10), CAPTION)
    assert {"60 (60.0 %)", "25 (25.0 %)", "5 (5.0 %)", "10 (10.0 %)"} <= set(shown(svg))
