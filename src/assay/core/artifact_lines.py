"""Lines of a run's artifacts: the members of cases, validation, predictions, attempts, failures and responses, one struct each.

Members have the order of the files, because the files are these structs, encoded. A member that earlier
versions did not write has a default, so that their lines are decoded as these structs too; `PublishedRun.typed_lines` does that.
"""

from typing import Any

import msgspec

from assay.core.canonical import JsonObject
from assay.core.case import Case
from assay.core.issue import RecordIssue
from assay.core.outcome import PanelDecision, Score

Slices = dict[str, tuple[str, ...]]
"""Values by the name of the slice; none makes the record a member of the slice of those without a value."""


class ScoreRange(msgspec.Struct, frozen=True):
    """Lowest and highest score that a record without one could have had."""

    worst: float
    best: float


class CaseLine(msgspec.Struct, kw_only=True):
    """A line of cases.jsonl; also a record of the input that earlier versions sealed."""

    record_id: str
    record_sha256: str
    """Of the record as it was read."""
    stored_sha256: str = ""
    """Of the bytes of `record` as stored, redacted."""
    sample: int | msgspec.UnsetType = msgspec.UNSET
    # Raw, because a run of 50,000 records reads its cases one at a time, and most readers need only the ids and hashes.
    record: msgspec.Raw

    def case(self) -> Case:
        """Decode the record; raises msgspec.ValidationError."""
        return _decode_case(self.record)


# Decoders are made once: building one walks the type with all its fields, which takes longer than decoding a short record.
_decode_case = msgspec.json.Decoder(Case).decode


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

    def read_issues(self) -> tuple[RecordIssue, ...]:
        """Decode the issues; raises msgspec.ValidationError."""
        return _decode_issues(self.issues)


_decode_issues = msgspec.json.Decoder(tuple[RecordIssue, ...]).decode


class CheckLine(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one check, in a prediction."""

    name: str
    type: str
    passed: bool | None
    """None where nothing is known that the check is about."""
    score: float | None
    reason: str


# batch_v1 fixes which members a prediction has to have. Members that came later have a default and are UNSET or at the end, so
# that a run without them is sealed with the same bytes as before, and its hashes stay comparable.
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
    """Of the answer as it is stored here."""
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
    """Reason why the profile gives no score; None without a profile."""
    profile_bounds: ScoreRange | msgspec.UnsetType = msgspec.UNSET
    """Scores that a record without one could have had; absent if no verdict would give it one."""
    template: str | None = None
    """Id and version of the template that the grade hangs on; runs of earlier versions name none."""
    sample: int | msgspec.UnsetType = msgspec.UNSET
    """Which of several answers to the record it is, from 0; only in runs that ask more than once."""
    panel: tuple[PanelDecision, ...] | msgspec.UnsetType = msgspec.UNSET
    """Decisions on which the judges differ or did not all vote; only with several judges."""
    policy_sha256: str | msgspec.UnsetType = msgspec.UNSET
    """Of the source of a custom policy; the manifest has the hashes of the built-in ones."""
    judge_costs: dict[str, float | None] | msgspec.UnsetType = msgspec.UNSET
    """Cost of each judge's calls, counted like `cost`; only with several judges."""
    checks: tuple[CheckLine, ...] | msgspec.UnsetType = msgspec.UNSET
    """Results of the checks of the answer; only of a record with checks that was graded."""


# One line for every call, also for the failed ones: batch_v1 wants time, error code and latency of each attempt.
class AttemptLine(msgspec.Struct):
    """A line of attempt_logs.jsonl."""

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
    """None for a reply that was given and not asked for."""
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
    applied: JsonObject | None
    flags: tuple[str, ...]
    input_tokens: int | None
    output_tokens: int | None
    total_tokens: int | None
    cached_tokens: int | None
    cost: float | None
    response: str | None = None
    """The judge's reply."""
    raw: str | msgspec.UnsetType | None = msgspec.UNSET
    """The provider's whole body, when the run keeps it; runs of earlier versions have it as `response`."""
    counted: bool = True
    """False for a call that is made again because the provider rejected it on arrival, or its account, its key or a parameter. It
    is none of the record's attempts."""
    sample: int | msgspec.UnsetType = msgspec.UNSET
    refused_parameters: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    steps: list[Any] | msgspec.UnsetType = msgspec.UNSET
    """What an agent behind an HTTP endpoint did before it answered."""
    """Parameters that were not sent as planned, because the provider had rejected them; only where there are some."""
    chain_sha256: str | msgspec.UnsetType = msgspec.UNSET
    """Position in the hash chain; the writer of the file appends it to the encoded line."""


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


class SampleResult(msgspec.Struct, kw_only=True):
    """Result of one of several answers to the same record."""

    sample: int
    index: int
    status: str
    score: float | None
    raw_score: float | None
    scale: str | None
    passed: bool | None
    error_code: str | None


class RecordDetails(msgspec.Struct, kw_only=True):
    """A valid record: what was asked, the prediction, and every attempt."""

    input: Case
    prediction: PredictionLine
    attempts: tuple[AttemptLine, ...]
    samples: tuple[SampleResult, ...] | msgspec.UnsetType = msgspec.UNSET
    """Results of all answers to the record; only in runs that ask more than once."""


class InvalidRecord(msgspec.Struct, kw_only=True):
    """A record that broke its contract, and was never sent to a model."""

    failure: FailureLine


class JudgeDisagreement(msgspec.Struct, kw_only=True):
    """A criterion of one record on which the judges disagree, with all votes."""

    record_id: str
    index: int
    sample: int | msgspec.UnsetType = msgspec.UNSET
    passed: bool | None
    criterion: str
    score: float
    spread: float
    is_tied: bool
    is_escalated: bool
    missing: tuple[str, ...]
    words: str
    votes: tuple[Score, ...]
