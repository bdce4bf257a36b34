"""Charts of runs as values, before they are drawn."""

from assay.presentation.charts import IntervalPlot, ScoreDistribution
from assay.presentation.run_charts import run_charts
from tests.surfaces.run_views import golden_view, other_view, unfinished_view


def test_one_run_has_its_scores_and_its_slices() -> None:
    charts = {chart.name: chart for chart in run_charts([golden_view()])}
    assert list(charts) == ["distribution.svg", "slices.svg", "slices-score.svg"]
    scores = charts["distribution.svg"].plot
    assert isinstance(scores, ScoreDistribution)
    assert ([level.count for level in scores.levels], scores.domain) == ([0, 1, 0, 1, 2], (1.0, 5.0))
    slices = charts["slices.svg"].plot
    assert isinstance(slices, IntervalPlot)
    assert [(row.group, row.label) for row in slices.rows] == [("dataset", "assistant"), ("dataset", "other"), ("tags", "(none)")]


def test_several_runs_are_compared_and_their_charts_name_them() -> None:
    charts = run_charts([golden_view(), other_view(), unfinished_view()])
    assert [chart.name for chart in charts[:2]] == ["candidates.svg", "candidates-score.svg"]
    assert [chart.heading for chart in charts if chart.subject] == [
        "How often each score was given: small",
        "How often each score was given: large",
    ]
    rates = charts[0].plot
    assert isinstance(rates, IntervalPlot)
    assert [(row.label, row.estimate.middle) for row in rates.rows] == [("small", 0.75), ("large", 1.0)]
    assert rates.reference is not None
    assert rates.reference.label == "gate 80.0 %"


def test_a_run_without_metrics_has_no_chart() -> None:
    assert run_charts([unfinished_view()]) == []
