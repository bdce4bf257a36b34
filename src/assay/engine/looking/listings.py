"""The list of runs for somebody who asks again and again: what cannot change is read once."""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from math import inf
from pathlib import Path

import msgspec

from assay.core.input_document import MANIFEST
from assay.core.run_result import RunListing
from assay.engine.looking.shared_runs import SharedRuns
from assay.engine.places.folders import RunFolders, active_names
from assay.engine.runs import listing_of
from assay.store.ledgers import Looks


class _Kept(msgspec.Struct, frozen=True):
    """A finished run as it was read, and what its folder looked like."""

    stamp: tuple[int, int]
    listing: RunListing


class Listings:
    """The runs of a folder and of a shared ledger; a finished one is read again only when its folder has changed."""

    def __init__(self, runs_dir: Path, shared: SharedRuns | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._runs_dir = runs_dir
        self._shared = shared
        self._clock = clock
        self._kept: dict[str, _Kept] = {}
        self._last: tuple[float, list[RunListing]] = (-inf, [])

    def newest_first(self, *, max_age: float = 0.0) -> list[RunListing]:
        """All runs; damaged ones, whose time is not known, come last. Who looks often may take a list of some seconds ago."""
        if self._clock() - self._last[0] >= max_age:
            self._last = (self._clock(), self._read())
        return self._last[1]

    def _read(self) -> list[RunListing]:
        # In this order: a run that is sealed at this very moment is among the first or among the second, or among both.
        shared = {} if self._shared is None else self._shared.listings()
        active = active_names(self._runs_dir)
        stamps, looks = self._stamps(), Looks()
        found = [self._sealed(name, stamp, looks) for name, stamp in stamps.items()]
        found += [listing for name, listing in shared.items() if name not in stamps]
        found += [listing_of(RunFolders(self._runs_dir, name), looks) for name in active - stamps.keys() - shared.keys()]
        self._kept = {name: self._kept[name] for name in stamps if name in self._kept}
        return sorted(found, key=lambda listing: (listing.created_at, listing.run_id), reverse=True)

    def _stamps(self) -> dict[str, tuple[int, int]]:
        """What the folders of finished runs look like; two looks at each, because there may be thousands."""
        stamps: dict[str, tuple[int, int]] = {}
        with suppress(FileNotFoundError), os.scandir(self._runs_dir) as entries:
            for entry in entries:
                with suppress(OSError):
                    manifest = os.stat(f"{entry.path}/{MANIFEST}")  # noqa: PTH116  # a path object costs more than the look
                    stamps[entry.name] = (entry.stat().st_mtime_ns, manifest.st_mtime_ns)
        return stamps

    def _sealed(self, name: str, stamp: tuple[int, int], looks: Looks) -> RunListing:
        kept = self._kept.get(name)
        if kept is None or kept.stamp != stamp:
            kept = _Kept(stamp, listing_of(RunFolders(self._runs_dir, name), looks))
            self._kept[name] = kept
        return kept.listing
