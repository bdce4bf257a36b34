"""Results and list entries of runs, sealed or under way, and a list of all runs for clients that follow it."""

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import TypeVar

import msgspec

from assay.core.canonical import JsonObject
from assay.core.contract import MANIFEST
from assay.core.errors import (
    AssayError,
    LedgerUnavailable,
    MissingExtra,
    ProviderRejected,
    RunNotFound,
    StoreUnavailable,
)
from assay.core.manifest import Manifest
from assay.core.plan import Plan, read_plan
from assay.core.run_result import RunListing, RunResult
from assay.core.runs import TERMINAL, UNDER_WAY, RunCounts, count_records
from assay.core.settings import Gates
from assay.core.summary import METRICS, GateResult, Interval, RunKind, Summary
from assay.core.text import iso
from assay.engine.execution.states import COUNTS, run_status
from assay.engine.records.redaction import redactor_of
from assay.engine.storage.run_failure import RunFailure, failure_of, noted_failure
from assay.engine.storage.run_paths import (
    SEALED_IN,
    STORE,
    RunPaths,
    active_names,
    could_be_run_id,
    not_here_error,
    run_ids,
)
from assay.metrics.gates import cancelled_reason
from assay.store.batch_store import NOTE as BATCHES
from assay.store.batch_store import BatchRow
from assay.store.ledger import FAILURE, Ledger, RunRow, RunStatusRow
from assay.store.ledgers import LedgerOpener, adopt, is_own, shared_catalogue, shared_ledgers
from assay.store.lock import RunLock
from assay.store.published_run import PublishedRun, open_run_folder

T = TypeVar("T")
TEMPORAL = "temporal"
"""Note in the ledger with the Temporal server whose workers evaluate the run."""
PROBLEM = "problem"
"""Note in the ledger with the problem that keeps workers from continuing the run."""


def result_of(folders: RunPaths) -> RunResult:
    """Return the run's present result."""
    return _sealed_or_active(folders, _sealed_result, _active_result)


def _sealed_or_active(folders: RunPaths, sealed: Callable[[RunPaths], T], active: Callable[[RunPaths], T]) -> T:
    if not folders.is_sealed:
        try:
            return active(folders)
        except (RunNotFound, StoreUnavailable):
            # Another process may have sealed it at this very moment.
            if not folders.is_sealed:
                raise
    return sealed(folders)


def _gate(manifest: Manifest) -> GateResult:
    """Return the gate result; the first versions let a cancelled run pass when its evaluated part met the gates."""
    if manifest.status == "cancelled" and manifest.gate.passed:
        return GateResult(False, (cancelled_reason(manifest.counts.evaluated_records, manifest.counts.total_records),))
    return manifest.gate


def _metrics(run: PublishedRun) -> dict[str, object]:
    """Return the metrics summary; empty when it was removed by retention."""
    # Retention may remove metrics; the list still shows the run by its manifest.
    if any(tombstone.name == METRICS for tombstone in run.removed()):
        return {}
    metrics: JsonObject = run.document(METRICS)
    return metrics


def _sealed_result(folders: RunPaths) -> RunResult:
    run = open_run_folder(folders.sealed)
    manifest = run.manifest
    return RunResult(
        run_id=manifest.run_id,
        state=manifest.status,
        run_dir=str(folders.sealed),
        counts=manifest.counts,
        metrics=_metrics(run),
        gate=_gate(manifest),
        candidate=manifest.candidate.name,
        blocked=manifest.blocked or "",
    )


def _read_status(ledger: Ledger) -> tuple[RunRow, dict[str, int]]:
    """Return the row of an unsealed run and its records by status."""
    try:
        return run_status(ledger)
    finally:
        ledger.close()


