"""Rates that workers share, on the side of one worker: moments for its calls that it was given, and use that it has to tell."""

import asyncio
from collections import deque
from collections.abc import Callable
from math import ceil

from assay.engine.running.limits import Pace
from assay.store.leases import AHEAD, LATE


class Turnstile:
    """Where the calls of one stage to one provider wait for the moments that the rates leave them."""

    def __init__(self) -> None:
        self.waiting: deque[asyncio.Future[float]] = deque()
        self.again = 0.0
        """Before this time it is in vain to ask for more."""
        self._moments: deque[float] = deque()
        """Given for calls that are still to come."""
        self._is_roomy = False
        """The rates leave room, so that moments may be lost without harm."""
        self._stock = 0
        self._passed = 0

    @property
    def stock(self) -> int:
        """Moments for calls that are still to come."""
        return len(self._moments)

    @property
    def is_low(self) -> bool:
        """True when the moments for calls that are still to come run out."""
        return 2 * len(self._moments) < self._stock

    def take(self, now: float) -> float | None:
        """The moment for the next call."""
        while self._moments and self._moments[0] + LATE < now:
            self._moments.popleft()
        if not self._moments:
            return None
        self._passed += 1
        return self._moments.popleft()

    def calls(self, seconds: float) -> int:
        """Calls to ask for: those that wait, and where there is room, as many as passed in a part of these last seconds."""
        self._stock = ceil(self._passed * min(1.0, AHEAD / 2 / seconds)) if self._is_roomy else 0
        self._passed = 0
        return len(self.waiting) + max(0, self._stock - len(self._moments))

    def give(self, moments: tuple[float, ...], *, asked: int, now: float, wait: float) -> None:
        """Moments in seconds from now, for those who wait and those who come."""
        self._is_roomy = len(moments) == asked and not any(moments)
        self.again = now + (wait if len(moments) < asked else 0.0)
        self._moments.extend(now + moment for moment in moments)
        self.serve(now)

    def serve(self, now: float) -> None:
        """Tell those who wait their moments."""
        while self.waiting:
            if self.waiting[0].done():
                self.waiting.popleft()
                continue
            moment = self.take(now)
            if moment is None:
                return
            self.waiting.popleft().set_result(moment)


class Meter(Pace):
    """Units that are charged after the fact, kept until they are told."""

    def __init__(self, on_use: Callable[[], None]) -> None:
        super().__init__(None)
        self._on_use = on_use
        self._units, self._calls = 0.0, 0

    def charge(self, now: float, units: float = 1.0) -> None:  # noqa: ARG002  # the time of the ledger counts
        """Use so many units in one call."""
        self._units += units
        self._calls += 1
        self._on_use()

    def take(self) -> tuple[float, int]:
        """What was used since the last time, and by how many calls."""
        used = self._units, self._calls
        self._units, self._calls = 0.0, 0
        return used
