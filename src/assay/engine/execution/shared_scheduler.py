"""Call limits shared by a run's workers: each leases a part from the run's database and uses it without further round trips."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from math import inf
from uuid import uuid4

import msgspec

from assay.core.errors import StoreUnavailable
from assay.core.model_call import ModelFailure, Reply
from assay.core.plan import Plan
from assay.engine.execution.limits import CallKind, CallQueue, CallScheduler, CallSlot, RateLimiter
from assay.engine.execution.shared_budget import SharedBudget
from assay.engine.records.run_counters import RunCounters
from assay.store.leases import ALL, LIFE, LeaseGrant, LeaseRequest, LeaseStore, RunLimits, SharedFinding
from assay.store.ledger import Ledger
from assay.store.lock import worker_name

RENEWAL_INTERVAL = 1.0
"""Seconds between two lease requests when nothing calls for one sooner."""
_SHORTAGE_INTERVAL = 0.2
"""Seconds between two lease requests while other workers still use slots of this worker's share."""
_REPORT_DELAY = 0.25
"""Seconds after which the cost is reported to the other workers."""
_HEADROOM = 1.5
"""Factor by which a worker's share of a rate may be larger than what it used lately."""
_MIN_INTERVAL = 0.05
"""Minimum seconds between two lease requests, so that one serves many calls."""
ANSWER_TIMEOUT = 60.0
"""Seconds without an answer from the database after which waiting calls fail; leases expire, and calls end, long before."""
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def _now() -> float:
    """Return the time of a monotonic clock that includes suspend: a lease also expires while the machine sleeps."""
    return time.clock_gettime(_CLOCK)


@asynccontextmanager
async def open_scheduler(
    ledger: Ledger, plan: Plan, *, clock: Callable[[], float], stop: asyncio.Event
) -> AsyncIterator[CallScheduler]:
    """Open the scheduler of a run's calls, shared with its other workers when the ledger has leases."""
    leases = ledger.leases()
    shared = None if leases is None else SharedCallScheduler(plan, leases, clock=clock, stop=stop)
    scheduler = shared or CallScheduler(plan, clock=clock, stop=stop)
    try:
        yield scheduler
    finally:
        await scheduler.close()


def shared_limits(plan: Plan) -> RunLimits:
    """Return the limits of a plan that its workers share."""
    # Judges first: the order decides who gets scarce slots, and a judge call finishes a record that is already paid for.
    stages = {"judge": plan.judging, "candidate": plan.generation}
    per_minute = {
        **{f"requests/{provider.name}": provider.requests_per_minute for provider in plan.providers},
        **{f"tokens/{provider.name}": provider.tokens_per_minute for provider in plan.providers},
        **{f"stage/{stage}": limits.requests_per_minute for stage, limits in stages.items()},
    }
    capped = {stage: min(plan.concurrency, limits.concurrency) for stage, limits in stages.items() if limits.concurrency}
    return RunLimits(seats={ALL: plan.concurrency, **capped}, rates={name: rate for name, rate in per_minute.items() if rate})


class _ProviderRefusal(msgspec.Struct, frozen=True):
    """A provider's permanent rejection, as one worker reports it to the others."""

    code: str
    message: str
    is_exhausted: bool


