"""Finished runs into the charts that show them: scores of each, slices, and candidates side by side."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import msgspec

from assay.core.contract import dataset_title
from assay.core.summary import CandidateSummary, Metric, RankingSummary, RecordMetrics, ScoreCount, Summary
from assay.presentation.charts import (
    Chart,
    IntervalPlot,
    IntervalRow,
    PlottedEstimate,
    ReferenceLine,
    ScoreDistribution,
    ScoreLevel,
)
from assay.presentation.run import MeanKind, shared_mean
from assay.presentation.run_report import RunReport
from assay.presentation.words import NO_VALUE, counted, decimal, domain, first_datasets, rate

_INTERVALS = "95 % intervals"
_UNIT = (0.0, 1.0)


def run_charts(views: Sequence[RunReport]) -> list[Chart]:
    """All charts of runs that have metrics; what the runs have nothing for is left out."""
    shown = [view for view in views if view.summary is not None]
    is_one = len(shown) == 1
    rankings = [chart for view in shown if view.is_ranking for chart in _ranking(view, is_one=is_one)]
    graded = [view for view in shown if not view.is_ranking]
    if not graded:
        return rankings
    names, mean, is_one = _names(graded), shared_mean(graded), len(graded) == 1
    return [
        *rankings,
        *(() if is_one else _candidates(graded, names, mean=mean)),
        *(chart for view, name in zip(graded, names, strict=True) for chart in _distributions(view, name, is_one=is_one)),
        *(_slices(graded, names, mean=mean) if any(view.slices for view in graded) else ()),
    ]


def _summary(view: RunReport) -> Summary:
    """The metrics of a run of which it is known that it has some."""
    if view.summary is None:
        raise ValueError("only runs with metrics are drawn")
    return view.summary


def _ranking(view: RunReport, *, is_one: bool) -> Iterator[Chart]:
    """The chance of each candidate to beat the average one; nothing where the comparisons order nobody."""
    ranking = _summary(view).ranking
    candidates = ranking.candidates if isinstance(ranking, RankingSummary) else ()
    rows = tuple(
        IntervalRow(one.name, _estimate(one.win_chance, n=_met(one), is_rate=True)) for one in candidates if one.win_chance
    )
    if rows:
        yield Chart(
            name="ranking.svg" if is_one else f"ranking-{view.result.run_id}.svg",
            title="Chance of beating the average candidate",
            note=f"{_datasets(view)} · consistent wins in both orders · {_INTERVALS}",
            plot=IntervalPlot(rows=rows, domain=_UNIT, reference=ReferenceLine(0.5, "average")),
        )


def _met(candidate: CandidateSummary) -> int:
    return candidate.wins + candidate.losses + candidate.ties + candidate.inconsistent


def _names(views: Sequence[RunReport]) -> list[str]:
    """The candidates; where one has several runs, with the id of each."""
    counts = Counter(view.name for view in views)
    return [view.name if counts[view.name] == 1 else f"{view.name} · {view.result.run_id}" for view in views]


def _candidates(views: Sequence[RunReport], names: Sequence[str], *, mean: MeanKind) -> Iterator[Chart]:
    note = f"{_datasets(views[0])} · {_INTERVALS}"
    for name, title, estimate, span, gate in (
        ("candidates.svg", "Pass rate by candidate", _pass_rate, _UNIT, "pass_rate"),
        ("candidates-score.svg", f"{mean.title.capitalize()} by candidate", _mean(mean), _domain(views, mean), "min_score"),
    ):
        rows = tuple(IntervalRow(label, estimate(_summary(view))) for label, view in zip(names, views, strict=True))
        yield Chart(name=name, title=title, note=note, plot=IntervalPlot(rows=rows, domain=span, reference=_gate(views, gate)))


def _distributions(view: RunReport, name: str, *, is_one: bool) -> Iterator[Chart]:
    summary = _summary(view)
    found = summary.score_distribution
    for scale, levels in found.items():
        parts = ["distribution", *([] if is_one else [view.result.run_id]), *([scale.replace("/", "_")] if len(found) > 1 else [])]
        unscored = f" · {counted(summary.n_unscored, 'record')} without a score" if summary.n_unscored else ""
        n = sum(level.count for level in levels)
        mean = _estimate(summary.raw_score_mean_metric, n=summary.n_scored) if summary.scale == scale else None
        yield Chart(
            name=f"{'-'.join(parts)}.svg",
            title="How often each score was given",
            note=f"{name} · scale {scale} · {counted(n, 'score')}{unscored}",
            plot=ScoreDistribution(levels=tuple(map(_level, levels)), domain=domain(scale), mean=mean),
            subject="" if is_one else name,
        )


def _level(level: ScoreCount) -> ScoreLevel:
    if level.score is not msgspec.UNSET:
        return ScoreLevel(level.score, level.score, level.count)
    low, high = (0.0 if end is msgspec.UNSET else end for end in (level.start, level.end))
    return ScoreLevel(low, high, level.count)


def _slices(views: Sequence[RunReport], names: Sequence[str], *, mean: MeanKind) -> Iterator[Chart]:
    note = f"{names[0]} · {_INTERVALS}" if len(views) == 1 else f"{_datasets(views[0])} · {_INTERVALS}"
    omitted = max(view.omitted_slice_values for view in views)
    for name, title, estimate, span in (
        ("slices.svg", "Pass rate by slice", _pass_rate, _UNIT),
        ("slices-score.svg", f"{mean.title.capitalize()} by slice", _mean(mean), _domain(views, mean)),
    ):
        rows = tuple(_slice_rows(views, names, estimate))
        yield Chart(name=name, title=title, note=note, plot=IntervalPlot(rows=rows, domain=span, omitted=omitted))


def _slice_rows(
    views: Sequence[RunReport], names: Sequence[str], estimate: Callable[[RecordMetrics], PlottedEstimate]
) -> list[IntervalRow]:
    """Of one run its values under the slice's name; of several their values of one slice under each other."""
    if len(views) == 1:
        return [IntervalRow(_value(found.value), estimate(found.figures), found.name) for found in views[0].slices]
    values: dict[str, list[IntervalRow]] = {}
    for view, name in zip(views, names, strict=True):
        for found in view.slices:
            group = f"{found.name}: {_value(found.value)}"
            values.setdefault(group, []).append(IntervalRow(name, estimate(found.figures), group))
    return [row for rows in values.values() for row in rows]


