"""One finished record into the lines of its artifacts, redacted before anything is written."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from typing import Any, cast

import msgspec

from assay.core.ask import Usage
from assay.core.case import Case, sample_of
from assay.core.moment import iso
from assay.core.outcome import Attempt, Decision, Failed, Grade, Graded, Invalid, Outcome, Score, Skipped, record_status
from assay.engine.groups import Slices
from assay.engine.sealing import forms
from assay.engine.sealing.shown import ShownPlan
from assay.engine.tally import FREE, UNTIMED
from assay.grading import INCONSISTENT, GradedBy, graded_by, settings_of
from assay.metrics.facts import RecordFacts
from assay.metrics.profiles import Range
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


class CaseLine(msgspec.Struct):
    """A line of cases.jsonl."""

    record_id: str
    record_sha256: str
    """Of the record as it was read."""
    stored_sha256: str
    """Of the bytes of `record` as they stand here, redacted."""
    sample: int | msgspec.UnsetType
    record: msgspec.Raw


class ValidationLine(msgspec.Struct):
    """A line of record_validation.jsonl."""

    index: int
    record_id: str | None
    record_sha256: str | None
    """None for a record that broke its contract: only valid ones are hashed."""
    result: str
    issues: msgspec.Raw
    sample: int | msgspec.UnsetType = msgspec.UNSET
    slices: Slices | msgspec.UnsetType = msgspec.UNSET
    """Of a record that broke its contract: the slices that it belongs to, as far as it can be read."""


class PredictionLine(msgspec.Struct):
    """A line of predictions.jsonl."""

    index: int
    record_id: str
    dataset: str
    record_sha256: str
    candidate_name: str
    model: str
    status: str
    model_response: str | None
    response_sha256: str | None
    """Of the answer as it came, before redaction."""
    stored_sha256: str | None
    """Of the answer as it stands here."""
    evaluator_scores: tuple[Score, ...]
    score: float | None
    raw_score: float | None
    scale: str | None
    passed: bool | None
    label: str | None
    justification: str | None
    evaluator: str | None
    template_sha256: str | None
    policy_id: str | None
    """Of the policy that the record was asked and graded by; runs of earlier versions have none."""
    selected_choice_ids: tuple[str, ...]
    flags: tuple[str, ...]
    finish_reason: str | None
    input_tokens: int | None
    output_tokens: int | None
    total_tokens: int | None
    cached_tokens: int | None
    judge_tokens: int | None
    latency_ms: float | None
    judge_latency_ms: float | None
    total_latency_ms: float | None
    cost: float | None
    record_attempts: int
    first_attempt_at: str | None
    last_attempt_at: str | None
    error_code: str | None
    error_message: str | None
    profile_score: float | None = None
    """By the rules of the run's profile, not clipped."""
    profile_unscored: str | None = None
    """Why the profile gives no score; None without a profile."""
    profile_bounds: Range | msgspec.UnsetType = msgspec.UNSET
    """What a record without a score could have had; not there where no verdict would give it one."""
    template: str | None = None
    """Id and version of the template that the grade hangs on; runs of earlier versions name none."""
    sample: int | msgspec.UnsetType = msgspec.UNSET
    """Which of several answers to the record it is, from 0; only in runs that ask more than once."""
    panel: tuple[Decision, ...] | msgspec.UnsetType = msgspec.UNSET
    """Where several judges do not all say the same, or did not all vote, how their votes were decided; only with several judges."""
    policy_sha256: str | msgspec.UnsetType = msgspec.UNSET
    """Of the source of a custom policy; the manifest has the hashes of the built-in ones."""
    judge_costs: dict[str, float | None] | msgspec.UnsetType = msgspec.UNSET
    """What the calls of each judge cost, as `cost` is counted; only with several judges."""


class AttemptLine(msgspec.Struct):
    """A line of attempt_logs.jsonl; its place in the hash chain is added when it is written."""

    index: int
    record_id: str
    attempt: int
    """Position among the attempts of the record."""
    stage: str
    call_id: str
    record_attempt: int
    """The round, 1 to 3."""
    at: str
    latency_ms: float | None
    """None for a reply that nobody was asked for."""
    model: str
    request_sha256: str
    error_code: str | None
    error_message: str | None
    http_status: int | None
    retry_after: float | None
    wait_s: float | None
    request_id: str | None
    finish_reason: str | None
    answered_by: str | None
    """The model that the provider says has answered."""
    response_sha256: str | None
    applied: dict[str, Any] | None
    flags: tuple[str, ...]
    input_tokens: int | None
    output_tokens: int | None
    total_tokens: int | None
    cached_tokens: int | None
    cost: float | None
    response: str | None = None
    """What the judge said."""
    raw: str | None = None
    """The provider's whole body, when the run keeps it."""
    sample: int | msgspec.UnsetType = msgspec.UNSET


