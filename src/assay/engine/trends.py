"""Runs over the same dataset in the order of time, and the direction that a test supports."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from assay.core.errors import AssayError, UsageProblem
from assay.engine.folders import RunFolders, run_ids
from assay.engine.gate import Measure
from assay.metrics.trend import Trend, trend
from assay.store.folder import RunFolder, open_run_folder


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


class RunTrend(msgspec.Struct, frozen=True, kw_only=True):
    """Runs from the oldest to the newest, and where they go."""

    dataset: str
    measure: Measure
    points: tuple[TrendPoint, ...]
    trend: Trend
    left_out: int
    """Runs over the dataset that have no such figure: unfinished, cancelled, purged or without a score."""

    def to_dict(self) -> dict[str, Any]:
        """The trend as JSON documents hold it."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


def run_trend(runs_dir: Path, *, dataset: str = "", last: int | None = None, measure: Measure = "pass_rate") -> RunTrend:
    """The trend of the runs over one dataset, by default that of the newest run; raises UsageProblem when there are none."""
    opened = list(_sealed(runs_dir))
    if not opened:
        raise UsageProblem(f"'{runs_dir}' has no finished run", hint="make some: assay run DATASET --model M")
    names = [run.manifest["dataset_id"] for run in opened]
    wanted = dataset or names[-1]
    runs = [run for run, name in zip(opened, names, strict=True) if name == wanted]
    if not runs:
        raise UsageProblem(f"no finished run is over '{wanted}'", hint=f"datasets here: {', '.join(sorted(set(names)))}")
    found = [point for point in (_point(run, measure) for run in runs) if point is not None]
    points = found if last is None else found[-last:]
    return RunTrend(
        dataset=wanted,
        measure=measure,
        points=tuple(points),
        trend=trend(np.array([point.value for point in points])),
        left_out=len(runs) - len(found),
    )


def _sealed(runs_dir: Path) -> Iterator[RunFolder]:
    for run_id in run_ids(runs_dir):
        folders = RunFolders(runs_dir, run_id)
        if folders.is_sealed:
            try:
                yield open_run_folder(folders.sealed)
            except AssayError:
                # A damaged run is shown by `assay runs`; here it must not hide the others.
                continue


def _point(run: RunFolder, measure: Measure) -> TrendPoint | None:
    try:
        summary = run.document("metrics_summary.json")
    except AssayError:
        return None
    name = "pass_rate" if measure == "pass_rate" else "raw_score_mean"
    value, interval = summary[name], summary[f"{name}_interval"] or {}
    if value is None or run.manifest["status"] == "cancelled":
        return None
    return TrendPoint(
        run_id=run.manifest["run_id"],
        created_at=run.manifest["created_at"],
        candidate=run.manifest["candidate"]["name"],
        n=summary["n_scored"],
        value=value,
        low=interval.get("low"),
        high=interval.get("high"),
    )
