"""One case: drives its grader from ask to ask, round after round, to exactly one outcome."""

import asyncio
import errno
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, cast

import msgspec

from assay.core.ask import Ask, Lost, ModelFailure, Reply, Stage, failure_words
from assay.core.case import Case
from assay.core.errors import AssayError, StoreUnavailable
from assay.core.outcome import Attempt, Cancelled, Failed, FailureLabel, Grade, Graded, GradingFailure, Outcome
from assay.core.plan import Plan, retry_delay
from assay.engine.running.crew import Crew
from assay.engine.running.journal import Journal
from assay.engine.running.limits import Gate, Limits
from assay.engine.running.observing import Ended, Watcher
from assay.engine.running.rejections import REJECTED, Rejection
from assay.engine.tally import UNTIMED, Tally
from assay.grading import GradingSettings, needs_judge, start
from assay.grading.ways.plugin_grader import CALL_ID as GRADER_CALL_ID
from assay.models import Model
from assay.store.cache import NOT_CACHED, ReplyCache
from assay.store.ledger import Claim, Entry, Fenced, OpenRecord

PROVIDER_REFUSED = "provider_refused"
"""Code that earlier versions gave to records that were not evaluated because a provider took no more calls."""
CHECK = "check"
"""Call id of a request that is sent again to see whether a provider still takes calls."""

read_case = msgspec.json.Decoder(Case).decode
"""A case of the ledger."""


class Stopped(Exception):
    """The run takes no new calls; the record stays open for another day."""


class CallFailed(Exception):
    """A call failed for good."""

    def __init__(self, attempt: Attempt) -> None:
        super().__init__(attempt.error_message)
        self.attempt = attempt


class BudgetSpent(Exception):
    """The run has cost what it may cost."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Route(msgspec.Struct, frozen=True):
    """How one model of the plan is reached."""

    name: str
    """The model's name in the plan."""
    model: Model
    gate: Gate
    address: Callable[[Ask], str]
    """The content address of an ask to this model."""
    cost: Callable[[Reply], float | None]
    is_kept: bool = True
    """Its replies may go into the cache and come from it."""
    is_repeatable: bool = False
    """Its replies are had again for nothing, and wait for the outcome on their way to the disk."""


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
    attachments: Callable[[Case], Awaitable[Mapping[str, str]]]
    """The text of a case's attachments by path; raises GradingFailure where one is not what it was."""
    responses: Callable[[str, int], Reply] | None = None
    """Given answers by case id and sample, instead of the candidate's."""
    judged: Callable[[str, str], Reply | None] | None = None
    """What a judge said in the run that this one repeats, by the record's hash and the call; None where it is to be asked."""
    rejection: Rejection = msgspec.field(default_factory=Rejection)
    """Set when a provider takes no more calls."""
    cache: ReplyCache | None = None
    watcher: Watcher | None = None
    """Who is told of each record when its outcome is on the disk."""
    chance: Callable[[], float]
    clock: Callable[[], float]
    stopwatch: Callable[[], float]


def end_at_once(opened: OpenRecord, claim: Claim, room: Room) -> Entry | None:
    """What is to be appended for a record with a given answer that no judge has to grade; None where it takes the usual way.

    Nothing is waited for, so that a record needs no task, and many are appended together.
    """
    if room.responses is None or opened.attempts:
        return None
    try:
        drive = _Drive(opened, claim, room)
        if drive.needs_nobody:
            _outcome(drive).send(None)
    except StopIteration as end:
        return drive.entry(end.value)
    except (AssayError, msgspec.DecodeError):
        # The usual way says so to the run.
        return None
    return None


async def run_case(opened: OpenRecord, claim: Claim, room: Room) -> None:
    """Bring one record to its outcome and append it; raises only when the ledger cannot be written."""
    drive = _Drive(opened, claim, room)
    try:
        outcome = await _outcome(drive)
        await drive.save(outcome)
    except Stopped:
        await drive.save()
    else:
        room.tally.add_outcome(outcome)
        if room.watcher is not None:
            room.watcher.tell(drive.ended(outcome))
    finally:
        drive.leave()


async def _outcome(drive: "_Drive") -> Outcome:
    try:
        return await drive.outcome()
    except (AssayError, Fenced, Stopped):
        raise
    except Exception as problem:  # noqa: BLE001  # record isolation: one record's surprise is not the run's end
        _check_machine(problem)
        return Failed(code="internal_error", message=f"{type(problem).__name__}: {problem}", stack=traceback.format_exc())


