"""Verdicts in a judge's reply: one strict JSON object, its schema, and members that the text states elsewhere."""

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from functools import cache
from typing import Literal, get_args
from unicodedata import combining, normalize

import msgspec

from assay.core.graders import NOT_ASSESSED
from assay.core.outcome import ANSWER_TRUNCATED, FailureLabel
from assay.core.strict_json import parse_json
from assay.grading.answer_text import after_thoughts, has_thought_tag, without_end_marks

_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_SHORT_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}
# A value hidden in one more level of quoting is one that no reader, and no judge, would take for the verdict.
_LEVELS = 3
"""Levels of unescaping: plain text, JSON, and JSON in a JSON string."""
_QUOTES = "\"'`*_\\\\\u201c\u201d\u2018\u2019\u201e\u00ab\u00bb"
_NOISE = re.compile(rf"[\s\x00\x08{_QUOTES}]+")
_SAYS = r"(?:[:=]+>?|\b(?:is|should be|must be|becomes)\b)"
_WORDS = frozenset({"true", "false", "yes", "no", "null", "none", "one", "two", "three", "four", "five", "zero"})
"""Words that count as values: `the score is based on` states no value."""
_RANKS = frozenset({"first", "second", "tie"})
"""Values of the member that says which of two texts is better."""


def states_another(text: str, name: str, *, value: object, words: frozenset[str] = frozenset()) -> bool:
    """Return whether the text states another value for the member of this name, or one whose name ends like it.

    `words` are values that the member may have besides numbers and the usual words.
    """
    # With a backslash in it, the name may be written in escapes.
    if name not in text.casefold() and "\\" not in text:
        return False
    wanted = _plain_value(str(value))
    known = _words_like(wanted) | words
    return any(found != wanted for view in _views(text) for found in _values(view, name, known))


def states_both(text: str, value: tuple[str, object], words: tuple[str, str], *, is_free: bool = False) -> bool:
    """Return whether the text states this value for one member, and for another one words that begin with these.

    A free value is any words of the user: the text states it by having them anywhere.
    """
    return any(
        (_squeezed(str(value[1])) in _squeezed(view) if is_free else _has_value(view, *value)) and _has_words(view, *words)
        for view in _views(text)
    )


def unescape_json(text: str) -> str:
    """Decode the escapes of JSON; surrogate pairs become one character."""
    decoded = _ESCAPE.sub(lambda escape: _character(escape.group(1)), text)
    # Escapes are UTF-16 units: the round trip joins the halves of a pair and replaces a lone one.
    return decoded.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _character(escape: str) -> str:
    return chr(int(escape[1:], 16)) if len(escape) > 1 else _SHORT_ESCAPES.get(escape, escape)


def _views(text: str) -> Iterator[str]:
    for _ in range(_LEVELS):
        yield text
        if "\\" not in text:
            return
        text = unescape_json(text)


def _words_like(value: str | float) -> frozenset[str]:
    """Return the words that count as values of the same kind."""
    return _RANKS if value in _RANKS else _WORDS


def _values(text: str, name: str, words: frozenset[str]) -> Iterator[str | float]:
    values = (_plain_value(match.group(1)) for match in _stated(name).finditer(text))
    return (value for value in values if isinstance(value, float) or value in words)


@cache
def _stated(name: str) -> re.Pattern[str]:
    return re.compile(rf"{re.escape(name)}[{_QUOTES}]{{0,6}}\s{{0,20}}{_SAYS}[\s{_QUOTES}]{{0,20}}([\w.+-]+)", re.IGNORECASE)


def _plain_value(value: str) -> str | float:
    """Normalize a number by its value, anything else by its letters."""
    bare = value.rstrip(".-+").casefold()
    try:
        return float(bare)
    except ValueError:
        return bare


def _has_value(text: str, name: str, value: object) -> bool:
    wanted = _plain_value(str(value))
    return any(found == wanted for found in _values(text, name, _words_like(wanted)))