class ResponseLine(msgspec.Struct):
    """A line of responses.jsonl."""

    example_id: str
    candidate_name: str
    response_text: str
    sample: int | msgspec.UnsetType


class FailureLine(msgspec.Struct, kw_only=True):
    """A line of failures.jsonl: a record without a grade, or an answer that did not pass."""

    index: int
    record_id: str | None
    record_sha256: str | None
    kind: str
    """`error`: there is no grade. `not_passed`: there is one, and it is not enough."""
    status: str
    code: str
    message: str
    taxonomy_label: str
    stage: str | None
    record_attempts: int
    sample: int | msgspec.UnsetType = msgspec.UNSET


class Evidence:
    """What is known of one record, ready to be written."""

    def __init__(self, finished: FinishedRecord, plan: ShownPlan, *, is_clean: bool = False) -> None:
        self._record = finished.record
        self._attempts = finished.attempts
        self._outcome: Outcome = finished.outcome or Skipped(code="not_evaluated")
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
            if attempt.call_id == "candidate" and attempt.reply is not None:
                self._answered, self._answer_sha256 = attempt, _sha256(attempt.reply.text)

    def _shown_id(self) -> str | None:
        """Two ids of which the same is left stay apart by the hashes of their records."""
        given = self._record.record_id
        shown = given and self._text(given)
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
        """Whether the record was valid."""
        record = self._record
        return ValidationLine(
            record.position,
            self.record_id,
            record.sha256 or None,
            "accepted" if record.case is not None else "rejected",
            msgspec.Raw(self._plan.redactor.encoded(msgspec.Raw(record.issues), forms.ISSUES)) if record.issues else _NO_ISSUES,
            self.sample,
            self.rejected_slices or msgspec.UNSET,
        )

    @cached_property
    def rejected_slices(self) -> Slices:
        """The slices of a record that broke its contract; none of one that did not, and in ledgers of earlier versions."""
        record = self._record
        if record.case is not None or not record.row:
            return {}
        found: Slices = msgspec.convert(self._plan.redactor.structure(msgspec.json.decode(record.row), forms.OWN_NAMES), Slices)
        return found

    def prediction(self, dataset: str) -> PredictionLine:
        """What the candidate answered and what was made of it."""
        answered = self._answered
        reply = answered.reply if answered is not None else None
        usage = _NO_USAGE if reply is None else reply.usage
        grade = self._outcome.grade if isinstance(self._outcome, Graded) else None
        by = grade or self._graded_by()
        code, message = _problem(self._outcome)
        measures = _measures(self._attempts)
        # In the order of the fields: to name so many of them would be half of what finalising a record costs.
        line = PredictionLine(
            self._record.position,
            self.record_id or "",
            dataset,
            self._record.sha256,
            self._plan.candidate.name,
            self._plan.candidate.model,
            self.status,
            None if reply is None else reply.text,
            self._answer_sha256,
            self._answer_sha256,
            self._scores(_votes(self._outcome)),
            grade.score if grade else None,
            grade.raw_score if grade else None,
            grade.scale if grade else None,
            grade.passed if grade else None,
            None if grade and grade.passed else _label(self._outcome),
            grade.justification if grade else None,
            by.evaluator if by else None,
            by.template_sha256 if by else None,
            (by and by.policy) or None,
            self._choices(grade.selected_choice_ids) if grade else (),
            (reply.flags if reply else ()) + (grade.flags if grade else ()),
            (reply and reply.finish_reason) or None,
            usage.input_tokens,
            usage.output_tokens,
            usage.total_tokens,
            usage.cached_tokens,
            measures.judge_tokens,
            None if answered is None else _latency(answered),
            measures.judge_latency_ms,
            measures.total_latency_ms,
            measures.cost,
            measures.rounds,
            self._times[0] if self._times else None,
            self._times[measures.latest] if self._times else None,
            code,
            message,
            template=(by and by.template) or None,
            sample=self.sample,
            policy_sha256=self._plan.policy_hashes.get(by.policy, msgspec.UNSET) if by else msgspec.UNSET,
            panel=self._decisions(grade.panel if grade else ()) if len(self._plan.judges) > 1 else msgspec.UNSET,
            judge_costs=self._judge_costs() if len(self._plan.judges) > 1 else msgspec.UNSET,
        )
        if not self._is_clean:
            self._redact(line, PREDICTION_TEXTS)
            line.stored_sha256 = None if line.model_response is None else _sha256(line.model_response)
        return line

    def _judge_costs(self) -> dict[str, float | None]:
        """What each judge's calls cost; a judge whom nobody asked is not there."""
        costs: dict[str, list[float | None]] = {}
        for attempt in self._attempts:
            if attempt.stage == "judge" and attempt.reply is not None and FREE.isdisjoint(attempt.reply.flags):
                costs.setdefault(self._plan.name(attempt.model), []).append(attempt.cost)
        return {judge: _total(known) for judge, known in costs.items()}

    def redacted(self, text: str) -> str:
        """A text of the record's input as it may be shown."""
        return self._plan.redactor.text(text)

    def _graded_by(self) -> GradedBy | None:
        """How a record without a grade was to be graded; of another tool's records nobody here knows."""
        case = self._record.case
        return (
            None
            if case is None or self._plan.plan.imported is not None
            else graded_by(_decode_case(case), settings_of(self._plan.plan))
        )

    def _choices(self, choices: tuple[str, ...]) -> tuple[str, ...]:
        return choices if self._is_clean else tuple(map(self._plan.redactor.term, choices))

    def _decisions(self, decisions: tuple[Decision, ...]) -> tuple[Decision, ...]:
        return tuple(
            msgspec.structs.replace(
                decision,
                criterion=self._plan.redactor.term(decision.criterion),
                missing=tuple(map(self._plan.name, decision.missing)),
            )
            for decision in decisions
        )

    def _scores(self, scores: tuple[Score, ...]) -> tuple[Score, ...]:
        if self._is_clean and not self._plan.has_redacted_names:
            return scores
        return tuple(map(self._score, scores))

    def _score(self, score: Score) -> Score:
        texts = {"criterion": self._plan.redactor.term(score.criterion), "justification": self._text(score.justification)}
        return msgspec.structs.replace(score, judge=self._plan.name(score.judge), **texts)

    def attempt(self, number: int, attempt: Attempt) -> AttemptLine:
        """One of the record's attempts."""
        reply = attempt.reply
        usage = _NO_USAGE if reply is None else reply.usage
        # In the order of the fields, as above.
        line = AttemptLine(
            self._record.position,
            self.record_id or "",
            number,
            attempt.stage,
            self._plan.call(attempt.call_id),
            attempt.round,
            self._times[number - 1],
            _latency(attempt),
            self._plan.name(attempt.model),
            attempt.request_sha256,
            attempt.error_code or None,
            attempt.error_message or None,
            attempt.http_status,
            attempt.retry_after,
            attempt.wait_s,
            attempt.request_id or None,
            (reply and reply.finish_reason) or None,
            (reply and reply.model) or None,
            self._answer_sha256 if attempt is self._answered else _sha256(reply.text) if reply else None,
            (reply and self._plan.applied(attempt.model, reply.applied)) or None,
            reply.flags if reply else (),
            usage.input_tokens,
            usage.output_tokens,
            usage.total_tokens,
            usage.cached_tokens,
            attempt.cost,
            reply.text if reply is not None and attempt.stage == "judge" else None,
            (reply and reply.raw) or None,
            self.sample,
        )
        if not self._is_clean:
            self._redact(line, ATTEMPT_TEXTS)
        return line

    def failure(self) -> FailureLine | None:
        """None for a record that was evaluated and passed."""
        outcome = self._outcome
        if isinstance(outcome, Graded):
            if outcome.grade.passed:
                return None
            code, message = self._shortfall(outcome.grade)
        else:
            code, message = outcome.code, outcome.message
        return FailureLine(
            index=self._record.position,
            record_id=self.record_id,
            record_sha256=self._record.sha256 or None,
            kind="not_passed" if isinstance(outcome, Graded) else "error",
            status=self.status,
            code=code,
            message=self._text(message),
            taxonomy_label=_label(outcome),
            stage=outcome.stage if isinstance(outcome, Failed) else None,
            record_attempts=max((attempt.round for attempt in self._attempts), default=0),
            sample=self.sample,
        )

    def _shortfall(self, grade: Grade) -> tuple[str, str]:
        """Code and message of an answer that did not pass."""
        case, answered = self._record.case, self._answered
        if INCONSISTENT in grade.flags:
            return INCONSISTENT, grade.justification
        if LATENCY_EXCEEDED not in grade.flags or case is None or answered is None:
            return "not_passed", grade.justification
        late = f"the answer took {answered.latency_ms} ms, but max_latency_ms is {_decode_case(case).max_latency_ms}"
        return LATENCY_EXCEEDED, f"{late}; {grade.justification}" if grade.justification else late

    def cost(self) -> float | None:
        """What the record's calls cost; None as soon as one price is not known, and without any call."""
        return _measures(self._attempts).cost


