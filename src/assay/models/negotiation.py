"""Negotiation of request parameters: what a provider rejects is left out or sent otherwise, for the rest of the run.

No table of models decides what is sent. A rejection names a parameter in its error object or in its words, and it counts only if
that parameter was sent: a rejection of anything else stays the failure that it is.
"""

import json
import re
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Literal, TypeVar

import msgspec

from assay.core.canonical import JsonObject
from assay.core.model_call import Adjustment, ModelFailure
from assay.core.settings import ModelParameters

ReplyFormat = Literal["json_schema", "json_object", "tools", "plain"]
"""How a reply with a schema is requested, from the strictest form to a request in the prompt alone."""
SystemRole = Literal["system", "developer", "user"]
"""How instructions are sent; `user` puts them before the first question."""

SYSTEM, REPLY_FORMAT, MAX_TOKENS, THINKING = "system", "reply_format", "max_tokens", "thinking_budget"
OMITTED = "omitted"
UNBOUNDED = 1_000_000
"""Output limit for an API that requires one: above every known model's maximum, which its rejection then states."""

_LIMIT_STEPS = (128_000, 64_000, 32_000, 16_384, 8_192, 4_096)
"""Limits to try in turn when a rejection of a limit states no number."""
_STATUSES = frozenset({400, 404, 405, 415, 422, 500, 501})
"""Gateways answer 404, 405 and 500 where their upstream answers 400."""
_FATAL_CODES = frozenset(
    {
        "content_filter",
        "content_policy_violation",
        "context_length_exceeded",
        "insufficient_quota",
        "invalid_api_key",
        "invalid_prompt",
        "json_validate_failed",
        "model_not_found",
        "tool_use_failed",
    }
)
"""Errors of texts, accounts and answers; some quote a parameter that they do not reject."""
_REJECTING_CODES = frozenset(
    {"unsupported_parameter", "unsupported_value", "unknown_parameter", "extra_forbidden", "wrong_api_format"}
)
_UNREAD = frozenset({"input", "url", "ctx", "failed_generation", "id", "request_id", "requestId", "object"})
"""Members of errors that quote the request or identify it."""
_MAX_CHARACTERS, _MAX_DEPTH, _MAX_REASON = 4_000, 8, 300

