"""Shared rates as one worker uses them: times reserved for its calls, and token use that it has yet to report."""

import asyncio
from collections import deque
from collections.abc import Callable
from math import ceil

from assay.engine.execution.limits import RateLimiter
from assay.store.leases import AHEAD, LATE


class RateReservations:
    """Times that the shared rates reserve for the calls of one stage to one provider, and the calls that wait for them."""

    def __init__(self) -> None:
        self.waiting: deque[asyncio.Future[float]] = deque()
        self.again = 0.0
        """Time before which a request for more reservations would be refused."""
        self._moments: deque[float] = deque()
        """Reserved for calls that are still to come."""
        self._has_ample_capacity = False
        """True when the rates are far from exhausted, so that unused reservations cost nothing."""
        self._stock = 0
        self._passed = 0

    @property
    def stock(self) -> int:
        """Number of reservations for calls that are still to come."""
        return len(self._moments)

    @property
    def is_low(self) -> bool:
        """True when less than half of the stock is left."""
        return 2 * len(self._moments) < self._stock

    def take(self, now: float) -> float | None:
        """Return the reserved time of the next call, or None when nothing is reserved."""
        # A call made after a missed reservation would add to later ones and exceed the rate (see LATE).
        while self._moments and self._moments[0] + LATE < now:
            self._moments.popleft()
        if not self._moments:
            return None
        self._passed += 1
        return self._moments.popleft()

    def calls(self, seconds: float) -> int:
        """Return how many reservations to request: for waiting calls, and, while capacity is ample, a stock ahead of demand.

        The stock follows the calls made in the last `seconds`.
        """
        self._stock = ceil(self._passed * min(1.0, AHEAD / 2 / seconds)) if self._has_ample_capacity else 0
        self._passed = 0
        return len(self.waiting) + max(0, self._stock - len(self._moments))

    def give(self, moments: tuple[float, ...], *, asked: int, now: float, wait: float) -> None:
        """Add reservations, in seconds from now, and serve the waiting calls."""
        self._has_ample_capacity = len(moments) == asked and not any(moments)
        self.again = now + (wait if len(moments) < asked else 0.0)
        self._moments.extend(now + delay for delay in moments)
        self.serve(now)

    def serve(self, now: float) -> None:
        """Give each waiting call its reservation, as far as they go."""
        while self.waiting:
            if self.waiting[0].done():
                self.waiting.popleft()
                continue
            reserved_at = self.take(now)
            if reserved_at is None:
                return
            self.waiting.popleft().set_result(reserved_at)


class UsageMeter(RateLimiter):
    """Counter of units that are charged after the call, until they are reported to the database."""

    def __init__(self, on_use: Callable[[], None]) -> None:
        super().__init__(None)
        self._on_use = on_use
        self._units, self._calls = 0.0, 0

    def charge(self, now: float, units: float = 1.0) -> None:  # noqa: ARG002  # the time of the ledger counts
        """Count the units of one call."""
        self._units += units
        self._calls += 1
        self._on_use()

    def take(self) -> tuple[float, int]:
        """Return the units and calls since the last `take`."""
        used = self._units, self._calls
        self._units, self._calls = 0.0, 0
        return used
