"""Finished runs into the charts that show them: scores of each, slices, and candidates side by side."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import msgspec

from assay.core.dataset_title import dataset_title
from assay.core.metrics_summary import interval_of
from assay.core.summary import RunKind
from assay.surfaces.charts import (
    Caption,
    IntervalRow,
    PlottedEstimate,
    ReferenceLine,
    ScoreLevel,
    interval_plot,
    score_distribution,
)
from assay.surfaces.reporters.run_numbers import decimal, rate
from assay.surfaces.reporters.run_slices import HEADLINE, NO_VALUE, SliceMean, shared_mean
from assay.surfaces.reporters.run_view import Json, RunReport
from assay.surfaces.reporters.wording import counted, first_datasets

_SCALES = {"1-5": (1.0, 5.0), "0-100": (0.0, 100.0)}
_UNIT = (0.0, 1.0)
_INTERVALS = "95 % intervals"
WIDTH = 420


class Chart(msgspec.Struct, frozen=True):
    """A chart and the file that it belongs in."""

    name: str
    title: str
    svg: str


def run_charts(views: Sequence[RunReport], *, width: int = WIDTH) -> list[Chart]:
    """All charts of runs that have metrics, drawn for a width in pixels; what the runs have nothing for is left out."""
    shown = [view for view in views if view.result.metrics]
    if not shown:
        return []
    rankings = [
        chart
        for view in shown
        if view.result.kind is RunKind.RANKING
        for chart in _ranking(view, is_one=len(shown) == 1, width=width)
    ]
    shown = [view for view in shown if view.result.kind is not RunKind.RANKING]
    if not shown:
        return rankings
    names = _names(shown)
    mean = shared_mean(shown)
    return [
        *rankings,
        *(_candidates(shown, names, mean=mean, width=width) if len(shown) > 1 else ()),
        *(
            chart
            for view, name in zip(shown, names, strict=True)
            for chart in _distributions(view, name, is_one=len(shown) == 1, width=width)
        ),
        *(_slices(shown, names, mean=mean, width=width) if any(view.slices for view in shown) else ()),
    ]


def _ranking(view: RunReport, *, is_one: bool, width: int) -> Iterator[Chart]:
    """The chance of each candidate to beat the average one; nothing where the comparisons order nobody."""
    ranked = [candidate for candidate in view.result.metrics["ranking"]["candidates"] if candidate["win_chance"]]
    rows = [IntervalRow(candidate["name"], _chance(candidate)) for candidate in ranked]
    title = "Chance of beating the average candidate"
    note = f"{_datasets(view)} · consistent wins in both orders · {_INTERVALS}"
    if rows:
        svg = interval_plot(rows, Caption(title, note, width), domain=_UNIT, reference=ReferenceLine(0.5, "average"))
        yield Chart("ranking.svg" if is_one else f"ranking-{view.result.run_id}.svg", title, svg)


def _chance(candidate: Json) -> PlottedEstimate:
    chance = candidate["win_chance"]
    met = sum(candidate[member] for member in ("wins", "losses", "ties", "inconsistent"))
    return _estimate(chance["value"], chance["interval"], n=met, is_rate=True)


def _names(views: Sequence[RunReport]) -> list[str]:
    """The candidates; where one has several runs, with the id of each."""
    candidates = [view.result.candidate or view.result.run_id for view in views]
    counts = Counter(candidates)
    return [name if counts[name] == 1 else f"{name} · {view.result.run_id}" for name, view in zip(candidates, views, strict=True)]


def _candidates(views: Sequence[RunReport], names: Sequence[str], *, mean: SliceMean, width: int) -> Iterator[Chart]:
    note = f"{_datasets(views[0])} · {_INTERVALS}"
    rows = [IntervalRow(name, _pass_rate(view.result.metrics)) for name, view in zip(names, views, strict=True)]
    title = "Pass rate by candidate"
    svg = interval_plot(rows, Caption(title, note, width), domain=_UNIT, reference=_gate(views, "pass_rate"))
    yield Chart("candidates.svg", title, svg)
    rows = [IntervalRow(name, _mean(view.result.metrics, mean)) for name, view in zip(names, views, strict=True)]
    title = f"{mean.title.capitalize()} by candidate"
    svg = interval_plot(rows, Caption(title, note, width), domain=_domain(views, mean), reference=_gate(views, "min_score"))
    yield Chart("candidates-score.svg", title, svg)


def _distributions(view: RunReport, name: str, *, is_one: bool, width: int) -> Iterator[Chart]:
    metrics = view.result.metrics
    found = metrics["score_distribution"]
    for scale, levels in found.items():
        parts = ["distribution", *([] if is_one else [view.result.run_id]), *([scale.replace("/", "_")] if len(found) > 1 else [])]
        unscored = f" · {counted(metrics['n_unscored'], 'record')} without a score" if metrics.get("n_unscored") else ""
        n = sum(level["count"] for level in levels)
        note = f"{name} · scale {scale} · {counted(n, 'score')}{unscored}"
        mean = _mean(metrics, SliceMean("raw_score_mean", "mean score")) if metrics.get("scale") == scale else None
        title = "How often each score was given"
        svg = score_distribution(
            [_level(level) for level in levels], Caption(title, note, width), domain=_SCALES.get(scale, _UNIT), mean=mean
        )
        yield Chart(f"{'-'.join(parts)}.svg", title if is_one else f"{title}: {name}", svg)


def _level(level: Json) -> ScoreLevel:
    if "score" in level:
        return ScoreLevel(level["score"], level["score"], level["count"])
    return ScoreLevel(level["from"], level["to"], level["count"])


def _slices(views: Sequence[RunReport], names: Sequence[str], *, mean: SliceMean, width: int) -> Iterator[Chart]:
    note = f"{names[0]} · {_INTERVALS}" if len(views) == 1 else f"{_datasets(views[0])} · {_INTERVALS}"
    omitted = max(view.omitted_slice_values for view in views)
    title = "Pass rate by slice"
    svg = interval_plot(_slice_rows(views, names, _pass_rate), Caption(title, note, width), domain=_UNIT, omitted=omitted)
    yield Chart("slices.svg", title, svg)
    title = f"{mean.title.capitalize()} by slice"
    rows = _slice_rows(views, names, lambda figures: _mean(figures, mean))
    yield Chart(
        "slices-score.svg", title, interval_plot(rows, Caption(title, note, width), domain=_domain(views, mean), omitted=omitted)
    )


def _slice_rows(views: Sequence[RunReport], names: Sequence[str], estimate: Callable[[Json], PlottedEstimate]) -> list[IntervalRow]:
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


def _pass_rate(figures: Json) -> PlottedEstimate:
    return _estimate(figures["pass_rate"], interval_of(figures, "pass_rate"), n=figures["n_scored"], is_rate=True)


def _mean(figures: Json, mean: SliceMean) -> PlottedEstimate:
    found = figures["profile"] if mean.member == HEADLINE else figures
    return _estimate(found[mean.member], interval_of(found, mean.member), n=found["n_scored"])


def _estimate(value: float | None, interval: Json | None, *, n: int, is_rate: bool = False) -> PlottedEstimate:
    low, high = (None, None) if interval is None else (interval["low"], interval["high"])
    return PlottedEstimate(low, value, high, n, is_rate)


def _domain(views: Sequence[RunReport], mean: SliceMean) -> tuple[float, float]:
    metrics = views[0].result.metrics
    scale = {"raw_score_mean": metrics.get("scale"), HEADLINE: (metrics.get("profile") or {}).get("scale")}.get(mean.member)
    return _SCALES.get(scale or "", _UNIT)


def _gate(views: Sequence[RunReport], member: str) -> ReferenceLine | None:
    """The gate, where all runs have the same."""
    gates = {(view.plan.get("gates") or {}).get(member) for view in views}
    value = gates.pop() if len(gates) == 1 else None
    return None if value is None else ReferenceLine(value, f"gate {rate(value) if member == 'pass_rate' else decimal(value)}")


def _datasets(view: RunReport) -> str:
    datasets, more = first_datasets(view.plan.get("datasets", ()))
    return ", ".join(map(dataset_title, datasets)) + (more and f" {more}")
