"""Call limits shared by a run's workers: each leases a part from the run's database and uses it without further round trips."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from math import inf
from typing import TypeVar
from uuid import uuid4

import msgspec

from assay.core.errors import StoreUnavailable
from assay.core.model_call import ModelFailure, Stage
from assay.core.plan import Plan
from assay.engine.execution.limits import CallQueue, CallScheduler
from assay.engine.execution.rate_reservations import RateReservations, UsageMeter
from assay.engine.execution.shared_budget import SharedBudget
from assay.engine.records.run_counters import RunCounters
from assay.store.leases import ALL, LATE, LIFE, LeaseGrant, LeaseRequest, LeaseStore, RunLimits
from assay.store.ledger import Ledger
from assay.store.lock import worker_name

RENEWAL_INTERVAL = 1.0
"""Seconds between two lease requests when nothing calls for one sooner."""
_SHORTAGE_INTERVAL = 0.2
"""Seconds between two lease requests while other workers still use slots of this worker's share."""
_REPORT_DELAY = 0.25
"""Seconds after which used tokens and cost are reported to the other workers."""
_MIN_INTERVAL = 0.05
"""Minimum seconds between two lease requests, so that one serves many calls."""
ANSWER_TIMEOUT = 60.0
"""Seconds without an answer from the database after which waiting calls fail; leases expire, and calls end, long before."""
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

T = TypeVar("T")


def _now() -> float:
    """Return the time of a monotonic clock that includes suspend: a lease also expires while the machine sleeps."""
    return time.clock_gettime(_CLOCK)


@asynccontextmanager
async def open_scheduler(
    ledger: Ledger, plan: Plan, *, clock: Callable[[], float], stop: asyncio.Event
) -> AsyncIterator[CallScheduler]:
    """Open the scheduler of a run's calls, shared with its other workers when the ledger has leases."""
    leases = ledger.leases()
    if leases is None:
        yield CallScheduler(plan, clock=clock, stop=stop)
        return
    shared = SharedCallScheduler(plan, leases, clock=clock, stop=stop)
    try:
        yield shared
    finally:
        await shared.close()


def shared_limits(plan: Plan) -> RunLimits:
    """Return the limits of a plan that its workers share."""
    # Judges first: the order decides who gets scarce slots, and a judge call finishes a record that is already paid for.
    stages = {"judge": plan.judging, "candidate": plan.generation}
    per_minute = {
        **{f"requests/{provider.name}": provider.requests_per_minute for provider in plan.providers},
        **{f"tokens/{provider.name}": provider.tokens_per_minute for provider in plan.providers},
        **{f"stage/{stage}": limits.requests_per_minute for stage, limits in stages.items()},
    }
    rates = {name: rate for name, rate in per_minute.items() if rate}
    queues = [(f"{provider.name}/{stage}", provider.name, stage) for provider in plan.providers for stage in stages]
    capped = {stage: min(plan.concurrency, limits.concurrency) for stage, limits in stages.items() if limits.concurrency}
    return RunLimits(
        seats={ALL: plan.concurrency, **capped},
        rates=rates,
        gates={name: tuple(rates.keys() & {f"requests/{provider}", f"stage/{stage}"}) for name, provider, stage in queues},
        metered={name: tuple(rates.keys() & {f"tokens/{provider}"}) for name, provider, _ in queues},
    )


class _ProviderRefusal(msgspec.Struct, frozen=True):
    """A provider's permanent rejection, as one worker reports it to the others."""

    code: str
    message: str
    is_exhausted: bool


