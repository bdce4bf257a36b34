"""Outcomes: what happened to one case, and the attempts that led there. A failure is a type of its own, never a score."""

from collections.abc import Generator
from typing import Literal

import msgspec

from assay.core.ask import Ask, Reply, Stage

Flow = Generator[tuple[Ask, ...], tuple[Reply, ...], "Grade"]
"""A grader at work: it yields asks that may be sent side by side, receives their replies in order, and returns a grade."""

FailureLabel = Literal[
    "",
    "incorrect_answer",
    "missing_required_content",
    "unfaithful_to_context",
    "hallucinated_fact",
    "format_or_schema_violation",
    "tool_or_retrieval_misuse",
    "timeout_or_latency_exceeded",
    "other",
]


class Score(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One evaluator's score for one criterion."""

    criterion: str
    score: float
    """On the evaluator's own scale."""
    scale: str
    """`1-5`, `0-1` or `0/1`."""
    normalized: float
    """The score mapped to 0..1."""
    weight: float = 1.0
    justification: str = ""
    judge: str = ""
    """Name of the judge model; empty for programmatic grading."""
    confidence: float | None = None
    """How sure the judge says it is, 0..1, where it was asked."""
    flags: tuple[str, ...] = ()
    """`salvaged`, `asked_again`."""


class Decision(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How several votes on one criterion became one score."""

    criterion: str
    score: float
    """The middle vote, the lower one of two."""
    spread: float = 0.0
    """From the lowest vote to the highest, each as 0..1."""
    is_tied: bool = False
    """The votes have no middle one, so that the lower of two counts."""
    is_escalated: bool = False
    """The first judge was unsure, and the others were asked too."""
    missing: tuple[str, ...] = ()
    """Judges who were asked and gave no vote."""
    words: str = ""


class Grade(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a grader makes of an answer."""

    score: float
    """0..1 over all criteria; not clipped where weights may be negative."""
    passed: bool
    answer: str
    raw_score: float
    scale: str
    scores: tuple[Score, ...] = ()
    justification: str = ""
    label: FailureLabel = ""
    """Why the answer did not pass."""
    evaluator: str = ""
    """Id and version of the way of grading, `judge_1_5/1`."""
    template: str = ""
    """Id and version of the template that the grade hangs on, `judge_1_5/1`."""
    template_sha256: str = ""
    """Hash of all texts that the candidate and the judge were asked with."""
    panel: tuple[Decision, ...] = ()
    """Decisions of several judges that there is something to say about."""
    policy: str = ""
    """Id of the policy that the case was asked and graded by, which is the default one where the record names none that fits."""
    selected_choice_ids: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


class GradingFailure(Exception):
    """A grader cannot come to a grade: the record fails and has no score."""

    def __init__(self, code: str, message: str, *, label: FailureLabel = "other", scores: tuple[Score, ...] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.label: FailureLabel = label
        self.scores = scores
        """Votes of the judges of a panel that did give one."""


class Graded(msgspec.Struct, frozen=True, kw_only=True, tag_field="status", tag="evaluated"):
    """The case was answered and graded."""

    grade: Grade


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag_field="status", tag="failed"):
    """The case has no grade; every attempt is in the log."""

    code: str
    """`timeout`, `rate_limited`, `judge_parse_error` and so on."""
    message: str
    stage: Stage = "candidate"
    label: FailureLabel = "other"
    answer: str | None = None
    """The candidate's answer where there is one; it may be graded again later."""
    stack: str = ""
    """Where an unexpected error came from."""
    scores: tuple[Score, ...] = ()
    """Votes of the judges of a panel that did give one; together they are not a grade."""


class Invalid(msgspec.Struct, frozen=True, kw_only=True, tag_field="status", tag="invalid_record"):
    """The record broke its contract and was never sent anywhere."""

    code: str
    message: str


class Cancelled(msgspec.Struct, frozen=True, kw_only=True, tag_field="status", tag="cancelled"):
    """The case was stopped: the run was cancelled, or a limit of cost or time was reached."""

    code: str = "run_cancelled"
    message: str = ""


class Skipped(msgspec.Struct, frozen=True, kw_only=True, tag_field="status", tag="skipped"):
    """The case was valid but not to be evaluated."""

    code: str
    message: str = ""


Outcome = Graded | Failed | Invalid | Cancelled | Skipped


def record_status(outcome: Outcome) -> str:
    """The record status as artifacts name it: evaluated, invalid_record, timeout, evaluation_error, cancelled, skipped."""
    if isinstance(outcome, Failed):
        return "timeout" if outcome.code == "timeout" else "evaluation_error"
    return str(outcome.__struct_config__.tag)


class Attempt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One try of one ask; a round of a record is one of at most three record attempts."""

    stage: Stage
    call_id: str
    round: int
    started_at: float
    """Seconds since 1970, UTC."""
    latency_ms: float
    model: str
    """Name of the plan's model that was asked."""
    request_sha256: str = ""
    reply: Reply | None = None
    error_code: str = ""
    error_message: str = ""
    http_status: int | None = None
    retry_after: float | None = None
    wait_s: float | None = None
    """How long the record waits before its next round because of this attempt."""
    request_id: str = ""
    cost: float | None = None
    """US dollars; None when the price is not known."""
    is_rejection: bool = False
    """The provider rejected the account, which is not a try of the record: when the run is resumed, the call is made again."""
