"""Evaluation of one case: its grader's requests, round after round, until the case has exactly one outcome."""

import asyncio
import errno
import traceback
from collections import Counter
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import NoReturn, cast

import msgspec

from assay.core.case import Case
from assay.core.errors import AssayError, StoreUnavailable
from assay.core.model_call import (
    FailedReply,
    MeasuredReply,
    ModelFailure,
    ModelRequest,
    Reply,
    Stage,
    failure_words,
    unwanted_calls,
)
from assay.core.outcome import (
    ANSWER_TRUNCATED,
    TRUNCATED,
    Attempt,
    CancelledOutcome,
    FailedOutcome,
    FailureLabel,
    Grade,
    GradedOutcome,
    GradingFailure,
    Outcome,
)
from assay.core.plan import retry_delay
from assay.engine.execution.busy_call import BusyCall
from assay.engine.execution.limits import CallKind, CallSlot
from assay.engine.execution.record_events import FinishedCase
from assay.engine.execution.rejections import REJECTED
from assay.engine.execution.run_context import Route, RunContext
from assay.engine.records.parameters import save_adjustments
from assay.engine.records.run_counters import UNTIMED
from assay.grading import has_checks, needs_judge, start
from assay.grading.plugin_grader import CALL_ID as GRADER_CALL_ID
from assay.store.cache import NOT_CACHED, ReplyCache
from assay.store.ledger import Claim, ClaimLost, CommitEntry, OpenRecord

PROVIDER_REFUSED = "provider_refused"
"""Code that earlier versions gave to records that were not evaluated because a provider rejected all calls."""
_LABELS: dict[str, FailureLabel] = {"timeout": "timeout_or_latency_exceeded", ANSWER_TRUNCATED: "answer_truncated"}
"""Labels of records whose answer is missing, by the code of their last call."""
MAX_NEGOTIATIONS = 20
"""Rejections of parameters after which one call gives up: more than a request has parameters."""
CHECK = "check"
"""Call id of a request that is repeated to find out whether a provider still accepts calls."""

read_case = msgspec.json.Decoder(Case).decode
"""Decode a case from the ledger."""


class RunStopped(Exception):
    """Stop of a run: it makes no new calls; the record stays open until the run is resumed."""


class CallFailed(Exception):
    """A call that failed permanently: its attempts are used up, or a retry would fail the same way."""

    def __init__(self, attempt: Attempt) -> None:
        super().__init__(attempt.error_message)
        self.attempt = attempt


class UnwantedCalls(Exception):
    """A reply of tool calls alone to a request that wants a text: the same request would get the same again."""

    def __init__(self, stage: Stage, failure: ModelFailure) -> None:
        super().__init__(failure.message)
        self.stage: Stage = stage
        self.failure = failure


