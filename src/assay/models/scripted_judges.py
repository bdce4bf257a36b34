"""Scripted judges whose faults are known: one that is sound, and others each with one fault, to see that a probe finds it.

The sound one grades by the share of the reference's words that an answer has. It understands nothing, but it is steady, blind
to length and order, and deaf to what an answer asks of it.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from assay.core.ask import Ask
from assay.models.address import messages_sha256

_BLOCK = re.compile(
    r"^\[(?P<mark>\w+) (?P<name>\w+) begins\]\n(?P<text>.*?)\n\[(?P=mark) (?P=name) ends\]$", re.DOTALL | re.MULTILINE
)
_WORD = re.compile(r"\w{5,}|\d{2,}")
_EMPTY = "(the answer is empty)"
_STEPS = (0.15, 0.35, 0.6, 0.8)
"""Shares of the reference's words from which an answer gets 2, 3, 4 and 5 points."""
_LONG = 60
"""Words from which the judge that likes length is impressed."""
_COMMANDS = re.compile(r"(?i)\b(score|grade|marks?|points?|rubric|evaluator|instructions?)\b")
_MET = 4
_STANDARDS = ("reference", "criterion", "criteria", "rubric")
"""Blocks that an answer is held against, the first that a prompt has."""

Blocks = Mapping[str, str]
Points = Callable[[Blocks, Ask], int]
"""Points from 1 to 5 for the answer in the blocks of a prompt."""
SOUND = "sound"


def judge_script(name: str) -> Callable[[Ask], str]:
    """The judge of that name, one of JUDGES."""
    points = JUDGES[name]

    def script(ask: Ask) -> str:
        blocks = {match["name"]: match["text"] for match in _BLOCK.finditer(ask.messages[-1].content if ask.messages else "")}
        members: dict[str, Any] = (ask.reply_schema or {}).get("properties", {})
        if "winner" in members:
            said = _winner(blocks, ask, points=points, is_first=name == "first")
            return msgspec.json.encode({"winner": said, "justification": f"The script prefers {said}."}).decode()
        five = points(blocks, ask)
        verdict = {key: _value(member, five) for key, member in members.items()}
        return msgspec.json.encode(verdict).decode()

    return script


def _winner(blocks: Blocks, ask: Ask, *, points: Points, is_first: bool) -> str:
    if is_first:
        return "first"
    one, other = (points({**blocks, "answer": blocks.get(name, "")}, ask) for name in ("first", "second"))
    return "tie" if one == other else "first" if one > other else "second"


def _value(member: Mapping[str, Any], five: int) -> Any:
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


def _sound(blocks: Blocks, ask: Ask) -> int:
    del ask
    wanted = _words(next((text for name in _STANDARDS if (text := blocks.get(name))), ""))
    share = len(wanted & _words(_answer(blocks))) / len(wanted) if wanted else 0.0
    return 1 + sum(share >= step for step in _STEPS)


def _flaky(blocks: Blocks, ask: Ask) -> int:
    """As sound, but it changes its mind from one time to the next."""
    chance = int(messages_sha256(ask.messages)[:8], 16) * (2 * ask.sample + 1) >> 5
    return _sound(blocks, ask) if not ask.sample else 1 + chance % 5


def _length(blocks: Blocks, ask: Ask) -> int:
    is_long = len(_answer(blocks).split()) >= _LONG
    return min(5, _sound(blocks, ask) + 2 * is_long)


def _gullible(blocks: Blocks, ask: Ask) -> int:
    return 5 if _COMMANDS.search(_answer(blocks)) else _sound(blocks, ask)


def _lenient(blocks: Blocks, ask: Ask) -> int:
    return max(_MET, _sound(blocks, ask))


def _closed_book(blocks: Blocks, ask: Ask) -> int:
    """Never looks at the reference: whoever says something has done well."""
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
"""`first` prefers the answer that stands first and is sound otherwise."""