def _active_result(folders: RunPaths) -> RunResult:
    row, by_status = _read_status(folders.open_ledger())
    plan = read_plan(row.plan)
    is_away = row.state in TERMINAL
    failure = failure_of(row, folders.active)
    # Records without an outcome count as skipped until they have one, as in a run that ends now.
    opened = by_status.pop("open", 0)
    counts = count_records({**by_status, "skipped": by_status.get("skipped", 0) + opened})
    return RunResult(
        run_id=plan.run_id,
        state=row.state if failure is None else "failed",
        run_dir=row.notes.get(SEALED_IN, "") if is_away else str(folders.active),
        counts=counts,
        metrics={},
        gate=GateResult(False, (_open_reason(folders, row, failure),)),
        candidate=plan.candidate.name,
        is_elsewhere=TEMPORAL in row.notes,
        is_away=is_away,
        problem=_shown_problem(row, failure, plan),
        blocked=_blocked(row, failure, plan),
        is_resumable=failure is not None,
        waiting=_waiting(row),
        driver=_driver(folders),
        is_interrupted=failure is None and _is_interrupted(row, folders),
    )


def _open_reason(folders: RunPaths, row: RunRow, failure: RunFailure | None) -> str:
    if row.state in TERMINAL:
        return not_here_error(folders.run_id, row.notes).message
    return "the run has not ended" if failure is None else "the run has failed"


def _shown_problem(row: RunRow, failure: RunFailure | None, plan: Plan) -> str:
    """Return why the run failed, or what keeps workers from continuing, without secrets that a provider may echo."""
    return row.notes.get(PROBLEM, "") if failure is None else redactor_of(plan, os.environ).text(failure.message)


def _blocked(row: RunRow, failure: RunFailure | None, plan: Plan) -> str:
    """Return why a provider rejects all calls."""
    is_rejected = failure is not None and failure.code == ProviderRejected.code
    return _shown_problem(row, failure, plan) if is_rejected else row.notes.get("blocked", "")


def _driver(folders: RunPaths) -> int | None:
    lock = RunLock(folders.active)
    # A lock that is free may still name the process that died with it.
    return lock.holder() if lock.is_held() else None


def _is_interrupted(row: RunRow, folders: RunPaths) -> bool:
    """Return True when no process works on a run in progress; False also when only another machine could know.

    A run that waits for a provider is not interrupted, and the process that seals a run holds its lock until the end.
    """
    # The folder of a run from another machine has no lock that could be asked.
    is_under_way = row.state in UNDER_WAY and not _waiting(row) and is_own(folders.active)
    return is_under_way and not RunLock(folders.active).is_held() and not folders.is_sealed


def final_counts(notes: Mapping[str, str]) -> RunCounts:
    """Return the counts of a finished run from a shared ledger's notes."""
    return count_records(msgspec.json.decode(notes.get(COUNTS, "{}"), type=dict[str, int]))


def project_of(folders: RunPaths) -> str:
    """Return a run's project without fetching the run from another machine; raises RunDamaged, StoreUnavailable."""
    return _sealed_or_active(folders, _sealed_project, _active_project)


def _sealed_project(folders: RunPaths) -> str:
    return open_run_folder(folders.sealed).manifest.plan.project


def _active_project(folders: RunPaths) -> str:
    ledger = folders.open_ledger()
    try:
        return read_plan(ledger.run().plan).project
    finally:
        ledger.close()


def list_runs(runs_dir: Path) -> Iterator[RunListing]:
    """Return all runs, the newest first."""
    opener = LedgerOpener()
    # One opener for all runs: an unreachable shared ledger is waited for once, and not once per run.
    for run_id in reversed(run_ids(runs_dir, opener)):
        yield listing_of(RunPaths(runs_dir, run_id), opener)


def listing_of(folders: RunPaths, opener: LedgerOpener) -> RunListing:
    """Return the list entry of a run; an unreadable run gets one too, so that it hides neither itself nor others."""
    try:
        return _sealed_or_active(folders, _sealed_listing, lambda folders: _active_listing(folders, opener))
    except (LedgerUnavailable, MissingExtra, RunNotFound) as problem:
        return RunListing(run_id=folders.run_id, state="unreachable", note=problem.message)
    except AssayError as problem:
        return RunListing(run_id=folders.run_id, state="damaged", note=problem.message)


