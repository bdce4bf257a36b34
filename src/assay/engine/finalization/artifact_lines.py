"""One finished record into the lines of its artifacts, redacted before anything is written."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from typing import cast

import msgspec

from assay.core.artifact_lines import AttemptLine, CheckLine, FailureLine, PredictionLine, Slices, ValidationLine
from assay.core.case import Case, sample_of
from assay.core.checks import CheckResult
from assay.core.model_call import Usage
from assay.core.outcome import (
    ANSWER_TRUNCATED,
    Attempt,
    FailedOutcome,
    Grade,
    GradedOutcome,
    InvalidOutcome,
    Outcome,
    PanelDecision,
    Score,
    SkippedOutcome,
    record_status,
)
from assay.core.text import iso
from assay.engine.records import redaction
from assay.engine.records.redaction import RedactedPlan
from assay.engine.records.run_counters import FREE, UNTIMED
from assay.grading import INCONSISTENT, GradingProvenance, graded_by, settings_of
from assay.metrics.facts import RecordFacts
from assay.store.ledger import FinishedRecord

VOLATILE_FIELDS = (
    "run_id", "created_at", "started_at", "completed_at", "entered_at", "first_attempt_at", "last_attempt_at", "at",
    "latency_ms", "judge_latency_ms", "total_latency_ms", "wait_s", "request_id",
    "chain_sha256", "sha256", "manifest_sha256", "attempt_chain_sha256", "bytes",
)  # fmt: skip
"""What differs between two runs with the same replies: names, times, and hashes and sizes of what holds them."""


_decode_case = msgspec.json.Decoder(Case).decode
_NO_USAGE = Usage()
_NO_ISSUES = msgspec.Raw(b"[]")
PREDICTION_TEXTS = ("model_response", "justification", "error_message")
"""Members of a prediction that are redacted as they stand."""
ATTEMPT_TEXTS = ("error_message", "response", "raw")
"""The same of an attempt."""
TERMS = ("request_id", "finish_reason", "answered_by")
"""Members of either that providers have words of their own for: custom rules do not apply to them."""
INVALID_LABEL = "format_or_schema_violation"
"""Failure label of records that broke their contract."""
LATENCY_EXCEEDED = "latency_exceeded"
"""Flag of a grade, and code of a record whose answer came too late."""


class RecordArtifacts:
    """What is known of one record, ready to be written."""

    def __init__(self, finished: FinishedRecord, plan: RedactedPlan, *, is_clean: bool = False) -> None:
        self._record = finished.record
        self._attempts = finished.attempts
        self._outcome: Outcome = finished.outcome or SkippedOutcome(code="not_evaluated")
        self._plan = plan
        # Most records have nothing to redact; one look at all their texts saves a look at each.
        self._is_clean = is_clean or plan.redactor.is_clean(texts_of(finished))
        self.record_id = finished.record.record_id if self._is_clean else self._shown_id()
        """As it may be shown; None where the record has none."""
        case = finished.record.case
        self.sample: int | msgspec.UnsetType = sample_of(case) if plan.plan.repeat > 1 and case is not None else msgspec.UNSET
        self.status = record_status(self._outcome)
        self._times = [iso(attempt.started_at) for attempt in finished.attempts]
        self._answered: Attempt | None = None
        self._answer_sha256: str | None = None
        for attempt in finished.attempts:
            # The last answer counts: earlier ones belong to rounds that were repeated.
            if attempt.call_id == "candidate" and attempt.reply is not None:
                self._answered, self._answer_sha256 = attempt, _sha256(attempt.reply.text)

    def _shown_id(self) -> str | None:
        """Return the redacted id; equal ones are distinguished by the hashes of their records."""
        given = self._record.record_id
        shown = given and self._text(given)
        # Eight digits of the hash keep two redacted ids apart, and tell nothing about them.
        return given if shown == given else f"{shown}#{self._record.sha256[:8] or self._record.position}"

    def _text(self, text: str) -> str:
        return text if self._is_clean else self._plan.redactor.text(text)

    def _redact(self, line: PredictionLine | AttemptLine, names: tuple[str, ...]) -> None:
        for name in names:
            text = getattr(line, name)
            if text:
                setattr(line, name, self._plan.redactor.text(text))
        for name in TERMS:
            text = getattr(line, name, None)
            if text:
                setattr(line, name, self._plan.redactor.term(text))

    def validation(self) -> ValidationLine:
        """Return the line that says whether the record was valid."""
        record = self._record
        return ValidationLine(
            index=record.position,
            record_id=self.record_id,
            record_sha256=record.sha256 or None,
            result="accepted" if record.case is not None else "rejected",
            issues=self._issues(),
            sample=self.sample,
            slices=self.rejected_slices or msgspec.UNSET,
        )

    def _issues(self) -> msgspec.Raw:
        # Issues are JSON from the ledger and are redacted as such; decoding them for every record would be slow.
        issues = self._record.issues
        return msgspec.Raw(self._plan.redactor.encoded(msgspec.Raw(issues), redaction.ISSUES)) if issues else _NO_ISSUES

    @cached_property
    def rejected_slices(self) -> Slices:
        """The slices of a record that broke its contract; none of one that did not, and in ledgers of earlier versions."""
        record = self._record
        # Ledgers of earlier versions have no rows of rejected records.
        if record.case is not None or not record.row:
            return {}
        found: Slices = msgspec.convert(self._plan.redactor.structure(msgspec.json.decode(record.row), redaction.OWN_NAMES), Slices)
        return found

    def prediction(self, dataset: str) -> PredictionLine:
        """Return the line with the candidate's answer and its grade."""
        answered = self._answered
        reply = answered.reply if answered is not None else None
        usage = _NO_USAGE if reply is None else reply.usage
        grade = self._outcome.grade if isinstance(self._outcome, GradedOutcome) else None
        by = grade or self._graded_by()
        code, message = _problem(self._outcome)
        measures = _measures(self._attempts)
        line = PredictionLine(
            index=self._record.position,
            record_id=self.record_id or "",
            dataset=dataset,
            record_sha256=self._record.sha256,
            candidate_name=self._plan.candidate.name,
            model=self._plan.candidate.model,
            status=self.status,
            model_response=None if reply is None else reply.text,
            response_sha256=self._answer_sha256,
            stored_sha256=self._answer_sha256,
            evaluator_scores=self._scores(_votes(self._outcome)),
            score=grade.score if grade else None,
            raw_score=grade.raw_score if grade else None,
            scale=grade.scale if grade else None,
            passed=grade.passed if grade else None,
            # A passed answer has no kind of failure, regardless of what its grader said.
            label=None if grade and grade.passed else _label(self._outcome),
            justification=grade.justification if grade else None,
            evaluator=by.evaluator if by else None,
            template_sha256=by.template_sha256 if by else None,
            policy_id=(by and by.policy) or None,
            selected_choice_ids=self._choices(grade.selected_choice_ids) if grade else (),
            flags=(reply.flags if reply else ()) + (grade.flags if grade else ()),
            finish_reason=(reply and reply.finish_reason) or None,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            total_tokens=usage.total_tokens,
            cached_tokens=usage.cached_tokens,
            judge_tokens=measures.judge_tokens,
            latency_ms=None if answered is None else _latency(answered),
            judge_latency_ms=measures.judge_latency_ms,
            total_latency_ms=measures.total_latency_ms,
            cost=measures.cost,
            record_attempts=measures.rounds,
            first_attempt_at=self._times[0] if self._times else None,
            last_attempt_at=self._times[measures.latest] if self._times else None,
            error_code=code,
            error_message=message,
            template=(by and by.template) or None,
            sample=self.sample,
            policy_sha256=self._plan.policy_hashes.get(by.policy, msgspec.UNSET) if by else msgspec.UNSET,
            panel=self._decisions(grade.panel if grade else ()) if len(self._plan.judges) > 1 else msgspec.UNSET,
            judge_costs=self._judge_costs() if len(self._plan.judges) > 1 else msgspec.UNSET,
            checks=self._checks(grade.checks) if grade and grade.checks else msgspec.UNSET,
        )
        # Redacted at the end and in place: most records have nothing to redact and skip it.
        if not self._is_clean:
            self._redact(line, PREDICTION_TEXTS)
            # The second hash is that of what is stored, so that it can be verified.
            line.stored_sha256 = None if line.model_response is None else _sha256(line.model_response)
        return line

    def _judge_costs(self) -> dict[str, float | None]:
        """Return the cost of the calls of each judge that was called."""
        costs: dict[str, list[float | None]] = {}
        for attempt in self._attempts:
            # Cached and recorded replies cost nothing in this run.
            if attempt.stage == "judge" and attempt.reply is not None and FREE.isdisjoint(attempt.reply.flags):
                costs.setdefault(self._plan.name(attempt.model), []).append(attempt.cost)
        return {judge: _total(known) for judge, known in costs.items()}

    def redacted(self, text: str) -> str:
        """Redact a text of the record's input."""
        return self._plan.redactor.text(text)

    def _graded_by(self) -> GradingProvenance | None:
        """Return how a record without a grade would have been graded; None for a record of another tool."""
        case = self._record.case
        return (
            None
            if case is None or self._plan.plan.imported is not None
            else graded_by(_decode_case(case), settings_of(self._plan.plan))
        )

    def _choices(self, choices: tuple[str, ...]) -> tuple[str, ...]:
        return choices if self._is_clean else tuple(map(self._plan.redactor.term, choices))

    def _decisions(self, decisions: tuple[PanelDecision, ...]) -> tuple[PanelDecision, ...]:
        return tuple(
            msgspec.structs.replace(
                decision,
                criterion=self._plan.redactor.term(decision.criterion),
                missing=tuple(map(self._plan.name, decision.missing)),
            )
            for decision in decisions
        )

    def _checks(self, results: tuple[CheckResult, ...]) -> tuple[CheckLine, ...]:
        return tuple(
            CheckLine(
                name=self._plan.redactor.term(result.name),
                type=result.type,
                passed=result.passed,
                score=result.score,
                reason=self._text(result.reason),
            )
            for result in results
        )

    def _scores(self, scores: tuple[Score, ...]) -> tuple[Score, ...]:
        # Names of judges may have to be redacted even if the record's texts have nothing.
        if self._is_clean and not self._plan.has_redacted_names:
            return scores
        return tuple(map(self._score, scores))

    def _score(self, score: Score) -> Score:
        texts = {"criterion": self._plan.redactor.term(score.criterion), "justification": self._text(score.justification)}
        return msgspec.structs.replace(score, judge=self._plan.name(score.judge), **texts)

    def attempt(self, number: int, attempt: Attempt) -> AttemptLine:
        """Return the line of one attempt."""
        reply = attempt.reply
        usage = _NO_USAGE if reply is None else reply.usage
        line = AttemptLine(
            index=self._record.position,
            record_id=self.record_id or "",
            attempt=number,
            stage=attempt.stage,
            call_id=self._plan.call(attempt.call_id),
            record_attempt=attempt.round,
            at=self._times[number - 1],
            latency_ms=_latency(attempt),
            model=self._plan.name(attempt.model),
            request_sha256=attempt.request_sha256,
            error_code=attempt.error_code or None,
            error_message=attempt.error_message or None,
            http_status=attempt.http_status,
            retry_after=attempt.retry_after,
            wait_s=attempt.wait_s,
            request_id=attempt.request_id or None,
            finish_reason=(reply and reply.finish_reason) or None,
            answered_by=(reply and reply.model) or None,
            # Hashed once for the candidate, whose answer is also in the prediction.
            response_sha256=self._answer_sha256 if attempt is self._answered else _sha256(reply.text) if reply else None,
            applied=(reply and self._plan.applied(attempt.model, reply.applied)) or None,
            flags=reply.flags if reply else (),
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            total_tokens=usage.total_tokens,
            cached_tokens=usage.cached_tokens,
            cost=attempt.cost,
            # The candidate's text is stored once, in the prediction; judges' replies only here.
            response=reply.text if reply is not None and attempt.stage == "judge" else None,
            raw=(reply and reply.raw) or None,
            counted=not attempt.is_rejection,
            sample=self.sample,
            refused_parameters=attempt.refused_parameters or msgspec.UNSET,
            steps=self._plan.redactor.value(list(reply.steps)) if reply is not None and reply.steps else msgspec.UNSET,
        )
        if not self._is_clean:
            self._redact(line, ATTEMPT_TEXTS)
        return line

    def failure(self) -> FailureLine | None:
        """Return the line of a record with an error or that did not pass; None for any other."""
        outcome = self._outcome
        if isinstance(outcome, GradedOutcome):
            if outcome.grade.passed:
                return None
            code, message = self._shortfall(outcome.grade)
        else:
            code, message = outcome.code, outcome.message
        return FailureLine(
            index=self._record.position,
            record_id=self.record_id,
            record_sha256=self._record.sha256 or None,
            kind="not_passed" if isinstance(outcome, GradedOutcome) else "error",
            status=self.status,
            code=code,
            message=self._text(message),
            taxonomy_label=_label(outcome),
            stage=outcome.stage if isinstance(outcome, FailedOutcome) else None,
            record_attempts=max((attempt.round for attempt in self._attempts), default=0),
            sample=self.sample,
        )

    def _shortfall(self, grade: Grade) -> tuple[str, str]:
        """Code and message of an answer that did not pass."""
        case, answered = self._record.case, self._answered
        # In a comparison two orders disagree, which is neither an error nor a poor answer.
        if INCONSISTENT in grade.flags:
            return INCONSISTENT, grade.justification
        if LATENCY_EXCEEDED not in grade.flags or case is None or answered is None:
            if grade.label != ANSWER_TRUNCATED:
                return "not_passed", grade.justification
            cut = "the answer ended at the output limit"
            return ANSWER_TRUNCATED, f"{cut}; {grade.justification}" if grade.justification else cut
        # The limit is read from the case, which the grade does not carry.
        late = f"the answer took {answered.latency_ms} ms, but max_latency_ms is {_decode_case(case).max_latency_ms}"
        return LATENCY_EXCEEDED, f"{late}; {grade.justification}" if grade.justification else late

    def cost(self) -> float | None:
        """Return the cost of the record's calls; None as soon as one price is not known, and without any call."""
        return _measures(self._attempts).cost