class _Drive:
    """One record on its way: its replies so far, its round, and what is not yet in the ledger."""

    def __init__(self, opened: OpenRecord, claim: Claim, room: Room) -> None:
        self._opened = opened
        self._claim = claim
        self._room = room
        self._case = read_case(opened.case)
        self._replies: dict[str, Reply] = {}
        self._latencies: dict[str, float] = {}
        self._failures: list[Attempt] = []
        self._tries: Counter[str] = Counter()
        """Attempts by call."""
        self._round = 1
        for attempt in opened.attempts:
            self._remember(attempt)
        self._is_retrying = False
        self._noted: list[Attempt] = []
        self._asks: dict[str, Ask] = {}
        self._unsaved: list[Attempt] = []
        self._held: list[Gate] = []
        """Slots of calls whose results are not yet on the disk: so a crash costs no more calls than there are slots.

        A call that is made again for nothing gives its slot back at once.
        """

    def _remember(self, attempt: Attempt) -> None:
        """An attempt of the time before the run was interrupted."""
        if attempt.is_rejection:
            return
        self._tries[attempt.call_id] += 1
        if attempt.reply is not None:
            self._replies[attempt.call_id], self._latencies[attempt.call_id] = attempt.reply, attempt.latency_ms
        # A call that was lost for good begins no round: others of the record may have theirs still before them.
        self._round = max(self._round, attempt.round + (attempt.wait_s is not None))
        if attempt.error_code:
            self._failures.append(attempt)

    async def outcome(self) -> Outcome:
        """Grade the case, whatever that takes."""
        try:
            await self._wait_out()
            flow = start(self._case, self._room.settings, attachments=await self._attachments())
            asks = next(flow)
            while True:
                asks = flow.send(await self._answers(asks))
        except StopIteration as end:
            return Graded(grade=self._within_latency(end.value))
        except GradingFailure as failure:
            stage: Stage = "candidate" if self._answer() is None else "judge"
            return Failed(
                code=failure.code,
                message=failure.message,
                stage=stage,
                label=failure.label,
                answer=self._answer(),
                scores=failure.scores,
            )
        except CallFailed as problem:
            return self._failed(problem)
        except BudgetSpent as problem:
            return Cancelled(code=problem.code, message=problem.message)

    @property
    def needs_nobody(self) -> bool:
        """True when no judge is asked and nothing but the case is read, so that a given answer is all that it takes."""
        case, settings = self._case, self._room.settings
        return not case.attachments and not needs_judge(case, settings) and settings.grader is None

    async def _attachments(self) -> Mapping[str, str]:
        if not self._case.attachments:
            return {}
        texts = await self._room.attachments(self._case)
        if self._room.stop.is_set():
            raise Stopped
        return texts

    def _failed(self, problem: CallFailed) -> Failed:
        attempt = problem.attempt
        label: FailureLabel = "timeout_or_latency_exceeded" if attempt.error_code == "timeout" else "other"
        message = attempt.error_message
        if attempt.stage == "judge" and attempt.call_id != GRADER_CALL_ID:
            words = failure_words(attempt.error_code, message, attempts=self._tries[attempt.call_id])
            message = f"judge {attempt.model}: {words}"
        return Failed(code=attempt.error_code, message=message, stage=attempt.stage, label=label, answer=self._answer())

    def _answer(self) -> str | None:
        reply = self._replies.get("candidate")
        return None if reply is None else reply.text

    def _within_latency(self, grade: Grade) -> Grade:
        """batch_v1: an answer that took longer than expected does not pass; one that nobody was asked for took no known time."""
        allowed, reply = self._case.max_latency_ms, self._replies.get("candidate")
        if allowed is None or reply is None:
            return grade
        if not UNTIMED.isdisjoint(reply.flags):
            return msgspec.structs.replace(grade, flags=(*grade.flags, "latency_unknown"))
        if self._latencies["candidate"] <= allowed:
            return grade
        # A judge may propose a label, but what a clock says sets it.
        label: FailureLabel = "timeout_or_latency_exceeded"
        return msgspec.structs.replace(grade, passed=False, label=label, flags=(*grade.flags, "latency_exceeded"))

    async def _answers(self, asks: Sequence[Ask]) -> tuple[Reply, ...]:
        """Replies to all asks; those that failed transiently are asked again, in at most three rounds."""
        missing = [ask for ask in asks if ask.call_id not in self._replies and not self._recalls(ask)]
        if missing:
            await self._save_paid()
            missing = self._without_lost(missing)
        while missing:
            missing = await self._ask_all(missing)
        return tuple([self._replies[ask.call_id] for ask in asks])

    def _recalls(self, ask: Ask) -> bool:
        """True when the run that this one repeats has what is asked for; a vote that was lost there stays lost."""
        judged = self._room.judged
        said = None if judged is None or ask.stage != "judge" else judged(self._case.record_sha256, ask.call_id)
        if isinstance(said, Lost):
            self._replies[ask.call_id] = said
        elif said is not None:
            self._note(_Call(ask, "", self._room.clock()), said, cost=None)
        return said is not None

    def _without_lost(self, asks: list[Ask]) -> list[Ask]:
        """A call that had failed for good when the run was interrupted is not made once more."""
        if not self._failures:
            return asks
        lost = {attempt.call_id: attempt for attempt in self._failures if attempt.wait_s is None}
        for ask in asks:
            if ask.call_id in lost:
                self._lose(ask, lost[ask.call_id])
        return [ask for ask in asks if ask.call_id not in lost]

    def _lose(self, ask: Ask, attempt: Attempt) -> None:
        """A call has failed for good: the grader is told where it can do without, and else the case fails."""
        if not ask.may_fail:
            raise CallFailed(attempt)
        tries = self._tries[ask.call_id]
        self._replies[ask.call_id] = Lost(text="", code=attempt.error_code, message=attempt.error_message, attempts=tries)

    async def _ask_all(self, asks: Sequence[Ask]) -> list[Ask]:
        """One round of calls; returns what is left for the next, after the wait that must come before it."""
        tried = [await self._try(asks[0])] if len(asks) == 1 else await gathered(map(self._try_and_save, asks))
        if len(tried) == 1 and not tried[0].error_code:
            return []
        failed = [(ask, attempt) for ask, attempt in zip(asks, tried, strict=True) if attempt.error_code]
        failed = [(ask, attempt) for ask, attempt in failed if self._has_another_round(ask, attempt)]
        if failed:
            await self.save()
            self._round += 1
            await self._pause(max(attempt.wait_s or 0.0 for _, attempt in failed), [ask.model for ask, _ in failed])
        return [ask for ask, _ in failed]

    def _has_another_round(self, ask: Ask, attempt: Attempt) -> bool:
        """False when a call that failed is lost for good; raises where the case cannot do without it."""
        if attempt.wait_s is None:
            self._lose(ask, attempt)
            return False
        return True

    async def _try_and_save(self, ask: Ask) -> Attempt:
        """One of several asks side by side: it does not keep its slot until the slowest is back."""
        try:
            attempt = await self._try(ask)
            await self._save_paid()
        except AssayError:
            # The others are still under way, and each further call would be paid for in vain.
            self._room.stop.set()
            raise
        return attempt

    def _wait_before_next(self, failure: ModelFailure) -> float | None:
        """Seconds between this round and the next; None when there is none for this failure."""
        room, policy = self._room, self._room.plan.retry
        if not failure.is_transient or self._round >= policy.max_attempts:
            return None
        return round(retry_delay(policy, self._round, chance=room.chance(), retry_after=failure.retry_after), 3)

    async def _wait_out(self) -> None:
        """A record that was between two rounds when its run was interrupted waits for the rest of the time."""
        if self._failures:
            now = self._room.clock()
            await self._pause(max(_rest(failed, now) for failed in self._failures), [failed.model for failed in self._failures])

    async def _pause(self, seconds: float, models: Iterable[str]) -> None:
        """Between two rounds the record holds no slot; a stop ends the wait, and so does a provider that takes no more calls."""
        room, crew = self._room, self._room.crew
        crew.pause()
        if not self._is_retrying:
            self._is_retrying = True
            crew.begin_retries()
        try:
            gates = [room.routes[model].gate for model in set(models) if model in room.routes]
            await room.limits.pause(seconds, gates, stop=room.stop)
        finally:
            crew.resume()
        if room.stop.is_set():
            raise Stopped

    def leave(self) -> None:
        """The record is out of hand; what it held goes to others."""
        self._release(self._held)
        self._room.crew.end_rounds(is_retrying=self._is_retrying)

    def ended(self, outcome: Outcome) -> Ended:
        """The record for whoever observes the run, with the attempts of an earlier process."""
        return Ended(self._case, (*self._opened.attempts, *self._noted), outcome, self._asks)

    def entry(self, outcome: Outcome | None) -> Entry:
        """What is not yet in the ledger."""
        return Entry(self._opened.position, tuple(self._unsaved), outcome)

    async def save(self, outcome: Outcome | None = None) -> None:
        """Append what is not yet in the ledger, and the outcome when there is one."""
        if not self._unsaved and outcome is None:
            return
        entry = self.entry(outcome)
        held, self._held, self._unsaved = self._held, [], []
        try:
            # With no call in flight nothing else would come into the group.
            await self._room.journal.append(self._claim, (entry,), is_urgent=not self._room.tally.in_flight)
        finally:
            self._release(held)

    async def _save_paid(self) -> None:
        """What was paid for is on disk before more is spent; what nobody was paid for can wait for the outcome."""
        if self._held:
            await self.save()

    def _release(self, held: Sequence[Gate]) -> None:
        for gate in held:
            self._room.limits.leave(gate)

    async def _try(self, ask: Ask) -> Attempt:
        """One attempt at one ask; its reply or its failure is noted."""
        room = self._room
        if ask.stage == "candidate" and room.responses is not None:
            given = room.responses(self._case.id, self._case.sample or 0)
            return self._note(_Call(ask, "", room.clock()), given, cost=None)
        route = room.routes[ask.model]
        if self._case.sample:
            ask = msgspec.structs.replace(ask, sample=self._case.sample)
        call = _Call(ask, route.address(ask), room.clock())
        cache = room.cache if route.is_kept else None
        cached = cache.get(call.address) if cache is not None and not ask.is_fresh else None
        if cached is not None:
            return self._note(call, msgspec.structs.replace(cached, flags=(*cached.flags, "cached")), cost=None)
        await room.limits.enter(route.gate, room.stop)
        result: Reply | ModelFailure | None = None
        try:
            result = await self._made(call, route)
        finally:
            if result is None or route.is_repeatable or _is_rejection(result):
                room.limits.leave(route.gate)
            else:
                self._held.append(route.gate)
        if isinstance(result, ModelFailure):
            route.gate.lane.failed(result, call.started)
            if _is_rejection(result):
                return await self._rejected(call, result, route)
            return self._note(call, result, cost=None)
        route.gate.lane.succeeded(result.usage, call.started)
        route.gate.admission.succeeded(ask, call.started)
        if cache is not None and result.text:
            is_kept = cache.put(call.address, result)
            result = result if is_kept else msgspec.structs.replace(result, flags=(*result.flags, NOT_CACHED))
        return self._note(call, result, cost=route.cost(result))

    async def _made(self, call: "_Call", route: Route) -> Reply | ModelFailure:
        """The call itself, timed; raises when it is not to be made, or cannot be made from here."""
        room = self._room
        self._check_open(route)
        room.tally.in_flight += 1
        route.gate.admission.in_flight += 1
        call.at, call.started = room.clock(), room.stopwatch()
        try:
            return await route.model.reply(call.ask)
        except ModelFailure as failure:
            _check_machine(failure)
            return failure
        finally:
            call.seconds = room.stopwatch() - call.started
            room.tally.in_flight -= 1
            route.gate.admission.in_flight -= 1

    async def _rejected(self, call: "_Call", failure: ModelFailure, route: Route) -> Attempt:
        """Fail the record where the provider means it alone; otherwise the run stops, and the record stays open."""
        room, admission = self._room, route.gate.admission
        is_own: bool | None = False
        if not failure.is_exhausted:
            room.crew.pause()
            try:
                is_own = await admission.is_records_own(
                    room.stopwatch(), check=lambda known: self._is_answered(known, route), now=room.stopwatch, stop=room.stop
                )
            finally:
                room.crew.resume()
        if is_own:
            return self._note(call, failure, cost=None)
        self._note(call, failure, cost=None, is_rejection=True)
        if is_own is False:
            route.gate.lane.give_up(failure)
            self._stop_rejected(route, call.ask.model, failure)
        raise Stopped

    def _stop_rejected(self, route: Route, model: str, failure: ModelFailure) -> None:
        self._room.rejection.note(route.gate.lane.provider.name, model, failure)
        self._room.stop.set()

    async def _is_answered(self, ask: Ask, route: Route) -> bool:
        """Send a request again that was answered before: only so is it known whether the provider still takes calls."""
        room, policy = self._room, self._room.plan.retry
        for round_number in range(1, policy.max_attempts + 1):
            call = _Call(msgspec.structs.replace(ask, call_id=CHECK), route.address(ask), room.clock())
            await room.limits.enter(route.gate, room.stop)
            try:
                result = await self._made(call, route)
            finally:
                room.limits.leave(route.gate)
            if isinstance(result, Reply):
                route.gate.lane.succeeded(result.usage, call.started)
                self._note(call, result, cost=route.cost(result))
                return True
            self._note(call, result, cost=None, is_rejection=True)
            if not result.is_transient or result.is_exhausted:
                return False
            delay = retry_delay(policy, round_number, chance=room.chance(), retry_after=result.retry_after)
            await room.limits.pause(delay, [route.gate], stop=room.stop)
        return False

    def _check_open(self, route: Route) -> None:
        """Raises when no further call is to be made."""
        room = self._room
        if room.stop.is_set():
            raise Stopped
        if self._claim in room.journal.fenced:
            raise Fenced
        lane = route.gate.lane
        if lane.broken is not None:
            # Another worker of the run was rejected.
            self._stop_rejected(route, route.name, lane.broken)
            raise Stopped
        if room.plan.max_cost is not None and room.tally.cost >= room.plan.max_cost:
            raise BudgetSpent("budget_exhausted", f"the run has cost {room.tally.cost:.4f} of {room.plan.max_cost:.4f} US dollars")

    def _note(self, call: "_Call", result: Reply | ModelFailure, *, cost: float | None, is_rejection: bool = False) -> Attempt:
        attempt = Attempt(
            stage=call.ask.stage,
            call_id=call.ask.call_id,
            round=self._round,
            started_at=call.at,
            latency_ms=round(call.seconds * 1000, 3),
            model=call.ask.model,
            request_sha256=call.address,
            reply=result if isinstance(result, Reply) else None,
            request_id=result.request_id,
            cost=cost,
            is_rejection=is_rejection,
        )
        if isinstance(result, Reply):
            self._replies[attempt.call_id] = result
            self._latencies[attempt.call_id] = attempt.latency_ms
        else:
            attempt = self._with_failure(attempt, result)
        self._unsaved.append(attempt)
        self._tries[attempt.call_id] += not is_rejection
        if self._room.watcher is not None:
            self._noted.append(attempt)
            if self._room.watcher.wants_texts:
                self._asks[attempt.call_id] = call.ask
        self._room.tally.add_attempt(attempt)
        return attempt

    def _with_failure(self, attempt: Attempt, failure: ModelFailure) -> Attempt:
        return msgspec.structs.replace(
            attempt,
            error_code=failure.code,
            error_message=failure.message,
            http_status=failure.http_status,
            retry_after=failure.retry_after,
            wait_s=None if attempt.is_rejection else self._wait_before_next(failure),
        )


