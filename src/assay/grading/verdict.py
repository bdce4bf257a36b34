"""Parser of a judge's reply: one strict JSON object becomes a verdict, or there is a reason why not.

Digits are never extracted from prose, the judge never decides `passed`, and a reply that repeats the candidate's
text is not a verdict.
"""

import re
from collections.abc import Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from functools import cache
from typing import Any, Literal, get_args

import msgspec

from assay.core.canonical import JsonObject
from assay.core.outcome import FailureLabel
from assay.core.strict_json import parse_json
from assay.grading.reasoning_tags import has_thought_tag
from assay.grading.reply_object import (
    MAX_REPLY_CHARACTERS,
    REPLACED,
    UnusableReply,
    answer_part,
    find_object,
    only_object,
    storable,
)
from assay.grading.statements import states_another, states_both, unescaped

ScaleName = Literal["1-5", "0-1", "0/1"]

_LABELS = frozenset(get_args(FailureLabel)) - {"", "timeout_or_latency_exceeded"}
_REPEATED = UnusableReply("it repeats the text that was to be judged", is_repeat=True)


class ReplySchema(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The JSON object that a judge must reply with; compared by identity, since each exists once."""

    value: str
    """Name of the member that decides."""
    reason: str
    """Name of the member that explains."""
    scale: ScaleName
    wanted: str
    """What the deciding member must be, in words for the judge."""
    is_digit: bool = False
    """On the scale 0/1: the judge replies with digits, not true and false."""
    has_label: bool = False
    """The judge is asked for the main failure label."""


class ChoiceReplySchema(ReplySchema, frozen=True, kw_only=True, eq=False):
    """A reply schema whose deciding member is a word."""

    words: tuple[tuple[str, float], ...]
    """Each word with its value on the scale."""


@cache
def reply_schema(shape: ReplySchema) -> JsonObject:
    """Build the JSON Schema, for providers that can enforce it; the dict is shared by all requests, so it must not be changed."""
    return _object_schema({**_members(shape), **(_label_schema() if shape.has_label else {})})


@cache
def list_schema(shape: ReplySchema) -> JsonObject:
    """Build the JSON Schema of a reply about several criteria at once."""
    item = _object_schema({NUMBER: {"type": "integer"}, **_members(shape)})
    return _object_schema({VERDICTS: {"type": "array", "items": item}, **_label_schema()})


@cache
def confident_schema(shape: ReplySchema, *, is_list: bool) -> JsonObject:
    """Build the JSON Schema of a reply that includes the judge's confidence."""
    more = {CONFIDENCE: {"type": "number"}}
    if not is_list:
        return _object_schema({**_members(shape), **(_label_schema() if shape.has_label else {}), **more})
    item = _object_schema({NUMBER: {"type": "integer"}, **_members(shape), **more})
    return _object_schema({VERDICTS: {"type": "array", "items": item}, **_label_schema()})


def _members(shape: ReplySchema) -> JsonObject:
    return {shape.value: _value_schema(shape), shape.reason: {"type": "string"}}


def _label_schema() -> JsonObject:
    return {"label": {"type": "string", "enum": ["", *sorted(_LABELS)]}}


def _object_schema(members: Mapping[str, object]) -> JsonObject:
    return {"type": "object", "properties": members, "required": list(members), "additionalProperties": False}


def _value_schema(shape: ReplySchema) -> JsonObject:
    if isinstance(shape, ChoiceReplySchema):
        return {"type": "string", "enum": [word for word, _ in shape.words]}
    return {"type": "integer", "enum": [0, 1]} if shape.is_digit else _SCHEMAS[shape.scale]


_SCHEMAS: dict[ScaleName, JsonObject] = {
    "1-5": {"type": "integer", "enum": [1, 2, 3, 4, 5]},
    "0-1": {"type": "number", "enum": [step / 10 for step in range(11)]},
    "0/1": {"type": "boolean"},
}
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
    """The main failure, according to the judge."""
    confidence: float | None = None
    """The judge's confidence, 0..1; None when it gives none that can be read."""
    flags: tuple[str, ...] = ()


def read_verdict(text: str, shape: ReplySchema, *, answer: str) -> Verdict | UnusableReply:
    """Read the verdict in a judge's reply to a question about `answer`, or why there is none."""
    found = find_object(text)
    if isinstance(found, UnusableReply):
        return found
    verdict = _verdict(found.members, shape, label=_label(found.members.get("label")))
    if isinstance(verdict, Verdict) and _repeats(found.members, shape, answer=answer):
        return _REPEATED
    if isinstance(verdict, Verdict) and states_another(found.around, shape.value, value=found.members[shape.value]):
        return UnusableReply(f'"{shape.value}" has another value beside the object')
    return verdict


def read_verdicts(text: str, shape: ReplySchema, *, answer: str, count: int) -> tuple[Verdict, ...] | UnusableReply:
    """Read the verdicts in a judge's reply about several criteria, in order, or why there are none."""
    found = only_object(text)
    if isinstance(found, UnusableReply):
        return found
    items = _numbered(found.get(VERDICTS), count)
    if not items:
        return UnusableReply(f'"{VERDICTS}" must be a list with one object for each "{NUMBER}" from 1 to {count}')
    label = _label(found.get("label"))
    read = [_verdict(item, shape, label=label) for item in items]
    refusal = next((verdict for verdict in read if isinstance(verdict, UnusableReply)), None)
    if refusal is None and any(_repeats(item, shape, answer=answer) for item in items):
        return _REPEATED
    return refusal or tuple(verdict for verdict in read if isinstance(verdict, Verdict))


def _numbered(items: object, count: int) -> list[JsonObject]:
    """Sort a list's objects by number; empty unless each number from 1 on occurs exactly once."""
    if not isinstance(items, list) or not all(isinstance(item, dict) and type(item.get(NUMBER)) is int for item in items):
        return []
    ordered = sorted(items, key=lambda item: int(item[NUMBER]))
    return ordered if [item[NUMBER] for item in ordered] == [*range(1, count + 1)] else []


def _verdict(found: Mapping[str, object], shape: ReplySchema, *, label: FailureLabel) -> Verdict | UnusableReply:
    value = _scaled(found.get(shape.value), shape)
    given = found.get(shape.reason)
    reason = given.strip() if isinstance(given, str) else ""
    if value is None:
        return UnusableReply(f'"{shape.value}" must be {shape.wanted}')
    if not reason:
        return UnusableReply(f'"{shape.reason}" must be a text of one or two sentences')
    if [name for name in found if name != shape.value and name.casefold() == shape.value]:
        return UnusableReply("a member of the object is there twice")
    stored = storable(reason)
    return Verdict(
        value=value,
        reason=stored,
        label=label,
        confidence=_confidence(found.get(CONFIDENCE)),
        flags=() if stored == reason else (REPLACED,),
    )


def _confidence(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value <= 1 else None


def salvaged_verdict(texts: Sequence[str], shape: ReplySchema, *, answer: str) -> Verdict | None:
    """Salvage a verdict from several replies to one question: none if they contradict each other or one repeats the answer."""
    if any(isinstance(read := read_verdict(text, shape, answer=answer), UnusableReply) and read.is_repeat for text in texts):
        return None
    saved = [verdict for text in reversed(texts) if (verdict := salvage_verdict(text, shape, answer=answer)) is not None]
    return saved[0] if len({verdict.value for verdict in saved}) == 1 else None


def salvage_verdict(text: str, shape: ReplySchema, *, answer: str) -> Verdict | None:
    """Read a reply that is truncated or continues after its object, if its first two members are unambiguous."""
    if len(text) > MAX_REPLY_CHARACTERS:
        return None
    bare = answer_part(text)
    head = _opening(shape).match(bare)
    if head is None or has_thought_tag(bare):
        return None
    document = parse_json(head.group("value"))
    value = _scaled(document.value, shape) if document.is_readable else None
    reason = storable(unescaped(head.group("reason")).strip())
    if value is None or not reason or states_another(bare, shape.value, value=head.group("value")):
        return None
    if _repeats({shape.value: document.value, shape.reason: reason}, shape, answer=answer):
        return None
    return Verdict(value=value, reason=reason, flags=(SALVAGED,))


def _opening(shape: ReplySchema) -> re.Pattern[str]:
    """Match both members, in the requested order, at the very start; `re` caches the compiled pattern."""
    members = rf'"{shape.value}"\s*:\s*(?P<value>[\w.+-]+)\s*,\s*"{shape.reason}"\s*:\s*"(?P<reason>(?:[^"\\]|\\.)*+)'
    return re.compile(rf"(?:(?:`{{3,}}|~{{3,}})\w*\s*)?\{{\s*{members}", re.DOTALL)


def _repeats(found: JsonObject, shape: ReplySchema, *, answer: str) -> bool:
    """Tell whether the candidate's answer states both members, in any notation, spacing or order."""
    if shape.value not in answer.casefold() and "\\" not in answer:
        return False
    return states_both(answer, (shape.value, found[shape.value]), (shape.reason, found[shape.reason]))


def _scaled(value: Any, shape: ReplySchema) -> float | None:
    """Return the value if it is on the scale; 4.0 is not an integer, "4" not a number, true not 1."""
    if isinstance(shape, ChoiceReplySchema):
        return dict(shape.words).get(value) if isinstance(value, str) else None
    scale, is_boolean = shape.scale, isinstance(value, bool)
    if scale == "0/1" and not shape.is_digit:
        return float(value) if is_boolean else None
    if is_boolean or not isinstance(value, int | float if scale == "0-1" else int):
        return None
    if scale == "0-1":
        return float(Decimal(repr(value)).quantize(Decimal("0.1"), ROUND_HALF_UP)) if 0 <= value <= 1 else None
    return float(value) if value in ((0, 1) if shape.is_digit else (1, 2, 3, 4, 5)) else None


def _label(value: object) -> FailureLabel:
    return value if isinstance(value, str) and value in _LABELS else ""  # type: ignore[return-value]  # a member of the literal