class _AttemptTotals(msgspec.Struct):
    """What the attempts of a record took together."""

    cost: float | None
    """None as soon as one price is not known, and without any call."""
    judge_tokens: int | None
    judge_latency_ms: float | None
    total_latency_ms: float | None
    rounds: int
    latest: int
    """Which of them began last."""


def _measures(attempts: Sequence[Attempt]) -> _AttemptTotals:
    """Sum up the attempts in one pass, because finalizing a run does this for every record."""
    costs: list[float | None] = []
    tokens: list[int | None] = []
    taken: list[tuple[float, float]] = []
    judged: list[tuple[float, float]] = []
    rounds = latest = 0
    for number, attempt in enumerate(attempts):
        reply, is_judge = attempt.reply, attempt.stage == "judge"
        if is_judge and reply is not None:
            tokens.append(reply.usage.total_tokens)
        # Replies without a call of their own have no time of their own.
        if reply is None or not reply.flags or UNTIMED.isdisjoint(reply.flags):
            call = (attempt.started_at, attempt.latency_ms)
            taken.append(call)
            if is_judge:
                judged.append(call)
        if reply is not None and (not reply.flags or FREE.isdisjoint(reply.flags)):
            costs.append(attempt.cost)
        if attempt.round > rounds:
            rounds = attempt.round
        if attempt.started_at > attempts[latest].started_at:
            latest = number
    return _AttemptTotals(
        _total(costs) if costs else None,
        # One unknown count makes the sum unknown: a partial sum would read like a measurement.
        sum(cast("list[int]", tokens)) if tokens and None not in tokens else None,
        _elapsed(judged),
        _elapsed(taken),
        rounds,
        latest,
    )


