"""Spans on their way to a collector: a bounded number of them, sent by a thread of its own, so that no run waits for anybody."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")

LIMIT = 20_000
"""Spans that wait at most; what comes beyond is lost, and counted."""
BATCH = 512
"""Spans in one request at most."""
LINGER = 1.0
"""Seconds that a batch waits for more."""


class Outbox(Generic[T]):
    """What waits to be sent; `send` says whether a batch was taken, `tick` is called between batches."""

    def __init__(self, send: Callable[[Sequence[T]], bool], *, tick: Callable[[], None], limit: int = LIMIT) -> None:
        self._send = send
        self._tick = tick
        self._limit = limit
        self._waiting: deque[T] = deque()
        self._changed = threading.Condition()
        self._is_closing = False
        self._added = 0
        self.sent = 0
        # A daemon: a collector that never answers keeps no command from ending.
        self._thread = threading.Thread(target=self._work, name="assay-telemetry", daemon=True)
        self._thread.start()

    def add(self, item: T) -> None:
        """Let something wait; it is lost where too much waits already."""
        with self._changed:
            self._added += 1
            if len(self._waiting) >= self._limit or self._is_closing:
                return
            self._waiting.append(item)
            if len(self._waiting) >= BATCH:
                self._changed.notify()

    def close(self, seconds: float) -> int:
        """Send what waits, for so many seconds at most, and say how many were lost: what is still being sent is, too."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join(seconds)
        with self._changed:
            self._waiting.clear()
            return self._added - self.sent

    def _work(self) -> None:
        while True:
            batch, is_last = self._next()
            if batch and self._send(batch):
                with self._changed:
                    self.sent += len(batch)
            self._tick()
            if is_last:
                return

    def _next(self) -> tuple[list[T], bool]:
        """The next batch, and whether nothing comes after it."""
        end = time.monotonic() + LINGER
        with self._changed:
            while len(self._waiting) < BATCH and not self._is_closing and (left := end - time.monotonic()) > 0:
                self._changed.wait(left)
            batch = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
            return batch, self._is_closing and not self._waiting
