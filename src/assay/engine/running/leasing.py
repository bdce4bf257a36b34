"""Limits that the workers of a run share: leased from its ledger in one question for many calls, and then used without asking."""

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

from assay.core.ask import ModelFailure, Stage
from assay.core.errors import StoreUnavailable
from assay.core.plan import Plan
from assay.engine.running.limits import Gate, Limits
from assay.engine.running.local import worker_name
from assay.engine.running.purse import Purse
from assay.engine.running.turnstiles import Meter, Turnstile
from assay.engine.tally import Tally
from assay.store.leases import ALL, LATE, LIFE, Grant, Leases, Need, Terms
from assay.store.ledger import Ledger

RENEWAL = 1.0
"""Seconds between two questions when nothing else is to be asked."""
_SHORTAGE = 0.2
"""Seconds between two questions of a worker that others keep from its share of the seats."""
_METERING = 0.25
"""Seconds after which the others hear of tokens that were used, and of money that was spent."""
_GAP = 0.05
"""Seconds between two questions at least, so that one serves many calls."""
PATIENCE = 60.0
"""Seconds without an answer after which the calls that wait give up; no call is made long before."""
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

T = TypeVar("T")


def _now() -> float:
    """A clock that nobody sets and that goes on while the machine sleeps: a lease is over when its time is."""
    return time.clock_gettime(_CLOCK)


@asynccontextmanager
async def open_limits(ledger: Ledger, plan: Plan, *, clock: Callable[[], float], stop: asyncio.Event) -> AsyncIterator[Limits]:
    """The limits of a run: shared by all who work on it where its ledger is."""
    leases = ledger.leases()
    if leases is None:
        yield Limits(plan, clock=clock, stop=stop)
        return
    shared = SharedLimits(plan, leases, clock=clock, stop=stop)
    try:
        yield shared
    finally:
        await shared.close()


def terms_of(plan: Plan) -> Terms:
    """The limits of a plan as its workers share them."""
    # Judges first: a record that is nearly done is worth more than one that is not begun.
    stages = {"judge": plan.judging, "candidate": plan.generation}
    per_minute = {
        **{f"requests/{provider.name}": provider.requests_per_minute for provider in plan.providers},
        **{f"tokens/{provider.name}": provider.tokens_per_minute for provider in plan.providers},
        **{f"stage/{stage}": limits.requests_per_minute for stage, limits in stages.items()},
    }
    rates = {name: rate for name, rate in per_minute.items() if rate}
    gates = [(f"{provider.name}/{stage}", provider.name, stage) for provider in plan.providers for stage in stages]
    capped = {stage: min(plan.concurrency, limits.concurrency) for stage, limits in stages.items() if limits.concurrency}
    return Terms(
        seats={ALL: plan.concurrency, **capped},
        rates=rates,
        gates={gate: tuple(rates.keys() & {f"requests/{provider}", f"stage/{stage}"}) for gate, provider, stage in gates},
        metered={gate: tuple(rates.keys() & {f"tokens/{provider}"}) for gate, provider, _ in gates},
    )


class _Refusal(msgspec.Struct, frozen=True):
    """Why a worker makes no further call to a provider, for the others."""

    code: str
    message: str
    is_exhausted: bool


class _Again(Exception):
    """Whoever waits is to look again whether there is anything to wait for."""


