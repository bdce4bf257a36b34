"""Rejections by a provider: of the key, the model or the account, which end the run, or of one record, which fails alone."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec

from assay.core.errors import ProviderRejected
from assay.core.model_call import ModelFailure, ModelRequest, Stage, Usage
from assay.core.plan import Plan, ProviderPlan
from assay.core.settings import StageSection
from assay.engine.records.run_counters import RunCounters

REJECTED = frozenset(
    {
        *("unauthorized", "payment_required", "forbidden", "not_found", "redirect_refused", "certificate_refused"),
        "unexpected_reply",
    }
)
"""Failures that every further call to the model would repeat, unless the provider means this record alone."""
MAX_UNEXPLAINED = 5
"""Number of unexplained rejections from which on none is waited for: a provider that rejects this many has a general reason."""
_STRICT_HINT = "leave the parameter out or set another value, or run without --strict-parameters (strict_parameters: false)"
GRACE = 1.0
"""Seconds in which a later call may show that the provider still takes calls."""


class Rejection(msgspec.Struct):
    """The reason why a provider rejects all calls of a run; shared by all parts of the run in this process."""

    problem: ProviderRejected | None = None

    def note(self, provider: str, model: str, failure: ModelFailure) -> None:
        """Store the first rejection."""
        if self.problem is None:
            self.problem = ProviderRejected(
                f"the provider '{provider}' rejects the calls to '{model}': {failure.message}",
                hint=_STRICT_HINT
                if failure.code == "parameter_refused"
                else "check its key, model and account, then resume the run: finished records are not repeated",
            )


class ModelAdmission:
    """Decides whether a provider's rejections of calls to one model concern single records or all calls.

    A rejected call looks the same in both cases. A call that is made later and succeeds tells them apart, for any number of records
    and any concurrency; without one, a request that succeeded before is sent again.
    """

    def __init__(self) -> None:
        self.in_flight = 0
        """Calls to the model in flight."""
        self._known_good: ModelRequest | None = None
        self._suspects: dict[asyncio.Future[bool], float] = {}
        """Rejected calls whose reason is not yet known, with the time of their rejection."""
        self._checking = asyncio.Lock()

    def succeeded(self, ask: ModelRequest, started: float) -> None:
        """Note a call that was made at this time and brought a reply: what was rejected before it concerned single records."""
        if self._known_good is None:
            self._known_good = ask
        if self._suspects:
            self._settle(is_records_own=True, before=started)

    async def is_records_own(
        self, rejected_at: float, *, check: Callable[[ModelRequest], Awaitable[bool]], now: Callable[[], float], stop: asyncio.Event
    ) -> bool | None:
        """Return True when a rejection concerns one record, False when it concerns all calls, None when the run is stopped first.

        `check` sends a request again and returns whether it was answered.
        """
        suspect: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._suspects[suspect] = rejected_at
        stopped: asyncio.Future[Any] = asyncio.ensure_future(stop.wait())
        try:
            if len(self._suspects) < MAX_UNEXPLAINED:
                await self._wait(suspect, stopped)
            while not suspect.done() and not stop.is_set():
                if self._known_good is None and self.in_flight and len(self._suspects) < MAX_UNEXPLAINED:
                    # A call in flight may still return the first reply.
                    await self._wait(suspect, stopped)
                    continue
                async with self._checking:
                    if not suspect.done() and not stop.is_set():
                        before = now()
                        still_answers = self._known_good is not None and await check(self._known_good)
                        self._settle(is_records_own=still_answers, before=before)
            return suspect.result() if suspect.done() else None
        finally:
            stopped.cancel()
            del self._suspects[suspect]

    async def _wait(self, *ends: asyncio.Future[Any]) -> None:
        await asyncio.wait(ends, timeout=GRACE, return_when=asyncio.FIRST_COMPLETED)

    def _settle(self, *, is_records_own: bool, before: float) -> None:
        """Resolve the rejections up to this time; a general rejection also resolves later ones."""
        for suspect, since in self._suspects.items():
            if not suspect.done() and (since <= before or not is_records_own):
                suspect.set_result(is_records_own)


_CUT_PAUSE = 1.0
"""Seconds after a reduction in which further 429s are attributed to the same overload."""


class RateLimiter:
    """A steady rate with a burst of one second (generic cell rate algorithm); may be charged after the fact."""

    def __init__(self, per_minute: float | None) -> None:
        self._interval = 60.0 / per_minute if per_minute else 0.0
        self._burst = 1.0
        self._due = 0.0

    @property
    def is_limited(self) -> bool:
        """True when a rate is set."""
        return bool(self._interval)

    def wait(self, now: float) -> float:
        """Return the seconds until the next unit may be used."""
        return max(0.0, self._due - self._burst - now) if self._interval else 0.0

    def charge(self, now: float, units: float = 1.0) -> None:
        """Count units as used."""
        if self._interval:
            self._due = max(self._due, now) + units * self._interval


class ProviderLimiter:
    """Limits on the calls to one provider: concurrency that adapts to 429s, rates, and a breaker for permanent rejections."""

    def __init__(self, provider: ProviderPlan, cap: int) -> None:
        self.provider = provider
        self.cap = cap
        self.limit = float(cap)
        """Maximum calls in flight at present: grows by one per full round of successes, halves after a 429."""
        self.in_flight = 0
        self.requests = RateLimiter(provider.requests_per_minute)
        self.tokens = RateLimiter(provider.tokens_per_minute)
        self.broken: ModelFailure | None = None
        """The permanent rejection after which no further call is made."""
        self.refused = asyncio.Event()
        """Set together with `broken`, to end waits."""
        self._successes = 0
        self._cut_at = float("-inf")

    def succeeded(self, usage: Usage, now: float) -> None:
        """Record a call that returned a reply."""
        self._successes += 1
        if self.limit < self.cap:
            self.limit = min(float(self.cap), self.limit + 1.0 / self.limit)
        if usage.total_tokens:
            self.tokens.charge(now, usage.total_tokens)

    def failed(self, failure: ModelFailure, now: float) -> None:
        """Record a failed call; halve the concurrency after a 429."""
        # Calls that were in flight together are all rejected by one overload: only the first of them reduces the limit.
        if failure.code == "rate_limited" and not failure.is_exhausted and now - self._cut_at > _CUT_PAUSE:
            self._cut_at = now
            self.limit = max(1.0, self.limit / 2)

    @property
    def is_cut(self) -> bool:
        """True while 429s keep the concurrency below its cap."""
        return self.limit < self.cap

    def share(self, cap: int) -> None:
        """Set the cap to this worker's changed part of the shared concurrency."""
        self.limit = min(self.limit, cap) if self.is_cut else float(cap)
        self.cap = cap

    def refuse(self, failure: ModelFailure) -> None:
        """Apply another worker's permanent rejection, unless a success here shows that it concerns only that worker."""
        if self.broken is None and (failure.is_exhausted or not self._successes):
            self.give_up(failure)

    def give_up(self, failure: ModelFailure) -> None:
        """Stop calling this provider because of a permanent failure."""
        self.broken = failure
        self.refused.set()


