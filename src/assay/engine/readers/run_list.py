"""Lists of runs: cached for frequent callers, and those of a shared ledger."""

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from math import inf
from pathlib import Path

import msgspec

from assay.core.contract import MANIFEST, dataset_file
from assay.core.errors import AssayError
from assay.core.plan import read_plan
from assay.core.run_result import RunListing
from assay.core.runs import TERMINAL
from assay.core.text import iso
from assay.engine.runs import final_counts, listing_of
from assay.engine.storage.remote_store import STORE, not_here_error
from assay.engine.storage.run_failure import RunFailure, noted_failure
from assay.engine.storage.run_paths import RunPaths, active_names, could_be_run_id
from assay.store.ledger import FAILURE, RunStatusRow
from assay.store.ledgers import LedgerOpener, adopt, shared_catalogue, shared_ledgers

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
        dataset_file=dataset_file(msgspec.structs.asdict(decoded.datasets[0])),
        dataset_count=len(decoded.datasets),
        candidate=decoded.candidate.name,
        judges=tuple(judge.name for judge in decoded.judges),
        project=decoded.project,
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
