"""Limits on the calls of a run: slots for the calls in flight, configured rates, and what the providers let through."""

import asyncio
import math
from collections import deque
from collections.abc import Callable, Iterable
from typing import Literal

from assay.core.model_call import ModelFailure, Reply, Stage
from assay.core.plan import Plan, ProviderPlan
from assay.core.settings import StageSection
from assay.engine.execution.learned_limit import CallStart, LearnedLimit
from assay.engine.execution.rejections import ModelAdmission
from assay.engine.records.run_counters import RunCounters

BURST = 1.0
"""Seconds of unused rate that may be caught up on at once."""
PATIENCE = 75.0
"""Seconds without an answer of a model after which its provider lets nothing through: longer than the usual windows of limits."""


class RateLimiter:
    """A steady rate with a burst of one second (generic cell rate algorithm); may be charged after the fact."""

    def __init__(self, per_minute: float | None) -> None:
        self._interval = 60.0 / per_minute if per_minute else 0.0
        self._due = 0.0
        self._used = 0.0

    def wait(self, now: float) -> float:
        """Return the seconds until the next unit may be used; infinity while this worker has no share of a rate."""
        return max(0.0, self._due - BURST - now) if self._interval else 0.0

    def charge(self, now: float, units: float = 1.0) -> None:
        """Count units as used."""
        self._used += units
        if self._interval:
            self._due = max(self._due, now) + units * self._interval

    def set(self, per_minute: float, now: float, *, debt: float = 0.0) -> None:
        """Change the rate to this worker's share of it, or to none; `debt` is the seconds until earlier units are paid off."""
        if not per_minute:
            self._interval = self._due = math.inf
            return
        interval = 60.0 / per_minute
        if self._interval == math.inf:
            # Without the burst: the other workers may have used it.
            self._due = now + debt + BURST
        else:
            self._due = now + (self._due - now) * interval / self._interval if self._due > now else self._due
        self._interval = interval

    def take_used(self) -> float:
        """Return the units used since the last call."""
        used, self._used = self._used, 0.0
        return used


class ProviderLimiter:
    """Limits on the calls to one provider: configured rates, what its rejections have taught, and a breaker."""

    def __init__(self, provider: ProviderPlan) -> None:
        self.provider = provider
        self.requests = RateLimiter(provider.requests_per_minute)
        self.tokens = RateLimiter(provider.tokens_per_minute)
        self.learned = LearnedLimit()
        self.broken: ModelFailure | None = None
        """The permanent rejection after which no further call is made."""
        self.refused = asyncio.Event()
        """Set together with `broken`, to end waits."""
        self.on_change: Callable[[], None] = _do_nothing
        """Called when waiting calls may start sooner than it seemed."""
        self._successes = 0

    def wait(self, now: float, *, is_out: bool = False) -> float:
        """Return the seconds until the next call may start; infinity until a call ends.

        `is_out` when the provider lets nothing through: then only the configured rates count.
        """
        learned = 0.0 if is_out or not self.learned.is_limiting else self.learned.wait(now)
        return max(learned, self.requests.wait(now), self.tokens.wait(now))

    def start(self, now: float) -> CallStart:
        """Note a call that starts."""
        self.requests.charge(now)
        return self.learned.start(now)

    def end(self, start: CallStart | None, result: Reply | ModelFailure | None, now: float) -> None:
        """Note the end of a call that was not rejected for a limit."""
        if isinstance(result, Reply):
            self._successes += 1
            if result.usage.total_tokens:
                self.tokens.charge(now, result.usage.total_tokens)
        if start is not None:
            self.learned.accepted(start, now)
            if self.learned.is_limiting:
                self.on_change()

    def reject(self, start: CallStart, now: float, *, stated_wait: float) -> None:
        """Note a call that was rejected for a limit."""
        self.learned.rejected(start, now, stated_wait)
        self.on_change()

    def refuse(self, failure: ModelFailure) -> None:
        """Apply another worker's permanent rejection, unless a success here shows that it concerns only that worker."""
        if self.broken is None and (failure.is_exhausted or not self._successes):
            self.give_up(failure)

    def give_up(self, failure: ModelFailure) -> None:
        """Stop calling this provider because of a permanent failure."""
        self.broken = failure
        self.refused.set()
        self.on_change()