class Asking:
    """Asks the ledger in a thread of its own: as soon as somebody is in need, and at least every second."""

    def __init__(
        self, leases: Leases, terms: Terms, *, need: Callable[[float], Need], heed: Callable[[Grant, float], None]
    ) -> None:
        self._leases, self._terms = leases, terms
        self._need, self._heed = need, heed
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="assay-leases")
        self._asked = _now() - RENEWAL
        self._due = inf
        self._sooner = asyncio.Event()

    def by(self, at: float) -> None:
        """Ask at this time at the latest, but not without a gap after the last question."""
        due = max(at, self._asked + _GAP)
        if due < self._due:
            self._due = due
            self._sooner.set()

    async def go_on(self) -> None:
        """Ask and ask again; raises StoreUnavailable when there was no answer for too long."""
        while True:
            now = _now()
            need = self._need(now - self._asked)
            self._asked, self._due = now, now + RENEWAL
            grant, asked = await self._answer(need)
            self._heed(grant, asked)
            while (wait := self._due - _now()) > 0:
                self._sooner.clear()
                # Not wait_for: in Python 3.11 it forgets a cancel that comes together with the event.
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self._sooner.wait()

    async def _answer(self, need: Need) -> tuple[Grant, float]:
        """The answer and when it was asked for; the very same question is asked again, so that nothing is charged twice."""
        loop, end = asyncio.get_running_loop(), _now() + PATIENCE
        while True:
            asked = _now()
            try:
                return await loop.run_in_executor(self._thread, self._leases.ask, need, self._terms), asked
            except StoreUnavailable:
                if asked > end:
                    raise
            await asyncio.sleep(_SHORTAGE)

    async def close(self, last: Need) -> None:
        """Tell what was used, and give back everything that the worker has."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._leave, last)
        self._thread.shutdown()

    def _leave(self, last: Need) -> None:
        with suppress(StoreUnavailable):
            self._leases.ask(last, self._terms)
            self._leases.leave(last.worker)
        self._leases.close()


class SharedLimits(Limits):
    """Limits of which this worker has a part that changes; when that is over and nobody answers, it makes no calls."""

    def __init__(self, plan: Plan, leases: Leases, *, clock: Callable[[], float], stop: asyncio.Event, life: float = LIFE) -> None:
        super().__init__(plan, clock=clock, stop=stop)
        self._worker, self._number = f"{worker_name()}:{uuid4().hex[:8]}", 0
        self._terms = msgspec.structs.replace(terms_of(plan), life=life)
        self._seats = self._free = 0
        self._capped = {name: lane for name, lane in self._stages.items() if name in self._terms.seats}
        for capped in self._capped.values():
            capped.cap = 0
        self._peaks = dict.fromkeys(self._terms.seats, 0)
        self._told = dict(self._peaks)
        self._refusals: dict[str, bytes] = {}
        self._turnstiles = {gate: Turnstile() for gate, rates in self._terms.gates.items() if rates or self._terms.metered[gate]}
        self._turnstile_of: dict[Gate, Turnstile] = {}
        self._asked_calls: dict[str, int] = {}
        self._meters: dict[str, Meter] = {}
        self._purse = Purse(Tally(0, {}, started=0.0), inf)
        """Of a run without a budget nobody looks into it."""
        self._until = 0.0
        """What was leased may be used before this time."""
        self._problem: BaseException | None = None
        self._asking = Asking(leases, self._terms, need=self._need, heed=self._heed)
        for lane in self._lanes.values():
            if f"tokens/{lane.provider.name}" in self._terms.rates:
                lane.tokens = self._meters[f"tokens/{lane.provider.name}"] = Meter(lambda: self._asking.by(_now() + _METERING))
        self._tasks = [asyncio.create_task(self._asking.go_on()), asyncio.create_task(self._look_at_stop())]
        self._tasks[0].add_done_callback(self._give_up)

    def gate(self, provider: str, stage: Stage) -> Gate:
        """A new gate for the calls of a model."""
        gate = super().gate(provider, stage)
        turnstile = self._turnstiles.get(f"{provider}/{stage}")
        if turnstile is not None:
            self._turnstile_of[gate] = turnstile
        return gate

    async def enter(self, gate: Gate, stop: asyncio.Event | None = None) -> None:
        """Take a slot, waiting for one and for the rates; a stop ends both waits. Raises StoreUnavailable when nobody can say."""
        stop = stop or self.stop
        while not stop.is_set():
            if self._problem is not None:
                raise self._problem
            with suppress(_Again):
                await self._seat(gate)
                await self._pass(gate, stop)
                if self._may_call(gate):
                    return
                self.leave(gate)
        # The caller will see the stop, and give the slot back.
        self._take(gate)

    def share_cost(self, tally: Tally, budget: float) -> None:
        """Count what other workers spend of a budget, too, and tell them what is spent here."""
        super().share_cost(tally, budget)
        self._purse = Purse(tally, budget)
        tally.on_paid = self._tell_cost

    def _tell_cost(self) -> None:
        self._look_at_cost()
        self._asking.by(_now() + (0.0 if self._purse.is_nearly_empty else _METERING))

    def look_again(self) -> None:
        """Let all who wait see whether they have been stopped, or the provider takes no more calls."""
        for gate in self._gates:
            _wake(gate.waiting)
        for turnstile in self._turnstiles.values():
            _wake(turnstile.waiting)

    def leave(self, gate: Gate) -> None:
        """Give the slot back: to other workers if they are to have it, else to whoever waits here."""
        super().leave(gate)
        is_theirs = self._free < 1 or gate.stage.in_flight >= gate.stage.cap
        is_news = gate.lane.broken is not None and gate.lane.provider.name not in self._refusals
        if is_theirs or is_news:
            self._asking.by(_now())

    async def close(self) -> None:
        """Give everything back."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._asking.close(self._need(RENEWAL))

    async def _seat(self, gate: Gate) -> None:
        if gate.waiting or self._free < 1 or not gate.has_room:
            self._note_demand(gate)
            await self._queue(gate)
        else:
            self._take(gate)

    async def _pass(self, gate: Gate, stop: asyncio.Event) -> None:
        """Wait until the rates allow a call, or none will be made."""
        turnstile = self._turnstile_of.get(gate)
        while turnstile is not None and not self._is_vain(gate) and not stop.is_set():
            moment = turnstile.take(_now())
            if moment is None:
                moment = await self._moment(gate, turnstile)
            elif turnstile.is_low:
                self._asking.by(_now())
            wait = moment - _now()
            if wait > 0:
                await self._pace(gate, wait, stop=stop)
            if _now() <= moment + LATE:
                return

    async def _moment(self, gate: Gate, turnstile: Turnstile) -> float:
        waiting: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        turnstile.waiting.append(waiting)
        self._asking.by(max(_now(), turnstile.again))
        moment: float | None = None
        try:
            moment = await waiting
            return moment
        finally:
            if moment is None:
                self.leave(gate)

    def _may_call(self, gate: Gate) -> bool:
        """False when the lease is over, as after a freeze: the slot is somebody else's."""
        if _now() < self._until or gate.lane.broken is not None:
            return True
        self._allow(0)
        self._asking.by(_now())
        return False

    def _note_demand(self, newcomer: Gate) -> None:
        """Somebody has to wait for a slot: the others must know that more are wanted than they were told."""
        for name, wanted in self._wanted(newcomer).items():
            self._peaks[name] = max(self._peaks[name], wanted)
            if self._peaks[name] > self._told[name]:
                self._asking.by(_now())

    def _wanted(self, newcomer: Gate | None = None) -> dict[str, int]:
        """Slots that there is work for, those in use included."""
        caps = self._terms.seats
        wanted: dict[str, int] = {}
        for name, stage in self._stages.items():
            waiting = sum(_in_need(gate) + (gate is newcomer) for gate in self._gates if gate.stage is stage)
            wanted[name] = min(stage.in_flight + waiting, caps.get(name, caps[ALL]))
        wanted[ALL] = min(sum(wanted.values()), caps[ALL])
        return {name: wanted[name] for name in caps}

    def _need(self, seconds: float) -> Need:
        """What this worker has and wants; before it asks, it lets go of the slots that it has no work for."""
        for name, wanted in self._wanted().items():
            self._told[name], self._peaks[name] = max(wanted, self._peaks[name]), 0
        in_flight = self._seats - self._free
        self._allow(min(self._seats, max(in_flight, self._told[ALL])))
        for name, stage in self._capped.items():
            stage.cap = min(stage.cap, max(stage.in_flight, self._told[name]))
        self._refusals = {name: _refusal(lane.broken) for name, lane in self._lanes.items() if lane.broken is not None}
        self._asked_calls = {gate: calls for gate, turnstile in self._turnstiles.items() if (calls := turnstile.calls(seconds))}
        self._number += 1
        return Need(
            worker=self._worker,
            number=self._number,
            held={ALL: max(self._seats, in_flight), **{name: max(lane.cap, lane.in_flight) for name, lane in self._capped.items()}},
            wanted=dict(self._told),
            calls=self._asked_calls,
            used={rate: used for rate, meter in self._meters.items() if (used := meter.take())[1]},
            pending=self._pending(),
            refused=self._refusals,
            spent=self._purse.take(),
        )

    def _pending(self) -> dict[str, int]:
        """Calls under way of which nobody knows yet what they use; those that wait for a moment are not under way."""
        pending = {f"tokens/{lane.provider.name}": lane.in_flight for lane in self._lanes.values()}
        for gate, rates in self._terms.metered.items():
            for rate in rates:
                pending[rate] += self._turnstiles[gate].stock - len(self._turnstiles[gate].waiting)
        return {rate: max(0, pending[rate]) for rate in self._meters}

    def _heed(self, grant: Grant, asked: float) -> None:
        """Live by the answer to a question of this time."""
        now = _now()
        self._until = asked + self._terms.life
        self._allow(grant.seats[ALL])
        for name, stage in self._capped.items():
            stage.cap = grant.seats[name]
        for lane in self._lanes.values():
            lane.share(max(1, self._seats))
        for provider, refusal in grant.refused.items():
            why = msgspec.json.decode(refusal, type=_Refusal)
            if provider in self._lanes:
                self._lanes[provider].refuse(ModelFailure(why.code, why.message, is_exhausted=why.is_exhausted))
        for place, calls in self._asked_calls.items():
            self._turnstiles[place].give(grant.moments[place], asked=calls, now=now, wait=grant.waits[place])
        self._purse.hear(grant.spent)
        self._look_at_cost()
        self._hand_out()
        for gate, turnstile in self._turnstile_of.items():
            if self._is_vain(gate):
                _wake(turnstile.waiting)
            elif turnstile.waiting:
                self._asking.by(turnstile.again)
        if grant.is_short:
            self._asking.by(now + _SHORTAGE)

    def _allow(self, seats: int) -> None:
        self._free += seats - self._seats
        self._seats = seats

    async def _look_at_stop(self) -> None:
        await self.stop.wait()
        self.look_again()

    def _give_up(self, asking: asyncio.Task[None]) -> None:
        """Nobody answers any more: whoever waits hears why."""
        if not asking.cancelled() and asking.exception() is not None:
            self._problem = asking.exception()
            self.look_again()


def _wake(waiting: deque[asyncio.Future[T]]) -> None:
    for wait in waiting:
        if not wait.done():
            wait.set_exception(_Again())
    waiting.clear()


def _in_need(gate: Gate) -> int:
    """Calls that would be made with more slots: not those that a provider has slowed down."""
    lane, waiting = gate.lane, len(gate.waiting)
    return min(waiting, max(0, int(lane.limit) - lane.in_flight)) if lane.is_cut else waiting


def _refusal(failure: ModelFailure) -> bytes:
    return msgspec.json.encode(_Refusal(failure.code, failure.message, failure.is_exhausted))