class _WaitInterrupted(Exception):
    """Raised in a waiting call so that it checks again whether it may still be made."""


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
        self._peaks = dict.fromkeys(self._limits.seats, 0)
        self._reported = dict(self._peaks)
        self._refusals: dict[str, bytes] = {}
        self._reservations = {
            name: RateReservations() for name, rates in self._limits.gates.items() if rates or self._limits.metered[name]
        }
        self._reservations_of: dict[CallQueue, RateReservations] = {}
        self._requested_calls: dict[str, int] = {}
        self._meters: dict[str, UsageMeter] = {}
        self._budget = SharedBudget(RunCounters(0, {}, started=0.0), inf)
        """Unused placeholder in a run without a maximum cost."""
        self._lease_ends_at = 0.0
        """The lease may be used before this time."""
        self._error: BaseException | None = None
        self._lease_client = LeaseClient(leases, self._limits, request=self._lease_request, on_grant=self._apply)
        for limiter in self._provider_limiters.values():
            if f"tokens/{limiter.provider.name}" in self._limits.rates:
                meter = UsageMeter(lambda: self._lease_client.request_by(_now() + _REPORT_DELAY))
                limiter.tokens = self._meters[f"tokens/{limiter.provider.name}"] = meter
        self._tasks = [asyncio.create_task(self._lease_client.run()), asyncio.create_task(self._wake_on_stop())]
        self._tasks[0].add_done_callback(self._on_client_end)

    def new_queue(self, provider: str, stage: Stage) -> CallQueue:
        """Return a new queue for the calls to one model."""
        queue = super().new_queue(provider, stage)
        reservations = self._reservations.get(f"{provider}/{stage}")
        if reservations is not None:
            self._reservations_of[queue] = reservations
        return queue

    async def acquire(self, queue: CallQueue, stop: asyncio.Event | None = None) -> None:
        """Wait for a slot and for the rates; a stop ends both waits. Raises StoreUnavailable when no lease can be obtained."""
        stop = stop or self.stop
        while not stop.is_set():
            if self._error is not None:
                raise self._error
            with suppress(_WaitInterrupted):
                await self._acquire_slot(queue)
                await self._wait_for_reservation(queue, stop)
                if self._has_valid_lease(queue):
                    return
                self.release(queue)
        # The caller checks for the stop next and releases the slot; taking it keeps both calls balanced.
        self._take(queue)

    def limit_cost(self, counters: RunCounters, budget: float) -> None:
        """Enforce a maximum cost over all workers: report this worker's cost, and count theirs."""
        super().limit_cost(counters, budget)
        self._budget = SharedBudget(counters, budget)
        counters.on_paid = self._report_cost

    def _report_cost(self) -> None:
        self._check_budget()
        self._lease_client.request_by(_now() + (0.0 if self._budget.is_nearly_empty else _REPORT_DELAY))

    def wake_stopped(self) -> None:
        """Interrupt all waiting calls, so that they check for a stop and for rejected providers."""
        for queue in self._queues:
            _interrupt(queue.waiting)
        for reservations in self._reservations.values():
            _interrupt(reservations.waiting)

    def release(self, queue: CallQueue) -> None:
        """Release the slot; when this worker's share has shrunk, return it to the other workers soon."""
        super().release(queue)
        is_over_share = self._free < 1 or queue.stage.in_flight >= queue.stage.cap
        is_new_refusal = queue.limiter.broken is not None and queue.limiter.provider.name not in self._refusals
        if is_over_share or is_new_refusal:
            self._lease_client.request_by(_now())

    async def close(self) -> None:
        """Stop renewing and return the lease."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._lease_client.close(self._lease_request(RENEWAL_INTERVAL))

    async def _acquire_slot(self, queue: CallQueue) -> None:
        if queue.waiting or self._free < 1 or not queue.has_room:
            self._note_demand(queue)
            await self._wait_for_slot(queue)
        else:
            self._take(queue)

    async def _wait_for_reservation(self, queue: CallQueue, stop: asyncio.Event) -> None:
        """Wait, holding a slot, for the time that the rates assign to the call; return early when the call would be refused."""
        reservations = self._reservations_of.get(queue)
        while reservations is not None and not self._will_be_refused(queue) and not stop.is_set():
            reserved_at = reservations.take(_now())
            if reserved_at is None:
                reserved_at = await self._next_reservation(queue, reservations)
            elif reservations.is_low:
                self._lease_client.request_by(_now())
            wait = reserved_at - _now()
            if wait > 0:
                await self._wait_holding_slot(queue, wait, stop=stop)
            # A call made later would add to those of the next interval and exceed the rate (see LATE): reserve again.
            if _now() <= reserved_at + LATE:
                return

    async def _next_reservation(self, queue: CallQueue, reservations: RateReservations) -> float:
        waiting: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        reservations.waiting.append(waiting)
        self._lease_client.request_by(max(_now(), reservations.again))
        reserved_at: float | None = None
        try:
            reserved_at = await waiting
            return reserved_at
        finally:
            # On cancel and on _WaitInterrupted the caller starts over without a slot.
            if reserved_at is None:
                self.release(queue)

    def _has_valid_lease(self, queue: CallQueue) -> bool:
        """Return False when the lease has expired, as after a frozen process: the slot now belongs to another worker."""
        if _now() < self._lease_ends_at or queue.limiter.broken is not None:
            return True
        self._set_slots(0)
        self._lease_client.request_by(_now())
        return False

    def _note_demand(self, newcomer: CallQueue) -> None:
        """Request a new lease when a waiting call raises the demand above what was last reported."""
        for name, wanted in self._wanted_slots(newcomer).items():
            self._peaks[name] = max(self._peaks[name], wanted)
            if self._peaks[name] > self._reported[name]:
                self._lease_client.request_by(_now())

    def _wanted_slots(self, newcomer: CallQueue | None = None) -> dict[str, int]:
        """Return the number of slots that there is work for, including those in use, by limit."""
        caps = self._limits.seats
        wanted: dict[str, int] = {}
        for name, stage in self._stage_limiters.items():
            waiting = sum(_waiting_calls(queue) + (queue is newcomer) for queue in self._queues if queue.stage is stage)
            wanted[name] = min(stage.in_flight + waiting, caps.get(name, caps[ALL]))
        wanted[ALL] = min(sum(wanted.values()), caps[ALL])
        return {name: wanted[name] for name in caps}

    def _lease_request(self, seconds: float) -> LeaseRequest:
        """Give up slots without work, and return a request with this worker's slots, demand and use in the last `seconds`."""
        for name, wanted in self._wanted_slots().items():
            self._reported[name], self._peaks[name] = max(wanted, self._peaks[name]), 0
        in_flight = self._slots - self._free
        self._set_slots(min(self._slots, max(in_flight, self._reported[ALL])))
        for name, capped in self._capped.items():
            capped.cap = min(capped.cap, max(capped.in_flight, self._reported[name]))
        self._refusals = {
            name: _encode_refusal(limiter.broken) for name, limiter in self._provider_limiters.items() if limiter.broken is not None
        }
        self._requested_calls = {
            name: calls for name, reservations in self._reservations.items() if (calls := reservations.calls(seconds))
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
            calls=self._requested_calls,
            used={rate: used for rate, meter in self._meters.items() if (used := meter.take())[1]},
            pending=self._pending_calls(),
            refused=self._refusals,
            spent=self._budget.take(),
        )

    def _pending_calls(self) -> dict[str, int]:
        """Return, by rate, the calls whose token use is not yet known; calls that wait for a reservation are excluded."""
        pending = {f"tokens/{limiter.provider.name}": limiter.in_flight for limiter in self._provider_limiters.values()}
        for name, rates in self._limits.metered.items():
            for rate in rates:
                pending[rate] += self._reservations[name].stock - len(self._reservations[name].waiting)
        return {rate: max(0, pending[rate]) for rate in self._meters}

    def _apply(self, grant: LeaseGrant, asked: float) -> None:
        """Apply the grant for a request sent at time `asked`."""
        now = _now()
        # Counted from the request: the database started the lease no earlier than that.
        self._lease_ends_at = asked + self._limits.life
        self._set_slots(grant.seats[ALL])
        for name, capped in self._capped.items():
            capped.cap = grant.seats[name]
        for limiter in self._provider_limiters.values():
            limiter.share(max(1, self._slots))
        for provider, refusal in grant.refused.items():
            why = msgspec.json.decode(refusal, type=_ProviderRefusal)
            if provider in self._provider_limiters:
                self._provider_limiters[provider].refuse(ModelFailure(why.code, why.message, is_exhausted=why.is_exhausted))
        for gate, calls in self._requested_calls.items():
            self._reservations[gate].give(grant.moments[gate], asked=calls, now=now, wait=grant.waits[gate])
        self._budget.update_total(grant.spent)
        self._check_budget()
        self._assign_slots()
        for queue, reservations in self._reservations_of.items():
            if self._will_be_refused(queue):
                _interrupt(reservations.waiting)
            elif reservations.waiting:
                self._lease_client.request_by(reservations.again)
        if grant.is_short:
            self._lease_client.request_by(now + _SHORTAGE_INTERVAL)

    def _set_slots(self, slots: int) -> None:
        # May leave `_free` negative while calls above the new share are still in flight.
        self._free += slots - self._slots
        self._slots = slots

    async def _wake_on_stop(self) -> None:
        await self.stop.wait()
        self.wake_stopped()

    def _on_client_end(self, client: asyncio.Task[None]) -> None:
        """Pass the client's error to all waiting calls."""
        if not client.cancelled() and client.exception() is not None:
            self._error = client.exception()
            self.wake_stopped()


def _interrupt(waiting: deque[asyncio.Future[T]]) -> None:
    for wait in waiting:
        if not wait.done():
            wait.set_exception(_WaitInterrupted())
    waiting.clear()


def _waiting_calls(queue: CallQueue) -> int:
    """Return the number of waiting calls that more slots would help; 429s cap those of their provider."""
    limiter, waiting = queue.limiter, len(queue.waiting)
    return min(waiting, max(0, int(limiter.limit) - limiter.in_flight)) if limiter.is_cut else waiting


def _encode_refusal(failure: ModelFailure) -> bytes:
    return msgspec.json.encode(_ProviderRefusal(failure.code, failure.message, failure.is_exhausted))
