"""Work off the event loop: validation of uploads and indexes of finished runs, in threads and processes."""

import asyncio
import gc
import logging
import multiprocessing
import os
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from assay import api
from assay.core.errors import StoreUnavailable
from assay.surfaces.server.concurrency import FairSemaphore
from assay.surfaces.server.errors import RETRY_SECONDS, HttpError

LARGE = 4 << 20
"""Bytes from which a separate process is used, which keeps the event loop free and returns all memory."""
TRIES = 2
"""Maximum starts for an upload whose process was killed: the second time the upload itself may be too much for the machine."""
P = ParamSpec("P")
T = TypeVar("T")
log = logging.getLogger("assay.server")


class ValidationPool:
    """Pool of threads and processes that validate uploads."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None
        self._large = FairSemaphore(_WORKERS)
        self._small = FairSemaphore(_THREADS)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="validation")

    async def run(self, caller: str, size: int, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Call a function for an upload of this size, in a process if it is large; function and arguments must be picklable."""
        # Small uploads stay in threads: starting a process takes longer than validating them.
        if size < LARGE:
            async with self._small.slot(caller):
                return await asyncio.wrap_future(self._threads.submit(work, *arguments, **named))
        async with self._large.slot(caller):
            for _ in range(TRIES):
                # Read again in each round: another upload may have replaced a broken pool meanwhile.
                pool = self._pool = self._pool or _new_pool()
                try:
                    return await asyncio.wrap_future(pool.submit(work, *arguments, **named))
                # The system kills a process that takes too much memory, and with it breaks the whole pool.
                except BrokenProcessPool as problem:
                    log.warning("a process that validates was killed: %s", problem)
                    if self._pool is pool:
                        self._pool = None
        raise HttpError(
            503,
            "the process that validated this was killed; the machine may lack memory",
            headers={"Retry-After": str(RETRY_SECONDS)},
        )

    def close(self) -> None:
        """Stop the threads and processes."""
        # Without waiting: what is still validated is for requests that are already gone.
        self._threads.shutdown(wait=False, cancel_futures=True)
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)


_WORKERS = max(1, min(2, os.cpu_count() or 1))
_THREADS = 4


def _new_pool() -> ProcessPoolExecutor:
    # Not forked: threads of this process may hold locks.
    context = multiprocessing.get_context("spawn")
    # Twenty tasks for each process: memory that the allocator keeps goes back to the system from time to time.
    return ProcessPoolExecutor(_WORKERS, mp_context=context, initializer=begin_worker, max_tasks_per_child=20)


def begin_worker() -> None:
    """Prepare a worker as the command does: freeze long-lived objects for the garbage collector, and end with the server."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # Validation does not use linear algebra, whose threads cost memory in each process.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Validation makes many long-lived values; the default threshold would search them for cycles every 700 objects.
    gc.set_threshold(50_000, 20, 20)


def _end_with_parent() -> None:
    """End this worker when its parent ends; a killed server cannot stop its workers."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    # Waits on the pipe to the parent, which also ends when the parent is killed.
    parent.join()
    os._exit(1)


SMALL = 8 << 20
"""Maximum bytes of artifacts for which the reader waits for the index."""
_READ = ("predictions.jsonl", "attempt_logs.jsonl", "input_dataset.json", "cases.jsonl", "failures.jsonl")


class RecordIndexer:
    """Indexes that one service is building."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pool: ProcessPoolExecutor | None = None
        self._making: dict[Path, Future[Any]] = {}

    def wait(self, run: api.RunReader, search: api.RecordSearch, seconds: float = 0.0) -> int | None:
        """Return None when everything for a search is indexed, else the progress in percent; raises what prevents indexing."""
        waiting = [(folders.sealed, self._made(folders.sealed)) for folders in api.missing_indexes(run, search)]
        for run_dir, making in waiting:
            if making is not None and not self._is_done(run_dir, making, seconds):
                # The search waits for all its indexes, so the one that is least complete says how long.
                return min(api.index_progress(run_dir) for run_dir, making in waiting if making is not None)
        return None

    def prepare(self, run_dir: Path) -> None:
        """Start to index a run that has just ended, without waiting."""
        # Small ones are indexed by the first search that needs them.
        if not _is_small(run_dir):
            self._made(run_dir)

    def close(self) -> None:
        """End the process; an unfinished index is built again when a search needs it."""
        with self._lock:
            if self._pool is not None:
                self._pool.shutdown(wait=False, cancel_futures=True)

    def _made(self, run_dir: Path) -> "Future[Any] | None":
        if _is_small(run_dir):
            # Made by the caller itself, which takes less time than starting a process.
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
                # Forgotten when done, so that an index that was removed is built again by the next search.
                self._forget(run_dir)
        return True

    def _forget(self, run_dir: Path, *, is_broken: bool = False) -> None:
        with self._lock:
            self._making.pop(run_dir, None)
            if is_broken:
                self._pool = None


def _is_small(run_dir: Path) -> bool:
    return sum((run_dir / name).stat().st_size for name in _READ if (run_dir / name).is_file()) <= SMALL
