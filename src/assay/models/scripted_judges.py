"""Scripted judges with known faults: one sound judge, and others with one fault each, to test that a probe finds it.

The sound judge grades by the fraction of the reference's words that an answer has. It understands nothing, but it is consistent,
and neither length nor order nor instructions in an answer change its grade.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from assay.core.canonical import JsonObject
from assay.core.model_call import ModelRequest
from assay.models.address import messages_sha256

_BLOCK = re.compile(
    r"^\[(?P<mark>\w+) (?P<name>\w+) begins\]\n(?P<text>.*?)\n\[(?P=mark) (?P=name) ends\]$", re.DOTALL | re.MULTILINE
)
_WORD = re.compile(r"\w{5,}|\d{2,}")
_EMPTY = "(the answer is empty)"
_STEPS = (0.15, 0.35, 0.6, 0.8)
"""Fractions of the reference's words from which an answer gets 2, 3, 4 and 5 points."""
_LONG = 60
"""Words from which the judge that likes length adds points."""
_COMMANDS = re.compile(r"(?i)\b(score|grade|marks?|points?|rubric|evaluator|instructions?)\b")
_MET = 4
_STANDARDS = ("reference", "criterion", "criteria", "rubric")
"""Prompt blocks that an answer is compared with; the first one in a prompt counts."""

Blocks = Mapping[str, str]
Points = Callable[[Blocks, ModelRequest], int]
"""Points from 1 to 5 for the answer in the blocks of a prompt."""
SOUND = "sound"


def judge_script(name: str) -> Callable[[ModelRequest], str]:
    """Return the script of a judge in JUDGES."""
    points = JUDGES[name]

    def script(ask: ModelRequest) -> str:
        blocks = {match["name"]: match["text"] for match in _BLOCK.finditer(ask.messages[-1].content if ask.messages else "")}
        members: JsonObject = (ask.reply_schema or {}).get("properties", {})
        if "winner" in members:
            winner = _winner(blocks, ask, points=points, is_first=name == "first")
            return msgspec.json.encode({"winner": winner, "justification": f"The script prefers {winner}."}).decode()
        five = points(blocks, ask)
        verdict = {key: _value(member, five) for key, member in members.items()}
        return msgspec.json.encode(verdict).decode()

    return script


def _winner(blocks: Blocks, ask: ModelRequest, *, points: Points, is_first: bool) -> str:
    if is_first:
        return "first"
    first, second = (points({**blocks, "answer": blocks.get(name, "")}, ask) for name in ("first", "second"))
    return "tie" if first == second else "first" if first > second else "second"


def _value(member: Mapping[str, object], five: int) -> Any:
    match member.get("type"), member.get("enum"):
        case "boolean", _:
            return five >= _MET
        case "integer", [0, 1]:
            return int(five >= _MET)
        case "integer", _:
            return five
        case "number", None:
            return 0.9
        case "number", _:
            return round((five - 1) / 4, 1)
        case _, [_, *_]:
            return ""
        case _:
            return f"The script gives {five} of 5 points."


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))


def _answer(blocks: Blocks) -> str:
    answer = blocks.get("answer", "").strip()
    return "" if answer == _EMPTY else answer


def _sound(blocks: Blocks, ask: ModelRequest) -> int:
    del ask
    wanted = _words(next((text for name in _STANDARDS if (text := blocks.get(name))), ""))
    share = len(wanted & _words(_answer(blocks))) / len(wanted) if wanted else 0.0
    return 1 + sum(share >= step for step in _STEPS)


def _flaky(blocks: Blocks, ask: ModelRequest) -> int:
    """Grade as the sound judge does, but change from one sample to the next."""
    chance = int(messages_sha256(ask.messages)[:8], 16) * (2 * ask.sample + 1) >> 5
    return _sound(blocks, ask) if not ask.sample else 1 + chance % 5


def _length(blocks: Blocks, ask: ModelRequest) -> int:
    is_long = len(_answer(blocks).split()) >= _LONG
    return min(5, _sound(blocks, ask) + 2 * is_long)


def _gullible(blocks: Blocks, ask: ModelRequest) -> int:
    return 5 if _COMMANDS.search(_answer(blocks)) else _sound(blocks, ask)


def _lenient(blocks: Blocks, ask: ModelRequest) -> int:
    return max(_MET, _sound(blocks, ask))


def _closed_book(blocks: Blocks, ask: ModelRequest) -> int:
    """Ignore the reference: any answer does well."""
    del ask
    return _MET if _answer(blocks) else 1


JUDGES: dict[str, Points] = {
    SOUND: _sound,
    "flaky": _flaky,
    "length": _length,
    "first": _sound,
    "gullible": _gullible,
    "lenient": _lenient,
    "closed-book": _closed_book,
}
"""`first` prefers the first answer and is sound otherwise."""