class _Measures(msgspec.Struct):
    """What the attempts of a record took together."""

    cost: float | None
    """None as soon as one price is not known, and without any call."""
    judge_tokens: int | None
    judge_latency_ms: float | None
    total_latency_ms: float | None
    rounds: int
    latest: int
    """Which of them began last."""


def _measures(attempts: Sequence[Attempt]) -> _Measures:
    """One look at each attempt; finalising a run does this for every record."""
    costs: list[float | None] = []
    tokens: list[int | None] = []
    taken: list[tuple[float, float]] = []
    judged: list[tuple[float, float]] = []
    rounds = latest = 0
    for number, attempt in enumerate(attempts):
        reply, is_judge = attempt.reply, attempt.stage == "judge"
        if is_judge and reply is not None:
            tokens.append(reply.usage.total_tokens)
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
    return _Measures(
        _total(costs) if costs else None,
        sum(cast("list[int]", tokens)) if tokens and None not in tokens else None,
        _elapsed(judged),
        _elapsed(taken),
        rounds,
        latest,
    )


def _total(costs: list[float | None]) -> float | None:
    """None as soon as one price is not known."""
    return None if None in costs else sum(cast("list[float]", costs))


def _elapsed(calls: list[tuple[float, float]]) -> float | None:
    """Milliseconds in which at least one of the calls was under way: those that ran side by side count once."""
    if len(calls) < 2:
        return calls[0][1] if calls else None
    calls.sort()
    origin = calls[0][0]
    elapsed = end = 0.0
    for started_at, latency_ms in calls:
        start = (started_at - origin) * 1000
        stop = start + latency_ms
        if start >= end:
            elapsed += latency_ms
        elif stop > end:
            elapsed += stop - end
        if stop > end:
            end = stop
    return round(elapsed, 3)


