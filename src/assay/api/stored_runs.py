"""Stored runs: list, open, verify, publish, fetch, replay, rescore, purge."""

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import get_args

import msgspec

from assay.core.canonical import JsonObject
from assay.core.errors import AssayError, RunNotFound, UsageProblem
from assay.core.retention import RetentionSettings, longest_retention, retention_in
from assay.core.run_result import RunListing, RunResult
from assay.core.runs import RUNS_DIR
from assay.core.settings import ProfileId
from assay.engine.comparison.matrix import RunMatrix
from assay.engine.finalization.recompute import differences
from assay.engine.readers.run_list import list_runs as listed_runs
from assay.engine.readers.run_list import result_of
from assay.engine.readers.run_reader import RunReader
from assay.engine.records.run_metrics import EVAL_RESULTS, why_no_eval_run
from assay.engine.rescore import RescoreRequest
from assay.engine.rescore import rescore as rescore_run
from assay.engine.storage.run_paths import (
    RunPaths,
    fetch_published,
    find_named_run,
    find_run,
    find_runs,
    folders_of,
    new_run_id,
    publish_sealed,
    run_ids,
)
from assay.metrics.golden import filled_in
from assay.store.published_run import PublishedRun, Tombstone, is_remote_address, open_remote_storage, open_run_folder
from assay.store.record_index import forget_index, progress_of
from assay.store.retention import purge_run, purgeable
from assay.store.verify import FileProblem, removed_artifacts, verify_place, verify_run

__all__ = [
    "PurgeResult",
    "RunGroup",
    "fetch",
    "file_problems",
    "filled_eval_run",
    "index_progress",
    "list_runs",
    "open_group",
    "open_run",
    "publish",
    "purge",
    "removed",
    "replay",
    "rescore",
    "run_id_of",
    "run_matrix",
    "sealed_folder",
    "sealed_run",
    "verify",
]


class PurgeResult(msgspec.Struct, frozen=True):
    """Result of a purge: what it removed from a run, or would remove."""

    run_id: str
    artifacts: tuple[str, ...] = ()
    problem: str = ""
    """Reason why nothing could be removed from this run."""
    cache_dir: str = ""
    """Cache folder that may still hold replies of the run: a cache belongs to no run, and is not purged. Empty without one."""


def filled_eval_run(run: RunReader) -> JsonObject:
    """Return the EvalRun of golden_v1 with numbers instead of nulls, listed in `filled_in`; raises RunNotFound without one."""
    path = run.artifacts().get(EVAL_RESULTS)
    if path is None:
        why = why_no_eval_run(run.run_manifest.settings)
        raise RunNotFound(
            f"run '{run.folders.run_id}' has no {EVAL_RESULTS}{f': {why}' if why else ''}",
            hint="runs over one golden_v1 dataset have one, unless they were cancelled",
        )
    return filled_in(msgspec.json.decode(path.read_bytes()))


def rescore(
    run_name: str,
    *,
    profile: ProfileId,
    compat: bool = False,
    min_score: float | None = None,
    runs_dir: str | Path = RUNS_DIR,
    run_id: str | None = None,
) -> RunResult:
    """Make a new run, linked to the old one, with the score that a profile gives its records; no model is called."""
    if profile not in get_args(ProfileId):
        raise UsageProblem(f"unknown profile '{profile}'", hint=f"profiles: {', '.join(get_args(ProfileId))}")
    parent = find_run(Path(runs_dir), run_name)
    target = folders_of(parent.runs_dir, new_run_id() if run_id is None else run_id)
    rescore_run(parent, target, wanted=RescoreRequest(profile=profile, compat=compat, min_score=min_score), at=time.time())
    return result_of(target)


def list_runs(runs_dir: str | Path = RUNS_DIR) -> Iterator[RunListing]:
    """List all runs of a folder, the newest first."""
    return listed_runs(Path(runs_dir))


def open_run(run_name: str, *, runs_dir: str | Path = RUNS_DIR) -> RunReader:
    """Open a run for reading, by its id, the beginning of one, `latest`, or the path of its folder; raises RunNotFound."""
    return RunReader(find_run(Path(runs_dir), run_name))


class RunGroup(msgspec.Struct, frozen=True):
    """Runs that were started together, or one run."""

    name: str
    """Common name of the runs; of one run its id."""
    runs: tuple[RunReader, ...]

    @property
    def is_several(self) -> bool:
        """True for more than one run."""
        return len(self.runs) > 1


def open_group(name: str, *, runs_dir: str | Path = RUNS_DIR) -> RunGroup:
    """Open the runs of a group by its name, or one run as `open_run` does; raises RunNotFound."""
    found = find_runs(Path(runs_dir), name)
    readers = tuple(map(RunReader, found))
    return RunGroup(name if len(found) > 1 else found[0].run_id, readers)


def run_matrix(runs: Sequence[RunReader]) -> RunMatrix:
    """Return the records of finished runs side by side; unfinished ones have no column."""
    return RunMatrix([open_run_folder(run.folders.sealed) for run in runs if run.folders.is_sealed])


def run_id_of(run_name: str, *, runs_dir: str | Path = RUNS_DIR) -> str:
    """Return the full id of the run that a name means, without reading its files. Raises RunNotFound."""
    return find_run(Path(runs_dir), run_name).run_id


