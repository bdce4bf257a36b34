"""Concurrency in the server: semaphores, locks, quotas and rate limits per caller, shared polling, background tasks."""

import asyncio
import math
import threading
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Generic, TypeVar

import msgspec

from assay.core.errors import AssayError
from assay.surfaces.server.errors import RETRY_SECONDS, HttpError


class FairSemaphore:
    """Slots for work of one kind; for use on one event loop."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def slot(self, caller: str) -> AsyncIterator[None]:
        """Hold a slot for the block, when it is this caller's turn."""
        await self._enter(caller)
        try:
            yield
        finally:
            self._leave()

    async def _enter(self, caller: str) -> None:
        if self._free:
            self._free -= 1
            return
        called: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(caller, deque()).append(called)
        try:
            await called
        except asyncio.CancelledError:
            # A woken waiter that was cancelled passes its slot on; a waiter still in line is skipped at its turn.
            if called.done() and not called.cancelled():
                self._leave()
            raise

    def _leave(self) -> None:
        while self._waiting:
            # Dictionaries keep the order of insertion, so that the first caller is the one served longest ago (round robin).
            caller = next(iter(self._waiting))
            line = self._waiting.pop(caller)
            called = line.popleft()
            if line:
                # A served caller goes to the end of the line.
                self._waiting[caller] = line
            if not called.done():
                called.set_result(None)
                return
        self._free += 1


class KeyedLocks:
    """Locks by name; a lock exists only while a task holds it or waits for it."""

    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = {}
        self._users: Counter[str] = Counter()

    @asynccontextmanager
    async def of(self, name: str) -> AsyncIterator[None]:
        """Wait for the lock of a name and hold it."""
        # `setdefault` and the count are atomic here, since nothing is awaited between them.
        lock = self._locks.setdefault(name, asyncio.Lock())
        self._users[name] += 1
        try:
            async with lock:
                yield
        finally:
            self._users[name] -= 1
            # Removed with its last user: names come from clients, and would otherwise fill the memory.
            if not self._users[name]:
                del self._users[name], self._locks[name]


POLL_SECONDS = 0.5
T = TypeVar("T")


class SharedPolling(Generic[T]):
    """Polls each followed thing twice a second, however many callers follow it."""

    def __init__(self) -> None:
        self._values: dict[str, _PolledValue[T]] = {}

    async def follow(self, name: str, look: Callable[[], T]) -> AsyncIterator[T]:
        """Iterate over the results of every poll, without end; raises what a poll raises."""
        if name not in self._values:
            # The first follower starts the poll; those that come later wait for its next result.
            self._values[name] = _PolledValue(look)
        feed = self._values[name]
        feed.followers += 1
        try:
            while True:
                # Shielded: a follower that disconnects must not cancel the poll that others wait for.
                yield await asyncio.shield(feed.found)
        finally:
            feed.followers -= 1
            # The last follower ends it, also when it leaves by disconnecting.
            if not feed.followers:
                feed.end()
                del self._values[name]


class _PolledValue(Generic[T]):
    """One followed thing."""

    def __init__(self, look: Callable[[], T]) -> None:
        self._look = look
        self.followers = 0
        self.found: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        while True:
            try:
                # In a thread, because a poll reads files or the ledger and would block the event loop.
                found = await asyncio.to_thread(self._look)
            except AssayError as problem:
                self.found.set_exception(problem)
                return
            # Replaced before the result is set: a follower that is woken at once waits for the next one.
            reached, self.found = self.found, asyncio.get_running_loop().create_future()
            reached.set_result(found)
            await asyncio.sleep(POLL_SECONDS)

    def end(self) -> None:
        """Stop polling after the last follower has left."""
        self._task.cancel()
        self.found.cancel()


PATIENCE = 0.4
"""Seconds that a page waits for its work before it answers that the work is in progress."""
MAX_FINISHED = 200
"""Maximum finished results that no page has fetched; beyond it the oldest are dropped."""


class BackgroundTasks:
    """Background tasks by name; each runs once, however many requests wait for it."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[Any]] = {}

    async def is_ready(self, name: str, work: Callable[[], Awaitable[object]], *, seconds: float = PATIENCE) -> bool:
        """Return whether the task of this name is done; raises its exception, and a later call starts it again."""
        task = self._tasks.get(name)
        if task is None:
            self._sweep()
            task = self._tasks[name] = asyncio.create_task(_awaited(work))
        # Not wait_for, which would cancel the task at the timeout; the work continues for the next request.
        # `asyncio.wait` does not raise what the task raised; `result` below does.
        await asyncio.wait({task}, timeout=seconds)
        if not task.done():
            return False
        # Taken out, so that an error is reported once and the next request tries again.
        self._tasks.pop(name, None)
        task.result()
        return True

    def _sweep(self) -> None:
        done = [name for name, task in self._tasks.items() if task.done()]
        for name in done[: max(0, len(self._tasks) - MAX_FINISHED)]:
            # Retrieve the exception, or asyncio would log that it was never retrieved.
            self._tasks.pop(name).exception()


async def _awaited(work: Callable[[], Awaitable[object]]) -> None:
    await work()


class RateLimitStatus(msgspec.Struct, frozen=True):
    """A caller's remaining allowance after a request."""

    limit: int
    remaining: int
    reset_s: int
    """Seconds until the bucket is full again."""
    retry_after_s: int = 0
    """Seconds until the next request is allowed; 0 if this one was."""

    def headers(self) -> dict[str, str]:
        """Format it as response headers."""
        shown = {
            "X-RateLimit-Limit": str(self.limit),
            "X-RateLimit-Remaining": str(self.remaining),
            "X-RateLimit-Reset": str(self.reset_s),
        }
        return {**shown, "Retry-After": str(self.retry_after_s)} if self.retry_after_s else shown


class ConcurrencyQuota:
    """Limit on each caller's concurrent requests."""

    def __init__(self, most: int, what: str) -> None:
        self._most = most
        self._what = what
        self._taken: Counter[str] = Counter()

    @contextmanager
    def of(self, caller: str) -> Iterator[None]:
        """Hold a slot for the block; raises HttpError when the caller has none left."""
        if self._taken[caller] >= self._most:
            raise HttpError(429, f"too many {self._what} at once", headers={"Retry-After": str(RETRY_SECONDS)})
        self._taken[caller] += 1
        try:
            yield
        finally:
            self._taken[caller] -= 1
            # Removed at zero, or every caller that ever came would stay in memory.
            if not self._taken[caller]:
                del self._taken[caller]


class CallerRateLimiter:
    """One token bucket per caller; a minute's worth may be used at once."""

    def __init__(self, per_minute: int, clock: Callable[[], float]) -> None:
        self._limit = per_minute
        self._clock = clock
        self._used: dict[str, tuple[float, float]] = {}
        self._lock = threading.Lock()

    def take(self, caller: str) -> RateLimitStatus:
        """Count one request."""
        now, per_second = self._clock(), self._limit / 60
        with self._lock:
            level, at = self._used.get(caller, (0.0, now))
            # The level falls evenly: with fixed minutes a caller could use two allowances around the start of one.
            level = max(0.0, level - (now - at) * per_second)
            is_allowed = level + 1 <= self._limit
            # A refused request costs nothing, so that a client that keeps polling recovers at the promised time.
            level += is_allowed
            self._used[caller] = (level, now)
        retry = 0 if is_allowed else math.ceil((level + 1 - self._limit) / per_second)
        return RateLimitStatus(self._limit, int(self._limit - level), math.ceil(level / per_second), retry)
