"""Asks and replies: one request to a model, and what came back."""

from typing import Any, Literal

import msgspec

from assay.core.case import Case, Message

Stage = Literal["candidate", "judge"]
TRANSIENT_CODES = frozenset({"timeout", "rate_limited", "service_unavailable", "internal_error"})
"""Only these are tried again."""


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """One request to a model: graders make it, the engine sends it."""

    stage: Stage
    call_id: str
    """Names the call within its record, the same in every round: `candidate`, `judge:overall`, `judge:overall:again`."""
    model: str
    """Name of one of the plan's models."""
    messages: tuple[Message, ...]
    reply_schema: dict[str, Any] | None = None
    """JSON Schema of the wanted reply, for providers that can be held to one."""
    is_fresh: bool = False
    """A stored reply to the same request will not do."""
    sample: int = 0
    """Which of several answers to the same request is wanted; each has an address of its own."""
    may_fail: bool = False
    """The grader can do without a reply: where the call fails for good, it is told so."""


class GraderAsk(Ask, frozen=True, kw_only=True):
    """A request to a grader of one's own, which gets the record itself rather than messages."""

    case: Case
    answer: str


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens as the provider counted them; what it did not say is None, never 0."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


def with_total(usage: Usage) -> Usage:
    """The usage with the sum of both counts, where the provider said both and no sum."""
    if usage.total_tokens is not None or usage.input_tokens is None or usage.output_tokens is None:
        return usage
    return msgspec.structs.replace(usage, total_tokens=usage.input_tokens + usage.output_tokens)


class Reply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a model answered."""

    text: str
    finish_reason: str = ""
    usage: Usage = Usage()
    model: str = ""
    """The model that the provider says has answered."""
    request_id: str = ""
    applied: dict[str, Any] = {}
    """Sampling parameters as they were sent, which may be fewer than were asked for."""
    flags: tuple[str, ...] = ()
    """What happened to the reply on its way: `truncated`, `replaced_characters`, `cached`, `not_cached`, `prefilled` ..."""
    raw: str = ""
    """The provider's whole body, when the run keeps it."""


class Lost(Reply, frozen=True, kw_only=True):
    """What a grader gets that can do without a reply, when the call has failed for good; it is stored nowhere."""

    code: str
    message: str
    attempts: int = 1
    """How often the call was made."""


def failure_words(code: str, message: str, *, attempts: int) -> str:
    """A call that failed for good in words: `timeout after 3 attempts: no whole answer within 60 s`."""
    return f"{code}{f' after {attempts} attempts' if attempts > 1 else ''}: {message}"


class ModelFailure(Exception):
    """A call that brought no reply, classed by what may be done about it."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        http_status: int | None = None,
        retry_after: float | None = None,
        request_id: str = "",
        is_exhausted: bool = False,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.http_status = http_status
        self.retry_after = retry_after
        self.request_id = request_id
        self.is_exhausted = is_exhausted
        """The account has no quota left, so that no further call can succeed."""

    @property
    def is_transient(self) -> bool:
        """True when the same call may succeed later."""
        return self.code in TRANSIENT_CODES
