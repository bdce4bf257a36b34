"""One finished record into the lines of its artifacts, redacted before anything is written."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from typing import Any

import msgspec

from assay.core.ask import Reply
from assay.core.case import Case
from assay.core.outcome import Attempt, Failed, Graded, Invalid, Outcome, Score, Skipped, record_status
from assay.core.plan import Plan
from assay.grading import Way, settings_of, way_of
from assay.metrics.facts import RecordFacts
from assay.store.folder import RunFolder
from assay.store.ledger import FinishedRecord
from assay.store.redact import Redactor

VOLATILE_FIELDS = (
    "run_id", "created_at", "started_at", "completed_at", "entered_at", "first_attempt_at", "last_attempt_at", "at",
    "latency_ms", "judge_latency_ms", "total_latency_ms", "wait_s", "request_id",
    "chain_sha256", "sha256", "manifest_sha256", "attempt_chain_sha256", "bytes",
)  # fmt: skip
"""What differs between two runs with the same replies: names, times, and hashes and sizes of what holds them."""


_decode_case = msgspec.json.Decoder(Case).decode
UNEVALUATED = frozenset({"timeout", "evaluation_error", "cancelled", "skipped"})
"""Statuses of valid records that have no grade."""


class ValidationLine(msgspec.Struct, kw_only=True):
    """A line of record_validation.jsonl."""

    index: int
    record_id: str | None
    record_sha256: str
    result: str
    issues: msgspec.Raw


class PredictionLine(msgspec.Struct, kw_only=True):
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
    policy_id: str | None = None
    """Of the policy that the record was asked and graded by; None in runs of earlier versions."""
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


class AttemptLine(msgspec.Struct, kw_only=True):
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
    latency_ms: float
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
    """What the judge said, or the provider's whole body when the run keeps it."""


class FailureLine(msgspec.Struct, kw_only=True):
    """A line of failures.jsonl: a record without a grade, or an answer that did not pass."""

    index: int
    record_id: str | None
    record_sha256: str
    kind: str
    """`error`: there is no grade. `not_passed`: there is one, and it is not enough."""
    status: str
    code: str
    message: str
    taxonomy_label: str
    stage: str | None
    record_attempts: int