def _has_words(text: str, name: str, words: str) -> bool:
    squeezed = _squeezed(text)
    wanted = _squeezed(words)
    return any(f"{_squeezed(name)}{separator}{wanted}" in squeezed for separator in (":", "="))


def _squeezed(text: str) -> str:
    """Remove spaces, quotes, case and accents; letter by letter, because normalizing a long run of accents takes quadratic time."""
    folded = _NOISE.sub("", text).casefold()
    if folded.isascii():
        return folded
    return "".join(part for letter in folded for part in normalize("NFKD", letter) if not combining(part))


# The limit of an answer in batch_v1; the searches below are linear, and this bounds what they may take.
MAX_REPLY_CHARACTERS = 200_000
"""A longer reply is never a verdict."""
_MAX_BRACKETS = 200
"""A text nests no deeper than it has brackets; with more, only the strict parser checks the depth."""
_OPENING = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*(?:[\w+.-]+[ \t]*)?(?=(\{)?)[^`\n]*", re.MULTILINE)
_OBJECT_LIKE = re.compile(r"\{\s{0,100}(?:[\"'\u201c\u201d\u2018\u2019\u201e\u00ab]|\\[\"'u]|\w{1,50}\s{0,20}[:=])")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f]")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
REPLACED = "replaced_characters"
"""Flag: a model wrote characters that no store can hold."""
_NO_OBJECT = "it is not one JSON object"


# The reason is sent back to the judge. A quotation would send it a part of the answer outside of the marks.
class UnusableReply(msgspec.Struct, frozen=True):
    """Reason why a reply is unusable, in our own words: it goes back to the judge, so it must not quote the reply."""

    reason: str
    is_repeat: bool = False
    """True if the reply repeats the text to be judged, so that nothing in it may be used."""


class ParsedObject(msgspec.Struct, frozen=True):
    """An object and the text around it."""

    members: dict[str, object]
    around: str = ""


def only_object(text: str) -> dict[str, object] | UnusableReply:
    """Parse a reply whose surrounding text does not matter."""
    found = find_object(text)
    return found if isinstance(found, UnusableReply) else found.members


def find_object(text: str) -> ParsedObject | UnusableReply:
    """Find the object that is the whole reply, or in its only fenced block, with no other object outside."""
    if len(text) > MAX_REPLY_CHARACTERS:
        return UnusableReply("it is far too long")
    bare = answer_part(text)
    if not bare:
        return UnusableReply("it is empty")
    block, around = (bare, "") if bare.startswith("{") else _only_block(bare)
    # A second object, or reasoning after the first, leaves open which verdict is meant; no rule here picks one.
    if not block or has_thought_tag(around) or _OBJECT_LIKE.search(around):
        return UnusableReply(_NO_OBJECT)
    # Nearly all replies are plain objects, which msgspec reads far faster than the strict parser.
    members = _plain_object(block) or _exact_object(block)
    return members if isinstance(members, UnusableReply) else ParsedObject(members, around)


def answer_part(text: str) -> str:
    """Remove closed reasoning before the reply and end markers after it."""
    return without_end_marks(after_thoughts(text))


def _only_block(text: str) -> tuple[str, str]:
    """Split a text into its only fenced block and the rest; the block is empty without a fence, or with several."""
    opening = _OPENING.search(text)
    if opening is None:
        return "", text
    fence = opening.group(1)
    start = opening.start(2) if opening.group(2) else opening.end()
    # The closing fence may follow the object on the same line.
    closing = re.compile(rf"(?:^[ \t]*|\}}[ \t]*){fence[0]}{{{len(fence)},}}[ \t]*\r?$", re.MULTILINE).search(text, start)
    if closing is None:
        return "", text
    end = closing.start() + (closing.group()[0] == "}")
    around = text[: opening.start()] + "\n" + text[closing.end() :]
    return ("", text) if "```" in around or "~~~" in around else (text[start:end].strip(), around)


def _plain_object(text: str) -> dict[str, object] | None:
    """Parse an object without escapes fast; None when only the strict parser can tell whether it is valid."""
    # Escapes are left to the strict parser, because marks could not be counted with them.
    if "\\" in text or text.count("{") + text.count("[") > _MAX_BRACKETS:
        return None
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
    if not isinstance(found, dict):
        return None
    # A duplicate member leaves quotes in the text that the decoded object does not account for.
    return found if text.count('"') == msgspec.json.encode(found).count(b'"') else None


def _exact_object(text: str) -> dict[str, object] | UnusableReply:
    document = parse_json(text)
    if not document.is_readable:
        # Models write raw line breaks into strings; nothing else is repaired.
        document = parse_json(_STRING.sub(_escaped, text))
    if not document.is_readable or not isinstance(document.value, dict):
        return UnusableReply(_NO_OBJECT)
    if any(flaw.kind == "duplicate_name" for flaw in document.flaws):
        return UnusableReply("a member of the object is there twice")
    if any(flaw.code == "value_out_of_range" for flaw in document.flaws):
        return UnusableReply("it holds a number that is too large")
    return document.value


def _escaped(string: re.Match[str]) -> str:
    return _CONTROL.sub(lambda control: f"\\u{ord(control.group()):04x}", string.group())


def replace_unstorable(text: str) -> str:
    """Replace NUL and unpaired surrogates by U+FFFD."""
    return _UNSTORABLE.sub("\ufffd", text)


ScaleName = Literal["1-5", "0-1", "0/1"]
JsonSchema = dict[str, object]

_LABELS = frozenset(get_args(FailureLabel)) - {"", "timeout_or_latency_exceeded", ANSWER_TRUNCATED}
_REPEATED = UnusableReply("it repeats the text that was to be judged", is_repeat=True)


# Compared by identity so that the cached schemas below need no hash of all members for every call.
class ReplySchema(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """JSON object that a judge must reply with; compared by identity, since each exists once."""

    value: str
    """Name of the member that decides."""
    reason: str
    """Name of the member that explains."""
    scale: ScaleName
    wanted: str
    """Requirement on the deciding member, in words for the judge."""
    is_digit: bool = False
    """On the scale 0/1: the judge replies with digits, not true and false."""
    has_label: bool = False
    """True if the judge is asked for the main failure label."""


class ChoiceReplySchema(ReplySchema, frozen=True, kw_only=True, eq=False):
    """A reply schema whose deciding member is a word."""

    words: tuple[tuple[str, float], ...]
    """Each word with its value on the scale."""
    has_numbers: bool = False
    """The words are numbers, and a judge may reply with a number instead of a text."""
    unassessed: str = ""
    """Word for an answer that cannot be assessed; empty where there is none."""

    @property
    def values(self) -> tuple[str, ...]:
        """Return every permitted word."""
        return (*(word for word, _ in self.words), *filter(None, (self.unassessed,)))


@cache
def reply_schema(shape: ReplySchema) -> JsonSchema:
    """Build the JSON Schema, for providers that can enforce it; the dict is shared by all requests, so it must not be changed."""
    return _object_schema({**_members(shape), **(_label_schema() if shape.has_label else {})})


@cache
def list_schema(shape: ReplySchema) -> JsonSchema:
    """Build the JSON Schema of a reply about several criteria at once."""
    item = _object_schema({NUMBER: {"type": "integer"}, **_members(shape)})
    return _object_schema({VERDICTS: {"type": "array", "items": item}, **_label_schema()})


@cache
def confident_schema(shape: ReplySchema, *, is_list: bool) -> JsonSchema:
    """Build the JSON Schema of a reply that includes the judge's confidence."""
    more = {CONFIDENCE: {"type": "number"}}
    if not is_list:
        return _object_schema({**_members(shape), **(_label_schema() if shape.has_label else {}), **more})
    item = _object_schema({NUMBER: {"type": "integer"}, **_members(shape), **more})
    return _object_schema({VERDICTS: {"type": "array", "items": item}, **_label_schema()})


def _members(shape: ReplySchema) -> JsonSchema:
    return {shape.value: _value_schema(shape), shape.reason: {"type": "string"}}


def _label_schema() -> JsonSchema:
    return {"label": {"type": "string", "enum": ["", *sorted(_LABELS)]}}


def _object_schema(members: Mapping[str, object]) -> JsonSchema:
    # Providers that enforce schemas accept only objects whose members are all required.
    return {"type": "object", "properties": members, "required": list(members), "additionalProperties": False}


def _value_schema(shape: ReplySchema) -> JsonSchema:
    if isinstance(shape, ChoiceReplySchema):
        return {"type": "string", "enum": list(shape.values)}
    return {"type": "integer", "enum": [0, 1]} if shape.is_digit else _SCHEMAS[shape.scale]


_SCHEMAS: dict[ScaleName, JsonSchema] = {
    "1-5": {"type": "integer", "enum": [1, 2, 3, 4, 5]},
    "0-1": {"type": "number", "enum": [step / 10 for step in range(11)]},
    "0/1": {"type": "boolean"},
}
_REASONS = ("justification", "explanation")
"""Other names of the member that explains, in replies to a prompt of the user."""
VERDICTS = "verdicts"
"""Member of a reply about several criteria: a list with an object for each."""
CONFIDENCE = "confidence"
"""Member of a verdict with the judge's confidence."""
SALVAGED = "salvaged"
"""Flag of a verdict from a reply that is truncated or continues after its object."""
NUMBER = "number"
"""Member of such an object: the criterion's number in the question, from 1."""
_SHARE = "a number from 0.0 to 1.0"
FIVE_POINT = ReplySchema(value="score", reason="justification", scale="1-5", wanted="a whole number from 1 to 5", has_label=True)
TENTHS = ReplySchema(value="score", reason="justification", scale="0-1", wanted=_SHARE)
TENTHS_WITH_LABEL = ReplySchema(value="score", reason="justification", scale="0-1", wanted=_SHARE, has_label=True)
CRITERION = ReplySchema(value="criteria_met", reason="explanation", scale="0/1", wanted="true or false")
RESULT = ReplySchema(value="result", reason="reason", scale="0/1", wanted="0 or 1", is_digit=True)
WINNER = ChoiceReplySchema(
    value="winner",
    reason="justification",
    scale="0-1",
    wanted='"first", "second" or "tie"',
    words=(("first", 1.0), ("tie", 0.5), ("second", 0.0)),
)


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """A judge's decision about one answer."""

    value: float
    """On the schema's scale."""
    reason: str
    label: FailureLabel = ""
    """Main failure, according to the judge."""
    confidence: float | None = None
    """Judge's confidence, 0..1; None when it gives none that can be read."""
    is_unassessed: bool = False
    """The judge says that the answer cannot be assessed; the value means nothing then."""
    flags: tuple[str, ...] = ()


def read_verdict(text: str, shape: ReplySchema, *, answer: str) -> Verdict | UnusableReply:
    """Read the verdict in a judge's reply to a question about `answer`, or why there is none."""
    found = find_object(text)
    if isinstance(found, UnusableReply):
        return found
    verdict = _verdict(found.members, shape, label=_label(found.members.get("label")))
    # A reply that the answer contains word for word may be the answer's, echoed by the judge.
    if isinstance(verdict, Verdict) and _repeats(found.members, shape, answer=answer):
        return _REPEATED
    # "The score is 2" in front of an object with 5: one of them is not what the judge means.
    if isinstance(verdict, Verdict) and states_another(
        found.around, shape.value, value=found.members[shape.value], words=_choice_words(shape)
    ):
        return UnusableReply(f'"{shape.value}" has another value outside the object')
    return verdict


def read_verdicts(text: str, shape: ReplySchema, *, answer: str, count: int) -> tuple[Verdict, ...] | UnusableReply:
    """Read the verdicts in a judge's reply about several criteria, in order, or why there are none."""
    found = only_object(text)
    if isinstance(found, UnusableReply):
        return found
    items = _numbered(found.get(VERDICTS), count)
    if not items:
        return UnusableReply(f'"{VERDICTS}" must be a list with one object for each "{NUMBER}" from 1 to {count}')
    # One label for the whole list: it names the main failure of the answer.
    label = _label(found.get("label"))
    read = [_verdict(item, shape, label=label) for item in items]
    refusal = next((verdict for verdict in read if isinstance(verdict, UnusableReply)), None)
    if refusal is None and any(_repeats(item, shape, answer=answer) for item in items):
        return _REPEATED
    return refusal or tuple(verdict for verdict in read if isinstance(verdict, Verdict))


def _numbered(items: object, count: int) -> list[dict[str, object]]:
    """Sort a list's objects by number; empty unless each number from 1 on occurs exactly once."""
    if not isinstance(items, list) or not all(isinstance(item, dict) and type(item.get(NUMBER)) is int for item in items):
        return []
    # By number, since judges do not keep to the order; a missing or repeated one would shift all others.
    ordered = sorted(items, key=lambda item: int(item[NUMBER]))
    return ordered if [item[NUMBER] for item in ordered] == [*range(1, count + 1)] else []


def _verdict(found: Mapping[str, object], shape: ReplySchema, *, label: FailureLabel) -> Verdict | UnusableReply:
    is_custom = isinstance(shape, ChoiceReplySchema) and bool(shape.unassessed)
    is_unassessed = is_custom and _folded(found.get(shape.value)) == NOT_ASSESSED
    value = 0.0 if is_unassessed else _scaled(found.get(shape.value), shape)
    # The user's own words around the format may call the reason otherwise.
    given = next((found[name] for name in (shape.reason, *(_REASONS if is_custom else ())) if name in found), None)
    reason = given.strip() if isinstance(given, str) else ""
    if value is None:
        return UnusableReply(f'"{shape.value}" must be {shape.wanted}')
    # A verdict without a reason could not be checked by a person.
    if not reason:
        return UnusableReply(f'"{shape.reason}" must be a text of one or two sentences')
    # With `"Score"` next to `"score"`, nothing says which of them the judge means.
    if [name for name in found if name != shape.value and name.casefold() == shape.value]:
        return UnusableReply("a member of the object is there twice")
    stored = replace_unstorable(reason)
    return Verdict(
        value=value,
        reason=stored,
        label=label,
        confidence=_confidence(found.get(CONFIDENCE)),
        is_unassessed=is_unassessed,
        flags=() if stored == reason else (REPLACED,),
    )


def _confidence(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= 1 else None


def salvaged_verdict(texts: Sequence[str], shape: ReplySchema, *, answer: str) -> Verdict | None:
    """Salvage a verdict from several replies to one question: none if they contradict each other or one repeats the answer."""
    if any(isinstance(read := read_verdict(text, shape, answer=answer), UnusableReply) and read.is_repeat for text in texts):
        return None
    saved = [verdict for text in reversed(texts) if (verdict := salvage_verdict(text, shape, answer=answer)) is not None]
    # Two salvaged replies that disagree give no verdict.
    return saved[0] if len({verdict.value for verdict in saved}) == 1 else None


def salvage_verdict(text: str, shape: ReplySchema, *, answer: str) -> Verdict | None:
    """Read a reply that is truncated or continues after its object, if its first two members are unambiguous."""
    if len(text) > MAX_REPLY_CHARACTERS:
        return None
    bare = answer_part(text)
    # Only from the very start and in the order that was asked for: anything looser would find values that the answer planted.
    head = _opening(shape).match(bare)
    if head is None or has_thought_tag(bare):
        return None
    document = parse_json(head.group("value"))
    value = _scaled(document.value, shape) if document.is_readable else None
    reason = replace_unstorable(unescape_json(head.group("reason")).strip())
    if value is None or not reason or states_another(bare, shape.value, value=head.group("value")):
        return None
    if _repeats({shape.value: document.value, shape.reason: reason}, shape, answer=answer):
        return None
    return Verdict(value=value, reason=reason, flags=(SALVAGED,))


def _opening(shape: ReplySchema) -> re.Pattern[str]:
    """Match both members, in the requested order, at the very start; `re` caches the compiled pattern."""
    members = rf'"{shape.value}"\s*:\s*(?P<value>[\w.+-]+)\s*,\s*"{shape.reason}"\s*:\s*"(?P<reason>(?:[^"\\]|\\.)*+)'
    return re.compile(rf"(?:(?:`{{3,}}|~{{3,}})\w*\s*)?\{{\s*{members}", re.DOTALL)


def _repeats(found: Mapping[str, object], shape: ReplySchema, *, answer: str) -> bool:
    """Return whether the candidate's answer states both members, in any notation, spacing or order."""
    if shape.value not in answer.casefold() and "\\" not in answer:
        return False
    is_free = isinstance(shape, ChoiceReplySchema) and bool(shape.unassessed)
    # A reply to a prompt of the user may call its reason otherwise.
    name = next(name for name in (shape.reason, *_REASONS) if name in found)
    return states_both(answer, (shape.value, found[shape.value]), (name, str(found[name])), is_free=is_free)


def _scaled(value: object, shape: ReplySchema) -> float | None:
    """Return the value if it is on the scale; 4.0 is not an integer, "4" not a number, true not 1."""
    if isinstance(shape, ChoiceReplySchema):
        return _chosen(value, shape)
    scale = shape.scale
    wants_boolean = scale == "0/1" and not shape.is_digit
    # In Python a boolean is an integer; a judge that replies true to a question for a number has misread it.
    if isinstance(value, bool):
        return float(value) if wants_boolean else None
    if wants_boolean or not isinstance(value, int | float) or (isinstance(value, float) and scale != "0-1"):
        return None
    if scale == "0-1":
        # As a decimal: rounding the binary value would send 0.35 down and 0.45 up.
        return float(Decimal(repr(value)).quantize(Decimal("0.1"), ROUND_HALF_UP)) if 0 <= value <= 1 else None
    return float(value) if value in ((0, 1) if shape.is_digit else (1, 2, 3, 4, 5)) else None


def _chosen(value: object, shape: ChoiceReplySchema) -> float | None:
    """Return the value of a word; of a scale of numbers also that of a number, rounded to the nearest word of tenths."""
    words = dict(shape.words)
    if isinstance(value, str):
        # On a scale of the user, PASS is pass: the judge has words of the user before its eyes.
        return {_folded(word): number for word, number in shape.words}.get(_folded(value)) if shape.unassessed else words.get(value)
    if not shape.has_numbers or isinstance(value, bool) or not isinstance(value, int | float):
        return None
    low, high = min(words.values()), max(words.values())
    if not low <= value <= high:
        return None
    rounded = float(Decimal(repr(value)).quantize(Decimal("0.1"), ROUND_HALF_UP))
    return rounded if rounded in words.values() else None


def _folded(value: object) -> str:
    return value.strip().casefold() if isinstance(value, str) else ""


def _choice_words(shape: ReplySchema) -> frozenset[str]:
    return frozenset(word.casefold() for word in shape.values) if isinstance(shape, ChoiceReplySchema) else frozenset()


def _label(value: object) -> FailureLabel:
    return value if isinstance(value, str) and value in _LABELS else ""  # type: ignore[return-value]  # a member of the literal
