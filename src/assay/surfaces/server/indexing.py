"""Indexes of finished runs, made beside the event loop: of small runs at once, of large ones in a process of their own."""

import multiprocessing
import threading
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any

from assay import api
from assay.core.errors import StoreUnavailable
from assay.surfaces.server.workshop import begin_worker

SMALL = 8 << 20
"""Bytes of artifacts up to which an index is made while its reader waits."""
_READ = ("predictions.jsonl", "attempt_logs.jsonl", "input_dataset.json", "cases.jsonl", "failures.jsonl")


class Indexer:
    """The indexes that are being made for one service."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pool: ProcessPoolExecutor | None = None
        self._making: dict[Path, Future[Any]] = {}

    def wait(self, run: api.Run, search: api.RecordSearch, seconds: float = 0.0) -> int | None:
        """None when all that a search needs is indexed, else how far it is in percent; raises what keeps it from being so."""
        waiting = [(folders.sealed, self._made(folders.sealed)) for folders in api.missing_indexes(run, search)]
        for run_dir, making in waiting:
            if making is not None and not self._is_done(run_dir, making, seconds):
                return min(api.index_progress(run_dir) for run_dir, making in waiting if making is not None)
        return None

    def prepare(self, run_dir: Path) -> None:
        """Begin to index a run that has just ended; nobody waits for it."""
        if not _is_small(run_dir):
            self._made(run_dir)

    def close(self) -> None:
        """Let the process go; what it has not finished is made again when it is looked for."""
        with self._lock:
            if self._pool is not None:
                self._pool.shutdown(wait=False, cancel_futures=True)

    def _made(self, run_dir: Path) -> "Future[Any] | None":
        if _is_small(run_dir):
            api.index_run(run_dir)
            return None
        with self._lock:
            making = self._making.get(run_dir)
            # One that was made and is gone again is made anew; one that could not be made tells its reader why.
            if making is None or (making.done() and making.exception() is None):
                making = self._making[run_dir] = self._started().submit(api.index_run, run_dir)
            return making

    def _started(self) -> ProcessPoolExecutor:
        if self._pool is None:
            # One task for each process: none stays behind, and none is forked while threads hold locks.
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
