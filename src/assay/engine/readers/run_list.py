"""Cached list of runs for frequent callers: what cannot change is read once."""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from math import inf
from pathlib import Path

import msgspec

from assay.core.input_document import MANIFEST
from assay.core.run_result import RunListing
from assay.engine.readers.shared_runs import SharedRuns
from assay.engine.runs import listing_of
from assay.engine.storage.run_paths import RunPaths, active_names
from assay.store.ledgers import LedgerOpener


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
