"""Results of single criteria after all votes, possibly without a value."""

import math
from collections.abc import Generator, Mapping
from typing import Literal

import msgspec

from assay.core.checks import CheckResult
from assay.core.errors import ReportedFailure
from assay.core.model_call import ModelRequest, Reply, Stage


class CriterionResult(msgspec.Struct, frozen=True, kw_only=True):
    """One criterion of a record; unlike a score it may have no value."""

    criterion: str
    value: float | None
    """On its own scale; None without a verdict."""
    scale: str
    """`1-5`, `0-1` or `0/1`."""
    weight: float = 1.0


# A generator instead of a coroutine: the engine makes the calls, and after a crash it drives the flow again from stored replies.
Flow = Generator[tuple[ModelRequest, ...], tuple[Reply, ...], "Grade"]
"""A grader as a generator: it yields requests to send in parallel, receives their replies in order, and returns a grade."""

# The taxonomy of failures.jsonl, which batch_v1 asks for; all contracts share it, so that runs can be compared.
FailureLabel = Literal[
    "",
    "incorrect_answer",
    "missing_required_content",
    "unfaithful_to_context",
    "hallucinated_fact",
    "format_or_schema_violation",
    "tool_or_retrieval_misuse",
    "timeout_or_latency_exceeded",
    "answer_truncated",
    "other",
]


TRUNCATED = "truncated"
"""Flag of a reply that ended at its output limit."""
ANSWER_TRUNCATED = "answer_truncated"
"""Code of a record whose answer did not pass, or is missing, because it ended at the output limit."""


