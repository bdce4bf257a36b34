"""A judge's reply into a verdict: one strict JSON object, or a reason why there is none.

Digits are never fished from prose, `passed` is never the judge's to say, and a reply that repeats the candidate's
text is no verdict.
"""

import re
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal
from functools import cache
from typing import Any, Literal, get_args

import msgspec

from assay.core.json_door import parse_json
from assay.core.outcome import FailureLabel
from assay.grading.reply_object import MAX_REPLY_CHARACTERS, REPLACED, Refusal, answer_part, find_object, only_object, storable
from assay.grading.statements import states_another, states_both, unescaped
from assay.grading.thoughts import has_thought_tag

ScaleName = Literal["1-5", "0-1", "0/1"]

_LABELS = frozenset(get_args(FailureLabel)) - {"", "timeout_or_latency_exceeded"}
_REPEATED = Refusal("it repeats the text that was to be judged", is_repeat=True)


class Shape(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The JSON object that a judge is asked for; there is one of each, so that it is its own key."""

    value: str
    """Name of the member that decides."""
    reason: str
    """Name of the member that explains."""
    scale: ScaleName
    wanted: str
    """What the deciding member must be, in words for the judge."""
    is_digit: bool = False
    """On the scale 0/1: the digits are asked for, not true and false."""
    has_label: bool = False
    """The judge is asked what is mainly wrong."""


class WordShape(Shape, frozen=True, kw_only=True, eq=False):
    """The same where the deciding member is a word."""

    words: tuple[tuple[str, float], ...]
    """Each with its place on the scale."""


@cache
def reply_schema(shape: Shape) -> dict[str, Any]:
    """The object as JSON Schema, for providers that can hold a model to it; one dict for all asks, not to be changed."""
    return _object_schema({**_members(shape), **(_label_schema() if shape.has_label else {})})


@cache
def list_schema(shape: Shape) -> dict[str, Any]:
    """The same for a reply to several criteria at once."""
    item = _object_schema({NUMBER: {"type": "integer"}, **_members(shape)})
    return _object_schema({VERDICTS: {"type": "array", "items": item}, **_label_schema()})


@cache
def confident_schema(shape: Shape, *, is_list: bool) -> dict[str, Any]:
    """The same for a judge who is also asked how sure it is."""
    more = {CONFIDENCE: {"type": "number"}}
    if not is_list:
        return _object_schema({**_members(shape), **(_label_schema() if shape.has_label else {}), **more})
    item = _object_schema({NUMBER: {"type": "integer"}, **_members(shape), **more})
    return _object_schema({VERDICTS: {"type": "array", "items": item}, **_label_schema()})


def _members(shape: Shape) -> dict[str, Any]:
    return {shape.value: _value_schema(shape), shape.reason: {"type": "string"}}


def _label_schema() -> dict[str, Any]:
    return {"label": {"type": "string", "enum": ["", *sorted(_LABELS)]}}


def _object_schema(members: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": members, "required": list(members), "additionalProperties": False}


def _value_schema(shape: Shape) -> dict[str, Any]:
    if isinstance(shape, WordShape):
        return {"type": "string", "enum": [word for word, _ in shape.words]}
    return {"type": "integer", "enum": [0, 1]} if shape.is_digit else _SCHEMAS[shape.scale]


_SCHEMAS: dict[ScaleName, dict[str, Any]] = {
    "1-5": {"type": "integer", "enum": [1, 2, 3, 4, 5]},
    "0-1": {"type": "number", "enum": [step / 10 for step in range(11)]},
    "0/1": {"type": "boolean"},
}
VERDICTS = "verdicts"
"""Member of a reply to several criteria at once: a list with an object for each."""
CONFIDENCE = "confidence"
"""Member of a verdict that says how sure the judge is."""
SALVAGED = "salvaged"
"""Flag of a verdict that was saved from a reply which breaks off or goes on."""
NUMBER = "number"
"""Member of such an object: the criterion's place in the question, from 1."""
_SHARE = "a number from 0.0 to 1.0"
FIVE_POINT = Shape(value="score", reason="justification", scale="1-5", wanted="a whole number from 1 to 5", has_label=True)
TENTHS = Shape(value="score", reason="justification", scale="0-1", wanted=_SHARE)
TENTHS_WITH_LABEL = Shape(value="score", reason="justification", scale="0-1", wanted=_SHARE, has_label=True)
CRITERION = Shape(value="criteria_met", reason="explanation", scale="0/1", wanted="true or false")
RESULT = Shape(value="result", reason="reason", scale="0/1", wanted="0 or 1", is_digit=True)
WINNER = WordShape(
    value="winner",
    reason="justification",
    scale="0-1",
    wanted='"first", "second" or "tie"',
    words=(("first", 1.0), ("tie", 0.5), ("second", 0.0)),
)


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a judge says about one answer."""

    value: float
    """On the shape's scale."""
    reason: str
    label: FailureLabel = ""
    """What the judge thinks is mainly wrong."""
    confidence: float | None = None
    """How sure it says it is, 0..1; None where it says nothing that can be understood."""
    flags: tuple[str, ...] = ()


def read_verdict(text: str, shape: Shape, *, answer: str) -> Verdict | Refusal:
    """The verdict in a judge's reply to a question about `answer`, or why there is none."""
    found = find_object(text)
    if isinstance(found, Refusal):
        return found
    verdict = _verdict(found.members, shape, label=_label(found.members.get("label")))
    if isinstance(verdict, Verdict) and _repeats(found.members, shape, answer=answer):
        return _REPEATED
    if isinstance(verdict, Verdict) and states_another(found.around, shape.value, value=found.members[shape.value]):
        return Refusal(f'"{shape.value}" has another value beside the object')
    return verdict


def read_verdicts(text: str, shape: Shape, *, answer: str, count: int) -> tuple[Verdict, ...] | Refusal:
    """The verdicts in a judge's reply to a question about several criteria, in their order, or why there are none."""
    found = only_object(text)
    if isinstance(found, Refusal):
        return found
    items = _numbered(found.get(VERDICTS), count)
    if not items:
        return Refusal(f'"{VERDICTS}" must be a list with one object for each "{NUMBER}" from 1 to {count}')
    label = _label(found.get("label"))
    read = [_verdict(item, shape, label=label) for item in items]
    refusal = next((one for one in read if isinstance(one, Refusal)), None)
    if refusal is None and any(_repeats(item, shape, answer=answer) for item in items):
        return _REPEATED
    return refusal or tuple(one for one in read if isinstance(one, Verdict))


def _numbered(items: Any, count: int) -> list[dict[str, Any]]:
    """The objects of a list in the order of their numbers; empty unless each number from 1 on is there exactly once."""
    if not isinstance(items, list) or not all(isinstance(item, dict) and type(item.get(NUMBER)) is int for item in items):
        return []
    ordered = sorted(items, key=lambda item: int(item[NUMBER]))
    return ordered if [item[NUMBER] for item in ordered] == [*range(1, count + 1)] else []


def _verdict(found: dict[str, Any], shape: Shape, *, label: FailureLabel) -> Verdict | Refusal:
    value = _scaled(found.get(shape.value), shape)
    said = found.get(shape.reason)
    reason = said.strip() if isinstance(said, str) else ""
    if value is None:
        return Refusal(f'"{shape.value}" must be {shape.wanted}')
    if not reason:
        return Refusal(f'"{shape.reason}" must be a text of one or two sentences')
    if [name for name in found if name != shape.value and name.casefold() == shape.value]:
        return Refusal("a member of the object is there twice")
    kept = storable(reason)
    return Verdict(
        value=value,
        reason=kept,
        label=label,
        confidence=_confidence(found.get(CONFIDENCE)),
        flags=() if kept == reason else (REPLACED,),
    )


def _confidence(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value <= 1 else None


def salvaged_verdict(texts: Sequence[str], shape: Shape, *, answer: str) -> Verdict | None:
    """What can be saved of several replies to one question: nothing where they contradict each other or one repeats the answer."""
    if any(isinstance(read := read_verdict(text, shape, answer=answer), Refusal) and read.is_repeat for text in texts):
        return None
    saved = [verdict for text in reversed(texts) if (verdict := salvage_verdict(text, shape, answer=answer)) is not None]
    return saved[0] if len({verdict.value for verdict in saved}) == 1 else None


def salvage_verdict(text: str, shape: Shape, *, answer: str) -> Verdict | None:
    """The verdict of a reply that breaks off or goes on after its object, when its first two members leave no doubt."""
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


def _opening(shape: Shape) -> re.Pattern[str]:
    """Both members, in the order that was asked for, at the very start; `re` keeps the compiled pattern."""
    members = rf'"{shape.value}"\s*:\s*(?P<value>[\w.+-]+)\s*,\s*"{shape.reason}"\s*:\s*"(?P<reason>(?:[^"\\]|\\.)*+)'
    return re.compile(rf"(?:(?:`{{3,}}|~{{3,}})\w*\s*)?\{{\s*{members}", re.DOTALL)


def _repeats(found: dict[str, Any], shape: Shape, *, answer: str) -> bool:
    """True when the candidate's answer states both members, in whatever notation, spacing, order or company."""
    if shape.value not in answer.casefold() and "\\" not in answer:
        return False
    return states_both(answer, (shape.value, found[shape.value]), (shape.reason, found[shape.reason]))


def _scaled(value: Any, shape: Shape) -> float | None:
    """The value when it lies on the scale; 4.0 is no whole number, "4" no number, true no 1."""
    if isinstance(shape, WordShape):
        return dict(shape.words).get(value) if isinstance(value, str) else None
    scale, is_boolean = shape.scale, isinstance(value, bool)
    if scale == "0/1" and not shape.is_digit:
        return float(value) if is_boolean else None
    if is_boolean or not isinstance(value, int | float if scale == "0-1" else int):
        return None
    if scale == "0-1":
        return float(Decimal(repr(value)).quantize(Decimal("0.1"), ROUND_HALF_UP)) if 0 <= value <= 1 else None
    return float(value) if value in ((0, 1) if shape.is_digit else (1, 2, 3, 4, 5)) else None


def _label(value: Any) -> FailureLabel:
    return value if isinstance(value, str) and value in _LABELS else ""  # type: ignore[return-value]  # a member of the literal