class BudgetExceeded(Exception):
    """End of a run's budget: it has reached its maximum cost."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def grade_without_calls(opened: OpenRecord, claim: Claim, context: RunContext) -> CommitEntry | None:
    """Grade a record whose answer is supplied and needs no judge; return its ledger entry, or None when `run_case` must do it.

    Nothing is awaited, so that such records need no task each and are appended together.
    """
    if context.responses is None or opened.attempts:
        return None
    try:
        runner = _CaseRunner(opened, claim, context)
        if runner.needs_no_calls:
            # Without calls the coroutine never suspends: one step runs it to its end, and StopIteration carries the outcome.
            runner.outcome().send(None)
    except StopIteration as end:
        return runner.entry(end.value)
    except (AssayError, msgspec.DecodeError):
        # `run_case` meets the same problem and reports it to the run.
        return None
    return None


async def run_case(opened: OpenRecord, claim: Claim, context: RunContext) -> None:
    """Evaluate one record and append its outcome; raises only when the ledger cannot be written."""
    try:
        runner = _CaseRunner(opened, claim, context)
        try:
            outcome = await runner.outcome()
            await runner.save(outcome)
        except RunStopped:
            await runner.save()
        else:
            context.counters.add_outcome(outcome)
            if context.event_emitter is not None:
                context.event_emitter.emit(runner.finished_case(outcome))
        finally:
            runner.release_resources()
    except AssayError:
        # When the ledger cannot be written, all records must stop: the results of further paid calls could not be saved.
        context.stop.set()
        raise
    finally:
        context.in_flight.remove_record(len(opened.case))


class _CaseRunner:
    """One record under evaluation: its replies, its round, and the attempts that are not yet in the ledger."""

    def __init__(self, opened: OpenRecord, claim: Claim, context: RunContext) -> None:
        self._opened = opened
        self._claim = claim
        self._context = context
        self._case = read_case(opened.case)
        self._is_checked = has_checks(self._case, context.settings.checks)
        self._replies: dict[str, Reply] = {}
        self._latencies: dict[str, float] = {}
        self._costs: dict[str, float | None] = {}
        self._failures: list[Attempt] = []
        self._attempt_counts: Counter[str] = Counter()
        """Attempts by call id."""
        self._round = 1
        for attempt in opened.attempts:
            self._restore_attempt(attempt)
        self._is_retrying = False
        self._new_attempts: list[Attempt] = []
        self._requests: dict[str, ModelRequest] = {}
        self._unsaved: list[Attempt] = []
        self._own_faults: set[str] = set()
        """Ids of calls that are rejected on arrival while others are answered."""
        self._held_slots: list[CallSlot] = []
        """Slots of calls whose results are not yet on disk, so that a crash loses no more paid calls than there are slots.

        A call that can be repeated for free releases its slot at once.
        """

    def _restore_attempt(self, attempt: Attempt) -> None:
        """Take over an attempt that was made before the run was interrupted."""
        if attempt.is_rejection:
            return
        self._attempt_counts[attempt.call_id] += 1
        if attempt.reply is not None:
            self._replies[attempt.call_id], self._latencies[attempt.call_id] = attempt.reply, attempt.latency_ms
            self._costs[attempt.call_id] = attempt.cost
        # A permanent failure starts no round: other calls of the record may still have attempts left in this one.
        self._round = max(self._round, attempt.round + (attempt.wait_s is not None))
        if attempt.error_code:
            self._failures.append(attempt)

    async def outcome(self) -> Outcome:
        """Run the case's grader, making the calls that it requests, and return the outcome."""
        try:
            await self._finish_interrupted_wait()
            flow = start(self._case, self._context.settings, attachments=await self._attachments())
            try:
                requests = next(flow)
                while True:
                    requests = flow.send(await self._replies_to(requests))
            except StopIteration as end:
                return GradedOutcome(grade=self._apply_latency_limit(self._label_truncated(end.value)))
        except GradingFailure as failure:
            stage: Stage = "candidate" if self._answer() is None else "judge"
            return FailedOutcome(
                code=failure.code,
                message=failure.message,
                stage=stage,
                label=failure.label,
                answer=self._answer(),
                scores=failure.scores,
            )
        except CallFailed as problem:
            return self._failed_outcome(problem)
        except UnwantedCalls as problem:
            return FailedOutcome(code=problem.failure.code, message=problem.failure.message, stage=problem.stage)
        except BudgetExceeded as problem:
            return CancelledOutcome(code=problem.code, message=problem.message)
        except (AssayError, ClaimLost, RunStopped):
            raise
        except Exception as problem:  # noqa: BLE001  # record isolation: a defect met by one record must not end the run
            _check_machine(problem)
            return FailedOutcome(
                code="internal_error", message=f"{type(problem).__name__}: {problem}", stack=traceback.format_exc()
            )

    @property
    def needs_no_calls(self) -> bool:
        """True when a supplied answer suffices: no judge, no grader and no attachment is involved."""
        case, settings = self._case, self._context.settings
        return not case.attachments and not needs_judge(case, settings) and settings.grader is None

    async def _attachments(self) -> Mapping[str, str]:
        if not self._case.attachments:
            return {}
        texts = await self._context.attachments(self._case)
        if self._context.stop.is_set():
            raise RunStopped
        return texts

    def _failed_outcome(self, problem: CallFailed) -> FailedOutcome:
        attempt = problem.attempt
        label = _LABELS.get(attempt.error_code, "other")
        message = attempt.error_message
        if attempt.stage == "judge" and attempt.call_id != GRADER_CALL_ID:
            words = failure_words(attempt.error_code, message, attempts=self._attempt_counts[attempt.call_id])
            message = f"judge {attempt.model}: {words}"
        return FailedOutcome(code=attempt.error_code, message=message, stage=attempt.stage, label=label, answer=self._answer())

    def _answer(self) -> str | None:
        reply = self._replies.get("candidate")
        return None if reply is None else reply.text

    def _label_truncated(self, grade: Grade) -> Grade:
        """Give an answer that did not pass a label of its own where it ended at the output limit: what is missing is unknown."""
        reply = self._replies.get("candidate")
        if grade.passed or reply is None or TRUNCATED not in reply.flags:
            return grade
        return msgspec.structs.replace(grade, label="answer_truncated")

    def _apply_latency_limit(self, grade: Grade) -> Grade:
        """Apply batch_v1's latency limit: a late answer does not pass; a cached or supplied one has no known latency."""
        allowed, reply = self._case.max_latency_ms, self._replies.get("candidate")
        if allowed is None or reply is None:
            return grade
        if not UNTIMED.isdisjoint(reply.flags):
            return msgspec.structs.replace(grade, flags=(*grade.flags, "latency_unknown"))
        if self._latencies["candidate"] <= allowed:
            return grade
        # The measured time takes precedence over a label that a judge proposes.
        label: FailureLabel = "timeout_or_latency_exceeded"
        return msgspec.structs.replace(grade, passed=False, label=label, flags=(*grade.flags, "latency_exceeded"))

    async def _replies_to(self, requests: Sequence[ModelRequest]) -> tuple[Reply, ...]:
        """Return the replies to all requests, repeating transient failures in further rounds (batch_v1: three in total)."""
        missing = [request for request in requests if request.call_id not in self._replies and not self._use_earlier_reply(request)]
        if missing:
            # A crash during the next call must not lose the answer that was paid for before it.
            await self._save_paid_calls()
            missing = self._skip_permanent_failures(missing)
        while missing:
            if len(missing) == 1:
                # The usual case, a candidate's or a single judge's call: it needs no task, and the outcome saves it.
                attempts = [await self._attempt(missing[0])]
                if not attempts[0].error_code:
                    break
            else:
                attempts = await gather_attempts(self._attempt(request, is_one_of_several=True) for request in missing)
            missing = await self._next_round(zip(missing, attempts, strict=True))
        replies = [self._usable_reply(request) for request in requests]
        if self._is_checked and requests[0].stage == "candidate":
            replies[0] = self._measured(replies[0], requests[0].call_id)
        return tuple(replies)

    def _measured(self, reply: Reply, call_id: str) -> Reply:
        """Add to the candidate's reply what its call took, for checks of latency and cost."""
        members = {name: getattr(reply, name) for name in Reply.__struct_fields__}
        latency = self._latencies.get(call_id) if UNTIMED.isdisjoint(reply.flags) else None
        return MeasuredReply(**members, latency_ms=latency, cost=self._costs.get(call_id))

    def _usable_reply(self, request: ModelRequest) -> Reply:
        """Return a call's reply; raises UnwantedCalls for tool calls alone where the request wants a text."""
        # Checked here, where replies of calls, batches, caches and earlier processes come together.
        reply = self._replies[request.call_id]
        failure = unwanted_calls(request, reply)
        if failure is None:
            return reply
        if not request.may_fail:
            raise UnwantedCalls(request.stage, failure)
        return FailedReply(text="", code=failure.code, message=failure.message)

    def _use_earlier_reply(self, request: ModelRequest) -> bool:
        """Take a judge's reply from the run that this one repeats; return False when there is none. A failed vote stays failed."""
        find_reply = self._context.earlier_judge_reply
        reply = None if find_reply is None or request.stage != "judge" else find_reply(self._case.record_sha256, request.call_id)
        if isinstance(reply, FailedReply):
            self._replies[request.call_id] = reply
        elif reply is not None:
            self._record_call(_Call(request, "", self._context.clock()), reply, cost=None)
        return reply is not None

    def _skip_permanent_failures(self, requests: list[ModelRequest]) -> list[ModelRequest]:
        """Leave out calls that failed permanently before the run was interrupted."""
        if not self._failures:
            return requests
        lost = {attempt.call_id: attempt for attempt in self._failures if attempt.wait_s is None}
        for request in requests:
            if request.call_id in lost:
                self._record_permanent_failure(request, lost[request.call_id])
        return [request for request in requests if request.call_id not in lost]

    def _record_permanent_failure(self, request: ModelRequest, attempt: Attempt) -> None:
        """Give the grader a FailedReply where it can do without the call; otherwise raise CallFailed, which fails the case."""
        if not request.may_fail:
            raise CallFailed(attempt)
        tries = self._attempt_counts[request.call_id]
        self._replies[request.call_id] = FailedReply(
            text="", code=attempt.error_code, message=attempt.error_message, attempts=tries
        )

    async def _next_round(self, attempts: Iterable[tuple[ModelRequest, Attempt]]) -> list[ModelRequest]:
        """Return the failed requests that get another round, after the wait before it."""
        failed = [(request, attempt) for request, attempt in attempts if attempt.error_code and self._may_retry(request, attempt)]
        if failed:
            await self.save()
            self._round += 1
            now = self._context.clock()
            await self._pause(max(_remaining_wait(attempt, now) for _, attempt in failed), [request.model for request, _ in failed])
        return [request for request, _ in failed]

    def _may_retry(self, request: ModelRequest, attempt: Attempt) -> bool:
        """Return False when a failed call gets no further round; raise CallFailed when the case needs its reply."""
        if attempt.wait_s is None:
            self._record_permanent_failure(request, attempt)
            return False
        return True

    def _wait_before_next(self, failure: ModelFailure) -> float | None:
        """Return the seconds until the next round, or None when this failure gets no further round."""
        context, policy = self._context, self._context.plan.retry
        if not failure.is_transient or self._round >= policy.max_attempts:
            return None
        return round(retry_delay(policy, self._round, chance=context.chance(), retry_after=failure.retry_after), 3)

    async def _finish_interrupted_wait(self) -> None:
        """Wait out the rest of a delay between two rounds that an interruption of the run cut short."""
        if self._failures:
            now = self._context.clock()
            await self._pause(
                max(_remaining_wait(failed, now) for failed in self._failures), [failed.model for failed in self._failures]
            )

    async def _pause(self, seconds: float, models: Iterable[str]) -> None:
        """Wait between two rounds without a slot; a stop, or a provider that rejects all calls, ends the wait."""
        context, in_flight = self._context, self._context.in_flight
        in_flight.pause()
        if not self._is_retrying:
            self._is_retrying = True
            in_flight.begin_retries()
        try:
            queues = [context.routes[model].queue for model in set(models) if model in context.routes]
            await context.scheduler.pause(seconds, queues, stop=context.stop)
        finally:
            in_flight.resume()
        if context.stop.is_set():
            raise RunStopped

    def release_resources(self) -> None:
        """Release the record's slots and end its rounds."""
        self._release(self._held_slots)
        self._context.in_flight.end_rounds(is_retrying=self._is_retrying)

    def finished_case(self, outcome: Outcome) -> FinishedCase:
        """Return the record for the run's observer, including attempts made by an earlier process."""
        return FinishedCase(self._case, (*self._opened.attempts, *self._new_attempts), outcome, self._requests)

    def entry(self, outcome: Outcome | None) -> CommitEntry:
        """Return the ledger entry with the attempts that are not yet saved."""
        return CommitEntry(self._opened.position, tuple(self._unsaved), outcome)

    async def save(self, outcome: Outcome | None = None) -> None:
        """Append the unsaved attempts to the ledger, and the outcome if there is one."""
        if not self._unsaved and outcome is None:
            return
        entry = self.entry(outcome)
        slots, self._held_slots, self._unsaved = self._held_slots, [], []
        try:
            # With no call in flight no other entry would join the group, so that waiting for one only adds latency.
            await self._context.ledger_writer.append(self._claim, (entry,), is_urgent=not self._context.counters.in_flight)
        finally:
            self._release(slots)

    async def _save_paid_calls(self) -> None:
        """Save paid calls before more money is spent; free replies are saved with the outcome."""
        if self._held_slots:
            await self.save()

    def _release(self, slots: Sequence[CallSlot]) -> None:
        for slot in slots:
            self._context.scheduler.release(slot)

    async def _attempt(self, request: ModelRequest, *, is_one_of_several: bool = False) -> Attempt:
        """Make one attempt at a request, from the cache or by a call, and record its reply or failure."""
        context = self._context
        if request.stage == "candidate" and context.responses is not None:
            given = context.responses(self._case.id, self._case.sample or 0)
            return self._record_call(_Call(request, "", context.clock()), given, cost=None)
        route = context.routes[request.model]
        if self._case.sample:
            request = msgspec.structs.replace(request, sample=self._case.sample)
        call = _Call(request, route.address(request), context.clock())
        cache = context.cache if route.is_cacheable else None
        try:
            cached = cache.get(call.address) if cache is not None and not request.is_fresh else None
            if cached is not None:
                attempt = self._record_call(call, msgspec.structs.replace(cached, flags=(*cached.flags, "cached")), cost=None)
            else:
                call, result = await self._call_within_limits(call, route)
                if isinstance(result, Reply):
                    attempt = self._record_reply(call, result, route, cache)
                elif _is_rejection(result):
                    attempt = await self._handle_rejection(call, result, route)
                else:
                    attempt = self._record_call(call, result, cost=None)
            if is_one_of_several:
                # Otherwise the call would hold its slot until the slowest of them returns.
                await self._save_paid_calls()
        except AssayError:
            # Concurrent calls continue; without this stop they would start further calls whose results cannot be saved.
            context.stop.set()
            raise
        return attempt

    def _record_reply(self, call: "_Call", reply: Reply, route: Route, cache: ReplyCache | None) -> Attempt:
        route.queue.admission.succeeded(call.request, call.started)
        if cache is not None and reply.text:
            is_stored = cache.put(call.address, reply)
            reply = reply if is_stored else msgspec.structs.replace(reply, flags=(*reply.flags, NOT_CACHED))
        return self._record_call(call, reply, cost=route.cost(reply))

    async def _call_within_limits(self, call: "_Call", route: Route) -> tuple["_Call", Reply | ModelFailure]:
        """Call the model when its provider's limits allow it, and again while it rejects this call but answers others."""
        context, scheduler, queue = self._context, self._context.scheduler, route.queue
        busy = BusyCall(
            context,
            route,
            lambda known: self._still_answers(known, route, attempts=1),
            failed_before=call.request.call_id in self._own_faults,
        )
        while True:
            has_turn = await self._wait_for_trial(route)
            slot = await self._acquire(route, busy.kind, has_turn=has_turn)
            busy.begin()
            answers = queue.answers
            result: Reply | ModelFailure | None = None
            try:
                call, result = await self._negotiate(call, route, has_turn=has_turn)
            finally:
                scheduler.end_call(slot, result)
                if result is None or route.is_repeatable or _is_free(result):
                    scheduler.release(slot)
                else:
                    self._held_slots.append(slot)
            if isinstance(result, Reply) or not result.is_busy:
                return call, result
            call.wait_s = self._wait_before_next(result)
            is_attempt = not await busy.may_be_made_again(result, started=call.started, delay=call.wait_s, answers=answers)
            if is_attempt and (queue.is_out or not context.stop.is_set()):
                if not queue.is_out:
                    self._own_faults.add(call.request.call_id)
                return call, result
            self._record_call(call, result, cost=None, is_rejection=True)
            # At once, since the call may have to wait for long, and since this shows whether the run was cancelled.
            await self.save()
            if context.stop.is_set():
                raise RunStopped
            call = _Call(call.request, call.address, context.clock())

    async def _wait_for_trial(self, route: Route) -> bool:
        """Wait while another call tries the model's parameters; return True when it is this call's turn to try them.

        Before the wait for the limits, which count the calls from the moment at which they let them through.
        """
        trial = route.trial
        if trial is None or trial.is_settled:
            return False
        await trial.wait()
        return not trial.is_settled

    async def _acquire(self, route: Route, kind: CallKind, *, has_turn: bool) -> CallSlot:
        """Wait for a slot, and give the turn to try parameters back when there is none."""
        slot: CallSlot | None = None
        try:
            slot = await self._context.scheduler.acquire(route.queue, self._context.stop, kind=kind)
        finally:
            if slot is None and has_turn and route.trial is not None:
                route.trial.end(is_rejected=True)
        return slot

    async def _negotiate(self, call: "_Call", route: Route, *, has_turn: bool) -> tuple["_Call", Reply | ModelFailure]:
        """Call the model; where it rejects a parameter, store the reason and call it again at once, which is not an attempt."""
        for tries in range(MAX_NEGOTIATIONS):
            result = await self._try_parameters(call, route, has_turn=has_turn and not tries)
            if isinstance(result, Reply) or not (result.is_negotiable or result.is_refused_setting):
                break
            self._record_call(call, result, cost=None, is_rejection=True)
            if result.is_refused_setting:
                self._stop_refused_setting(call, result, route)
            if result.adjustments:
                writer = self._context.ledger_writer
                await writer.call(save_adjustments, writer.ledger, route.name, result.adjustments)
            call = _Call(call.request, call.address, self._context.clock())
        return call, result

    async def _try_parameters(self, call: "_Call", route: Route, *, has_turn: bool) -> Reply | ModelFailure:
        """Call the model, alone as long as its provider has not accepted the parameters."""
        trial = route.trial
        if trial is None:
            return await self._call_model(call, route)
        if not has_turn and not trial.is_settled:
            await trial.wait()
        result: Reply | ModelFailure | None = None
        try:
            result = await self._call_model(call, route)
        finally:
            if isinstance(result, ModelFailure) and result.adjustments:
                trial.reopen()
            trial.end(is_rejected=isinstance(result, ModelFailure) and result.is_negotiable)
        return result

    def _stop_refused_setting(self, call: "_Call", failure: ModelFailure, route: Route) -> NoReturn:
        """Stop a run with strict parameters when its provider rejects one that the user set."""
        names = " and ".join(f"'{one.parameter}'" for one in failure.adjustments if one.is_explicit and one.is_loss)
        failure.code = "parameter_refused"
        failure.message = f"it rejects {names}, which is set, and the run's parameters are strict: {failure.message}"
        route.queue.limiter.give_up(failure)
        self._stop_rejected(route, call.request.model, failure)
        raise RunStopped

    async def _call_model(self, call: "_Call", route: Route) -> Reply | ModelFailure:
        """Call the model and measure the time; raises when no call may be made, or when this machine cannot make one."""
        context = self._context
        self._check_may_call(route)
        context.counters.in_flight += 1
        route.queue.admission.in_flight += 1
        call.started_at, call.started = context.clock(), context.stopwatch()
        call.refused = route.refused_parameters
        try:
            return await route.model.reply(call.request)
        except ModelFailure as failure:
            _check_machine(failure)
            return failure
        finally:
            call.seconds = context.stopwatch() - call.started
            context.counters.in_flight -= 1
            route.queue.admission.in_flight -= 1

    async def _handle_rejection(self, call: "_Call", failure: ModelFailure, route: Route) -> Attempt:
        """Fail the record when the rejection concerns it alone; otherwise stop the run and leave the record open."""
        context, admission = self._context, route.queue.admission
        is_own: bool | None = False
        if not failure.is_exhausted:
            context.in_flight.pause()
            try:
                is_own = await admission.is_records_own(
                    context.stopwatch(),
                    check=lambda known: self._still_answers(known, route, attempts=context.plan.retry.max_attempts),
                    now=context.stopwatch,
                    stop=context.stop,
                )
            finally:
                context.in_flight.resume()
        if is_own:
            return self._record_call(call, failure, cost=None)
        self._record_call(call, failure, cost=None, is_rejection=True)
        if is_own is False:
            route.queue.limiter.give_up(failure)
            self._stop_rejected(route, call.request.model, failure)
        raise RunStopped

    def _stop_rejected(self, route: Route, model: str, failure: ModelFailure) -> None:
        self._context.rejection.note(route.queue.limiter.provider.name, model, failure)
        self._context.stop.set()

    async def _still_answers(self, request: ModelRequest, route: Route, *, attempts: int) -> bool:
        """Repeat a request that was answered before: its reply proves that the provider still accepts calls."""
        context, policy = self._context, self._context.plan.retry
        for round_number in range(1, attempts + 1):
            call = _Call(msgspec.structs.replace(request, call_id=CHECK), route.address(request), context.clock())
            slot = await context.scheduler.acquire(route.queue, context.stop, kind="own_fault")
            checked: Reply | ModelFailure | None = None
            try:
                result = checked = await self._call_model(call, route)
            finally:
                context.scheduler.end_call(slot, checked)
                context.scheduler.release(slot)
            if isinstance(result, Reply):
                self._record_call(call, result, cost=route.cost(result))
                return True
            self._record_call(call, result, cost=None, is_rejection=True)
            if not result.is_transient or result.is_exhausted:
                return False
            delay = retry_delay(policy, round_number, chance=context.chance(), retry_after=result.retry_after)
            await context.scheduler.pause(delay, [route.queue], stop=context.stop)
        return False

    def _check_may_call(self, route: Route) -> None:
        """Raise when no further call may be made: stop, lost claim, rejected provider, or spent budget."""
        context = self._context
        if context.stop.is_set():
            raise RunStopped
        if self._claim in context.ledger_writer.fenced:
            raise ClaimLost
        limiter = route.queue.limiter
        if limiter.broken is not None:
            # The rejection was reported by another record or another worker of the run.
            self._stop_rejected(route, route.name, limiter.broken)
            raise RunStopped
        if context.plan.max_cost is not None and context.counters.cost >= context.plan.max_cost:
            raise BudgetExceeded(
                "budget_exhausted", f"the run has cost {context.counters.cost:.4f} of {context.plan.max_cost:.4f} US dollars"
            )

    def _record_call(
        self, call: "_Call", result: Reply | ModelFailure, *, cost: float | None, is_rejection: bool = False
    ) -> Attempt:
        attempt = Attempt(
            stage=call.request.stage,
            call_id=call.request.call_id,
            round=self._round,
            started_at=call.started_at,
            latency_ms=round(call.seconds * 1000, 3),
            model=call.request.model,
            request_sha256=call.address,
            reply=result if isinstance(result, Reply) else None,
            request_id=result.request_id,
            cost=cost,
            is_rejection=is_rejection,
            refused_parameters=call.refused,
        )
        if isinstance(result, Reply):
            self._replies[attempt.call_id] = result
            self._latencies[attempt.call_id] = attempt.latency_ms
            self._costs[attempt.call_id] = cost
        else:
            attempt = self._with_failure(attempt, result, wait_s=call.wait_s)
        self._unsaved.append(attempt)
        self._attempt_counts[attempt.call_id] += not is_rejection
        if self._context.event_emitter is not None:
            self._new_attempts.append(attempt)
            if self._context.event_emitter.wants_texts:
                self._requests[attempt.call_id] = call.request
        self._context.counters.add_attempt(attempt)
        return attempt

    def _with_failure(self, attempt: Attempt, failure: ModelFailure, *, wait_s: float | None) -> Attempt:
        return msgspec.structs.replace(
            attempt,
            error_code=failure.code,
            error_message=failure.message,
            http_status=failure.http_status,
            retry_after=failure.retry_after,
            wait_s=None if attempt.is_rejection else self._wait_before_next(failure) if wait_s is None else wait_s,
        )