def _is_rejection(result: Reply | ModelFailure) -> bool:
    return isinstance(result, ModelFailure) and (result.is_exhausted or result.code in REJECTED)


def _rest(failed: Attempt, now: float) -> float:
    """What is left of the wait after a failed attempt; a clock that was set back since then makes it no longer than it was."""
    wait = failed.wait_s or 0.0
    return min(wait, failed.started_at + failed.latency_ms / 1000 + wait - now)


def _check_machine(problem: Exception) -> None:
    """Raises where this machine is at its limit: that says nothing of the provider, and the record is not to blame."""
    cause = problem.__context__ if isinstance(problem, ModelFailure) else problem
    if isinstance(cause, OSError) and cause.errno in (errno.EMFILE, errno.ENFILE):
        raise StoreUnavailable(
            f"the run cannot go on: {problem}",
            hint="raise the limit of open files (ulimit -n) or lower --concurrency, then resume the run",
        ) from problem


async def gathered(calls: Iterable[Coroutine[Any, Any, Attempt]]) -> list[Attempt]:
    """All calls come to their end before a surprise among them is raised: what was paid for is noted.

    What could not be noted is told before anything else: a record that was merely stopped would hide it.
    """
    results = await asyncio.gather(*calls, return_exceptions=True)
    surprises = [result for result in results if isinstance(result, BaseException)]
    for surprise in sorted(surprises, key=lambda surprise: not isinstance(surprise, AssayError)):
        raise surprise
    return cast("list[Attempt]", results)


class _Call(msgspec.Struct):
    """One attempt while it lasts."""

    ask: Ask
    address: str
    at: float
    """By the clock on the wall."""
    started: float = 0.0
    """By the stopwatch."""
    seconds: float = 0.0