def _sealed_listing(folders: RunPaths) -> RunListing:
    run = open_run_folder(folders.sealed)
    manifest, plan = run.manifest, run.manifest.plan
    summary, note = _listed_summary(run)
    return RunListing(
        run_id=folders.run_id,
        state=manifest.status,
        created_at=manifest.created_at,
        dataset=manifest.dataset_id,
        dataset_version=manifest.dataset_version,
        dataset_file=plan.datasets[0].source_file if plan.datasets else "",
        dataset_count=len(plan.datasets),
        candidate=manifest.candidate.name,
        judges=tuple(judge.name for judge in manifest.judges),
        total_records=manifest.counts.total_records,
        done_records=manifest.counts.total_records,
        **({} if summary is None else {**_listed_rate(summary), **_listed_score(summary)}),
        # Without any gate "passed" would claim a check that never took place.
        passed=manifest.gate.passed if plan.gates != Gates() and manifest.status != "cancelled" else None,
        has_no_result=manifest.status == "cancelled" or not manifest.counts.evaluated_records,
        note=note,
        project=plan.project,
        group=plan.group or "",
    )


def _listed_rate(summary: Summary) -> dict[str, object]:
    """Return the pass rate with its interval and the cost of the calls, as members of a list entry."""
    rate = summary.pass_rate_metric
    return {
        "scored_records": rate.n,
        "pass_rate": rate.value,
        "pass_rate_interval": _ends(rate.interval),
        "cost_usd": summary.cost_usd.sum,
        "unpriced_records": summary.cost_usd.n_unknown,
    }


def _listed_score(summary: Summary) -> JsonObject:
    """Return the headline metric of a run: its profile's, or else the mean; a ranking has none."""
    profile = summary.profile
    if profile is not None:
        interval = _ends(profile.metric.interval)
        return {"score": profile.headline, "scored_by": profile.name, "scale": profile.scale, "score_interval": interval}
    if summary.score_mean is None or summary.kind is RunKind.RANKING:
        return {}
    # Scores of several scales have a mean only where each is normalized to 0-1.
    mean = summary.score_mean_metric if summary.raw_score_mean is None else summary.raw_score_mean_metric
    return {"score": mean.value, "score_interval": _ends(mean.interval), "scored_by": "mean", "scale": summary.scale or "0-1"}


def _ends(interval: Interval | None) -> tuple[float, float] | None:
    return None if interval is None else (interval.low, interval.high)


def _listed_summary(run: PublishedRun) -> tuple[Summary | None, str]:
    """Return the metrics if there are any, with the reason why they or the records are missing."""
    removed = {tombstone.name for tombstone in run.removed()}
    if removed:
        what = "its metrics were" if METRICS in removed else "its records were"
        return (None if METRICS in removed else run.summary()), f"{what} removed by retention"
    try:
        return run.summary(), ""
    except (RunNotFound, StoreUnavailable) as problem:
        return None, problem.message


def _active_listing(folders: RunPaths, opener: LedgerOpener) -> RunListing:
    row, by_status = _read_status(opener.open(folders.active))
    plan = read_plan(row.plan)
    failure = failure_of(row, folders.active)
    total = sum(by_status.values())
    return RunListing(
        run_id=plan.run_id,
        state=row.state if failure is None else "failed",
        created_at=iso(row.states[0][1]),
        dataset=plan.datasets[0].dataset_id,
        dataset_version=plan.datasets[0].dataset_version,
        dataset_file=plan.datasets[0].source_file,
        dataset_count=len(plan.datasets),
        candidate=plan.candidate.name,
        judges=tuple(judge.name for judge in plan.judges),
        total_records=total,
        done_records=total - by_status.get("open", 0),
        is_interrupted=failure is None and _is_interrupted(row, folders),
        is_resumable=failure is not None,
        note=_shown_problem(row, failure, plan) or _waiting(row),
        project=plan.project,
        group=plan.group or "",
    )