def _is_free(result: Reply | ModelFailure) -> bool:
    """Tell whether a call that was made cost nothing, so that its slot need not wait until it is stored."""
    return isinstance(result, ModelFailure) and (result.is_busy or _is_rejection(result))


def _is_rejection(result: Reply | ModelFailure) -> bool:
    return isinstance(result, ModelFailure) and (result.is_exhausted or result.code in REJECTED)


def _remaining_wait(failed: Attempt, now: float) -> float:
    """Return the rest of the wait after a failed attempt."""
    wait = failed.wait_s or 0.0
    # The wall clock may have been set back since the attempt; the full wait is the upper bound.
    return min(wait, failed.started_at + failed.latency_ms / 1000 + wait - now)


def _check_machine(problem: Exception) -> None:
    """Raise when this machine is out of file handles: neither the provider nor the record is the cause."""
    cause = problem.__context__ if isinstance(problem, ModelFailure) else problem
    if isinstance(cause, OSError) and cause.errno in (errno.EMFILE, errno.ENFILE):
        raise StoreUnavailable(
            f"the run cannot continue: {problem}",
            hint="raise the limit of open files (ulimit -n) or lower --concurrency, then resume the run",
        ) from problem


async def gather_attempts(calls: Iterable[Coroutine[object, object, Attempt]]) -> list[Attempt]:
    """Run all calls to their end, so that each paid one is recorded, and only then raise the first exception."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    errors = [result for result in results if isinstance(result, BaseException)]
    # An error of the ledger comes first: RunStopped, which is usually its consequence, would hide it.
    for error in sorted(errors, key=lambda error: not isinstance(error, AssayError)):
        raise error
    return cast("list[Attempt]", results)


class _Call(msgspec.Struct):
    """One call in progress."""

    request: ModelRequest
    address: str
    started_at: float
    """Wall-clock time, for the record of the attempt."""
    started: float = 0.0
    """Time of the monotonic stopwatch, for durations."""
    seconds: float = 0.0
    refused: tuple[str, ...] = ()
    """Parameters that the provider had rejected before."""
    wait_s: float | None = None
    """Seconds before the next round, where they were decided before the attempt counted."""
