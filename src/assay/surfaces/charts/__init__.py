"""Plain numbers into SVG charts, for reports, pages and files: no script, nothing from outside, the same bytes every time."""

from assay.presentation.charts import (
    Caption,
    Chart,
    DifferencePlot,
    FlipChartData,
    IntervalPlot,
    IntervalRow,
    PlottedEstimate,
    PlottedRun,
    ReferenceLine,
    ReliabilityPlot,
    ScoreBin,
    ScoreLevel,
    TrendPlot,
)
from assay.surfaces.charts.distribution import score_distribution
from assay.surfaces.charts.flips import flip_chart
from assay.surfaces.charts.intervals import difference_plot, interval_plot
from assay.surfaces.charts.reliability import reliability_diagram
from assay.surfaces.charts.svg import STYLESHEET
from assay.surfaces.charts.trend import trend_chart

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
    "draw",
    "flip_chart",
    "interval_plot",
    "reliability_diagram",
    "score_distribution",
    "trend_chart",
]


def draw(chart: Chart, *, width: int = 420) -> str:
    """Draw a chart of a report for a width in pixels."""
    caption, plot = Caption(chart.title, chart.note, width), chart.plot
    if isinstance(plot, IntervalPlot):
        return interval_plot(plot.rows, caption, domain=plot.domain, reference=plot.reference, omitted=plot.omitted)
    if isinstance(plot, DifferencePlot):
        return difference_plot(plot.rows, caption, omitted=plot.omitted)
    if isinstance(plot, FlipChartData):
        return flip_chart(plot, caption)
    if isinstance(plot, ReliabilityPlot):
        return reliability_diagram(plot.bins, caption, axes=plot.axes)
    if isinstance(plot, TrendPlot):
        return trend_chart(plot.points, caption, domain=plot.domain)
    return score_distribution(plot.levels, caption, domain=plot.domain, mean=plot.mean)
