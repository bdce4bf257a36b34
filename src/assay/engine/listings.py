"""The list of runs for somebody who asks again and again: what cannot change is read once."""

import time
from collections.abc import Callable
from math import inf
from pathlib import Path

import msgspec

from assay.core.run_result import RunListing
from assay.engine.folders import RunFolders, run_names
from assay.engine.runs import listing_of
from assay.store.artifacts import MANIFEST


class _Kept(msgspec.Struct, frozen=True):
    """A finished run as it was read, and what its folder looked like."""

    stamp: tuple[int, int]
    listing: RunListing


class Listings:
    """The runs of a folder; a finished run is read again only when its folder has changed, as retention does it."""

    def __init__(self, runs_dir: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._runs_dir = runs_dir
        self._clock = clock
        self._kept: dict[str, _Kept] = {}
        self._last: tuple[float, list[RunListing]] = (-inf, [])

    def newest_first(self, *, max_age: float = 0.0) -> list[RunListing]:
        """All runs; damaged ones, whose time is not known, come last. Who looks often may take a list of some seconds ago."""
        if self._clock() - self._last[0] >= max_age:
            self._last = (self._clock(), self._read())
        return self._last[1]

    def _read(self) -> list[RunListing]:
        names = run_names(self._runs_dir)
        found = [self._listing(RunFolders(self._runs_dir, name)) for name in names]
        self._kept = {name: self._kept[name] for name in names if name in self._kept}
        return sorted(found, key=lambda listing: (listing.created_at, listing.run_id), reverse=True)

    def _listing(self, folders: RunFolders) -> RunListing:
        if not folders.is_sealed:
            return listing_of(folders)
        folder, manifest = folders.sealed.stat(), (folders.sealed / MANIFEST).stat()
        stamp = (folder.st_mtime_ns, manifest.st_mtime_ns)
        kept = self._kept.get(folders.run_id)
        if kept is None or kept.stamp != stamp:
            kept = _Kept(stamp, listing_of(folders))
            self._kept[folders.run_id] = kept
        return kept.listing
