"""Negotiation of request parameters: what a provider rejects is left out or sent otherwise, for the rest of the run.

No table of models decides what is sent. A rejection names a parameter in its error object or in its words, and it counts only if
that parameter was sent: a rejection of anything else stays the failure that it is.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, TypeVar, get_args

import msgspec

from assay.core.canonical import RequestMembers
from assay.core.model_call import OMITTED, Adjustment, ModelFailure, ModelRequest
from assay.core.settings import ModelParameters
from assay.models.rejections import (
    MAX_TOKENS,
    REPLY_FORMAT,
    SYSTEM,
    THINKING,
    RejectedRequest,
    RejectionError,
    context_overflow,
    limit_in,
    overflow_in,
    read_errors,
    rejected_parameters,
)

__all__ = [
    "MAX_TOKENS",
    "REPLY_FORMAT",
    "SYSTEM",
    "THINKING",
    "UNBOUNDED",
    "Dialect",
    "Negotiator",
    "SentParameters",
    "nested",
]

ReplyFormat = Literal["json_schema", "json_object", "tools", "plain"]
"""How a reply with a schema is requested, from the strictest form to a request in the prompt alone."""
REPLY_FORMATS: tuple[ReplyFormat, ...] = get_args(ReplyFormat)
SystemRole = Literal["system", "developer", "user"]
"""How instructions are sent; `user` puts them before the first question."""

UNBOUNDED = 1_000_000
"""Output limit for an API that requires one: above every known model's maximum, which its rejection then states."""

_LIMIT_STEPS = (128_000, 64_000, 32_000, 16_384, 8_192, 4_096)
"""Limits to try in turn when a rejection of a limit states no number."""
_MAX_REASON = 300


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """How a protocol spells what is negotiated."""

    names: dict[str, tuple[str, ...]]
    """Names in requests by the plan's names, the preferred one first; what is missing here is never sent."""
    formats: tuple[ReplyFormat, ...] = REPLY_FORMATS
    roles: tuple[SystemRole, ...] = ("system", "developer", "user")
    requires_limit: bool = False
    """The API takes no request without an output limit."""
    containers: tuple[str, ...] = ()
    """Members of requests that hold parameters: each of the user's own members there is rejected for itself."""


class SentParameters(msgspec.Struct, frozen=True, kw_only=True):
    """What requests to a model contain besides their messages, until the next adjustment."""

    parameters: dict[str, object]
    """Values by the plan's names, members of `extra_body` by their own: `stop`, or `inferenceConfig.stopSequences`."""
    names: dict[str, str]
    """Names in requests, by the same names."""
    role: SystemRole
    reply_format: ReplyFormat
    refused: tuple[str, ...] = ()
    """Names of parameters that the provider rejected."""

    def body(self) -> RequestMembers:
        """Build the members of a flat request."""
        return {self.names[name]: value for name, value in self.parameters.items()}