def _do_nothing() -> None:
    pass


class StageLimiter:
    """Limits on all calls of one stage, across providers."""

    def __init__(self, limits: StageSection, cap: int) -> None:
        self.cap = min(cap, limits.concurrency or cap)
        self.in_flight = 0
        self.requests = RateLimiter(limits.requests_per_minute)


CallKind = Literal["new", "rejected", "own_fault"]
"""Whether a call was rejected for a limit before, or so often that this may be its own fault: then no limit holds it up."""


class CallSlot:
    """The right to one call, until its result is stored."""

    __slots__ = ("queue", "start", "started_at")

    def __init__(self, queue: "CallQueue", start: CallStart | None, started_at: float) -> None:
        self.queue = queue
        self.started_at = started_at
        self.start = start
        """None once the call has ended, and for a call that no limit holds up since nothing gets through anyway."""


class WaitingCall:
    """A call that waits for its slot."""

    __slots__ = ("kind", "slot", "stop")

    def __init__(self, slot: "asyncio.Future[CallSlot]", stop: asyncio.Event, kind: "CallKind") -> None:
        self.slot = slot
        self.stop = stop
        self.kind = kind


class CallQueue:
    """Queue for the calls to one model: they wait for slots of its stage, and for the limits of its provider."""

    def __init__(self, limiter: ProviderLimiter, stage: StageLimiter) -> None:
        self.limiter = limiter
        self.stage = stage
        self.admission = ModelAdmission()
        self.waiting: deque[WaitingCall] = deque()
        self.is_out = False
        """The provider lets nothing through to this model, so that its rejections count as attempts."""
        self.outages = 0
        """Number of times that it began to let nothing through."""
        self.answers = 0
        self.answered_start = -math.inf
        """When the last call that was answered has started."""
        self._answered_at = -math.inf
        self._calls: dict[CallStart, None] = {}
        """Calls without a result, in the order of their starts."""
        self._ended = asyncio.Event()
        """Set at the end of a call; replaced for the next wait."""
        self.compared_at = -math.inf
        """When a request that was answered before was answered again, while all calls that waited had been rejected."""
        self.checking = asyncio.Lock()
        """Held while a request that was answered before is sent again, to see whether calls get through."""

    @property
    def has_room(self) -> bool:
        """True when the stage has a free slot."""
        return self.stage.in_flight < self.stage.cap

    def wait(self, now: float, kind: CallKind) -> float:
        """Return the seconds until the limits allow one more call; infinity until a call ends."""
        is_free = self.is_out or kind == "own_fault"
        return max(self.stage.requests.wait(now), self.limiter.wait(now, is_out=is_free))

    def start(self, now: float, kind: CallKind) -> CallSlot:
        """Note a call that starts."""
        self.stage.requests.charge(now)
        if self.is_out or kind == "own_fault":
            self.limiter.requests.charge(now)
            return CallSlot(self, None, now)
        start = self.limiter.start(now)
        self._calls[start] = None
        return CallSlot(self, start, now)

    def end(self, slot: CallSlot, result: Reply | ModelFailure | None, now: float, *, max_wait: float) -> None:
        """Note the result of a call; None when the call was not made."""
        start, slot.start = slot.start, None
        if isinstance(result, Reply):
            self._answered_at = now
            self.answered_start = max(self.answered_start, slot.started_at)
            self.answers += 1
            self.is_out = False
        if start is not None:
            del self._calls[start]
        if start is not None and isinstance(result, ModelFailure) and result.is_busy:
            self.limiter.reject(start, now, stated_wait=min(result.retry_after or 0.0, max_wait))
        elif start is not None and result is None:
            self.limiter.learned.withdraw(start, now)
            self.limiter.on_change()
        else:
            self.limiter.end(start, result, now)
        self._ended.set()

    def lets_through(self, now: float, *, patience: float) -> bool:
        """Tell whether the provider has answered a call to this model within so many seconds."""
        return now - self._answered_at <= patience

    def has_others(self, at: float) -> bool:
        """Tell whether a call is waiting that was never rejected, or is under way since before this time."""
        return self.has_older(at) or any(call.kind == "new" for call in self.waiting)

    def has_older(self, at: float) -> bool:
        """Tell whether a call that started before this time has no result yet."""
        return bool(self._calls) and next(iter(self._calls)).at <= at

    def blame_waiting(self, now: float) -> None:
        """Note that calls get through while all waiting ones were rejected: the rejections concern each of them alone."""
        self.compared_at = now
        for call in self.waiting:
            call.kind = "own_fault"
        self.limiter.on_change()

    def next_end(self) -> asyncio.Event:
        """Return an event that is set when the next call ends."""
        if self._ended.is_set():
            self._ended = asyncio.Event()
        return self._ended

    def go_out(self) -> None:
        """Note that the provider lets nothing through to this model."""
        if not self.is_out:
            self.is_out = True
            self.outages += 1
            self.limiter.on_change()