class Evidence:
    """What is known of one record, ready to be written."""

    def __init__(self, finished: FinishedRecord, plan: Plan, redactor: Redactor) -> None:
        self._record = finished.record
        self._attempts = finished.attempts
        self._outcome: Outcome = finished.outcome or Skipped(code="not_evaluated")
        self._plan = plan
        self._redactor = redactor
        # Most records have nothing to redact; one look at all their texts saves a look at each.
        self._redact = _unchanged if redactor.is_clean(_texts(finished)) else redactor.text
        self.status = record_status(self._outcome)
        self._replied = {attempt.call_id: attempt for attempt in finished.attempts if attempt.reply is not None}

    def validation(self) -> ValidationLine:
        """Whether the record was valid."""
        record = self._record
        return ValidationLine(
            index=record.position,
            record_id=record.record_id and self._redact(record.record_id),
            record_sha256=record.sha256,
            result="accepted" if record.case is not None else "rejected",
            issues=msgspec.Raw(self._redactor.encoded(msgspec.Raw(record.issues)) if record.issues else b"[]"),
        )

    def prediction(self, record_id: str, dataset: str) -> PredictionLine:
        """What the candidate answered and what was made of it; the id is the one that may be shown."""
        answered = self._replied.get("candidate")
        reply = answered.reply if answered is not None else None
        usage = reply.usage if reply is not None else None
        grade = self._outcome.grade if isinstance(self._outcome, Graded) else None
        way = grade or self._way()
        code, message = _problem(self._outcome)
        response = None if reply is None else self._redact(reply.text)
        response_sha256 = None if reply is None else _sha256(reply.text)
        return PredictionLine(
            index=self._record.position,
            record_id=record_id,
            dataset=dataset,
            record_sha256=self._record.sha256,
            candidate_name=self._plan.candidate.name,
            model=self._plan.candidate.model,
            status=self.status,
            model_response=response,
            response_sha256=response_sha256,
            stored_sha256=response_sha256 if reply and response is reply.text else _sha256(response or "") if reply else None,
            evaluator_scores=tuple(map(self._score, grade.scores)) if grade else (),
            score=grade.score if grade else None,
            raw_score=grade.raw_score if grade else None,
            scale=grade.scale if grade else None,
            passed=grade.passed if grade else None,
            label=(grade.label if grade else getattr(self._outcome, "label", "")) or None,
            justification=self._redact(grade.justification) if grade else None,
            evaluator=way.evaluator if way else None,
            template_sha256=way.template_sha256 if way else None,
            policy_id=(way and way.policy) or None,
            selected_choice_ids=grade.selected_choice_ids if grade else (),
            flags=(*(reply.flags if reply else ()), *(grade.flags if grade else ())),
            finish_reason=(reply and self._redact(reply.finish_reason)) or None,
            input_tokens=usage.input_tokens if usage else None,
            output_tokens=usage.output_tokens if usage else None,
            total_tokens=usage.total_tokens if usage else None,
            cached_tokens=usage.cached_tokens if usage else None,
            judge_tokens=self._judge_tokens(),
            latency_ms=answered.latency_ms if answered else None,
            judge_latency_ms=self._latency("judge"),
            total_latency_ms=self._latency("candidate", "judge"),
            cost=self.cost(),
            record_attempts=self._rounds(),
            first_attempt_at=iso(self._attempts[0].started_at) if self._attempts else None,
            last_attempt_at=iso(max(attempt.started_at for attempt in self._attempts)) if self._attempts else None,
            error_code=code,
            error_message=message and self._redact(message),
        )

    def _way(self) -> Way | None:
        """How a record without a grade was to be graded."""
        case = self._record.case
        return None if case is None else way_of(_decode_case(case), settings_of(self._plan))

    def _score(self, score: Score) -> Score:
        return msgspec.structs.replace(score, justification=self._redact(score.justification)) if score.justification else score

    def attempt(self, number: int, attempt: Attempt) -> AttemptLine:
        """One of the record's attempts."""
        reply = attempt.reply
        usage = reply.usage if reply is not None else None
        return AttemptLine(
            index=self._record.position,
            record_id=self._redact(self._record.record_id or ""),
            attempt=number,
            stage=attempt.stage,
            call_id=attempt.call_id,
            record_attempt=attempt.round,
            at=iso(attempt.started_at),
            latency_ms=attempt.latency_ms,
            model=attempt.model,
            request_sha256=attempt.request_sha256,
            error_code=attempt.error_code or None,
            error_message=self._redact(attempt.error_message) if attempt.error_message else None,
            http_status=attempt.http_status,
            retry_after=attempt.retry_after,
            wait_s=attempt.wait_s,
            request_id=self._redact(attempt.request_id) or None,
            finish_reason=(reply and self._redact(reply.finish_reason)) or None,
            answered_by=(reply and self._redact(reply.model)) or None,
            response_sha256=_sha256(reply.text) if reply else None,
            applied=(reply and reply.applied) or None,
            flags=reply.flags if reply else (),
            input_tokens=usage.input_tokens if usage else None,
            output_tokens=usage.output_tokens if usage else None,
            total_tokens=usage.total_tokens if usage else None,
            cached_tokens=usage.cached_tokens if usage else None,
            cost=attempt.cost,
            response=self._shown(attempt.stage, reply),
        )

    def _shown(self, stage: str, reply: Reply | None) -> str | None:
        if reply is None:
            return None
        if reply.raw:
            return self._redact(reply.raw)
        return self._redact(reply.text) if stage == "judge" else None

    def failure(self) -> FailureLine | None:
        """None for a record that was evaluated and passed."""
        outcome = self._outcome
        if isinstance(outcome, Graded):
            if outcome.grade.passed:
                return None
            code, message = "not_passed", outcome.grade.justification
        else:
            code, message = outcome.code, outcome.message
        return FailureLine(
            index=self._record.position,
            record_id=self._record.record_id and self._redact(self._record.record_id),
            record_sha256=self._record.sha256,
            kind="not_passed" if isinstance(outcome, Graded) else "error",
            status=self.status,
            code=code,
            message=self._redact(message),
            taxonomy_label=_label(outcome),
            stage=outcome.stage if isinstance(outcome, Failed) else None,
            record_attempts=self._rounds(),
        )

    def cost(self) -> float | None:
        """What the record's calls cost; None as soon as one price is not known, and without any call."""
        costs = [attempt.cost for attempt in self._attempts if attempt.reply is not None and attempt.latency_ms]
        known = [cost for cost in costs if cost is not None]
        return sum(known) if costs and len(known) == len(costs) else None

    def _judge_tokens(self) -> int | None:
        replies = [attempt.reply for attempt in self._attempts if attempt.stage == "judge" and attempt.reply is not None]
        counts = [reply.usage.total_tokens for reply in replies]
        known = [count for count in counts if count is not None]
        return sum(known) if counts and len(known) == len(counts) else None

    def _latency(self, *stages: str) -> float | None:
        taken = [attempt.latency_ms for attempt in self._attempts if attempt.stage in stages]
        return round(sum(taken), 3) if taken else None

    def _rounds(self) -> int:
        return max((attempt.round for attempt in self._attempts), default=0)


