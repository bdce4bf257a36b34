"""Runs over the same dataset in the order of time, and the direction that a test supports."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np

from assay.core.canonical import JsonObject
from assay.core.errors import AssayError, UsageProblem
from assay.core.summary import MetricValue, Summary
from assay.engine.comparison.gate import COMPLETE, Measure, is_derived
from assay.engine.storage.run_paths import RunPaths, run_ids
from assay.metrics.trend import TrendEstimate, trend
from assay.store.published_run import PublishedRun, open_run_folder

FIRST = 3
"""Runs that a note names before it only counts them."""


class TrendPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a trend."""

    run_id: str
    created_at: str
    candidate: str
    n: int
    """Records with a score."""
    value: float
    low: float | None
    high: float | None


class TrendChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs a trend is about; what is empty is taken from the newest run."""

    dataset: str = ""
    candidate: str = ""
    measure: Measure = "pass_rate"
    is_any_version: bool = False
    """Runs over other contents of the dataset count too."""


class RunTrend(msgspec.Struct, frozen=True, kw_only=True):
    """Runs from the oldest to the newest, and where they go."""

    dataset: str
    candidate: str
    measure: Measure
    points: tuple[TrendPoint, ...]
    trend: TrendEstimate
    left_out: dict[str, int]
    """Other finished runs over the dataset, by why they do not count."""
    scored_by: str = ""
    """What the score is: `mean` or the name of a profile, the same for all runs; empty for the pass rate."""
    notes: tuple[str, ...] = ()
    """What a change may come from, apart from the candidate."""

    def to_dict(self) -> JsonObject:
        """Return the trend as JSON documents hold it."""
        found: JsonObject = msgspec.to_builtins(self)
        return found


def run_trend(runs_dir: Path, choice: TrendChoice, *, last: int | None = None) -> RunTrend:
    """Return the trend of the complete runs of one candidate over one dataset; raises UsageProblem when there are none."""
    opened = list(_sealed(runs_dir))
    if not opened:
        raise UsageProblem(f"'{runs_dir}' has no finished run", hint="make some: assay run DATASET --model M")
    # The newest run decides what the trend is about, as it is what a user has just made.
    dataset = choice.dataset or opened[-1].manifest.dataset_id
    runs = [run for run in opened if run.manifest.dataset_id == dataset]
    if not runs:
        names = sorted({run.manifest.dataset_id for run in opened})
        raise UsageProblem(f"no finished run is over '{dataset}'", hint=f"datasets here: {', '.join(names)}")
    newest = next((run for run in reversed(runs) if choice.candidate in ("", _candidate(run))), None)
    if newest is None:
        names = sorted({_candidate(run) for run in runs})
        raise UsageProblem(f"'{choice.candidate}' has no run over '{dataset}'", hint=f"candidates: {', '.join(names)}")
    points: list[TrendPoint] = []
    left_out: Counter[str] = Counter()
    for run in runs:
        # `or`: a reason for leaving the run out, its point, or that it has no such metric.
        point = _why_not(run, newest, choice) or _point(run, choice.measure) or "without such a figure"
        if isinstance(point, str):
            left_out[point] += 1
        else:
            points.append(point)
    # Cut after filtering, so that "the last ten" are ten that count.
    shown = points if last is None else points[-last:]
    return RunTrend(
        dataset=dataset,
        candidate=_candidate(newest),
        measure=choice.measure,
        points=tuple(shown),
        trend=trend(np.array([point.value for point in shown])),
        left_out=dict(left_out),
        scored_by=_ruler(newest) if choice.measure == "score" else "",
        notes=tuple(_notes(runs, newest, {point.run_id for point in shown})),
    )


def _notes(runs: Sequence[PublishedRun], newest: PublishedRun, shown: Collection[str]) -> Iterator[str]:
    """Another judge is another ruler, and its runs may differ for that reason alone."""
    others = [run for run in runs if run.manifest.run_id in shown and _judges(run) != _judges(newest)]
    if others:
        were = "1 run was" if len(others) == 1 else f"{len(others):,} runs were"
        yield f"{were} judged by others than the newest: {', '.join(run.manifest.run_id for run in others[:FIRST])}" + (
            ", …" if len(others) > FIRST else ""
        )


def _judges(run: PublishedRun) -> list[str]:
    return [judge.name for judge in run.manifest.judges]


def _ruler(run: PublishedRun) -> str:
    """Name the score of a run: its profile, or the mean."""
    profile = run.manifest.profile
    return "mean" if profile is None else profile.name


def _why_not(run: PublishedRun, newest: PublishedRun, choice: TrendChoice) -> str:
    """Return why a run is not a point of the trend; empty when it is one."""
    if _candidate(run) != _candidate(newest):
        return "of other candidates"
    if is_derived(run):
        return "rescored or retried"
    if run.manifest.status not in COMPLETE:
        return "that are not complete"
    if not choice.is_any_version and _contents(run) != _contents(newest):
        return "over other contents"
    if choice.measure == "score" and _ruler(run) != _ruler(newest):
        return "scored by other rules"
    return ""


def _candidate(run: PublishedRun) -> str:
    return run.manifest.candidate.name


def _contents(run: PublishedRun) -> list[str]:
    """Return what the run was over: the hashes of its datasets, and what was taken of them."""
    plan = run.manifest.settings
    # The seed only matters where a sample was drawn with it.
    chosen = (plan.limit, plan.sample, plan.seed if plan.sample else plan.limit)
    return [*(dataset.sha256 for dataset in plan.datasets), *map(str, chosen)]


def _sealed(runs_dir: Path) -> Iterator[PublishedRun]:
    for run_id in run_ids(runs_dir):
        folders = RunPaths(runs_dir, run_id)
        if folders.is_sealed:
            try:
                yield open_run_folder(folders.sealed)
            except AssayError:
                # A damaged run is shown by `assay runs`; here it must not hide the others.
                continue


def _point(run: PublishedRun, measure: Measure) -> TrendPoint | None:
    try:
        summary = run.summary()
    except AssayError:
        # Metrics of a damaged or purged run are not there.
        return None
    metric = _metric(summary, measure)
    if metric.value is None:
        return None
    return TrendPoint(
        run_id=run.manifest.run_id,
        created_at=run.manifest.created_at,
        candidate=run.manifest.candidate.name,
        n=summary.n_scored,
        value=metric.value,
        low=metric.interval.low if metric.interval else None,
        high=metric.interval.high if metric.interval else None,
    )


def _metric(summary: Summary, measure: Measure) -> MetricValue:
    """Return the metric; the score is the headline of a profile where the run has one."""
    if measure == "pass_rate":
        return summary.pass_rate_metric
    return summary.raw_score_mean_metric if summary.profile is None else summary.profile.metric
