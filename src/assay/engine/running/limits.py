"""Limits on calls: slots in flight, rates per provider, a breaker, and what the run may cost."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

from assay.core.ask import ModelFailure, Stage, Usage
from assay.core.plan import Plan, ProviderPlan, StageLimits
from assay.engine.running.rejections import Admission
from assay.engine.tally import Tally

_CUT_PAUSE = 1.0
"""Seconds after a cut in which further 429s belong to the same overload."""


class Pace:
    """A steady rate with a burst of one second (generic cell rate algorithm); may be charged after the fact."""

    def __init__(self, per_minute: float | None) -> None:
        self._interval = 60.0 / per_minute if per_minute else 0.0
        self._burst = 1.0
        self._due = 0.0

    @property
    def is_limited(self) -> bool:
        """True when there is a rate at all."""
        return bool(self._interval)

    def wait(self, now: float) -> float:
        """Seconds until the next unit may be used."""
        return max(0.0, self._due - self._burst - now) if self._interval else 0.0

    def charge(self, now: float, units: float = 1.0) -> None:
        """Use so many units."""
        if self._interval:
            self._due = max(self._due, now) + units * self._interval


class Lane:
    """The way to one provider: how many calls are in flight, how many may be, and whether there is any point."""

    def __init__(self, provider: ProviderPlan, cap: int) -> None:
        self.provider = provider
        self.cap = cap
        self.limit = float(cap)
        """Calls that may be in flight now: one more for every full round of successes, half after a 429."""
        self.in_flight = 0
        self.requests = Pace(provider.requests_per_minute)
        self.tokens = Pace(provider.tokens_per_minute)
        self.broken: ModelFailure | None = None
        """Why no further call is made."""
        self.refused = asyncio.Event()
        """Set when no further call is made."""
        self._successes = 0
        self._cut_at = float("-inf")

    def succeeded(self, usage: Usage, now: float) -> None:
        """A call brought a reply."""
        self._successes += 1
        if self.limit < self.cap:
            self.limit = min(float(self.cap), self.limit + 1.0 / self.limit)
        if usage.total_tokens:
            self.tokens.charge(now, usage.total_tokens)

    def failed(self, failure: ModelFailure, now: float) -> None:
        """A call brought no reply: slow down where there were too many."""
        if failure.code == "rate_limited" and not failure.is_exhausted and now - self._cut_at > _CUT_PAUSE:
            self._cut_at = now
            self.limit = max(1.0, self.limit / 2)

    @property
    def is_cut(self) -> bool:
        """True while fewer calls are in flight than there is room for, because of 429s."""
        return self.limit < self.cap

    def share(self, cap: int) -> None:
        """Have another part of what the workers of a run share."""
        self.limit = min(self.limit, cap) if self.is_cut else float(cap)
        self.cap = cap

    def refuse(self, failure: ModelFailure) -> None:
        """Another worker was refused for good: so is this one, unless its own calls show that only the other is to blame."""
        if self.broken is None and (failure.is_exhausted or not self._successes):
            self.give_up(failure)

    def give_up(self, failure: ModelFailure) -> None:
        """Make no further call."""
        self.broken = failure
        self.refused.set()


class StageLane:
    """All calls of one stage, whichever provider they go to."""

    def __init__(self, limits: StageLimits, cap: int) -> None:
        self.cap = min(cap, limits.concurrency or cap)
        self.in_flight = 0
        self.requests = Pace(limits.requests_per_minute)


class Gate:
    """Where the calls of one stage to one provider wait for their turn."""

    def __init__(self, lane: Lane, stage: StageLane) -> None:
        self.lane = lane
        self.stage = stage
        self.admission = Admission()
        self.waiting: deque[asyncio.Future[None]] = deque()
        self.turn = asyncio.Lock()
        """Held by the one call that waits for the rates; the others wait behind it."""
        self.is_paced = lane.requests.is_limited or lane.tokens.is_limited or stage.requests.is_limited
        """True when a call may have to wait for a rate."""

    @property
    def has_room(self) -> bool:
        """True when neither the provider nor the stage has all the calls it may have."""
        return self.lane.in_flight < int(self.lane.limit) and self.stage.in_flight < self.stage.cap

    def wait(self, now: float) -> float:
        """Seconds until the rates allow one more call."""
        return max(self.lane.requests.wait(now), self.lane.tokens.wait(now), self.stage.requests.wait(now))

    def charge(self, now: float) -> None:
        """One call is made."""
        self.lane.requests.charge(now)
        self.stage.requests.charge(now)


class Limits:
    """Who may call now: a hard cap over everything, and a gate for each stage and provider."""

    def __init__(self, plan: Plan, *, clock: Callable[[], float], stop: asyncio.Event) -> None:
        self._free = plan.concurrency
        self.stop = stop
        """Set when no new call is to be made."""
        self._clock = clock
        self._lanes = {provider.name: Lane(provider, plan.concurrency) for provider in plan.providers}
        self._stages: dict[Stage, StageLane] = {
            "candidate": StageLane(plan.generation, plan.concurrency),
            "judge": StageLane(plan.judging, plan.concurrency),
        }
        self._gates: list[Gate] = []
        self._is_spent: Callable[[], bool] = lambda: False
        self._spent = asyncio.Event()
        """Set when the run has cost what it may cost: there is nothing to wait for any more."""
        self._is_due = False
        """Free slots are handed out as soon as everybody who is at work has gone on."""

    def gate(self, provider: str, stage: Stage) -> Gate:
        """A new gate for the calls of a model."""
        gate = Gate(self._lanes[provider], self._stages[stage])
        self._gates.append(gate)
        return gate

    async def enter(self, gate: Gate, stop: asyncio.Event | None = None) -> None:
        """Take a slot, waiting for one and for the rates; a stop, of all or of those who enter, ends the wait for the rates."""
        if gate.waiting or not self._free or not gate.has_room:
            await self._queue(gate)
        else:
            self._take(gate)
        if gate.is_paced:
            await self._wait_for_rates(gate, stop or self.stop)

    def share_cost(self, tally: Tally, budget: float) -> None:
        """Wait for no rate any more when the budget is spent; what other workers spend of it counts, but here there are none."""
        self._is_spent = lambda: tally.cost >= budget
        tally.on_paid = self._look_at_cost
        self._look_at_cost()

    def _look_at_cost(self) -> None:
        if self._is_spent():
            self._spent.set()

    def look_again(self) -> None:
        """Those who wait for a slot have been stopped: here they get one soon, and then see it."""

    async def pause(self, seconds: float, gates: Iterable[Gate], *, stop: asyncio.Event | None = None) -> None:
        """Wait without a slot; a stop ends the wait, and so does the end of the money or of all calls to a provider."""
        await _wait(seconds, [stop or self.stop, self._spent, *(gate.lane.refused for gate in gates)])

    async def _queue(self, gate: Gate) -> None:
        slot: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        gate.waiting.append(slot)
        try:
            await slot
        except asyncio.CancelledError:
            if slot.done() and not slot.cancelled() and slot.exception() is None:
                self.leave(gate)
            raise

    async def _wait_for_rates(self, gate: Gate, stop: asyncio.Event) -> None:
        """One call of a gate after the other waits until all rates allow it at the same moment, and only then uses them."""
        try:
            await gate.turn.acquire()
        except asyncio.CancelledError:
            self.leave(gate)
            raise
        try:
            while not stop.is_set() and not self._is_vain(gate):
                wait = gate.wait(self._clock())
                if wait <= 0:
                    gate.charge(self._clock())
                    return
                await self._pace(gate, wait, stop=stop)
        finally:
            gate.turn.release()

    def _is_vain(self, gate: Gate) -> bool:
        """True when the caller will be refused, so that there is nothing to wait for."""
        return gate.lane.broken is not None or self._is_spent()

    async def _pace(self, gate: Gate, seconds: float, *, stop: asyncio.Event) -> None:
        """Wait with a slot, unless there is nothing to wait for any more."""
        try:
            await _wait(seconds, [stop, self._spent, gate.lane.refused])
        except asyncio.CancelledError:
            self.leave(gate)
            raise

    def leave(self, gate: Gate) -> None:
        """Give the slot back: to the judge of the same record if it is asked next, else to whoever waits.

        A record that has its answer would otherwise wait behind those that are not begun, and a run end with few calls in flight.
        """
        self._free += 1
        gate.lane.in_flight -= 1
        gate.stage.in_flight -= 1
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._hand_out)

    def _hand_out(self) -> None:
        self._is_due = False
        # Judges first: a record that is nearly done is worth more than one that is not begun.
        for waiting in reversed(self._gates):
            while self._free > 0 and waiting.waiting and waiting.has_room:
                slot = waiting.waiting.popleft()
                if not slot.done():
                    self._take(waiting)
                    slot.set_result(None)

    def _take(self, gate: Gate) -> None:
        self._free -= 1
        gate.lane.in_flight += 1
        gate.stage.in_flight += 1


async def _wait(seconds: float, ends: Iterable[asyncio.Event]) -> None:
    """Wait so long, or until one of these is set."""
    waits = [asyncio.ensure_future(end.wait()) for end in dict.fromkeys(ends)]
    try:
        await asyncio.wait(waits, timeout=max(seconds, 0.0), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
