"""A judge's reply into a verdict: one strict JSON object, or a reason why there is none.

Digits are never fished from prose, `passed` is never the judge's to say, and a reply that repeats the candidate's
text is no verdict.
"""

import re
from decimal import ROUND_HALF_UP, Decimal
from functools import cache
from typing import Any, Literal, get_args

import msgspec

from assay.core.json_door import parse_json
from assay.core.outcome import FailureLabel

ScaleName = Literal["1-5", "0-1", "0/1"]

_THOUGHT = re.compile(r"\A\s*<(think|thinking|reasoning)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_FENCE = re.compile(r"^[ \t]*```[\w+-]*[ \t]*\n(.*?)^[ \t]*```[ \t]*$", re.DOTALL | re.MULTILINE)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f]")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_OBJECT = re.compile(r"\{[^{}]*\}")
_LABELS = frozenset(get_args(FailureLabel)) - {"", "timeout_or_latency_exceeded"}
MAX_REPLY_CHARACTERS = 200_000
"""A longer reply is no verdict, whatever it says."""
_REPEATED = "it repeats the text that was to be judged"


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


@cache
def reply_schema(shape: Shape) -> dict[str, Any]:
    """The object as JSON Schema, for providers that can hold a model to it; one dict for all asks, not to be changed."""
    return _object_schema({**_members(shape), **(_label_schema() if shape.has_label else {})})


@cache
def list_schema(shape: Shape) -> dict[str, Any]:
    """The same for a reply to several criteria at once."""
    item = _object_schema({NUMBER: {"type": "integer"}, **_members(shape)})
    return _object_schema({VERDICTS: {"type": "array", "items": item}, **_label_schema()})


def _members(shape: Shape) -> dict[str, Any]:
    return {shape.value: _value_schema(shape), shape.reason: {"type": "string"}}


def _label_schema() -> dict[str, Any]:
    return {"label": {"type": "string", "enum": ["", *sorted(_LABELS)]}}