def _value(value: str | None) -> str:
    return NO_VALUE if value is None else value


def _pass_rate(metrics: RecordMetrics) -> PlottedEstimate:
    return _estimate(metrics.pass_rate_metric, n=metrics.n_scored, is_rate=True)


def _mean(mean: MeanKind) -> Callable[[RecordMetrics], PlottedEstimate]:
    def estimate(metrics: RecordMetrics) -> PlottedEstimate:
        found = mean.metric(metrics)
        return _estimate(found, n=metrics.n_scored if mean.source != "profile" else found.n)

    return estimate


def _estimate(metric: Metric, *, n: int, is_rate: bool = False) -> PlottedEstimate:
    low, high = (None, None) if metric.interval is None else (metric.interval.low, metric.interval.high)
    return PlottedEstimate(low, metric.value, high, n, is_rate)


def _domain(views: Sequence[RunReport], mean: MeanKind) -> tuple[float, float]:
    return domain(mean.scale(_summary(views[0])))


def _gate(views: Sequence[RunReport], member: str) -> ReferenceLine | None:
    """The gate, where all runs have the same."""
    gates = {(view.plan.get("gates") or {}).get(member) for view in views}
    value = gates.pop() if len(gates) == 1 else None
    return None if value is None else ReferenceLine(value, f"gate {rate(value) if member == 'pass_rate' else decimal(value)}")


def _datasets(view: RunReport) -> str:
    datasets, more = first_datasets(view.plan.get("datasets", ()))
    return ", ".join(map(dataset_title, datasets)) + (more and f" {more}")