_REJECTED = re.compile(
    r"unsupported|(?:n[o']t|no longer|cannot|never) (?:yet |currently )?(?:be )?"
    r"(?:support|permit|allow|enabl|implement|availab|compatib|accept|work)"
    r"|deprecat|unrecogni[sz]ed|unknown (?:name|field|parameter|argument|member)|unexpected (?:keyword|field|argument|parameter)"
    r"|extra (?:inputs|fields)|extraneous|additional propert|unavailable|can ?not (?:both )?be|can't be|may not be|may only be"
    r"|\bremove\b"
    r"|\bonly (?:the default|works|supports?|accepts?|\d|user and assistant)|must alternate|enabled only|\bis invalid\b"
    r"|invalid (?:parameter|argument|schema)|no endpoints found that support|or unset\b",
    re.IGNORECASE,
)
_WRONG_VALUE = re.compile(
    r"(?:below|above) (?:minimum|maximum)|choose a value between|must be between|expected a value", re.IGNORECASE
)
"""Values out of range: the user's mistake, which must not be dropped in silence."""
_LIMITED = re.compile(
    r"too (?:large|high|big)|at most|maximum|exceed|less than|lower than|limit|supported range|between|must be|range|>",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(?<![\w.-])\d{1,3}(?:[,_]\d{3})+(?![\w-])|(?<![\w.-])\d{1,12}(?![\w-])")
_EXCLUSIVE = re.compile(r"(\d{1,12}) \(exclusive\)", re.IGNORECASE)
_LISTED = re.compile(r"parameters?:? \[([^\]]{1,500})\]", re.IGNORECASE)
_BOTH = re.compile(r"can ?not both|cannot be (?:used|set|specified) together|only one of", re.IGNORECASE)
_OVERFLOW = re.compile(
    r"(?P<input>\d{1,9}) \+ (?P<limit>\d{1,9}) > (?P<context>\d{1,9})"
    r"|\((?P<limit2>\d{1,9}) > (?P<context2>\d{1,9}) - (?P<input2>\d{1,9})\)"
)
"""A request whose input and output limit together exceed the context: `... exceed context limit: 199000 + 64000 > 200000`."""
_ROLE = re.compile(
    r"messages\[\d+\]\.role|(?:system|developer)[`'\"]? (?:role|message|instruction|prompt)|'(?:system|developer)' with this model"
    r"|only user and assistant roles|roles must alternate",
    re.IGNORECASE,
)
_WORDS: dict[str, str] = {
    REPLY_FORMAT: r"response[ _]?format|response[ _]?(?:json[ _]?)?schema|response[ _]?mime[ _]?type|json[ _](?:mode|schema|object)"
    r"|structured[ _]outputs?|output[ _](?:format|config)|text\.?format|tool[ _]?(?:choice|use)|tools\b|controlled generation",
    "presence_penalty": r"presence[ _]?penalty|\bpenalty",
    "frequency_penalty": r"frequency[ _]?penalty|\bpenalty",
    "reasoning_effort": r"reasoning[ _.]?effort|\beffort\b|\breasoning\b|output_config(?!\.format)",
    THINKING: r"thinking[ _]?(?:budget|config|level)|budget[ _]?tokens|\bthinking\b|\bbudget\b",
    "seed": r"\bseed\b|random_?seed",
    MAX_TOKENS: r"max(?:imum)?[ _]?(?:completion[ _]?|output[ _]?|new[ _]?)?tokens|maximum tokens|(?:completion|output) tokens",
}
"""What messages call a parameter besides its names in requests."""


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """How a protocol spells what is negotiated."""

    names: dict[str, tuple[str, ...]]
    """Names in requests by the plan's names, the preferred one first; what is missing here is never sent."""
    formats: tuple[ReplyFormat, ...] = ("json_schema", "json_object", "tools", "plain")
    roles: tuple[SystemRole, ...] = ("system", "developer", "user")
    requires_limit: bool = False
    """The API takes no request without an output limit."""


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """What requests to a model contain besides their messages, until the next adjustment."""

    parameters: dict[str, object]
    """Values by the plan's names, members of `extra_body` by their own."""
    names: dict[str, str]
    """Names in requests, by the same names."""
    role: SystemRole
    reply_format: ReplyFormat
    refused: tuple[str, ...] = ()
    """Names of parameters that the provider rejected."""

    def body(self) -> JsonObject:
        """Build the members of a flat request."""
        return {self.names[name]: value for name, value in self.parameters.items()}


class Negotiator:
    """What one model is sent: the plan's parameters, adjusted by what its provider rejected."""

    def __init__(self, parameters: ModelParameters, dialect: Dialect, *, explicit: Iterable[str] = ()) -> None:
        self._dialect = dialect
        self._explicit = {*explicit, *parameters.extra_body}
        wanted = {name: getattr(parameters, name) for name in dialect.names if name in ModelParameters.__struct_fields__}
        self._wanted: dict[str, object] = {name: value for name, value in wanted.items() if value is not None}
        self._wanted.update(parameters.extra_body)
        if dialect.requires_limit:
            self._wanted.setdefault(MAX_TOKENS, UNBOUNDED)
        self._adjustments: dict[tuple[str, str], Adjustment] = {}
        """By parameter and by what changed of it: its name and its value are adjusted one by one."""
        self.sent = self._build_sent()

    @property
    def adjustments(self) -> tuple[Adjustment, ...]:
        """All adjustments so far, in the order in which they were learned."""
        return tuple(self._adjustments.values())

    def apply(self, adjustments: Iterable[Adjustment]) -> None:
        """Apply what was learned before, by this process or by another worker."""
        for adjustment in adjustments:
            is_name = adjustment.value in self._dialect.names.get(adjustment.parameter, ())
            self._adjustments[adjustment.parameter, "name" if is_name else "value"] = adjustment
        self.sent = self._build_sent()

    def _build_sent(self) -> Sent:
        parameters: dict[str, object] = {}
        names: dict[str, str] = {}
        for name, value in self._wanted.items():
            adjusted = self._adjustments.get((name, "value"))
            spelled = self._adjustments.get((name, "name"))
            if adjusted is not None and adjusted.value == OMITTED:
                continue
            parameters[name] = int(adjusted.value) if adjusted is not None else value
            names[name] = spelled.value if spelled else self._dialect.names.get(name, (name,))[0]
        return Sent(
            parameters=parameters,
            names=names,
            role=self._chosen(SYSTEM, self._dialect.roles),
            reply_format=self._chosen(REPLY_FORMAT, self._dialect.formats),
            refused=tuple(dict.fromkeys(adjustment.parameter for adjustment in self.adjustments)),
        )

    def _chosen(self, parameter: str, choices: "tuple[_Choice, ...]") -> "_Choice":
        adjusted = self._adjustments.get((parameter, "value"))
        return next((choice for choice in choices if adjusted is not None and adjusted.value == choice), choices[0])

    def rejected(self, failure: ModelFailure, sent: Sent, *, has_system: bool = False, has_schema: bool = False) -> ModelFailure:
        """Learn from a failed request, and set in the failure what was learned and whether to send the request again."""
        error = _read_error(failure)
        if error is None:
            return failure
        named = _named(error, sent, explicit=self._explicit, has_system=has_system, has_schema=has_schema)
        # A call that was in flight while another one was rejected names what is adjusted already: it is only sent again.
        news = [parameter for parameter in named if self._is_current(parameter, sent)]
        learned = tuple(filter(None, (self._adjustment(parameter, error, sent) for parameter in news)))
        self.apply(learned)
        failure.adjustments = learned
        failure.is_negotiable = bool(named) and sent != self.sent
        return failure

    def _is_current(self, parameter: str, sent: Sent) -> bool:
        """Tell whether requests still have this parameter as the rejected one had it."""
        if parameter == SYSTEM:
            return sent.role == self.sent.role
        if parameter == REPLY_FORMAT:
            return sent.reply_format == self.sent.reply_format
        value, name = sent.parameters[parameter], sent.names[parameter]
        return self.sent.parameters.get(parameter) == value and self.sent.names.get(parameter) == name

    def _adjustment(self, parameter: str, error: "_Error", sent: Sent) -> Adjustment | None:
        """Decide what to send instead; None when the rejection leaves nothing to try."""
        value = self._instead(parameter, error, sent)
        if value is None:
            return None
        return Adjustment(parameter, value, error.text[:_MAX_REASON], is_explicit=parameter in self._explicit)

    def _instead(self, parameter: str, error: "_Error", sent: Sent) -> str | None:
        if parameter == SYSTEM:
            return _next(self._dialect.roles, sent.role)
        if parameter == REPLY_FORMAT:
            return _next(self._dialect.formats, sent.reply_format)
        other = next((name for name in self._dialect.names.get(parameter, ()) if name != sent.names[parameter]), None)
        if parameter != MAX_TOKENS:
            # `thinking.type.enabled` has an adaptive form; any other spelling is tried only where the rejection names it.
            return other if other is not None and error.mentions(other) else OMITTED
        if _OVERFLOW.search(error.text):
            # The limit and this request's messages together exceed the context: no limit fits all requests.
            return None if self._dialect.requires_limit else OMITTED
        limit = _limit_in(error.text, sent.parameters[parameter])
        if limit is None and other is not None and (parameter, "name") not in self._adjustments:
            return other
        if limit is not None:
            return str(limit)
        if not self._dialect.requires_limit:
            return OMITTED
        step = next((step for step in _LIMIT_STEPS if step < _as_number(sent.parameters[parameter])), None)
        return None if step is None else str(step)


_Choice = TypeVar("_Choice", bound=str)


def _next(choices: "tuple[_Choice, ...]", current: str) -> "_Choice | None":
    following = choices[choices.index(current) + 1 :] if current in choices else ()
    return following[0] if following else None


class _Error(msgspec.Struct, frozen=True):
    """A rejection as far as it can name parameters."""

    text: str
    """All its messages, those of nested errors included."""
    fields: tuple[str, ...]
    """What structured members name: `param`, the last part of `loc`, `field`."""
    codes: frozenset[str]

    def mentions(self, name: str) -> bool:
        """Tell whether the messages contain a parameter's name, in any of its spellings."""
        return re.search(_spelled(name), self.text, re.IGNORECASE) is not None


def _read_error(failure: ModelFailure) -> _Error | None:
    """Read what a rejection names; None for a failure of another kind."""
    if failure.http_status not in _STATUSES or failure.error_body is None:
        return None
    texts: list[str] = []
    fields: list[str] = []
    codes: set[str] = set()
    _collect(failure.error_body, texts, fields, codes, depth=0)
    if codes & _FATAL_CODES:
        return None
    return _Error(" ".join(texts)[:_MAX_CHARACTERS], tuple(fields), frozenset(codes))


def _collect(value: object, texts: list[str], fields: list[str], codes: set[str], *, depth: int) -> None:
    """Collect messages and names of parameters at every depth: gateways put their upstream's error into a text of their own."""
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, str):
        nested = _nested(value)
        if nested is None:
            texts.append(value[:_MAX_CHARACTERS])
        else:
            _collect(nested, texts, fields, codes, depth=depth + 1)
    elif isinstance(value, list):
        for item in value[:20]:
            _collect(item, texts, fields, codes, depth=depth + 1)
    elif isinstance(value, dict):
        for name, member in value.items():
            if name in ("param", "field") and isinstance(member, str):
                fields.append(member)
            elif name == "loc" and isinstance(member, list) and member:
                fields.append(str(member[-1]))
            elif name in ("code", "type", "status") and isinstance(member, str):
                codes.add(member)
            elif name not in _UNREAD:
                _collect(member, texts, fields, codes, depth=depth + 1)