def _object_schema(members: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": members, "required": list(members), "additionalProperties": False}


def _value_schema(shape: Shape) -> dict[str, Any]:
    return {"type": "integer", "enum": [0, 1]} if shape.is_digit else _SCHEMAS[shape.scale]


_SCHEMAS: dict[ScaleName, dict[str, Any]] = {
    "1-5": {"type": "integer", "enum": [1, 2, 3, 4, 5]},
    "0-1": {"type": "number", "enum": [step / 10 for step in range(11)]},
    "0/1": {"type": "boolean"},
}
VERDICTS = "verdicts"
"""Member of a reply to several criteria at once: a list with an object for each."""
NUMBER = "number"
"""Member of such an object: the criterion's place in the question, from 1."""
_SHARE = "a number from 0.0 to 1.0"
FIVE_POINT = Shape(value="score", reason="justification", scale="1-5", wanted="a whole number from 1 to 5", has_label=True)
TENTHS = Shape(value="score", reason="justification", scale="0-1", wanted=_SHARE)
TENTHS_WITH_LABEL = Shape(value="score", reason="justification", scale="0-1", wanted=_SHARE, has_label=True)
CRITERION = Shape(value="criteria_met", reason="explanation", scale="0/1", wanted="true or false")
RESULT = Shape(value="result", reason="reason", scale="0/1", wanted="0 or 1", is_digit=True)


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a judge says about one answer."""

    value: float
    """On the shape's scale."""
    reason: str
    label: FailureLabel = ""
    """What the judge thinks is mainly wrong."""
    flags: tuple[str, ...] = ()


class Refusal(msgspec.Struct, frozen=True):
    """Why a reply is no verdict, in our own words: it goes back to the judge, so it repeats nothing of the reply."""

    reason: str


def read_verdict(text: str, shape: Shape, *, answer: str) -> Verdict | Refusal:
    """The verdict in a judge's reply to a question about `answer`, or why there is none."""
    found = only_object(text)
    if isinstance(found, Refusal):
        return found
    if _repeats(found, text, answer=answer):
        return Refusal(_REPEATED)
    return _verdict(found, shape, label=_label(found.get("label")))


def read_verdicts(text: str, shape: Shape, *, answer: str, count: int) -> tuple[Verdict, ...] | Refusal:
    """The verdicts in a judge's reply to a question about several criteria, in their order, or why there are none."""
    found = only_object(text)
    if isinstance(found, Refusal):
        return found
    items = _numbered(found.get(VERDICTS), count)
    if not items:
        return Refusal(f'"{VERDICTS}" must be a list with one object for each "{NUMBER}" from 1 to {count}')
    if any(_repeats(item, text, answer=answer) for item in items):
        return Refusal(_REPEATED)
    label = _label(found.get("label"))
    read = [_verdict(item, shape, label=label) for item in items]
    refusal = next((one for one in read if isinstance(one, Refusal)), None)
    return refusal or tuple(one for one in read if isinstance(one, Verdict))


def _numbered(items: Any, count: int) -> list[dict[str, Any]]:
    """The objects of a list in the order of their numbers; empty unless each number from 1 on is there exactly once."""
    if not isinstance(items, list) or not all(isinstance(item, dict) and type(item.get(NUMBER)) is int for item in items):
        return []
    ordered = sorted(items, key=lambda item: int(item[NUMBER]))
    return ordered if [item[NUMBER] for item in ordered] == [*range(1, count + 1)] else []


def _verdict(found: dict[str, Any], shape: Shape, *, label: FailureLabel) -> Verdict | Refusal:
    value = _scaled(found.get(shape.value), shape)
    reason = found.get(shape.reason)
    if value is None:
        return Refusal(f'"{shape.value}" must be {shape.wanted}')
    if not isinstance(reason, str) or not reason.strip():
        return Refusal(f'"{shape.reason}" must be a text of one or two sentences')
    return Verdict(value=value, reason=_UNSTORABLE.sub("\ufffd", reason.strip()), label=label)


def salvage_verdict(text: str, shape: Shape, *, answer: str) -> Verdict | None:
    """The verdict of a reply that breaks off or goes on after its object, when its first two members leave no doubt."""
    head = _opening(shape).match(_without_thought(text))
    if head is None or text.count(f'"{shape.value}"') != 1 or len(text) > MAX_REPLY_CHARACTERS:
        return None
    document = parse_json(head.group("value"))
    value = _scaled(document.value, shape) if document.is_readable else None
    if value is None or _squeezed(head.group("object")) in _squeezed(answer):
        return None
    reason = _UNSTORABLE.sub("\ufffd", head.group("reason").strip())
    return Verdict(value=value, reason=reason, flags=("salvaged",))


def _opening(shape: Shape) -> re.Pattern[str]:
    """Both members, in the order that was asked for, at the very start; `re` keeps the compiled pattern."""
    members = rf'"{shape.value}"\s*:\s*(?P<value>[\w.+-]+)\s*,\s*"{shape.reason}"\s*:\s*"(?P<reason>(?:[^"\\]|\\.)*)'
    return re.compile(rf"\s*(?:```\w*\s*)?(?P<object>\{{\s*{members})", re.DOTALL)


def _without_thought(text: str) -> str:
    return _THOUGHT.sub("", text.removeprefix("\ufeff"), count=1)


def only_object(text: str) -> dict[str, Any] | Refusal:
    """The object that is the whole reply, or its only fenced block."""
    if len(text) > MAX_REPLY_CHARACTERS:
        return Refusal("it is far too long")
    bare = _without_thought(text).strip()
    if not bare:
        return Refusal("it is empty")
    if not bare.startswith("{"):
        blocks = _FENCE.findall(bare)
        if len(blocks) != 1:
            return Refusal("it is not one JSON object")
        bare = blocks[0].strip()
    return _plain_object(bare) or _exact_object(bare)


def _plain_object(text: str) -> dict[str, Any] | None:
    """An object without escapes, quickly; None where only the exact reader can say whether all is well."""
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    if not isinstance(found, dict) or "\\" in text:
        return None
    # A member that is there twice leaves quotes in the text that the object does not account for.
    return found if text.count('"') == msgspec.json.encode(found).count(b'"') else None


def _exact_object(text: str) -> dict[str, Any] | Refusal:
    document = parse_json(text)
    if not document.is_readable:
        # Models write line breaks into strings as they are; nothing else is mended.
        document = parse_json(_STRING.sub(_escaped, text))
    if not document.is_readable or not isinstance(document.value, dict):
        return Refusal("it is not one JSON object")
    if any("appears twice" in flaw.message for flaw in document.flaws):
        return Refusal("a member of the object is there twice")
    if any(flaw.code == "value_out_of_range" for flaw in document.flaws):
        return Refusal("it holds a number that is too large")
    return document.value


def _escaped(string: re.Match[str]) -> str:
    return _CONTROL.sub(lambda control: f"\\u{ord(control.group()):04x}", string.group())


def _repeats(found: dict[str, Any], text: str, *, answer: str) -> bool:
    """True when the object stands in the candidate's answer, in whatever spacing or order of members."""
    if "{" not in answer:
        return False
    if _squeezed(text) in _squeezed(answer):
        return True
    return any(parse_json(match.group()).value == found for match in _OBJECT.finditer(answer))


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _scaled(value: Any, shape: Shape) -> float | None:
    """The value when it lies on the scale; 4.0 is no whole number, "4" no number, true no 1."""
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
