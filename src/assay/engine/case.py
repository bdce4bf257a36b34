"""One case: drives its grader from ask to ask, round after round, to exactly one outcome."""

import asyncio
import random
import time
import traceback
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, cast

import msgspec

from assay.core.ask import Ask, ModelFailure, Reply, Stage
from assay.core.case import Case
from assay.core.errors import AssayError
from assay.core.outcome import Attempt, Cancelled, Failed, FailureLabel, Grade, Graded, GradingFailure, Outcome
from assay.core.plan import Plan, retry_delay
from assay.engine.crew import Crew
from assay.engine.journal import Journal
from assay.engine.limits import Gate, Limits
from assay.engine.tally import Tally
from assay.grading import GradingSettings, start
from assay.models import Model
from assay.store.cache import ReplyCache
from assay.store.ledger import Claim, Entry, Fenced, OpenRecord

_decode_case = msgspec.json.Decoder(Case).decode


class Stopped(Exception):
    """The run takes no new calls; the record stays open for another day."""


class CallFailed(Exception):
    """A call failed for good."""

    def __init__(self, ask: Ask, failure: ModelFailure) -> None:
        super().__init__(failure.message)
        self.ask = ask
        self.failure = failure


class BudgetSpent(Exception):
    """The run has cost what it may cost, or a provider takes no more calls."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Route(msgspec.Struct, frozen=True):
    """How one model of the plan is reached."""

    model: Model
    gate: Gate
    address: Callable[[Ask], str]
    """The content address of an ask to this model."""
    cost: Callable[[Reply], float | None]


class Room(msgspec.Struct, kw_only=True):
    """What all cases of a run share."""

    plan: Plan
    settings: GradingSettings
    routes: Mapping[str, Route]
    journal: Journal
    limits: Limits
    tally: Tally
    crew: Crew
    stop: asyncio.Event
    """Set when no new call is to be made."""
    attachments: Callable[[Case], Mapping[str, str]]
    """The text of a case's attachments by path."""
    responses: Callable[[str], Reply] | None = None
    """Given answers by case id, instead of the candidate's."""
    cache: ReplyCache | None = None
    chance: Callable[[], float] = random.random
    clock: Callable[[], float] = time.time


async def run_case(opened: OpenRecord, claim: Claim, room: Room) -> None:
    """Bring one record to its outcome and append it; raises only when the ledger cannot be written."""
    drive = _Drive(opened, claim, room)
    try:
        outcome = await drive.outcome()
    except Stopped:
        await drive.save()
        return
    except (AssayError, Fenced):
        raise
    except Exception as problem:  # noqa: BLE001  # record isolation: one record's surprise is not the run's end
        outcome = Failed(code="internal_error", message=f"{type(problem).__name__}: {problem}", stack=traceback.format_exc())
    finally:
        drive.end_first_round()
    await room.journal.append(claim, Entry(opened.position, tuple(drive.unsaved), outcome))
    room.tally.add_outcome(outcome)