class StageLimiter:
    """Limits on all calls of one stage, across providers."""

    def __init__(self, limits: StageSection, cap: int) -> None:
        self.cap = min(cap, limits.concurrency or cap)
        self.in_flight = 0
        self.requests = RateLimiter(limits.requests_per_minute)


class CallQueue:
    """Queue for the calls to one model: they wait for slots of its provider and stage, then for their rates."""

    def __init__(self, limiter: ProviderLimiter, stage: StageLimiter) -> None:
        self.limiter = limiter
        self.stage = stage
        self.admission = ModelAdmission()
        self.waiting: deque[asyncio.Future[None]] = deque()
        self.turn = asyncio.Lock()
        """Held by the one call that waits for the rates, so that calls pass in the order of their arrival."""
        self.is_paced = limiter.requests.is_limited or limiter.tokens.is_limited or stage.requests.is_limited
        """True when a rate limits these calls."""

    @property
    def has_room(self) -> bool:
        """True when both provider and stage have a free slot."""
        return self.limiter.in_flight < int(self.limiter.limit) and self.stage.in_flight < self.stage.cap

    def wait(self, now: float) -> float:
        """Return the seconds until all rates allow one more call."""
        return max(self.limiter.requests.wait(now), self.limiter.tokens.wait(now), self.stage.requests.wait(now))

    def charge(self, now: float) -> None:
        """Count one call against the rates."""
        self.limiter.requests.charge(now)
        self.stage.requests.charge(now)