def _total(costs: list[float | None]) -> float | None:
    """Sum up costs; None as soon as one price is not known."""
    return None if None in costs else sum(cast("list[float]", costs))


def _elapsed(calls: list[tuple[float, float]]) -> float | None:
    """Milliseconds in which at least one of the calls was under way: those that ran side by side count once."""
    if len(calls) < 2:
        return calls[0][1] if calls else None
    # Attempts of several judges overlap, so times are merged as intervals.
    calls.sort()
    origin = calls[0][0]
    elapsed = end = 0.0
    for started_at, latency_ms in calls:
        start = (started_at - origin) * 1000
        stop = start + latency_ms
        if start >= end:
            elapsed += latency_ms
        elif stop > end:
            # Only what reaches beyond the calls before.
            elapsed += stop - end
        if stop > end:
            end = stop
    # Rounded to microseconds: sums of floats differ in their last bits between machines.
    return round(elapsed, 3)


def _latency(attempt: Attempt) -> float | None:
    """Return the latency of a call; None for a reply without a call, and for one of a batch."""
    reply = attempt.reply
    return attempt.latency_ms if reply is None or not reply.flags or UNTIMED.isdisjoint(reply.flags) else None


def facts_of(line: PredictionLine, slices: Mapping[str, tuple[str, ...]], cluster: str) -> RecordFacts:
    """Return the numbers of a prediction, for the metrics; a prediction read back from its file gives the same."""
    # Ledgers and artifacts of runs without a profile have no bounds.
    bounds = None if line.profile_bounds is msgspec.UNSET else line.profile_bounds
    return RecordFacts(
        position=line.index,
        status=line.status,
        score=line.score,
        raw_score=line.raw_score,
        scale=line.scale or "",
        passed=line.passed,
        latency_ms=line.latency_ms,
        judge_latency_ms=line.judge_latency_ms,
        total_latency_ms=line.total_latency_ms,
        input_tokens=line.input_tokens,
        output_tokens=line.output_tokens,
        total_tokens=line.total_tokens,
        cached_tokens=line.cached_tokens,
        judge_tokens=line.judge_tokens,
        cost=line.cost,
        error_code=line.error_code or "",
        label=line.label or "",
        flags=line.flags,
        slices=slices,
        cluster=cluster,
        profile_score=line.profile_score,
        profile_unscored=line.profile_unscored or "",
        profile_worst=bounds.worst if bounds else None,
        profile_best=bounds.best if bounds else None,
        record_id=line.record_id,
        is_repeated=line.sample is not msgspec.UNSET,
        checks=() if line.checks is msgspec.UNSET else line.checks,
    )