def _nested(text: str) -> object:
    """Decode the JSON object inside a text, if there is one."""
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end < start or end - start > 4 * _MAX_CHARACTERS:
        return None
    for candidate in (text[start : end + 1], text[start : end + 1].replace("\\n", "\n").replace('\\"', '"')):
        try:
            decoded = json.loads(candidate, strict=False)
        except ValueError:
            continue
        return [text[:start], decoded] if isinstance(decoded, dict) else None
    return None


def _named(error: _Error, sent: Sent, *, explicit: AbstractSet[str], has_system: bool, has_schema: bool) -> list[str]:
    """List the parameters that a rejection names, of those that were sent."""
    is_rejecting = _REJECTED.search(error.text) is not None or bool(error.codes & _REJECTING_CODES)
    if has_system and is_rejecting and any(_ROLE.search(text) for text in (error.text, *error.fields)):
        return [SYSTEM]
    patterns = {REPLY_FORMAT: _WORDS[REPLY_FORMAT]} if has_schema and sent.reply_format != "plain" else {}
    patterns.update({name: _pattern(name, sent.names[name]) for name in sent.parameters})
    if error.fields:
        # The words may quote parameters that are not at fault, so that only what the structured members name counts.
        named = [
            name for name, pattern in patterns.items() if any(re.search(pattern, field, re.IGNORECASE) for field in error.fields)
        ]
    else:
        named = _named_in(error.text, patterns, explicit=explicit)
    if MAX_TOKENS in named and (is_rejecting or _LIMITED.search(error.text)):
        return [MAX_TOKENS]
    is_wrong_value = _WRONG_VALUE.search(error.text) is not None
    return [name for name in named if name != MAX_TOKENS] if is_rejecting and not is_wrong_value else []