def facts_of(line: PredictionLine, slices: Mapping[str, tuple[str, ...]], cluster: str) -> RecordFacts:
    """The numbers of a prediction, for the metrics; a prediction read back from its file gives the same."""
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
        cost=line.cost,
        error_code=line.error_code or "",
        label=line.label or "",
        flags=line.flags,
        slices=slices,
        cluster=cluster,
    )


def invalid_facts(position: int) -> RecordFacts:
    """A record that broke its contract, for the metrics."""
    return RecordFacts(position=position, status="invalid_record", error_code="invalid_record")


def _unchanged(text: str) -> str:
    return text


def _texts(finished: FinishedRecord) -> Iterator[str]:
    """Every text of a record that came from outside."""
    yield finished.record.record_id or ""
    for attempt in finished.attempts:
        if attempt.reply is not None:
            yield attempt.reply.text
            yield attempt.reply.raw
            yield attempt.reply.model
            yield attempt.reply.finish_reason
        yield attempt.error_message
        yield attempt.request_id
    if isinstance(finished.outcome, Graded):
        yield finished.outcome.grade.justification
        for score in finished.outcome.grade.scores:
            yield score.justification
    elif finished.outcome is not None:
        yield finished.outcome.message


def _problem(outcome: Outcome) -> tuple[str | None, str | None]:
    return (None, None) if isinstance(outcome, Graded) else (outcome.code, outcome.message)


def _label(outcome: Outcome) -> str:
    if isinstance(outcome, Graded):
        return outcome.grade.label or "incorrect_answer"
    if isinstance(outcome, Failed):
        return outcome.label
    return "format_or_schema_violation" if isinstance(outcome, Invalid) else "other"


def _sha256(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def iso(seconds: float) -> str:
    """A time as artifacts write it: UTC, milliseconds, Z."""
    milliseconds = int(seconds * 1000)
    return f"{_second(milliseconds // 1000)}.{milliseconds % 1000:03d}Z"


@lru_cache(maxsize=64)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:-6]


def slices_of(case: Case, names: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """The slices that a case belongs to: a tag each, its dataset, its task, or any member of its metadata."""
    return {name: _slice_values(case, name) for name in names}


def _slice_values(case: Case, name: str) -> tuple[str, ...]:
    if name == "tags":
        return case.tags
    if name in ("dataset", "task", "contract", "policy_id"):
        return (getattr(case, name),) if getattr(case, name) else ()
    value = metadata_at(case.metadata, name.removeprefix("metadata."))
    if isinstance(value, list):
        return tuple(map(str, value))
    return () if value is None else (str(value),)


def cluster_of(case: Case, key: str) -> str:
    """The cluster that a case belongs to; empty without a key or a value."""
    value = metadata_at(case.metadata, key) if key else None
    return "" if value is None else str(value)


def metadata_at(metadata: Mapping[str, Any], path: str) -> Any:
    """The member of the metadata behind a dotted path, None when there is none."""
    value: Any = metadata
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def failed_hashes(run: RunFolder) -> frozenset[str]:
    """The hashes of the records that a run could not evaluate, which a retry takes up again."""
    lines = run.lines("predictions.jsonl")
    return frozenset(line["record_sha256"] for line in lines if line["status"] in UNEVALUATED)
