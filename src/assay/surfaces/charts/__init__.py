"""Plain numbers into SVG charts, for reports, pages and files: no script, nothing from outside, the same bytes every time."""

from assay.surfaces.charts.distribution import score_distribution
from assay.surfaces.charts.flips import flip_chart
from assay.surfaces.charts.intervals import difference_plot, interval_plot
from assay.surfaces.charts.reliability import reliability_diagram
from assay.surfaces.charts.svg import STYLESHEET
from assay.surfaces.charts.trend import trend_chart
from assay.surfaces.charts.values import (
    Caption,
    FlipChartData,
    IntervalRow,
    PlottedEstimate,
    PlottedRun,
    ReferenceLine,
    ScoreBin,
    ScoreLevel,
)

__all__ = [
    "STYLESHEET",
    "Caption",
    "FlipChartData",
    "IntervalRow",
    "PlottedEstimate",
    "PlottedRun",
    "ReferenceLine",
    "ScoreBin",
    "ScoreLevel",
    "difference_plot",
    "flip_chart",
    "interval_plot",
    "reliability_diagram",
    "score_distribution",
    "trend_chart",
]
