"""How often a caller may ask: a bucket for each that fills evenly."""

import math
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from assay.surfaces.server.errors import RETRY_SECONDS, Refusal


class Allowance(msgspec.Struct, frozen=True):
    """What is left to a caller after a request."""

    limit: int
    remaining: int
    reset_s: int
    """Seconds until everything is allowed again."""
    retry_after_s: int = 0
    """Seconds until the next request is; 0 when this one was."""

    def headers(self) -> dict[str, str]:
        """As a client reads it."""
        shown = {
            "X-RateLimit-Limit": str(self.limit),
            "X-RateLimit-Remaining": str(self.remaining),
            "X-RateLimit-Reset": str(self.reset_s),
        }
        return {**shown, "Retry-After": str(self.retry_after_s)} if self.retry_after_s else shown


class Places:
    """How much each caller may have under way at the same time."""

    def __init__(self, most: int, what: str) -> None:
        self._most = most
        self._what = what
        self._taken: Counter[str] = Counter()

    @contextmanager
    def of(self, caller: str) -> Iterator[None]:
        """A place for as long as the block lasts; raises Refusal when the caller has none left."""
        if self._taken[caller] >= self._most:
            raise Refusal(429, f"too many {self._what} at once", headers={"Retry-After": str(RETRY_SECONDS)})
        self._taken[caller] += 1
        try:
            yield
        finally:
            self._taken[caller] -= 1
            if not self._taken[caller]:
                del self._taken[caller]


class Rates:
    """One bucket for each caller; a minute's worth may be used at once."""

    def __init__(self, per_minute: int, clock: Callable[[], float]) -> None:
        self._limit = per_minute
        self._clock = clock
        self._used: dict[str, tuple[float, float]] = {}
        self._lock = threading.Lock()

    def take(self, caller: str) -> Allowance:
        """Count one request."""
        now, per_second = self._clock(), self._limit / 60
        with self._lock:
            level, at = self._used.get(caller, (0.0, now))
            level = max(0.0, level - (now - at) * per_second)
            is_allowed = level + 1 <= self._limit
            level += is_allowed
            self._used[caller] = (level, now)
        retry = 0 if is_allowed else math.ceil((level + 1 - self._limit) / per_second)
        return Allowance(self._limit, int(self._limit - level), math.ceil(level / per_second), retry)