def _latency(attempt: Attempt) -> float | None:
    """What the call took; None for a reply that nobody was asked for."""
    reply = attempt.reply
    return attempt.latency_ms if reply is None or not reply.flags or UNTIMED.isdisjoint(reply.flags) else None


def facts_of(line: PredictionLine, slices: Mapping[str, tuple[str, ...]], cluster: str) -> RecordFacts:
    """The numbers of a prediction, for the metrics; a prediction read back from its file gives the same."""
    bounds = None if line.profile_bounds is msgspec.UNSET else line.profile_bounds
    return RecordFacts(
        line.index,
        line.status,
        line.score,
        line.raw_score,
        line.scale or "",
        line.passed,
        line.latency_ms,
        line.judge_latency_ms,
        line.total_latency_ms,
        line.input_tokens,
        line.output_tokens,
        line.total_tokens,
        line.cached_tokens,
        line.judge_tokens,
        line.cost,
        line.error_code or "",
        line.label or "",
        line.flags,
        slices,
        cluster,
        line.profile_score,
        line.profile_unscored or "",
        bounds.worst if bounds else None,
        bounds.best if bounds else None,
        line.record_id,
        line.sample is not msgspec.UNSET,
    )


def invalid_facts(position: int, slices: Mapping[str, Sequence[str]]) -> RecordFacts:
    """A record that broke its contract, for the metrics."""
    kept = {name: tuple(values) for name, values in slices.items()}
    return RecordFacts(position=position, status="invalid_record", error_code="invalid_record", label=INVALID_LABEL, slices=kept)


def texts_of(finished: FinishedRecord) -> list[str]:
    """Every text of a record that came from outside, but for ids of calls, which the plan knows how to show."""
    texts = [finished.record.record_id or ""]
    for attempt in finished.attempts:
        reply = attempt.reply
        if reply is not None:
            texts += (reply.text, reply.raw, reply.model, reply.finish_reason)
        texts += (attempt.error_message, attempt.request_id)
    if isinstance(finished.outcome, Graded):
        grade = finished.outcome.grade
        texts.append(grade.justification)
        texts += grade.selected_choice_ids
        for score in grade.scores:
            texts += (score.criterion, score.justification)
    elif finished.outcome is not None:
        texts.append(finished.outcome.message)
        for score in _votes(finished.outcome):
            texts += (score.criterion, score.justification)
    return texts


def _votes(outcome: Outcome) -> tuple[Score, ...]:
    """Every score that an evaluator gave; of a panel that lost a judge, the votes of the others."""
    if isinstance(outcome, Graded):
        return outcome.grade.scores
    return outcome.scores if isinstance(outcome, Failed) else ()


def _problem(outcome: Outcome) -> tuple[str | None, str | None]:
    return (None, None) if isinstance(outcome, Graded) else (outcome.code, outcome.message)


def _label(outcome: Outcome) -> str:
    if isinstance(outcome, Graded):
        return outcome.grade.label or "incorrect_answer"
    if isinstance(outcome, Failed):
        return outcome.label
    return INVALID_LABEL if isinstance(outcome, Invalid) else "other"


def _sha256(text: str) -> str:
    return sha256(text.encode()).hexdigest()