def _waiting(row: RunRow) -> str:
    """Describe the batches that an unfinished run waits for at a provider, as last polled."""
    rows = msgspec.json.decode(row.notes.get(BATCHES, "[]"), type=list[BatchRow])
    waiting = [batch for batch in rows if batch.state in ("submitting", "submitted")]
    if not waiting:
        return ""
    requests = sum(batch.requests for batch in waiting)
    return f"waits for {'1 batch' if len(waiting) == 1 else f'{len(waiting)} batches'} with {requests:,} requests"


POLL_SECONDS = 1.0
"""Minimum seconds between two polls for the runs that clients follow."""
WATCH_SECONDS = 10.0
"""Seconds without a request after which a run is no longer polled."""


class SharedRuns:
    """Catalogue of the runs in one shared ledger; thread-safe."""

    def __init__(self, address: str, runs_dir: Path) -> None:
        self.address = address
        self._runs_dir = runs_dir
        # Opening creates missing tables.
        shared_ledgers(address).close()
        self._catalogue = shared_catalogue(address)
        self._plans: dict[str, RunListing] = {}
        self._lock = threading.Lock()
        self._last_asked: dict[str, float] = {}
        self._polled_at = -POLL_SECONDS
        self._marks: dict[str, str] = {}

    def adopt(self, run_id: str) -> bool:
        """Add a run of the ledger to the local folder of runs; return False when the ledger has no such run."""
        # The id becomes the name of a folder, and may come from a request.
        if not could_be_run_id(run_id) or not self._catalogue.has(run_id):
            return False
        folders = RunPaths(self._runs_dir, run_id)
        if not folders.exists:
            adopt(folders.active, self.address)
        return True

    def check(self) -> None:
        """Raise StoreUnavailable when the ledger does not answer."""
        self._catalogue.has("")

    def standing(self, run_id: str) -> RunStatusRow | None:
        """Return the current status of a run of the ledger."""
        return next(iter(self._catalogue.standings([run_id])), None)

    def listings(self) -> dict[str, RunListing]:
        """Return all runs of the ledger by id; plans are immutable and read once."""
        rows = self._catalogue.standings()
        with self._lock:
            new = [row.run_id for row in rows if row.run_id not in self._plans]
            for run_id, plan in self._catalogue.plans(new).items() if new else ():
                self._plans[run_id] = _listing_of_plan(run_id, plan)
            return {row.run_id: _listing(row, self._plans[row.run_id]) for row in rows if row.run_id in self._plans}

    def mark(self, run_id: str) -> str:
        """Return a mark that changes with the run's state, at most POLL_SECONDS old: one query serves all followed runs."""
        with self._lock:
            now = time.monotonic()
            is_new = run_id not in self._last_asked
            self._last_asked[run_id] = now
            if is_new or now - self._polled_at >= POLL_SECONDS:
                # Followers leave without a word; their runs are dropped when no request has asked for a while.
                self._last_asked = {watched: at for watched, at in self._last_asked.items() if now - at < WATCH_SECONDS}
                self._marks = {row.run_id: _state_mark(row) for row in self._catalogue.standings(self._last_asked)}
                self._polled_at = now
            return self._marks.get(run_id, "")

    def close(self) -> None:
        """Close the connection."""
        self._catalogue.close()


def _listing_of_plan(run_id: str, plan: bytes) -> RunListing:
    """Return the list entry that a plan gives its run; an unreadable plan is listed as damaged, so that no run is hidden."""
    try:
        decoded = read_plan(plan)
    except (AssayError, msgspec.DecodeError) as problem:
        return RunListing(run_id=run_id, state="damaged", note=f"its plan cannot be read: {problem}")
    return RunListing(
        run_id=run_id,
        state="queued",
        dataset=decoded.datasets[0].dataset_id,
        dataset_version=decoded.datasets[0].dataset_version,
        dataset_file=decoded.datasets[0].source_file,
        dataset_count=len(decoded.datasets),
        candidate=decoded.candidate.name,
        judges=tuple(judge.name for judge in decoded.judges),
        project=decoded.project,
        group=decoded.group or "",
    )


