"""Validation beside the event loop: small bodies in a thread, large ones in a process of their own, a few at a time."""

import asyncio
import gc
import multiprocessing
import os
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import ParamSpec, TypeVar

LARGE = 4 << 20
"""Bytes from which another process keeps the event loop free and gives all memory back."""
P = ParamSpec("P")
T = TypeVar("T")


class Workshop:
    """Where uploads are validated."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None
        self._large = asyncio.Semaphore(_WORKERS)
        self._small = asyncio.Semaphore(4)

    async def run(self, size: int, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """What a function makes of an upload of so many bytes; the function and its arguments can be sent to another process."""
        if size < LARGE:
            async with self._small:
                return await asyncio.to_thread(work, *arguments, **named)
        async with self._large:
            if self._pool is None:
                # Not forked: threads of this process may hold locks.
                context = multiprocessing.get_context("spawn")
                self._pool = ProcessPoolExecutor(_WORKERS, mp_context=context, initializer=_begin, max_tasks_per_child=20)
            done = self._pool.submit(work, *arguments, **named)
            return await asyncio.wrap_future(done)

    def close(self) -> None:
        """Let the processes go."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)


_WORKERS = max(1, min(2, os.cpu_count() or 1))


def _begin() -> None:
    """As the command does it: values that live until the end are not looked through for cycles; and not to outlive the server."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(50_000, 20, 20)


def _end_with_parent() -> None:
    """A server that was killed cannot tell its workers to go."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