class CallScheduler:
    """Scheduler of a run's calls: one cap on concurrency, and a queue per model that waits for its provider and stage."""

    def __init__(self, plan: Plan, *, clock: Callable[[], float], stop: asyncio.Event) -> None:
        self._free = plan.concurrency
        self.stop = stop
        """Set when no new call may be made."""
        self._clock = clock
        self._provider_limiters = {provider.name: ProviderLimiter(provider, plan.concurrency) for provider in plan.providers}
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

    def new_queue(self, provider: str, stage: Stage) -> CallQueue:
        """Return a new queue for the calls to one model."""
        queue = CallQueue(self._provider_limiters[provider], self._stage_limiters[stage])
        self._queues.append(queue)
        return queue

    async def acquire(self, queue: CallQueue, stop: asyncio.Event | None = None) -> None:
        """Wait for a slot and for the rates; `stop`, by default the run's, ends the wait for the rates."""
        if queue.waiting or not self._free or not queue.has_room:
            await self._wait_for_slot(queue)
        else:
            self._take(queue)
        if queue.is_paced:
            await self._wait_for_rates(queue, stop or self.stop)

    def limit_cost(self, counters: RunCounters, budget: float) -> None:
        """End waits for rates once the run's cost reaches the budget."""
        self._is_spent = lambda: counters.cost >= budget
        counters.on_paid = self._check_budget
        self._check_budget()

    def _check_budget(self) -> None:
        if self._is_spent():
            self._spent.set()

    def wake_stopped(self) -> None:
        """Wake callers of `acquire` whose stop is set; a no-op here, since a local slot becomes free soon and they check then."""

    async def pause(self, seconds: float, queues: Iterable[CallQueue], *, stop: asyncio.Event | None = None) -> None:
        """Wait without a slot; a stop, a spent budget or a rejected provider ends the wait."""
        await _wait(seconds, [stop or self.stop, self._spent, *(queue.limiter.refused for queue in queues)])

    async def _wait_for_slot(self, queue: CallQueue) -> None:
        slot: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.waiting.append(slot)
        try:
            await slot
        except asyncio.CancelledError:
            # The slot may have been assigned at the same moment as the cancel; without the release it would leak.
            if slot.done() and not slot.cancelled() and slot.exception() is None:
                self.release(queue)
            raise

    async def _wait_for_rates(self, queue: CallQueue, stop: asyncio.Event) -> None:
        """Wait, one call of a queue at a time, until all rates allow it, and only then charge them."""
        try:
            await queue.turn.acquire()
        except asyncio.CancelledError:
            self.release(queue)
            raise
        try:
            while not stop.is_set() and not self._will_be_refused(queue):
                wait = queue.wait(self._clock())
                if wait <= 0:
                    queue.charge(self._clock())
                    return
                await self._wait_holding_slot(queue, wait, stop=stop)
        finally:
            queue.turn.release()

    def _will_be_refused(self, queue: CallQueue) -> bool:
        """True when the call would be refused after the wait, so that waiting is pointless."""
        return queue.limiter.broken is not None or self._is_spent()

    async def _wait_holding_slot(self, queue: CallQueue, seconds: float, *, stop: asyncio.Event) -> None:
        """Wait while holding a slot; the wait ends early when the call would be refused."""
        try:
            await _wait(seconds, [stop, self._spent, queue.limiter.refused])
        except asyncio.CancelledError:
            self.release(queue)
            raise

    def release(self, queue: CallQueue) -> None:
        """Release the slot, and assign free slots on the next pass of the event loop.

        The delay lets the record that releases a slot request its judge call first. It would otherwise wait behind records that
        have not begun, and the run would end with few calls in flight.
        """
        self._free += 1
        queue.limiter.in_flight -= 1
        queue.stage.in_flight -= 1
        if not self._is_assignment_scheduled:
            self._is_assignment_scheduled = True
            asyncio.get_running_loop().call_soon(self._assign_slots)

    def _assign_slots(self) -> None:
        self._is_assignment_scheduled = False
        # Judges first (their queues were opened last): finishing a record frees memory, and its result survives a crash.
        for queue in reversed(self._queues):
            while self._free > 0 and queue.waiting and queue.has_room:
                slot = queue.waiting.popleft()
                if not slot.done():
                    self._take(queue)
                    slot.set_result(None)

    def _take(self, queue: CallQueue) -> None:
        self._free -= 1
        queue.limiter.in_flight += 1
        queue.stage.in_flight += 1


async def _wait(seconds: float, ends: Iterable[asyncio.Event]) -> None:
    """Wait until the time has passed or one of the events is set."""
    waits = [asyncio.ensure_future(end.wait()) for end in dict.fromkeys(ends)]
    try:
        await asyncio.wait(waits, timeout=max(seconds, 0.0), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