class Negotiator:
    """What one model is sent: the plan's parameters, adjusted by what its provider rejected."""

    def __init__(self, parameters: ModelParameters, dialect: Dialect, *, explicit: Iterable[str] = ()) -> None:
        self._dialect = dialect
        own = dict(_own_members(parameters.extra_body, dialect.containers))
        self._explicit = {*explicit, *own}
        wanted = {name: getattr(parameters, name) for name in dialect.names if name in ModelParameters.__struct_fields__}
        self._wanted: dict[str, object] = {name: value for name, value in wanted.items() if value is not None}
        self._wanted.update(own)
        if dialect.requires_limit:
            self._wanted.setdefault(MAX_TOKENS, UNBOUNDED)
        self.is_strict = False
        """Nothing that the user set may be changed."""
        self._adjustments: dict[tuple[str, str], Adjustment] = {}
        """By parameter and by what changed of it: its name and its value are adjusted one by one."""
        self.sent = self.planned = self._build_sent()

    @property
    def adjustments(self) -> tuple[Adjustment, ...]:
        """All adjustments so far, in the order in which they were learned."""
        return tuple(self._adjustments.values())

    def apply(self, adjustments: Iterable[Adjustment]) -> None:
        """Apply what was learned before, by this process or by another worker."""
        for adjustment in adjustments:
            is_name = adjustment.value in self._dialect.names.get(adjustment.parameter, ())
            key = adjustment.parameter, "name" if is_name else "value"
            if key not in self._adjustments or self._is_further(adjustment, self._adjustments[key]):
                self._adjustments[key] = adjustment
        self.sent = self._build_sent()

    def _is_further(self, adjustment: Adjustment, known: Adjustment) -> bool:
        """Return whether an adjustment goes further than a known one: other workers learn too, and notes are not in order."""
        for parameter, choices in ((SYSTEM, self._dialect.roles), (REPLY_FORMAT, self._dialect.formats)):
            if adjustment.parameter == parameter and {adjustment.value, known.value} <= set(choices):
                return choices.index(adjustment.value) > choices.index(known.value)
        if adjustment.value.isdecimal() and known.value.isdecimal():
            return int(adjustment.value) < int(known.value)
        return known.value != OMITTED

    def _build_sent(self) -> SentParameters:
        parameters: dict[str, object] = {}
        names: dict[str, str] = {}
        for name, value in self._wanted.items():
            adjusted = self._adjustments.get((name, "value"))
            spelled = self._adjustments.get((name, "name"))
            if adjusted is not None and adjusted.value == OMITTED:
                continue
            parameters[name] = int(adjusted.value) if adjusted is not None else value
            names[name] = spelled.value if spelled else self._dialect.names.get(name, (name,))[0]
        return SentParameters(
            parameters=parameters,
            names=names,
            role=self._chosen(SYSTEM, self._dialect.roles),
            reply_format=self._chosen(REPLY_FORMAT, self._dialect.formats),
            refused=tuple(dict.fromkeys(adjustment.parameter for adjustment in self.adjustments)),
        )

    def _chosen(self, parameter: str, choices: "tuple[_Choice, ...]") -> "_Choice":
        adjusted = self._adjustments.get((parameter, "value"))
        return next((choice for choice in choices if adjusted is not None and adjusted.value == choice), choices[0])

    def rejected(self, failure: ModelFailure, sent: SentParameters, request: ModelRequest) -> ModelFailure:
        """Learn from a failed request, and set in the failure what was learned and whether to send the request again."""
        named = self.named(failure, sent, request)
        # A call that was in flight while another one was rejected names what is adjusted already: it is only sent again.
        news = [(name, error) for name, error in named.items() if self._is_current(name, sent)]
        learned = tuple(filter(None, (self._adjustment(name, error, sent) for name, error in news)))
        failure.adjustments = learned
        failure.is_refused_setting = self.is_strict and any(adjustment.is_loss and adjustment.is_explicit for adjustment in learned)
        if not failure.is_refused_setting:
            self.apply(learned)
            failure.is_negotiable = bool(named) and sent != self.sent
        return failure

    def named(self, failure: ModelFailure, sent: SentParameters, request: ModelRequest) -> dict[str, RejectionError]:
        """Return the parameters that a failed request's rejection names, with the error that names each."""
        rejected = RejectedRequest(
            names={name: sent.names[name] for name in sent.parameters},
            explicit=self._explicit,
            has_system=any(message.role == "system" for message in request.messages),
            has_format=request.reply_schema is not None and sent.reply_format != "plain",
            texts=tuple(message.content for message in request.messages),
        )
        named: dict[str, RejectionError] = {}
        for error in read_errors(failure):
            for name in rejected_parameters(error, rejected):
                named.setdefault(name, error)
        return named

    def _is_current(self, parameter: str, sent: SentParameters) -> bool:
        """Return whether requests still have this parameter as the rejected one had it."""
        if parameter == SYSTEM:
            return sent.role == self.sent.role
        if parameter == REPLY_FORMAT:
            return sent.reply_format == self.sent.reply_format
        value, name = sent.parameters[parameter], sent.names[parameter]
        return self.sent.parameters.get(parameter) == value and self.sent.names.get(parameter) == name

    def _adjustment(self, parameter: str, error: RejectionError, sent: SentParameters) -> Adjustment | None:
        """Decide what to send instead; None when the rejection leaves nothing to try."""
        value = self._instead(parameter, error, sent)
        if value is None:
            return None
        return Adjustment(parameter, value, error.text[:_MAX_REASON], is_explicit=parameter in self._explicit)

    def _instead(self, parameter: str, error: RejectionError, sent: SentParameters) -> str | None:
        if parameter == SYSTEM:
            return _next(self._dialect.roles, sent.role)
        if parameter == REPLY_FORMAT:
            return _next(self._dialect.formats, sent.reply_format)
        if parameter == MAX_TOKENS:
            return self._limit_instead(error, sent)
        # `thinking.type.enabled` has an adaptive form; any other spelling is tried only where the rejection names it.
        other = self._other_name(parameter, sent)
        return other if other is not None and error.mentions(other) else OMITTED

    def _limit_instead(self, error: RejectionError, sent: SentParameters) -> str | None:
        asked = _as_number(sent.parameters[MAX_TOKENS])
        overflow = overflow_in(error)
        if overflow is not None:
            # A limit above the whole context suits no request. Below it only this request is too long, which teaches nothing.
            return None if asked < overflow.context else self._lower_limit(overflow.context)
        other, limit = self._other_name(MAX_TOKENS, sent), limit_in(error.text, asked)
        if other is not None and (limit is None or error.recommends(other)):
            return other
        if limit is not None:
            return str(limit)
        return self._lower_limit(asked)

    def _lower_limit(self, above: int) -> str | None:
        """Return a lower limit to try where the API requires one; elsewhere none is sent."""
        if not self._dialect.requires_limit:
            return OMITTED
        step = next((step for step in _LIMIT_STEPS if step < above), None)
        return None if step is None else str(step)

    def _other_name(self, parameter: str, sent: SentParameters) -> str | None:
        """Return a parameter's other name in requests; None after it was tried, so that no name is tried twice."""
        if (parameter, "name") in self._adjustments:
            return None
        return next((name for name in self._dialect.names.get(parameter, ()) if name != sent.names[parameter]), None)


