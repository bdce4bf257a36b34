"""Indexes of finished runs, built off the event loop: small runs at once, large ones in a separate process."""

import multiprocessing
import threading
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any

from assay import api
from assay.core.errors import StoreUnavailable
from assay.surfaces.server.validation_pool import begin_worker

SMALL = 8 << 20
"""Maximum bytes of artifacts for which the reader waits for the index."""
_READ = ("predictions.jsonl", "attempt_logs.jsonl", "input_dataset.json", "cases.jsonl", "failures.jsonl")


class Indexer:
    """The indexes that one service is building."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pool: ProcessPoolExecutor | None = None
        self._making: dict[Path, Future[Any]] = {}

    def wait(self, run: api.RunReader, search: api.RecordSearch, seconds: float = 0.0) -> int | None:
        """Return None when everything for a search is indexed, else the progress in percent; raises what prevents indexing."""
        waiting = [(folders.sealed, self._made(folders.sealed)) for folders in api.missing_indexes(run, search)]
        for run_dir, making in waiting:
            if making is not None and not self._is_done(run_dir, making, seconds):
                return min(api.index_progress(run_dir) for run_dir, making in waiting if making is not None)
        return None

    def prepare(self, run_dir: Path) -> None:
        """Start to index a run that has just ended, without waiting."""
        if not _is_small(run_dir):
            self._made(run_dir)

    def close(self) -> None:
        """End the process; an unfinished index is built again when a search needs it."""
        with self._lock:
            if self._pool is not None:
                self._pool.shutdown(wait=False, cancel_futures=True)

    def _made(self, run_dir: Path) -> "Future[Any] | None":
        if _is_small(run_dir):
            api.index_run(run_dir)
            return None
        with self._lock:
            making = self._making.get(run_dir)
            # A removed index is built again; a failed one is reported to its reader.
            if making is None or (making.done() and making.exception() is None):
                making = self._making[run_dir] = self._started().submit(api.index_run, run_dir)
            return making

    def _started(self) -> ProcessPoolExecutor:
        if self._pool is None:
            # One task per process: no process is left behind, and none is forked while threads hold locks.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(1, mp_context=context, initializer=begin_worker, max_tasks_per_child=1)
        return self._pool

    def _is_done(self, run_dir: Path, making: "Future[Any]", seconds: float) -> bool:
        try:
            making.result(seconds)
        except TimeoutError:
            return False
        except BrokenExecutor as problem:
            self._forget(run_dir, is_broken=True)
            raise StoreUnavailable("the process that indexes records has ended", hint="try again") from problem
        finally:
            if making.done():
                self._forget(run_dir)
        return True

    def _forget(self, run_dir: Path, *, is_broken: bool = False) -> None:
        with self._lock:
            self._making.pop(run_dir, None)
            if is_broken:
                self._pool = None


def _is_small(run_dir: Path) -> bool:
    return sum((run_dir / name).stat().st_size for name in _READ if (run_dir / name).is_file()) <= SMALL
