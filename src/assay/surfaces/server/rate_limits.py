"""Rate limits per caller: a token bucket each, refilled evenly."""

import math
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from assay.surfaces.server.errors import RETRY_SECONDS, HttpError


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
            level = max(0.0, level - (now - at) * per_second)
            is_allowed = level + 1 <= self._limit
            level += is_allowed
            self._used[caller] = (level, now)
        retry = 0 if is_allowed else math.ceil((level + 1 - self._limit) / per_second)
        return RateLimitStatus(self._limit, int(self._limit - level), math.ceil(level / per_second), retry)
