"""Validation off the event loop: small bodies in a thread, large ones in a process of their own, a few at a time."""

import asyncio
import gc
import logging
import multiprocessing
import os
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import ParamSpec, TypeVar

from assay.surfaces.server.errors import RETRY_SECONDS, HttpError
from assay.surfaces.server.fair_semaphore import FairSemaphore

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
        """What a function makes of an upload of so many bytes; the function and its arguments can be sent to another process."""
        if size < LARGE:
            async with self._small.turn(caller):
                return await asyncio.wrap_future(self._threads.submit(work, *arguments, **named))
        async with self._large.turn(caller):
            for _ in range(TRIES):
                pool = self._pool = self._pool or _new_pool()
                try:
                    return await asyncio.wrap_future(pool.submit(work, *arguments, **named))
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
        self._threads.shutdown(wait=False, cancel_futures=True)
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)


_WORKERS = max(1, min(2, os.cpu_count() or 1))
_THREADS = 4


def _new_pool() -> ProcessPoolExecutor:
    # Not forked: threads of this process may hold locks.
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(_WORKERS, mp_context=context, initializer=begin_worker, max_tasks_per_child=20)


def begin_worker() -> None:
    """Prepare a worker as the command does: freeze long-lived objects for the garbage collector, and end with the server."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(50_000, 20, 20)


def _end_with_parent() -> None:
    """Killed servers cannot stop their workers, so a worker watches its parent."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
