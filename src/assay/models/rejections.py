"""Error responses into the parameters that they reject, in the formats and words of many providers."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

import msgspec

from assay.core.model_call import ModelFailure
from assay.core.settings import ModelParameters

SYSTEM, REPLY_FORMAT, MAX_TOKENS, THINKING = "system", "reply_format", "max_tokens", "thinking_budget"

_STATUSES = frozenset({200, 400, 404, 405, 415, 422, 500, 501})
"""Gateways answer 404, 405 and 500 where their upstream answers 400, and 200 with an error inside."""
_FATAL_FAILURES = frozenset({"answer_truncated", "content_filtered", "payment_required", "rate_limited", "unauthorized"})
"""Failures of texts and accounts, regardless of the words of their messages."""
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
_NO_NAMES = frozenset({"", "none", "null", "body", "validation_error", "__root__"})
"""How some gateways write that no member is named."""
_MAX_CHARACTERS, _MAX_DEPTH, _MAX_ITEMS = 4_000, 8, 20

_REJECTED = re.compile(
    r"unsupported|(?:n[o'\u2019]t|no longer|cannot|never) (?:yet |currently )?(?:be )?(?:an? )?"
    r"(?:support|permit|allow|enabl|implement|availab|compatib|accept|work|valid\b|known|recogni[sz]ed|applicable)"
    r"|deprecat|unrecogni[sz]ed|unknown (?:name|field|parameter|argument|member|variant|key|property|option)"
    r"|unexpected (?:keyword|field|argument|parameter|property|key|role|message role)"
    r"|extra (?:inputs|fields)|extraneous|additional propert|unavailable"
    r"|can ?not (?:both )?be|can['\u2019]t be|may not be|may only be"
    r"|(?:cannot|can['\u2019]t|must not|do not|don['\u2019]t) (?:set|send|use|pass|specify|include|provide|change|customi[sz]e)"
    r"|must be (?:set to|omitted|unset|left|removed|absent|empty|null)"
    r"|must not be (?:set|sent|used|given|specified|present|provided)"
    r"|\b(?:remove|removed|omit|disabled|disallowed|forbidden)\b"
    r"|has no effect|incompatible|mutually exclusive|can ?not both|only one of|\bfixed (?:at|to)\b"
    r"|does not match any of the expected|不支持|非法"
    r"|\bonly (?:the default|works|supports?|accepts?|\d|user and assistant)|must alternate|enabled only|\bis invalid\b"
    r"|invalid (?:parameter|argument|schema)|no endpoints found that support|or unset\b",
    re.IGNORECASE,
)
_OUT_OF_RANGE = re.compile(
    r"(?:below|above) (?:the )?(?:minimum|maximum)|(?:value|number) between|must be between|expected a value|out of range",
    re.IGNORECASE,
)
"""Values out of range: the user's mistake, which must not be dropped in silence."""
_WRONG_VALUE = re.compile(
    rf"{_OUT_OF_RANGE.pattern}|(?:must|should|has to|needs to) be\b|\brange\b|positive|(?:greater|less|lower|higher) than"
    r"|at (?:least|most)|invalid|satisfy constraint",
    re.IGNORECASE,
)
"""The same in words that can also reject a parameter; they count only for a value that assay chose."""
_LIMITED = re.compile(
    r"too (?:large|high|big)|at most|maximum|exceed|less than|lower than|limit|supported range|between|must be|range|>",
    re.IGNORECASE,
)
_TOO_LOW = re.compile(
    r"below (?:the )?minimum|(?<!supported range )at least|(?:greater|higher) than|too (?:small|low)|positive|>= ?\d"
    r"|with (?:a )?higher|limit was reached",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(?<![\w.-])\d{1,3}(?:[,_]\d{3})+(?![\w-])|(?<![\w.-])\d{1,12}(?![\w-])")
_STATUS = re.compile(r"\b(?:code|status|error|http)\W{0,4}[1-5]\d\d\b", re.IGNORECASE)
_EXCEEDED = re.compile(r"\d > (\d{1,12})")
_EXCLUSIVE = re.compile(r"(\d{1,12}) \(exclusive\)", re.IGNORECASE)
_LISTED = re.compile(r"parameters?:? [\[{]([^\]}]{1,500})[\]}]", re.IGNORECASE)
_BOTH = re.compile(r"can ?not both|cannot be (?:used|set|specified) together|only one of|when using greedy", re.IGNORECASE)
_OVERFLOW = re.compile(
    r"(?P<input1>\d{1,9}) \+ (?P<limit1>\d{1,9}) > (?P<context1>\d{1,9})"
    r"|\((?P<limit2>\d{1,9}) > (?P<context2>\d{1,9}) - (?P<input2>\d{1,9})\)"
    r"|<= (?P<context3>\d{1,9})\. Given: (?P<input3>\d{1,9}) `inputs` tokens and (?P<limit3>\d{1,9}) `max_new_tokens`"
    r"|context length is (?P<context4>\d{1,9}) tokens\D{1,60}\d{1,9} tokens"
    r" \((?P<input4>\d{1,9}) (?:in the messages|of text input), (?P<limit4>\d{1,9}) in the (?:completion|output)\)"
    r"|context length is (?P<context5>\d{1,9}) tokens\D{1,60}(?P<limit5>\d{1,9}) output tokens and your prompt contains"
    r" (?:at least )?(?P<input5>\d{1,9}) input tokens"
)
"""A request whose input and output limit together exceed the context: `... exceed context limit: 199000 + 64000 > 200000`."""
_CONTEXT = re.compile(
    r"context (?:length|window|size|limit)|(?:prompt|input|message)s? (?:is|are) too long|too many (?:input )?tokens"
    r"|reduce the length|input token count",
    re.IGNORECASE,
)
"""Requests that are too long, regardless of their parameters."""
_MIN_LIMIT = 64
"""A smaller number in a rejection of an output limit is not the model's maximum."""
_INSTEAD = r"(?:\buse\b|\btry\b|replaced? (?:by|with)|in favou?r of)[^.]{0,60}?"
_ROLE = re.compile(
    r"messages\W\d+\W*(?:\w+\.)?role|(?:system|developer)[`'\"]? (?:role|message|instruction|prompt)"
    r"|system[_ ]?instruction|^(?:\w+\.)*system$|(?:^|: )system: "
    r"|'(?:system|developer)' with this model|role [`'\"]?(?:system|developer)\b|(?:unexpected|unknown|invalid) message role"
    r"|unknown variant `(?:system|developer)`|Input tag '(?:system|developer)'|only user and assistant roles|roles must alternate",
    re.IGNORECASE,
)
_FORM = (
    r"response[_ ]?format|response[_ ]?(?:json[_ ]?)?schema|response[_ ]?mime[_ ]?type|json[_ ](?:schema|object)|text\.?format"
    r"|output[_ ]?(?:format|config)(?!\.effort)|tool[_ ]choice|contain the word '?json"
    r"|(?:specified|provided|invalid|unsupported|this|your) (?:json )?schema|schema (?:is|produces|in format)\b"
    r"|\bgrammar\b|(?:guided|constrained) (?:decoding|generation|json)"
)
_WORDS: dict[str, str] = {
    REPLY_FORMAT: rf"{_FORM}|json[ _]mode|structured[ _]outputs?|tool[ _]?(?:choice|use)|tools\b|controlled generation"
    r"|function[ _]?(?:call|declaration|tool)|tool[ _]?(?:config|calling)",
    "presence_penalty": r"presence[ _]?penalty|\bpenalty",
    "frequency_penalty": r"frequency[ _]?penalty|\bpenalty",
    "reasoning_effort": r"reasoning[ _.]?effort|\beffort\b|(?<![\w-])reasoning(?![\w-])|output_config(?!\.format)",
    THINKING: r"thinking[ _]?(?:budget|config|level)|budget[ _]?tokens|(?<![\w-])thinking(?![\w-])|\bbudget\b",
    "seed": r"\bseed\b|random_?seed",
    "temperature": r"greedy sampling",
    "stop": r"stop[ _-]?(?:sequence|word|string)s?",
    MAX_TOKENS: r"max(?:imum)?[ _]?(?:completion[ _]?|output[ _]?|new[ _]?)?tokens|maximum tokens|(?:completion|output) tokens",
}
"""What messages call a parameter besides its names in requests."""
_THINKING_EFFORT = r"|support thinking|thinking[ _]?level|\bthinking (?:is|was) |\bthink value\b"
"""Further words for an effort, where no budget is sent that they could mean."""
_FORMAT = re.compile(_FORM, re.IGNORECASE)
"""Names of the form of a reply. assay chooses the form, so that the next form is tried after any error about one."""
_PYDANTIC = re.compile(r"\{'type': '(\w{1,60})', 'loc': \(([^)]{0,300})\), 'msg': (?:'([^']{0,300})'|\"([^\"]{0,300})\")")
"""Errors of pydantic, which some servers write into a message as Python prints them."""
_QUOTES = tuple("'\"`[")
_BEFORE_NAME = r"(?:['\"`\[.]|\b(?:parameter|field|argument|property|member|key|name|supplied)s?:? )"
_QUOTED_WORDS = 4
"""So many words in a row that are in the request's texts too are taken for a quotation of them."""


class RejectionError(msgspec.Struct, frozen=True):
    """One error of a response, as far as it can name parameters."""

    text: str
    """All its messages, those of nested errors included."""
    fields: tuple[str, ...] = ()
    """What structured members name: `param`, the last part of `loc`."""
    codes: frozenset[str] = frozenset()

    def mentions(self, name: str) -> bool:
        """Return whether the messages contain a parameter's name, in any of its spellings."""
        return re.search(_spelled(name), self.text, re.IGNORECASE) is not None

    def recommends(self, name: str) -> bool:
        """Return whether the messages say to use a parameter of this name."""
        return re.search(_INSTEAD + _spelled(name), self.text, re.IGNORECASE) is not None


class RejectedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What an error can reject in a request."""

    names: Mapping[str, str]
    """Names in the request by the plan's names of the parameters that were sent."""
    explicit: AbstractSet[str]
    """Parameters that the user set."""
    has_system: bool
    has_format: bool
    """The form of the reply was requested in another way than by the prompt."""
    texts: Sequence[str] = ()
    """Texts of its messages: an error that quotes them says nothing about parameters."""


class ContextOverflow(msgspec.Struct, frozen=True):
    """Tokens of a request whose input and output limit together exceed the model's context."""

    input: int
    limit: int
    context: int


def read_errors(failure: ModelFailure) -> list[RejectionError]:
    """Read the errors of a response; none for a failure of another kind."""
    if failure.http_status not in _STATUSES or failure.error_body is None or failure.code in _FATAL_FAILURES:
        return []
    collector = _ErrorCollector()
    collector.collect(failure.error_body)
    errors = collector.errors()
    is_fatal = any(error.codes & _FATAL_CODES for error in errors) and not any(map(overflow_in, errors))
    return [] if is_fatal else errors


def rejected_parameters(error: RejectionError, request: RejectedRequest) -> list[str]:
    """List the parameters that an error rejects, of those that were sent."""
    named = _rejected(error, request)
    if not named or error.fields or not request.texts:
        return named
    return _rejected(RejectionError(_without_quotations(error.text, request.texts), (), error.codes), request)


def _rejected(error: RejectionError, request: RejectedRequest) -> list[str]:
    is_rejecting = _REJECTED.search(error.text) is not None or bool(error.codes & _REJECTING_CODES)
    if request.has_system and (any(map(_ROLE.search, error.fields)) or (is_rejecting and _ROLE.search(error.text))):
        return [SYSTEM]
    if overflow_in(error) is not None:
        return [MAX_TOKENS] if MAX_TOKENS in request.names else []
    if _CONTEXT.search(error.text):
        return []
    patterns = _patterns(request)
    named = [name for name, pattern in patterns.items() if _is_in_fields(pattern, error.fields, request.names.get(name))]
    if not named and REPLY_FORMAT in patterns and re.search("contain the word '?json", error.text, re.IGNORECASE):
        named = [REPLY_FORMAT]
    # The words may quote parameters that are not at fault, so that a structured member that they are about excludes the rest.
    if not named and not any(field in error.text for field in error.fields):
        named = _named_in(error.text, patterns, explicit=request.explicit)
    return [name for name in named if _is_rejected(name, error, request, patterns[name], is_rejecting=is_rejecting)]


def _is_in_fields(pattern: "_NamePattern", fields: Sequence[str], sent: str | None) -> bool:
    """Return whether structured members name a parameter."""
    return any(_last(field) == _last(sent or "") or pattern.search(field) for field in fields)


def _is_rejected(
    name: str, error: RejectionError, request: RejectedRequest, pattern: "_NamePattern", *, is_rejecting: bool
) -> bool:
    """Return whether an error is a rejection, not a value that the user must correct."""
    if name == MAX_TOKENS:
        is_limited = _LIMITED.search(error.text) is not None and not _TOO_LOW.search(error.text)
        return is_limited or (is_rejecting and not _OUT_OF_RANGE.search(error.text))
    if name == REPLY_FORMAT and any(_FORMAT.search(text) for text in (error.text, *error.fields)):
        return True
    if name not in request.explicit and (_WRONG_VALUE.search(error.text) or error.fields or pattern.is_name_in(error.text)):
        # A preference of ours, such as temperature 0, is left out when it is rejected for any reason.
        return True
    return is_rejecting and not _OUT_OF_RANGE.search(error.text)


class _NamePattern(msgspec.Struct, frozen=True):
    """Pattern of one parameter in messages: its names in requests, and what else messages call it."""

    exact: str
    words: str = ""

    def search(self, text: str) -> re.Match[str] | None:
        """Find the parameter, by its names before other words, which can also be circumstances or part of a model's name."""
        found = re.search(self.exact, text, re.IGNORECASE) if self.exact else None
        return found or (re.search(self.words, text, re.IGNORECASE) if self.words else None)

    def is_exact(self, match: re.Match[str]) -> bool:
        """Return whether a match is one of the names."""
        return match.re.pattern == self.exact

    def is_name_in(self, text: str) -> bool:
        """Return whether a name stands as one: in quotation marks, before a colon or an equals sign, or after `parameter`."""
        return (
            bool(self.exact)
            and re.search(rf"{_BEFORE_NAME}(?:{self.exact})|(?:{self.exact}) ?[:=]", text, re.IGNORECASE) is not None
        )


def _patterns(request: RejectedRequest) -> dict[str, _NamePattern]:
    """Build the pattern of each parameter in messages."""
    patterns = {REPLY_FORMAT: _NamePattern("", _WORDS[REPLY_FORMAT])} if request.has_format else {}
    for full_name, full_sent in request.names.items():
        # Messages name a member of a container with or without it.
        name, sent = full_name.rpartition(".")[2], full_sent.rpartition(".")[2]
        is_word = name not in ModelParameters.__struct_fields__ and sent.isalpha() and sent.islower()
        exact = _as_name(sent) if is_word else "|".join(dict.fromkeys((_spelled(sent), _spelled(name))))
        words = _WORDS["stop" if name.startswith("stop") else name] if name in _WORDS or name.startswith("stop") else ""
        if name == "reasoning_effort" and THINKING not in request.names:
            words += _THINKING_EFFORT
        patterns[full_name] = _NamePattern(exact, words)
    return patterns


def _as_name(member: str) -> str:
    """Build a pattern for a member of the user's own, which may be a common word: only where it stands as a name."""
    word = rf"{re.escape(member)}(?![A-Za-z0-9_-])"
    return rf"{_BEFORE_NAME}{word}|(?:^|[:;(] ){word}(?=:)|: {word}(?=[,.;]|$)"


def _last(field: str) -> str:
    return field.rpartition(".")[2]


def _named_in(text: str, patterns: Mapping[str, _NamePattern], *, explicit: AbstractSet[str]) -> list[str]:
    """List what a message names: a whole list, or the first, since others stand there as advice or as circumstances."""
    found = {name: match for name, pattern in patterns.items() if (match := pattern.search(text))}

    def rank(name: str) -> tuple[bool, bool, int]:
        # The quoted words are the subject of the sentence, wherever it stands.
        match = found[name]
        return not _is_quoted(text, match), name != REPLY_FORMAT and not patterns[name].is_exact(match), match.start()

    named = sorted(found, key=rank)
    listed = _LISTED.search(text)
    if listed:
        return [name for name in named if patterns[name].search(listed[1])]
    if _BOTH.search(text):
        # What the user set stays.
        named.sort(key=lambda name: name in explicit)
    return named[:1]


def _is_quoted(text: str, match: re.Match[str]) -> bool:
    before = text[match.start() - 1] if match.start() else ""
    return before in _QUOTES or text[match.start()] in _QUOTES


def _without_quotations(text: str, texts: Sequence[str]) -> str:
    """Take out of an error what it quotes of the request's messages."""
    known = f" {' '.join(' '.join(texts).split())} "
    words = text.split()
    kept: list[str] = []
    at = 0
    while at < len(words):
        end = at
        # Quotation marks before and after a quotation are not part of it.
        while end < len(words) and " ".join(words[at : end + 1]).strip("'\"`.,:;") in known:
            end += 1
        if end - at < _QUOTED_WORDS:
            kept.append(words[at])
            at += 1
        else:
            at = end
    return " ".join(kept)


class _ErrorCollector:
    """Collector of messages and names at every depth: gateways put their upstream's error into a text of their own."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._fields: list[str] = []
        self._codes: set[str] = set()
        self._items: list[_ErrorCollector] = []
        """Errors of a list, each of which names a member of its own."""

    def errors(self) -> list[RejectionError]:
        """Return all errors that were collected."""
        text = " ".join(self._texts)[:_MAX_CHARACTERS]
        written = [_pydantic_error(match) for match in _PYDANTIC.finditer(text)]
        own = RejectionError("" if written else text, tuple(self._fields), frozenset(self._codes))
        return [own, *written, *(error for item in self._items for error in item.errors())]

    def collect(self, value: object, *, depth: int = 0) -> None:
        """Collect what a part of a body says."""
        if depth > _MAX_DEPTH:
            return
        if isinstance(value, str):
            nested = _nested(value)
            if nested is None:
                self._texts.append(value[:_MAX_CHARACTERS])
            else:
                self.collect(nested, depth=depth + 1)
        elif isinstance(value, list):
            for item in value[:_MAX_ITEMS]:
                self._collect_item(item, depth=depth + 1)
        elif isinstance(value, dict):
            for name, member in value.items():
                self._collect_member(name, member, depth=depth + 1)

    def _collect_item(self, item: object, *, depth: int) -> None:
        collector = self
        if isinstance(item, dict) and isinstance(item.get("loc"), list):
            collector = _ErrorCollector()
            self._items.append(collector)
        collector.collect(item, depth=depth)

    def _collect_member(self, name: str, member: object, *, depth: int) -> None:
        if name == "param" and isinstance(member, str):
            self._fields += [member] if member.lower() not in _NO_NAMES else []
        elif name == "loc" and isinstance(member, list) and member:
            self._fields += _location(map(str, member[:_MAX_ITEMS]))
        elif name in ("code", "type", "status") and isinstance(member, str):
            self._codes.add(member.lower())
        elif name == "errors" and isinstance(member, dict):
            for field, said in list(member.items())[:_MAX_ITEMS]:
                self._collect_item({"loc": [field], "msg": said}, depth=depth + 1)
        elif name not in _UNREAD:
            self.collect(member, depth=depth)


def _pydantic_error(match: re.Match[str]) -> RejectionError:
    location = (part.strip(" '") for part in match[2].split(","))
    return RejectionError(match[3] or match[4] or "", _location(location), frozenset({match[1]}))


def _location(parts: Iterable[str]) -> tuple[str, ...]:
    """Join the parts of a location in a request into one name, such as `messages.0.role`; none for the request as a whole."""
    named = ".".join(part for part in parts if part.lower() not in _NO_NAMES)
    return (named,) if named else ()


def _nested(text: str) -> object:
    """Decode the JSON object inside a text, if there is one."""
    for opening, closing in ("{}", "[]"):
        start, end = text.find(opening), text.rfind(closing)
        if start < 0 or end < start or end - start > 4 * _MAX_CHARACTERS:
            continue
        for candidate in (text[start : end + 1], text[start : end + 1].replace("\\n", "\n").replace('\\"', '"')):
            try:
                decoded = json.loads(candidate, strict=False)
            except (ValueError, RecursionError):
                continue
            if isinstance(decoded, dict) or (isinstance(decoded, list) and any(isinstance(item, dict) for item in decoded)):
                return [text[:start], decoded]
    return None


def _spelled(name: str) -> str:
    """Build a pattern for a name in snake case, camel case, or as words."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).split("_")
    return rf"(?<![A-Za-z0-9]){'[ _-]?'.join(map(re.escape, words))}(?![A-Za-z0-9])"


def limit_in(text: str, sent: int) -> int | None:
    """Find the output limit that a rejection states: its largest number below the limit that was sent."""
    exceeded = [int(number) for number in _EXCEEDED.findall(text) if 0 < int(number) < sent]
    if exceeded:
        return max(exceeded)
    exclusive = {int(number) for number in _EXCLUSIVE.findall(text)}
    numbers = (int(re.sub("[,_]", "", number)) for number in _NUMBER.findall(_STATUS.sub("", text)))
    return max((number - (number in exclusive) for number in numbers if _MIN_LIMIT <= number < sent), default=None)


def context_overflow(failure: ModelFailure) -> ContextOverflow | None:
    """Return the numbers of a request that is too long together with its output limit; None for every other failure."""
    if failure.http_status not in _STATUSES or failure.error_body is None:
        return None
    collector = _ErrorCollector()
    collector.collect(failure.error_body)
    return next(filter(None, map(overflow_in, collector.errors())), None)


def overflow_in(error: RejectionError) -> ContextOverflow | None:
    """Return the numbers of an error about an output limit that the context has no room for; None for every other error."""
    match = _OVERFLOW.search(error.text)
    if match is None:
        return None
    number = next(number for number in range(1, 6) if match[f"input{number}"])
    overflow = ContextOverflow(*(int(match[f"{name}{number}"]) for name in ("input", "limit", "context")))
    return overflow if overflow.input < overflow.context else None