def _listing(row: RunStatusRow, planned: RunListing) -> RunListing:
    if planned.state == "damaged":
        return planned
    is_over = row.state in TERMINAL
    failure = noted_failure(row.notes) if not is_over else None
    total = final_counts(row.notes).total_records if is_over else row.records
    return msgspec.structs.replace(
        planned,
        state=row.state if failure is None else "failed",
        is_resumable=failure is not None,
        created_at=iso(row.created_at),
        total_records=total,
        done_records=total if is_over else row.done,
        note=not_here_error(row.run_id, row.notes).message if is_over and STORE not in row.notes else _why_stopped(row, failure),
    )


def _why_stopped(row: RunStatusRow, failure: RunFailure | None) -> str:
    if row.state in TERMINAL:
        return ""
    return row.problem if failure is None else failure.message


def _state_mark(row: RunStatusRow) -> str:
    return f"{row.state} {row.records} {row.done} {row.is_driven} {row.problem} {row.notes.get(FAILURE, '')}"


class _CachedRun(msgspec.Struct, frozen=True):
    """A finished run's list entry, with the modification times for which it is valid."""

    stamp: tuple[int, int]
    listing: RunListing


class RunListCache:
    """List of the runs of a folder and a shared ledger; a finished run is read again only when its folder has changed."""

    def __init__(self, runs_dir: Path, shared: SharedRuns | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._runs_dir = runs_dir
        self._shared = shared
        self._clock = clock
        self._cache: dict[str, _CachedRun] = {}
        self._last: tuple[float, list[RunListing]] = (-inf, [])

    def newest_first(self, *, max_age: float = 0.0) -> list[RunListing]:
        """Return all runs, damaged ones last; frequent callers may accept a list of up to `max_age` seconds ago."""
        if self._clock() - self._last[0] >= max_age:
            self._last = (self._clock(), self._read())
        return self._last[1]

    def _read(self) -> list[RunListing]:
        # Unfinished runs are listed before finished ones: a run that is sealed in between is then in at least one list.
        shared = {} if self._shared is None else self._shared.listings()
        active = active_names(self._runs_dir)
        stamps, ledgers = self._stamps(), LedgerOpener()
        listings = [self._finished_run(name, stamp, ledgers) for name, stamp in stamps.items()]
        listings += [listing for name, listing in shared.items() if name not in stamps]
        listings += [listing_of(RunPaths(self._runs_dir, name), ledgers) for name in active - stamps.keys() - shared.keys()]
        # Entries of removed runs go, or the cache of a server would grow for ever.
        self._cache = {name: self._cache[name] for name in stamps if name in self._cache}
        return sorted(listings, key=lambda listing: (listing.created_at, listing.run_id), reverse=True)

    def _stamps(self) -> dict[str, tuple[int, int]]:
        """Return the modification times of finished runs' folders and manifests: two `stat` calls per run, of which there may be
        thousands."""
        stamps: dict[str, tuple[int, int]] = {}
        with suppress(FileNotFoundError), os.scandir(self._runs_dir) as entries:
            for entry in entries:
                with suppress(OSError):
                    manifest = os.stat(f"{entry.path}/{MANIFEST}")  # noqa: PTH116  # a path object costs more than the call
                    stamps[entry.name] = (entry.stat().st_mtime_ns, manifest.st_mtime_ns)
        return stamps

    def _finished_run(self, name: str, stamp: tuple[int, int], ledgers: LedgerOpener) -> RunListing:
        cached = self._cache.get(name)
        if cached is None or cached.stamp != stamp:
            cached = _CachedRun(stamp, listing_of(RunPaths(self._runs_dir, name), ledgers))
            self._cache[name] = cached
        return cached.listing