def invalid_facts(position: int, slices: Mapping[str, Sequence[str]]) -> RecordFacts:
    """Return the facts of a record that broke its contract, for the metrics."""
    kept = {name: tuple(values) for name, values in slices.items()}
    return RecordFacts(position=position, status="invalid_record", error_code="invalid_record", label=INVALID_LABEL, slices=kept)


def texts_of(finished: FinishedRecord) -> list[str]:
    """Return every text of a record that came from outside, but for ids of calls, which the plan knows how to show."""
    # Ids of calls are built of names in the plan, which are redacted there.
    texts = [finished.record.record_id or ""]
    for attempt in finished.attempts:
        reply = attempt.reply
        if reply is not None:
            texts += (reply.text, reply.raw, reply.model, reply.finish_reason)
        texts += (attempt.error_message, attempt.request_id)
    if isinstance(finished.outcome, GradedOutcome):
        grade = finished.outcome.grade
        texts.append(grade.justification)
        texts += grade.selected_choice_ids
        for score in grade.scores:
            texts += (score.criterion, score.justification)
        for result in grade.checks:
            texts += (result.name, result.reason)
    elif finished.outcome is not None:
        texts.append(finished.outcome.message)
        # A failed record may have votes of judges that did answer.
        for score in _votes(finished.outcome):
            texts += (score.criterion, score.justification)
    return texts


def _votes(outcome: Outcome) -> tuple[Score, ...]:
    """Return every score that an evaluator gave; of a panel that lost a judge, the votes of the others."""
    if isinstance(outcome, GradedOutcome):
        return outcome.grade.scores
    return outcome.scores if isinstance(outcome, FailedOutcome) else ()


def _problem(outcome: Outcome) -> tuple[str | None, str | None]:
    return (None, None) if isinstance(outcome, GradedOutcome) else (outcome.code, outcome.message)


def _label(outcome: Outcome) -> str:
    if isinstance(outcome, GradedOutcome):
        return outcome.grade.label or "incorrect_answer"
    if isinstance(outcome, FailedOutcome):
        return outcome.label
    return INVALID_LABEL if isinstance(outcome, InvalidOutcome) else "other"


def _sha256(text: str) -> str:
    return sha256(text.encode()).hexdigest()