class Score(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One evaluator's score for one criterion."""

    criterion: str
    score: float
    """On the evaluator's own scale."""
    scale: str
    """`1-5`, `0-1` or `0/1`."""
    # Both scores are stored: people read the raw one, and only the normalized one can be compared across contracts.
    normalized: float
    """The score mapped to 0..1."""
    weight: float = 1.0
    justification: str = ""
    judge: str = ""
    """Name of the judge model; empty for programmatic grading."""
    confidence: float | None = None
    """The judge's confidence, 0..1, if it was asked."""
    flags: tuple[str, ...] = ()
    """`salvaged`, `asked_again`."""


class PanelDecision(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How several votes on one criterion became one score."""

    criterion: str
    score: float
    """The median vote, the lower one of two."""
    spread: float = 0.0
    """From the lowest vote to the highest, each as 0..1."""
    is_tied: bool = False
    """The two middle votes differ, so that the lower one counts."""
    is_escalated: bool = False
    """The first judge was unsure, and the others were asked too."""
    missing: tuple[str, ...] = ()
    """Judges that were asked and gave no vote."""
    words: str = ""


class Grade(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A grader's result for an answer."""

    score: float
    """0..1 over all criteria; not clipped when weights may be negative."""
    passed: bool
    answer: str
    raw_score: float
    scale: str
    scores: tuple[Score, ...] = ()
    justification: str = ""
    label: FailureLabel = ""
    """Why the answer did not pass."""
    evaluator: str = ""
    """Id and version of the grading method, `judge_1_5/1`."""
    template: str = ""
    """Id and version of the template that determines the grade, `judge_1_5/1`."""
    template_sha256: str = ""
    """Hash of all texts in the prompts of the candidate and the judge."""
    panel: tuple[PanelDecision, ...] = ()
    """The panel's decisions that are worth reporting."""
    policy: str = ""
    """Id of the policy that was applied: the default one if the record names none that fits."""
    selected_choice_ids: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    checks: tuple[CheckResult, ...] = ()
    """Results of the run's checks, and of the record's own."""


class GradingFailure(ReportedFailure):
    """A grader cannot determine a grade: the record ends in an error and has no score."""

    # The other judges' votes were paid for. They are stored with the error, and never made into a score.
    def __init__(self, code: str, message: str, *, label: FailureLabel = "other", scores: tuple[Score, ...] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.label: FailureLabel = label
        self.scores = scores
        """Votes of the panel's judges that did vote."""


class GradedOutcome(msgspec.Struct, frozen=True, kw_only=True, tag_field="status", tag="evaluated"):
    """The case was answered and graded."""

    grade: Grade


# There is no score here, not even None: an error is never a score, and no mean can count one by mistake.
class FailedOutcome(msgspec.Struct, frozen=True, kw_only=True, tag_field="status", tag="failed"):
    """The case has no grade; every attempt is in the log."""

    code: str
    """`timeout`, `rate_limited`, `judge_parse_error` and so on."""
    message: str
    stage: Stage = "candidate"
    label: FailureLabel = "other"
    answer: str | None = None
    """The candidate's answer, if there is one; it may be graded again later."""
    stack: str = ""
    """Stack of an unexpected exception."""
    scores: tuple[Score, ...] = ()
    """Votes of the panel's judges that did vote; together they are not a grade."""


class InvalidOutcome(msgspec.Struct, frozen=True, kw_only=True, tag_field="status", tag="invalid_record"):
    """The record is invalid and was never sent to a model."""

    code: str
    message: str


class CancelledOutcome(msgspec.Struct, frozen=True, kw_only=True, tag_field="status", tag="cancelled"):
    """The case was stopped: the run was cancelled, or a limit of cost or time was reached."""

    code: str = "run_cancelled"
    message: str = ""


class SkippedOutcome(msgspec.Struct, frozen=True, kw_only=True, tag_field="status", tag="skipped"):
    """The case was valid but not to be evaluated."""

    code: str
    message: str = ""


Outcome = GradedOutcome | FailedOutcome | InvalidOutcome | CancelledOutcome | SkippedOutcome


def record_status(outcome: Outcome) -> str:
    """Return the record status as artifacts name it: evaluated, invalid_record, timeout, evaluation_error, cancelled, skipped."""
    # The stored tag is `failed`; batch_v1 tells an exhausted timeout from every other error of an evaluation.
    if isinstance(outcome, FailedOutcome):
        return "timeout" if outcome.code == "timeout" else "evaluation_error"
    return str(outcome.__struct_config__.tag)


class Attempt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One attempt of one request; a round of a record is one of at most three passes over it."""

    stage: Stage
    call_id: str
    round: int
    started_at: float
    """Seconds since 1970, UTC."""
    latency_ms: float
    model: str
    """Name of the plan's model that was called."""
    request_sha256: str = ""
    reply: Reply | None = None
    error_code: str = ""
    error_message: str = ""
    http_status: int | None = None
    retry_after: float | None = None
    wait_s: float | None = None
    """Seconds that the record waits before its next round because of this attempt."""
    request_id: str = ""
    cost: float | None = None
    """US dollars; None when the price is unknown."""
    # At most three attempts per record are allowed, and a rejected key or parameter says nothing about the record.
    is_rejection: bool = False
    """The provider rejected the account, a parameter or, while it answered others, this call on arrival. That does not count as an
    attempt: the call is made again."""
    refused_parameters: tuple[str, ...] = ()
    """Parameters of the plan that were not sent as planned, because the provider had rejected them."""


NO_RESULT = "grader_no_result"
"""Code of a record whose grader returned nothing."""
INVALID_RESULT = "grader_invalid_result"
"""Code of a record whose grader returned something that is not a score."""
GRADER_ERROR = "grader_error"
"""Code of a record whose grader raised an exception."""


class Judgement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A grader's result for an answer, when a number alone is not enough."""

    score: float
    """From 0 to 1."""
    passed: bool | None = None
    """None compares the score with the run's `pass_threshold`."""
    justification: str = ""
    label: FailureLabel = ""
    """Why the answer did not pass."""
    scores: dict[str, float] = {}
    """Scores from 0 to 1 of single criteria, by name; only the score above counts."""
    scale: Literal["0-1", "0/1"] = "0-1"
    """Any number between the two, or only the two; applies to `scores` too."""
    flags: tuple[str, ...] = ()


def judgement_of(returned: object) -> Judgement:
    """Convert what a grader returned; raises GradingFailure when it is not a judgement."""
    # A grader without a return statement: 0 would be a wrong score, and skipping the record would hide the defect.
    if returned is None:
        raise GradingFailure(NO_RESULT, "the grader returned None: it gave no grade")
    # numpy's and torch's scalars; a mapping may have a member called `item`.
    returned = returned.item() if hasattr(returned, "item") and not isinstance(returned, Mapping) else returned
    # Before numbers: bool is an int, and True must mean passed, with any threshold.
    if isinstance(returned, bool):
        return Judgement(score=float(returned), passed=returned, scale="0/1")
    if isinstance(returned, int | float):
        return _validated({"score": returned})
    # Only what a Judgement has is taken over: hashes, templates and the panel's decisions are set by the engine.
    if isinstance(returned, Grade):
        scores = {score.criterion: score.normalized for score in returned.scores}
        return _validated(
            {name: getattr(returned, name) for name in ("score", "passed", "justification", "label", "flags")} | {"scores": scores}
        )
    if isinstance(returned, Judgement):
        return _validated(msgspec.structs.asdict(returned))
    if isinstance(returned, Mapping):
        return _validated(dict(returned))
    raise _invalid(f"it returned {type(returned).__name__}, not a bool, a number from 0 to 1 or a Judgement")


def _validated(members: Mapping[str, object]) -> Judgement:
    try:
        judgement = msgspec.convert(members, Judgement)
    except msgspec.ValidationError as problem:
        raise _invalid(str(problem)) from None
    for name, score in (("score", judgement.score), *judgement.scores.items()):
        if not math.isfinite(score) or not 0 <= score <= 1:
            raise _invalid(f"{name} is {score!r}, which is not from 0 to 1")
        if judgement.scale == "0/1" and score not in (0, 1):
            raise _invalid(f"{name} is {score!r}, which is neither 0 nor 1, as the scale '0/1' says")
    return judgement


def _invalid(reason: str) -> GradingFailure:
    return GradingFailure(INVALID_RESULT, f"what the grader returned is not a grade: {reason}")
