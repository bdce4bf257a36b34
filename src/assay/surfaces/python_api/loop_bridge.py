"""Calls of functions that start an event loop, from code where one is running already, such as a cell of a notebook."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

from assay.api import Snapshot

LOOK = 0.1
"""Seconds between two calls of `watch`."""
T = TypeVar("T")
Watch = Callable[[Snapshot], None]
IsStopping = Callable[[], bool]
Work = Callable[[Watch | None, IsStopping | None], T]


def run_outside_loop(work: Work[T], watch: Watch | None) -> T:
    """Return the result of the work. If an event loop is running, it runs in a thread, and `watch` is called in this one.

    Interrupted, or with a watch that raises, the work is asked to stop and waited for, so that nothing of it is lost and nothing
    goes on unseen; then the exception does.
    """
    # In a script there is no loop, and a thread would only take Ctrl-C from the run.
    if not _is_in_a_loop():
        return work(watch, None)
    # A thread with a loop of its own: a loop cannot be entered twice, and patching the notebook's loop would
    # change other code in it.
    stopping = threading.Event()
    latest = _LatestSnapshot()
    executor = ThreadPoolExecutor(1, "assay-run")
    future = executor.submit(work, latest.put, stopping.is_set)
    # Without waiting, so that this thread can draw and be interrupted.
    executor.shutdown(wait=False)
    try:
        _wait(future, latest, watch)
    except KeyboardInterrupt:
        # Interrupting a cell asks the run to drain, which takes as long as the calls in flight.
        stopping.set()
        _wait(future, latest, watch)
        raise
    finally:
        # A `watch` that has raised is not called again.
        stopping.set()
        _wait(future, latest, None)
    return future.result()


def _is_in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class _LatestSnapshot:
    """Latest snapshot that `watch` has not received yet."""

    def __init__(self) -> None:
        self._unseen: Snapshot | None = None

    def put(self, now: Snapshot) -> None:
        # Replaced without a lock: one reference is assigned, and a snapshot that was not drawn may be lost.
        self._unseen = now

    def show(self, watch: Watch | None) -> None:
        now, self._unseen = self._unseen, None
        if now is not None and watch is not None:
            watch(now)


def _wait(future: "Future[T]", latest: _LatestSnapshot, watch: Watch | None) -> None:
    """Wait until the work has ended or failed."""
    while not wait((future,), LOOK).done:
        # Called in the thread of the cell, since IPython's display belongs to it.
        latest.show(watch)
    latest.show(watch)