class CallScheduler:
    """Scheduler of a run's calls: one cap on concurrency, and a queue per model that waits for its provider and stage."""

    def __init__(self, plan: Plan, *, clock: Callable[[], float], stop: asyncio.Event) -> None:
        self._free = plan.concurrency
        self.stop = stop
        """Set when no new call may be made."""
        self._clock = clock
        self._max_wait = plan.retry.max_delay
        self._provider_limiters = {provider.name: ProviderLimiter(provider) for provider in plan.providers}
        for limiter in self._provider_limiters.values():
            limiter.on_change = self._schedule_assignment
        self._stage_limiters: dict[Stage, StageLimiter] = {
            "candidate": StageLimiter(plan.generation, plan.concurrency),
            "judge": StageLimiter(plan.judging, plan.concurrency),
        }
        self._queues: list[CallQueue] = []
        self._is_spent: Callable[[], bool] = lambda: False
        self._spent = asyncio.Event()
        """Set when the run has reached its maximum cost, to end waits for calls that would be refused."""
        self._is_assignment_scheduled = False
        """True while `_assign_slots` is scheduled on the event loop."""
        self._timer: asyncio.TimerHandle | None = None
        """Assigns slots when the limits allow the next call."""
        self._watcher: asyncio.Task[None] | None = None
        """Wakes waiting calls when the run is stopped."""

    @property
    def limiters(self) -> Iterable[ProviderLimiter]:
        """The limits of all providers."""
        return self._provider_limiters.values()

    @property
    def queues(self) -> Iterable[CallQueue]:
        """The queues of all models."""
        return self._queues

    def new_queue(self, provider: str, stage: Stage) -> CallQueue:
        """Return a new queue for the calls to one model."""
        queue = CallQueue(self._provider_limiters[provider], self._stage_limiters[stage])
        self._queues.append(queue)
        return queue

    async def acquire(self, queue: CallQueue, stop: asyncio.Event | None = None, *, kind: CallKind = "new") -> CallSlot:
        """Wait for a slot and for the limits; `stop`, by default the run's, ends the wait, and a slot is returned nevertheless.

        A call that was rejected for a limit is the next one to be made, except while all are rejected. Then others are tried, since
        the provider may mean this one alone.
        """
        now = self._clock()
        if queue.waiting or self._free <= 0 or not queue.has_room or queue.wait(now, kind) > 0:
            return await self._wait_for_slot(queue, stop or self.stop, kind)
        return self._take(queue, kind, now)

    def end_call(self, slot: CallSlot, result: Reply | ModelFailure | None) -> None:
        """Note the result of the slot's call; None when the call was not made."""
        slot.queue.end(slot, result, self._clock(), max_wait=self._max_wait)

    def limit_cost(self, counters: RunCounters, budget: float) -> None:
        """End waits for limits once the run's cost reaches the budget."""
        self._is_spent = lambda: counters.cost >= budget
        counters.on_paid = self._check_budget
        self._check_budget()

    def _check_budget(self) -> None:
        if self._is_spent():
            self._spent.set()
            self._schedule_assignment()

    def wake_stopped(self) -> None:
        """Give slots to all callers of `acquire` whose stop is set, so that they end."""
        for queue in self._queues:
            stopped = [call for call in queue.waiting if call.stop.is_set()]
            if stopped:
                queue.waiting = deque(call for call in queue.waiting if not call.stop.is_set())
            for call in stopped:
                if not call.slot.done():
                    call.slot.set_result(self._take(queue, call.kind, self._clock()))

    async def pause(
        self, seconds: float, queues: Iterable[CallQueue], *, stop: asyncio.Event | None = None, until: asyncio.Event | None = None
    ) -> None:
        """Wait without a slot; a stop, a spent budget, a rejected provider or the given event ends the wait."""
        ends = [stop or self.stop, self._spent, *(queue.limiter.refused for queue in queues)]
        await _wait(seconds, ends if until is None else [*ends, until])

    async def close(self) -> None:
        """Stop waking calls."""
        if self._timer is not None:
            self._timer.cancel()
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.gather(self._watcher, return_exceptions=True)

    async def _wait_for_slot(self, queue: CallQueue, stop: asyncio.Event, kind: CallKind) -> CallSlot:
        call = WaitingCall(asyncio.get_running_loop().create_future(), stop, kind)
        if kind == "own_fault" or (kind == "rejected" and not queue.limiter.learned.is_closed):
            queue.waiting.appendleft(call)
        else:
            queue.waiting.append(call)
        if self._watcher is None:
            self._watcher = asyncio.create_task(self._wake_on_stop())
        if stop.is_set():
            self.wake_stopped()
        elif self._free > 0 and queue.has_room:
            self._schedule_assignment()
        try:
            return await call.slot
        except asyncio.CancelledError:
            # The slot may have been assigned at the same moment as the cancel; without the release it would leak.
            if call.slot.done() and not call.slot.cancelled() and call.slot.exception() is None:
                self.release(call.slot.result())
            raise

    def _fail_waiting(self, problem: BaseException) -> None:
        """Raise an error in all callers of `acquire`."""
        for queue in self._queues:
            for call in queue.waiting:
                if not call.slot.done():
                    call.slot.set_exception(problem)
            queue.waiting.clear()

    async def _wake_on_stop(self) -> None:
        await self.stop.wait()
        self.wake_stopped()

    def _will_be_refused(self, queue: CallQueue) -> bool:
        """True when the call would be refused after the wait, so that waiting is pointless."""
        return queue.limiter.broken is not None or self._is_spent()

    def release(self, slot: CallSlot) -> None:
        """Release the slot, and assign free slots on the next pass of the event loop.

        The delay lets the record that releases a slot request its judge call first. It would otherwise wait behind records that
        have not begun, and the run would end with few calls in flight.
        """
        if slot.start is not None:
            self.end_call(slot, None)
        self._free += 1
        slot.queue.stage.in_flight -= 1
        self._schedule_assignment()

    def _schedule_assignment(self) -> None:
        if not self._is_assignment_scheduled:
            self._is_assignment_scheduled = True
            asyncio.get_running_loop().call_soon(self._assign_slots)

    def _assign_slots(self) -> None:
        self._is_assignment_scheduled = False
        seconds = math.inf
        # Judges first (their queues were opened last): finishing a record frees memory, and its result survives a crash.
        for queue in reversed(self._queues):
            while self._free > 0 and queue.waiting and queue.has_room:
                if queue.waiting[0].slot.done():
                    queue.waiting.popleft()
                    continue
                now, kind = self._clock(), queue.waiting[0].kind
                wait = 0.0 if self._will_be_refused(queue) else queue.wait(now, kind)
                if wait > 0:
                    seconds = min(seconds, wait)
                    break
                queue.waiting.popleft().slot.set_result(self._take(queue, kind, now))
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if seconds < math.inf:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._assign_slots)

    def _take(self, queue: CallQueue, kind: CallKind, now: float) -> CallSlot:
        self._free -= 1
        queue.stage.in_flight += 1
        return queue.start(now, kind)


async def _wait(seconds: float, ends: Iterable[asyncio.Event]) -> None:
    """Wait until the time has passed or one of the events is set."""
    waits = [asyncio.ensure_future(end.wait()) for end in dict.fromkeys(ends)]
    try:
        await asyncio.wait(waits, timeout=max(seconds, 0.0), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