class _Drive:
    """One record on its way: its replies so far, its round, and what is not yet in the ledger."""

    def __init__(self, opened: OpenRecord, claim: Claim, room: Room) -> None:
        self._opened = opened
        self._claim = claim
        self._room = room
        self._case = _decode_case(opened.case)
        self._replies = {attempt.call_id: attempt.reply for attempt in opened.attempts if attempt.reply is not None}
        self._latencies = {attempt.call_id: attempt.latency_ms for attempt in opened.attempts if attempt.reply is not None}
        self._round = 1 + max((attempt.round for attempt in opened.attempts if attempt.error_code), default=0)
        self._is_first_round = True
        self.unsaved: list[Attempt] = []

    async def outcome(self) -> Outcome:
        """Grade the case, whatever that takes."""
        flow = start(self._case, self._room.settings, attachments=self._room.attachments(self._case))
        try:
            asks = next(flow)
            while True:
                asks = flow.send(await self._answers(asks))
        except StopIteration as end:
            return Graded(grade=self._within_latency(end.value))
        except GradingFailure as failure:
            stage: Stage = "candidate" if self._answer() is None else "judge"
            return Failed(code=failure.code, message=failure.message, stage=stage, label=failure.label, answer=self._answer())
        except CallFailed as problem:
            return self._failed(problem)
        except BudgetSpent as problem:
            return Cancelled(code=problem.code, message=problem.message)

    def _failed(self, problem: CallFailed) -> Failed:
        label: FailureLabel = "timeout_or_latency_exceeded" if problem.failure.code == "timeout" else "other"
        failure = problem.failure
        return Failed(code=failure.code, message=failure.message, stage=problem.ask.stage, label=label, answer=self._answer())

    def _answer(self) -> str | None:
        reply = self._replies.get("candidate")
        return None if reply is None else reply.text

    def _within_latency(self, grade: Grade) -> Grade:
        """batch_v1: an answer that took longer than expected does not pass."""
        allowed, taken = self._case.max_latency_ms, self._latencies.get("candidate", 0.0)
        if allowed is None or taken <= allowed:
            return grade
        flags = (*grade.flags, "latency_exceeded")
        return msgspec.structs.replace(grade, passed=False, label=grade.label or "timeout_or_latency_exceeded", flags=flags)

    async def _answers(self, asks: Sequence[Ask]) -> tuple[Reply, ...]:
        """Replies to all asks; those that failed transiently are asked again, in at most three rounds."""
        missing = [ask for ask in asks if ask.call_id not in self._replies]
        if missing:
            # What was paid for is on disk before more is spent.
            await self.save()
        while missing:
            missing = await self._ask_all(missing)
        return tuple(self._replies[ask.call_id] for ask in asks)

    async def _ask_all(self, asks: Sequence[Ask]) -> list[Ask]:
        """One round of calls; returns what is left for the next, after the wait that must come before it."""
        tried = [await self._try(asks[0])] if len(asks) == 1 else await _gathered(map(self._try, asks))
        failed = [(ask, problem) for ask, problem in zip(asks, tried, strict=True) if problem is not None]
        final = [pair for pair in failed if not pair[1].is_transient or self._round >= self._room.plan.retry.max_attempts]
        if final:
            raise CallFailed(*final[0])
        if failed:
            await self._wait(max(self._delay(problem) for _, problem in failed))
        return [ask for ask, _ in failed]

    def _delay(self, failure: ModelFailure) -> float:
        room = self._room
        return retry_delay(room.plan.retry, self._round, chance=room.chance(), retry_after=failure.retry_after)

    async def _wait(self, seconds: float) -> None:
        """Between two rounds the record holds no slot; a stop ends the wait."""
        self.unsaved = [
            msgspec.structs.replace(attempt, wait_s=seconds) if attempt.error_code else attempt for attempt in self.unsaved
        ]
        await self.save()
        self._round += 1
        self._room.crew.pause()
        self.end_first_round()
        try:
            await asyncio.wait_for(self._room.stop.wait(), seconds)
        except TimeoutError:
            return
        finally:
            self._room.crew.resume()
        raise Stopped

    def end_first_round(self) -> None:
        """The record has no first attempt left to start."""
        if self._is_first_round:
            self._is_first_round = False
            self._room.crew.end_first_round()

    async def save(self) -> None:
        """Append what is not yet in the ledger."""
        if not self.unsaved:
            return
        entry = Entry(self._opened.position, tuple(self.unsaved))
        self.unsaved = []
        await self._room.journal.append(self._claim, entry)

    async def _try(self, ask: Ask) -> ModelFailure | None:
        """One attempt at one ask; its reply or its failure is noted."""
        room = self._room
        if ask.stage == "candidate" and room.responses is not None:
            self._note(_Call(ask, "", room.clock()), room.responses(self._case.id), cost=None)
            return None
        route = room.routes[ask.model]
        call = _Call(ask, route.address(ask), room.clock())
        cached = room.cache.get(call.address) if room.cache is not None and not ask.is_fresh else None
        if cached is not None:
            self._note(call, msgspec.structs.replace(cached, flags=(*cached.flags, "cached")), cost=None)
            return None
        await room.limits.enter(route.gate)
        room.tally.in_flight += 1
        try:
            self._check_open(route)
            call.at, started = room.clock(), time.perf_counter()
            reply = await route.model.reply(ask)
        except ModelFailure as failure:
            call.seconds = time.perf_counter() - started
            route.gate.lane.failed(failure, call.at)
            self._note(call, failure, cost=None)
            return failure
        finally:
            room.tally.in_flight -= 1
            room.limits.leave(route.gate)
        call.seconds = time.perf_counter() - started
        route.gate.lane.succeeded(reply.usage, call.at)
        self._note(call, reply, cost=route.cost(reply))
        if room.cache is not None and reply.text:
            room.cache.put(call.address, reply)
        return None

    def _check_open(self, route: Route) -> None:
        """Raises when no further call is to be made."""
        room = self._room
        if room.stop.is_set():
            raise Stopped
        if self._claim in room.journal.fenced:
            raise Fenced
        lane = route.gate.lane
        if lane.broken is not None:
            raise BudgetSpent("provider_refused", f"no more calls to '{lane.provider.name}': {lane.broken.message}")
        if room.plan.max_cost is not None and room.tally.cost >= room.plan.max_cost:
            raise BudgetSpent("budget_exhausted", f"the run has cost {room.tally.cost:.4f} of {room.plan.max_cost:.4f} US dollars")

    def _note(self, call: "_Call", result: Reply | ModelFailure, *, cost: float | None) -> None:
        failure = result if isinstance(result, ModelFailure) else None
        reply = result if isinstance(result, Reply) else None
        attempt = Attempt(
            stage=call.ask.stage,
            call_id=call.ask.call_id,
            round=self._round,
            started_at=call.at,
            latency_ms=round(call.seconds * 1000, 3),
            model=call.ask.model,
            request_sha256=call.address,
            reply=reply,
            error_code=failure.code if failure else "",
            error_message=failure.message if failure else "",
            http_status=failure.http_status if failure else None,
            retry_after=failure.retry_after if failure else None,
            request_id=result.request_id,
            cost=cost,
        )
        self.unsaved.append(attempt)
        self._room.tally.add_attempt(attempt)
        if reply is not None:
            self._replies[attempt.call_id] = reply
            self._latencies[attempt.call_id] = attempt.latency_ms


def _waiting(attempt: Attempt, seconds: float) -> Attempt:
    return msgspec.structs.replace(attempt, wait_s=round(seconds, 3))


async def _gathered(calls: Iterable[Coroutine[Any, Any, ModelFailure | None]]) -> list[ModelFailure | None]:
    """All calls come to their end before the first surprise among them is raised: what was paid for is noted."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, ModelFailure):
            raise result
    return cast("list[ModelFailure | None]", results)


class _Call(msgspec.Struct):
    """One attempt while it lasts."""

    ask: Ask
    address: str
    at: float
    seconds: float = 0.0