def verify(run_name: str, *, runs_dir: str | Path = RUNS_DIR) -> list[str]:
    """List the artifacts of a finished run that differ from what was published, one line each; empty when there are none.

    The run may also lie in an object store: s3://bucket/prefix/run.
    """
    return list(map(str, file_problems(run_name, runs_dir=runs_dir)))


def file_problems(run_name: str, *, runs_dir: str | Path = RUNS_DIR) -> list[FileProblem]:
    """List the same problems with their files as values."""
    # An address has a scheme, which no run id can contain.
    if is_remote_address(run_name):
        return verify_place(open_remote_storage(run_name))
    return verify_run(_sealed(run_name, runs_dir).sealed)


def publish(run_name: str, address: str, *, runs_dir: str | Path = RUNS_DIR) -> str:
    """Write a finished run below an address of an object store, each file once and the manifest last; returns where it is.

    Repeating it changes nothing. Raises UsageProblem for a run that is not as it was published, RunSealed where another one is.
    """
    return publish_sealed(_sealed(run_name, runs_dir).sealed, address)


def fetch(address: str, *, runs_dir: str | Path = RUNS_DIR) -> RunReader:
    """Bring a finished run here from an object store, s3://bucket/prefix/run, checked against its manifest.

    Raises RunNotFound, RunDamaged for a run that was changed, RunSealed where another one of that id is, StoreUnavailable.
    """
    return RunReader(fetch_published(address, Path(runs_dir)))


def removed(run_name: str, *, runs_dir: str | Path = RUNS_DIR) -> tuple[Tombstone, ...]:
    """Return what retention has removed from a finished run: name, hash, time and reason of each artifact."""
    return removed_artifacts(_sealed(run_name, runs_dir).sealed)


def replay(run_name: str, *, runs_dir: str | Path = RUNS_DIR) -> list[str]:
    """Recompute every metric from the artifacts alone; one line for each that differs."""
    return differences(sealed_folder(run_name, runs_dir))


def sealed_folder(run_name: str, runs_dir: str | Path) -> PublishedRun:
    """Return the folder of a finished run; raises UsageProblem for one that has not ended."""
    return open_run_folder(_sealed(run_name, runs_dir).sealed)


def sealed_run(folders: RunPaths) -> PublishedRun:
    """Return the folder of a finished run by its paths; raises UsageProblem for one that has not ended."""
    return open_run_folder(_checked_sealed(folders).sealed)


def _sealed(run_name: str, runs_dir: str | Path) -> RunPaths:
    return _checked_sealed(find_run(Path(runs_dir), run_name))


def _checked_sealed(folders: RunPaths) -> RunPaths:
    if not folders.is_sealed:
        raise UsageProblem(f"run '{folders.run_id}' is unfinished", hint=f"resume it: assay resume {folders.run_id}")
    return folders


class _PurgeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Time of a purge, and the retention set by the environment."""

    now: float
    wanted: RetentionSettings


def purge(
    runs_dir: str | Path = RUNS_DIR,
    *,
    run_name: str | None = None,
    reason: str = "",
    is_dry: bool = False,
    now: float | None = None,
) -> list[PurgeResult]:
    """Remove artifacts whose time of retention is over; those of one run earlier, when its whole id and a reason are given.

    A run is kept as long as its manifest says, and longer where the environment does (ASSAY_RETENTION_RAW_DAYS, _AGGREGATE_DAYS).
    A run that cannot be read keeps none of the others from being purged; its entry says why nothing of it could be removed.
    """
    sweep = _PurgeOptions(now=time.time() if now is None else now, wanted=retention_in(os.environ))
    # Said before anything is removed, and not once for each run.
    longest_retention(sweep.wanted)
    if run_name is None:
        folders = (RunPaths(Path(runs_dir), run_id) for run_id in run_ids(Path(runs_dir)))
        # Unfinished runs have nothing that retention is about.
        swept = (_purge_expired(folder.sealed, sweep, is_dry=is_dry) for folder in folders if folder.is_sealed)
        return [entry for entry in swept if entry.artifacts or entry.problem]
    if reason:
        # The whole id: a prefix that means one run today may mean another tomorrow.
        find_named_run(Path(runs_dir), run_name)
    folder = _sealed(run_name, runs_dir).sealed
    if is_dry:
        found = PurgeResult(folder.name, tuple(purgeable(folder, now=sweep.now, wanted=sweep.wanted, force=bool(reason))))
    else:
        found = _purge_run(folder, sweep, reason=reason)
    return [msgspec.structs.replace(found, cache_dir=open_run_folder(folder).manifest.plan.cache_dir)]


def _purge_expired(folder: Path, sweep: _PurgeOptions, *, is_dry: bool) -> PurgeResult:
    try:
        expired = purgeable(folder, now=sweep.now, wanted=sweep.wanted)
        return PurgeResult(folder.name, tuple(expired)) if is_dry or not expired else _purge_run(folder, sweep)
    except AssayError as problem:
        return PurgeResult(folder.name, problem=problem.message)


def _purge_run(folder: Path, sweep: _PurgeOptions, *, reason: str = "") -> PurgeResult:
    tombstones = purge_run(folder, now=sweep.now, wanted=sweep.wanted, force=bool(reason), reason=reason)
    # The index holds texts of the artifacts, so it goes with them.
    forget_index(folder)
    return PurgeResult(folder.name, tuple(tombstone.name for tombstone in tombstones))


def index_progress(run_dir: Path) -> int:
    """Return the progress of a finished run's index in percent, while a process writes it."""
    return progress_of(run_dir)