def _own_members(extra_body: RequestMembers, containers: Sequence[str]) -> Iterator[tuple[str, object]]:
    """List the user's own members of a request, those of containers one by one."""
    for name, value in extra_body.items():
        if name in containers and isinstance(value, dict):
            yield from ((f"{name}.{member}", inner) for member, inner in value.items())
        else:
            yield name, value


def nested(name: str, value: object, containers: Sequence[str]) -> RequestMembers:
    """Build the member of a request for one of the user's own: those of a container are put back into it."""
    container, _, member = name.partition(".")
    return {container: {member: value}} if member and container in containers else {name: value}


_Choice = TypeVar("_Choice", bound=str)


def _next(choices: "tuple[_Choice, ...]", current: str) -> "_Choice | None":
    following = choices[choices.index(current) + 1 :] if current in choices else ()
    return following[0] if following else None


def _as_number(value: object) -> int:
    return value if isinstance(value, int) else UNBOUNDED


def shortened(failure: ModelFailure, sent: SentParameters) -> SentParameters | None:
    """Return what to send for this one request, with the output limit that it leaves in the model's context.

    None where its rejection does not state the numbers. Nothing is learned from it: other requests are shorter or longer.
    """
    overflow, limit = context_overflow(failure), sent.parameters.get(MAX_TOKENS)
    if overflow is None or not isinstance(limit, int) or overflow.limit != limit or limit >= overflow.context:
        return None
    remaining = overflow.context - overflow.input
    if not 0 < remaining < limit:
        return None
    return msgspec.structs.replace(sent, parameters={**sent.parameters, MAX_TOKENS: remaining})