class LeaseClient:
    """Client that renews this worker's lease in its own thread: on demand, and at least once per RENEWAL_INTERVAL."""

    def __init__(
        self,
        leases: LeaseStore,
        limits: RunLimits,
        *,
        request: Callable[[float], LeaseRequest],
        on_grant: Callable[[LeaseGrant, float], None],
    ) -> None:
        self._leases, self._limits = leases, limits
        self._make_request, self._on_grant = request, on_grant
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="assay-leases")
        self._requested_at = _now() - RENEWAL_INTERVAL
        self._next_request_at = inf
        self._wake_up = asyncio.Event()

    def request_by(self, at: float) -> None:
        """Send the next request by this time, but no sooner than _MIN_INTERVAL after the last one."""
        due = max(at, self._requested_at + _MIN_INTERVAL)
        if due < self._next_request_at:
            self._next_request_at = due
            self._wake_up.set()

    async def run(self) -> None:
        """Send requests until cancelled; raises StoreUnavailable when the database does not answer for ANSWER_TIMEOUT."""
        while True:
            now = _now()
            request = self._make_request(now - self._requested_at)
            self._requested_at, self._next_request_at = now, now + RENEWAL_INTERVAL
            grant, asked = await self._send(request)
            self._on_grant(grant, asked)
            while (wait := self._next_request_at - _now()) > 0:
                self._wake_up.clear()
                # Not wait_for: in Python 3.11 it forgets a cancel that comes together with the event.
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self._wake_up.wait()

    async def _send(self, request: LeaseRequest) -> tuple[LeaseGrant, float]:
        """Send a request until it is answered; return the grant and the time of the successful attempt.

        A retry sends the same request with the same number, so that the database charges its use only once.
        """
        loop, end = asyncio.get_running_loop(), _now() + ANSWER_TIMEOUT
        while True:
            asked = _now()
            try:
                return await loop.run_in_executor(self._thread, self._leases.ask, request, self._limits), asked
            except StoreUnavailable:
                if asked > end:
                    raise
            await asyncio.sleep(_SHORTAGE_INTERVAL)

    async def close(self, last: LeaseRequest) -> None:
        """Report the last use and return the lease."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._release_lease, last)
        self._thread.shutdown()

    def _release_lease(self, last: LeaseRequest) -> None:
        # Without the database the lease is not returned, but expires.
        with suppress(StoreUnavailable):
            self._leases.ask(last, self._limits)
            self._leases.leave(last.worker)
        self._leases.close()


class SharedCallScheduler(CallScheduler):
    """Scheduler with leased limits: this worker's share changes with demand, and without a valid lease it makes no calls."""

    def __init__(
        self, plan: Plan, leases: LeaseStore, *, clock: Callable[[], float], stop: asyncio.Event, life: float = LIFE
    ) -> None:
        super().__init__(plan, clock=clock, stop=stop)
        self._worker, self._number = f"{worker_name()}:{uuid4().hex[:8]}", 0
        self._limits = msgspec.structs.replace(shared_limits(plan), life=life)
        self._slots = self._free = 0
        self._capped = {name: limiter for name, limiter in self._stage_limiters.items() if name in self._limits.seats}
        for capped in self._capped.values():
            capped.cap = 0
        self._rates: dict[str, RateLimiter] = {}
        for limiter in self._provider_limiters.values():
            self._rates[f"requests/{limiter.provider.name}"] = limiter.requests
            self._rates[f"tokens/{limiter.provider.name}"] = limiter.tokens
        self._rates |= {f"stage/{stage}": limiter.requests for stage, limiter in self._stage_limiters.items()}
        self._rates = {name: rate for name, rate in self._rates.items() if name in self._limits.rates}
        for rate in self._rates.values():
            rate.set(0.0, self._clock())
        self._peaks: dict[str, float] = dict.fromkeys((*self._limits.seats, *self._limits.rates), 0.0)
        self._reported = dict(self._peaks)
        self._sharers: dict[str, int] = {}
        """By provider, number of workers that have a part of the limit that was found, this one included."""
        self._refusals: dict[str, bytes] = {}
        self._budget = SharedBudget(RunCounters(0, {}, started=0.0), inf)
        """Unused placeholder in a run without a maximum cost."""
        self._lease_ends_at = 0.0
        """The lease may be used before this time."""
        self._error: BaseException | None = None
        self._lease_client = LeaseClient(leases, self._limits, request=self._lease_request, on_grant=self._apply)
        self._client = asyncio.create_task(self._lease_client.run())
        self._client.add_done_callback(self._on_client_end)

    async def acquire(self, queue: CallQueue, stop: asyncio.Event | None = None, *, kind: CallKind = "new") -> CallSlot:
        """Wait for a slot and for the limits; a stop ends the wait. Raises StoreUnavailable when no lease can be obtained."""
        while True:
            if self._error is not None:
                raise self._error
            slot = await super().acquire(queue, stop, kind=kind)
            if (stop or self.stop).is_set() or self._has_valid_lease(queue):
                return slot
            self.release(slot)

    def limit_cost(self, counters: RunCounters, budget: float) -> None:
        """Enforce a maximum cost over all workers: report this worker's cost, and count theirs."""
        super().limit_cost(counters, budget)
        self._budget = SharedBudget(counters, budget)
        counters.on_paid = self._report_cost

    def _report_cost(self) -> None:
        self._check_budget()
        self._lease_client.request_by(_now() + (0.0 if self._budget.is_nearly_empty else _REPORT_DELAY))

    def end_call(self, slot: CallSlot, result: Reply | ModelFailure | None) -> None:
        """Note the result of the slot's call, and tell the other workers of a wait that the provider stated."""
        learned = slot.queue.limiter.learned
        paused_until = learned.paused_until
        super().end_call(slot, result)
        if learned.paused_until > paused_until:
            self._lease_client.request_by(_now())

    def release(self, slot: CallSlot) -> None:
        """Release the slot; when this worker's share has shrunk, return it to the other workers soon."""
        super().release(slot)
        queue = slot.queue
        is_over_share = self._free < 1 or queue.stage.in_flight >= queue.stage.cap
        is_new_refusal = queue.limiter.broken is not None and queue.limiter.provider.name not in self._refusals
        if is_over_share or is_new_refusal:
            self._lease_client.request_by(_now())

    async def close(self) -> None:
        """Stop renewing and return the lease."""
        await super().close()
        self._client.cancel()
        await asyncio.gather(self._client, return_exceptions=True)
        await self._lease_client.close(self._lease_request(RENEWAL_INTERVAL))

    async def _wait_for_slot(self, queue: CallQueue, stop: asyncio.Event, kind: CallKind) -> CallSlot:
        self._note_demand(queue)
        return await super()._wait_for_slot(queue, stop, kind)

    def _has_valid_lease(self, queue: CallQueue) -> bool:
        """Return False when the lease has expired, as after a frozen process: the slot now belongs to another worker."""
        if _now() < self._lease_ends_at or queue.limiter.broken is not None:
            return True
        self._set_slots(0)
        self._lease_client.request_by(_now())
        return False

    def _note_demand(self, newcomer: CallQueue) -> None:
        """Request a new lease when a waiting call raises the demand above what was last reported."""
        for name, wanted in {**self._wanted_slots(newcomer), **self._waited_rates(newcomer)}.items():
            self._peaks[name] = max(self._peaks[name], wanted)
            if self._peaks[name] > self._reported[name]:
                self._lease_client.request_by(_now())

    def _wanted_slots(self, newcomer: CallQueue | None = None) -> dict[str, float]:
        """Return the number of slots that there is work for, including those in use, by limit."""
        caps = self._limits.seats
        wanted: dict[str, float] = {}
        for name, stage in self._stage_limiters.items():
            waiting = sum(len(queue.waiting) + (queue is newcomer) for queue in self._queues if queue.stage is stage)
            wanted[name] = min(stage.in_flight + waiting, caps.get(name, caps[ALL]))
        wanted[ALL] = min(sum(wanted.values()), caps[ALL])
        return {name: wanted[name] for name in caps}

    def _waited_rates(self, newcomer: CallQueue | None = None) -> dict[str, float]:
        """Return the rates for which calls wait: this worker takes as much of them as it gets."""
        wanted: dict[str, float] = {}
        for queue in self._queues:
            if queue.waiting or queue is newcomer:
                rates = (queue.limiter.requests, queue.limiter.tokens, queue.stage.requests)
                wanted |= {name: self._limits.rates[name] for name, rate in self._rates.items() if rate in rates}
        return wanted

    def _lease_request(self, seconds: float) -> LeaseRequest:
        """Give up slots without work, and return a request with this worker's shares, demand and use in the last `seconds`."""
        used = {name: units for name, rate in self._rates.items() if (units := rate.take_used())}
        waited = self._waited_rates()
        rates = {
            name: waited.get(name, min(cap, _HEADROOM * used.get(name, 0.0) * 60.0 / max(seconds, _MIN_INTERVAL)))
            for name, cap in self._limits.rates.items()
        }
        for name, wanted in {**self._wanted_slots(), **rates}.items():
            self._reported[name], self._peaks[name] = max(wanted, self._peaks[name]), 0.0
        in_flight = self._slots - self._free
        self._set_slots(min(self._slots, max(in_flight, int(self._reported[ALL]))))
        for name, capped in self._capped.items():
            capped.cap = min(capped.cap, max(capped.in_flight, int(self._reported[name])))
        self._refusals = {
            name: _encode_refusal(limiter.broken) for name, limiter in self._provider_limiters.items() if limiter.broken is not None
        }
        self._number += 1
        return LeaseRequest(
            worker=self._worker,
            number=self._number,
            held={
                ALL: max(self._slots, in_flight),
                **{name: max(limiter.cap, limiter.in_flight) for name, limiter in self._capped.items()},
            },
            wanted=dict(self._reported),
            used=used,
            refused=self._refusals,
            found=self._findings(),
            spent=self._budget.take(),
        )

    def _findings(self) -> dict[str, SharedFinding]:
        now = self._clock()
        learned = {name: limiter.learned for name, limiter in self._provider_limiters.items() if limiter.learned.is_limiting}
        return {
            name: SharedFinding(limit=limit.found(), paused_for=max(0.0, limit.paused_until - now))
            for name, limit in learned.items()
        }

    def _apply(self, grant: LeaseGrant, asked: float) -> None:
        """Apply the grant for a request sent at time `asked`."""
        now = _now()
        is_first = not self._lease_ends_at
        # Counted from the request: the database started the lease no earlier than that.
        self._lease_ends_at = asked + self._limits.life
        self._set_slots(grant.seats[ALL])
        for name, capped in self._capped.items():
            capped.cap = grant.seats[name]
        for rate_name, rate in self._rates.items():
            rate.set(grant.rates[rate_name], self._clock(), debt=grant.debts[rate_name] if is_first else 0.0)
        for provider, refusal in grant.refused.items():
            why = msgspec.json.decode(refusal, type=_ProviderRefusal)
            if provider in self._provider_limiters:
                self._provider_limiters[provider].refuse(ModelFailure(why.code, why.message, is_exhausted=why.is_exhausted))
        for provider in self._provider_limiters:
            self._share_finding(provider, grant.found.get(provider, ()))
        self._budget.update_total(grant.spent)
        self._check_budget()
        self._assign_slots()
        if grant.is_short:
            self._lease_client.request_by(now + _SHORTAGE_INTERVAL)

    def _share_finding(self, provider: str, others: tuple[SharedFinding, ...]) -> None:
        """Wait where another worker was told to, and take a part of the limit that the workers have found."""
        learned, now = self._provider_limiters[provider].learned, self._clock()
        learned.pause(now, max((finding.paused_for for finding in others), default=0.0))
        limits = [finding.limit for finding in others if finding.limit is not None]
        own = learned.found()
        sharers = len(limits) + 1
        if own is None and limits:
            # The others see one more sharer in their next grants, and give up as much.
            total = sum(limit.limit for limit in limits if limit.kind == limits[0].kind)
            learned.adopt(msgspec.structs.replace(limits[0], limit=total / sharers), now)
        elif own is not None and sharers != self._sharers.get(provider, sharers):
            learned.adopt(own.part(self._sharers[provider] / sharers), now)
        if own is not None or limits:
            self._sharers[provider] = sharers

    def _set_slots(self, slots: int) -> None:
        # May leave `_free` negative while calls above the new share are still in flight.
        self._free += slots - self._slots
        self._slots = slots

    def _on_client_end(self, client: asyncio.Task[None]) -> None:
        """Pass the client's error to all waiting calls."""
        problem = None if client.cancelled() else client.exception()
        if problem is not None:
            self._error = problem
            self._fail_waiting(problem)


def _encode_refusal(failure: ModelFailure) -> bytes:
    return msgspec.json.encode(_ProviderRefusal(failure.code, failure.message, failure.is_exhausted))
