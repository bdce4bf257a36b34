"""Model requests and replies."""

from typing import Any, Literal

import msgspec

from assay.core.canonical import JsonObject
from assay.core.case import Case, Message
from assay.core.errors import ReportedFailure
from assay.core.tools import ToolCall, ToolDefinition

Stage = Literal["candidate", "judge"]
# The four codes are those of batch_v1; every other failure is permanent, and a retry would only cost money.
TRANSIENT_CODES = frozenset({"timeout", "rate_limited", "service_unavailable", "internal_error"})
"""Only these codes are retried."""


BUSY_STATUSES = frozenset({429, 498, 503, 529})
"""Statuses of a request that was rejected on arrival, so that it cost nothing and says nothing about its record."""


# Requests are values: their hash is the address of a reply in the ledger and in the cache, so that a resumed run finds it.
class AttachedText(msgspec.Struct, frozen=True):
    """An attachment with its text, which the messages hold too."""

    path: str
    title: str
    kind: str
    text: str


class RecordInput(msgspec.Struct, frozen=True, kw_only=True):
    """What a candidate may know of a record besides the messages: no reference, rubric or note."""

    id: str
    metadata: JsonObject = {}
    attachments: tuple[AttachedText, ...] = ()


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request to a model: graders create it, the engine sends it."""

    stage: Stage
    call_id: str
    """Identifies the call within its record, the same in every round: `candidate`, `judge:overall`, `judge:overall:again`."""
    model: str
    """Name of one of the plan's models."""
    messages: tuple[Message, ...]
    tools: tuple[ToolDefinition, ...] = ()
    """Tools that the model may call."""
    takes_tool_calls: bool = False
    """Tool calls without a text are a reply; otherwise they are a failure, because there is nothing to grade."""
    reply_schema: JsonObject | None = None
    """JSON Schema of the wanted reply, for providers that can enforce one."""
    is_fresh: bool = False
    """Do not use a cached reply."""
    sample: int = 0
    """Number of the answer to the same request; each has an address of its own."""
    may_fail: bool = False
    """The grader can do without a reply: a call that fails for good gives it a FailedReply."""
    record: RecordInput | None = None
    """Record that the candidate is asked about, for endpoints that are sent more of it than the messages."""


class GraderRequest(ModelRequest, frozen=True, kw_only=True):
    """A request to a custom grader, which gets the record itself rather than messages."""

    case: Case
    answer: str


# None and 0 differ: a provider that reports no tokens must not look as if it had used none, or costs would be too low.
class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens as the provider counted them; an unknown count is None, never 0."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


def with_total(usage: Usage) -> Usage:
    """Add the sum of both counts if the provider reported both and no sum."""
    # A reported total is kept even if it is not the sum: a provider may count reasoning tokens in the total alone.
    if usage.total_tokens is not None or usage.input_tokens is None or usage.output_tokens is None:
        return usage
    return msgspec.structs.replace(usage, total_tokens=usage.input_tokens + usage.output_tokens)


class Reply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model's reply."""

    text: str
    finish_reason: str = ""
    usage: Usage = Usage()
    model: str = ""
    """The model that answered, according to the provider."""
    request_id: str = ""
    applied: JsonObject = {}
    """Sampling parameters as sent, which may be fewer than requested."""
    flags: tuple[str, ...] = ()
    """Events of the reply: `truncated`, `replaced_characters`, `cached`, `not_cached`, `prefilled` ..."""
    # Off by default: a whole body is larger than its reply, and may hold more than that.
    raw: str = ""
    """The provider's whole body, if the run stores it."""
    steps: tuple[Any, ...] = ()
    """What an agent did before it answered, as JSON values of its own."""
    tool_calls: tuple[ToolCall, ...] = ()
    """Calls of the tools that the model was offered."""
    native: Any = None
    """The turn as the provider sent it, if it calls tools: thoughts and signatures have to be sent back unchanged."""


TOOL_CALL_ONLY = "the reply holds tool calls and no text"


def unwanted_calls(request: ModelRequest, reply: Reply) -> "ModelFailure | None":
    """Return the failure of a reply of tool calls alone, where the request wants a text."""
    if not reply.tool_calls or request.takes_tool_calls or reply.text.strip():
        return None
    names = ", ".join(sorted({call.name for call in reply.tool_calls}))
    return ModelFailure(
        "tool_call_only", f"{TOOL_CALL_ONLY} (it calls {names[:200]})", http_status=200, request_id=reply.request_id
    )


class MeasuredReply(Reply, frozen=True, kw_only=True):
    """A reply with what its call took, for graders; never stored."""

    latency_ms: float | None = None
    """None for a reply without a call of its own, and for one of a batch."""
    cost: float | None = None
    """US dollars; None where the price is not known."""


class FailedReply(Reply, frozen=True, kw_only=True):
    """Replaces a reply that the grader can do without, when the call has failed for good; never stored."""

    code: str
    message: str
    attempts: int = 1
    """How often the call was made."""


def failure_words(code: str, message: str, *, attempts: int) -> str:
    """Describe a call that failed for good: `timeout after 3 attempts: no whole answer within 60 s`."""
    return f"{code}{f' after {attempts} attempts' if attempts > 1 else ''}: {message}"


class Adjustment(msgspec.Struct, frozen=True):
    """Lesson from a provider's rejection of one parameter of a model."""

    parameter: str
    """The plan's name of the parameter, `system`, `reply_format`, or a member of `extra_body`."""
    value: str
    """`omitted`, or what is sent now: another name, a limit, a role, a form of the reply."""
    reason: str = ""
    """The provider's words."""
    is_explicit: bool = False
    """True when the user set the parameter; otherwise assay chose its value."""

    @property
    def is_loss(self) -> bool:
        """False when the same value is sent in another way: under another name, or in another form or role."""
        if self.parameter in ("system", "reply_format"):
            return False
        return self.parameter != "max_tokens" or self.value == "omitted" or self.value.isdecimal()


class ModelFailure(ReportedFailure):
    """A failed call, with a code that determines what may be done about it."""

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
        self.error_body: object = None
        """The body of an error response, without keys; it may name a rejected parameter."""
        self.adjustments: tuple[Adjustment, ...] = ()
        """What this rejection taught about the model's parameters."""
        # Providers disagree about which parameters a model takes. The rejection costs no attempt: the record did nothing wrong.
        self.is_negotiable = False
        """The same request can be sent again at once, with other parameters."""
        self.is_refused_setting = False
        """It can only be sent without a parameter that the user set, and the run's parameters are strict."""

    @property
    def is_transient(self) -> bool:
        """Tell whether the same call may succeed later."""
        return self.code in TRANSIENT_CODES

    @property
    def is_busy(self) -> bool:
        """Tell whether the provider rejected the request on arrival, because of a limit or because it is overloaded."""
        return self.http_status in BUSY_STATUSES and self.is_transient and not self.is_exhausted