def _named_in(text: str, patterns: Mapping[str, str], *, explicit: AbstractSet[str]) -> list[str]:
    """List what a message names: a whole list, or the first, since others stand there as advice or as circumstances."""
    found = {name: match.start() for name, pattern in patterns.items() if (match := re.search(pattern, text, re.IGNORECASE))}
    named = sorted(found, key=found.__getitem__)
    listed = _LISTED.search(text)
    if listed:
        return [name for name in named if re.search(patterns[name], listed[1], re.IGNORECASE)]
    if _BOTH.search(text):
        # What the user set stays.
        named.sort(key=lambda name: name in explicit)
    return named[:1]


def _pattern(parameter: str, name: str) -> str:
    """Build the pattern of a parameter's names in messages."""
    return f"{_spelled(name)}|{_WORDS[parameter]}" if parameter in _WORDS else f"{_spelled(parameter)}|{_spelled(name)}"


def _spelled(name: str) -> str:
    """Build a pattern for a name in snake case, camel case, or as words."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).split("_")
    return rf"(?<![A-Za-z0-9]){'[ _-]?'.join(map(re.escape, words))}(?![A-Za-z0-9])"


def _limit_in(text: str, sent: object) -> int | None:
    """Find the output limit that a rejection states: its largest number below the limit that was sent."""
    exclusive = {int(number) for number in _EXCLUSIVE.findall(text)}
    numbers = [int(re.sub("[,_]", "", number)) for number in _NUMBER.findall(text)]
    below = [number - (number in exclusive) for number in numbers if 0 < number < _as_number(sent)]
    return max(below, default=None)


def _as_number(value: object) -> int:
    return value if isinstance(value, int) else UNBOUNDED


def remaining_limit(failure: ModelFailure, sent: Sent) -> int | None:
    """Return the output limit that this one request leaves in the model's context, where its rejection states the numbers.

    Other requests are shorter or longer, so that nothing is learned from it.
    """
    error = _read_error(failure)
    limit = sent.parameters.get(MAX_TOKENS)
    if error is None or not isinstance(limit, int):
        return None
    found = _OVERFLOW.search(error.text)
    if found is None:
        return None
    tokens, asked, context = (int(found[name] or found[f"{name}2"]) for name in ("input", "limit", "context"))
    remaining = context - tokens if asked == limit else 0
    return remaining if 0 < remaining < limit else None
