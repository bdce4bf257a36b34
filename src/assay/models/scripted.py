"""Scripted judges with known faults: one sound judge, and others with one fault each, to test that a probe finds it.

The sound judge grades by the fraction of the reference's words that an answer has. It understands nothing, but it is consistent,
and neither length nor order nor instructions in an answer change its grade.
"""

import asyncio
import re
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from assay.core.canonical import JsonObject
from assay.core.errors import UsageProblem
from assay.core.graders import NOT_ASSESSED
from assay.core.model_call import ModelFailure, ModelRequest, Reply, Usage
from assay.models.provider_protocol import Maker, ProviderContext
from assay.models.requests import messages_sha256

_BLOCK = re.compile(r"\[(?P<mark>\w+) (?P<name>[\w.]+) begins\]\s(?P<text>.*?)\s\[(?P=mark) (?P=name) ends\]", re.DOTALL)
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
            # The question compares two answers, which only the schema of the reply tells.
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
    # The same grade for both is a tie: anything else would be a liking for a place.
    return "tie" if first == second else "first" if first > second else "second"


def _value(member: Mapping[str, object], five: int) -> Any:
    match member.get("type"), member.get("enum"):
        case "boolean", _:
            return five >= _MET
        # Before other integers: 0 and 1 are not a scale of points.
        case "integer", [0, 1]:
            return int(five >= _MET)
        case "integer", _:
            return five
        case "number", None:
            return 0.9
        case "number", _:
            return round((five - 1) / 4, 1)
        case _, [*words] if NOT_ASSESSED in words:
            return _scale_word([str(word) for word in words], five)
        case _, [_, *_]:
            return ""
        case _:
            return f"The script gives {five} of 5 points."


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))


def _answer(blocks: Blocks) -> str:
    answer = blocks.get("answer", "").strip()
    # The prompt says so of an empty answer, and its words must not count as one.
    return "" if answer == _EMPTY else answer


def _sound(blocks: Blocks, ask: ModelRequest) -> int:
    del ask
    wanted = _words(next((text for name in _STANDARDS if (text := blocks.get(name))), ""))
    # Sets: an answer that repeats a word gets no more for it, and length does not count.
    share = len(wanted & _words(_answer(blocks))) / len(wanted) if wanted else 0.0
    return 1 + sum(share >= step for step in _STEPS)


def _flaky_judge(blocks: Blocks, ask: ModelRequest) -> int:
    """Grade as the sound judge does, but change from one sample to the next."""
    # From the messages, so that the same run gives the same faults again.
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
    "flaky": _flaky_judge,
    "length": _length,
    "first": _sound,
    "gullible": _gullible,
    "lenient": _lenient,
    "closed-book": _closed_book,
}
"""`first` prefers the first answer and is sound otherwise."""


Answer = str | Reply | ModelFailure
"""Result of a script: a text, a whole reply, or a failure to raise."""
Script = Callable[[ModelRequest], Answer | Awaitable[Answer]]

_NAME = re.compile(
    r"(?P<plain>echo|empty|mcq-first|mcq-last|mcq-any)|judge-(?P<score>[1-5]|any)"
    rf"|judge-(?P<named>{'|'.join(JUDGES)})"
    r"|say-(?P<text>.+)|slow-(?P<wait>\d{1,6})"
    r"|fail-(?P<code>[a-z][a-z_]*)|flaky-(?P<times>\d{1,3})",
    re.DOTALL,
)
_OPTION = re.compile(r"^\W{0,4}(?i:option |choice )?([A-Z]{1,2}|\d{1,2})[).:\]]\W{0,3}[ \t]+\S", re.MULTILINE)


@asynccontextmanager
async def open_provider(context: ProviderContext) -> AsyncIterator[Maker]:  # noqa: ARG001  # every provider is opened the same way
    """Open the provider; scripted models need no resources."""
    yield lambda model: ScriptedModel(named_script(model.model), name=model.model)


def model_problems(name: str) -> list[str]:
    """List why there is no script of that name."""
    return [] if _NAME.fullmatch(name) else [_unknown(name)]


def named_script(name: str) -> Script:
    """Return the script of that name; raises UsageProblem."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise UsageProblem(_unknown(name))
    kind, value = next((kind, value) for kind, value in match.groupdict().items() if value is not None)
    return _SCRIPTS[kind](value)


class ScriptedModel:
    """A model that answers from a function, or from a list in order; it remembers the last requests, at most 1,000 of them."""

    def __init__(self, answers: Script | Sequence[Answer], *, name: str = "scripted") -> None:
        self._script = answers if callable(answers) else _in_order(answers)
        self._name = name
        self.asks: deque[ModelRequest] = deque(maxlen=1_000)

    async def reply(self, ask: ModelRequest) -> Reply:
        """Return the next answer; raises ModelFailure when the script has one."""
        # Before the answer: a test wants to see the request that failed.
        self.asks.append(ask)
        result = self._script(ask)
        # A script may be a coroutine, as that of a slow model is.
        answer = result if isinstance(result, str | Reply | ModelFailure) else await result
        if isinstance(answer, ModelFailure):
            raise answer
        return answer if isinstance(answer, Reply) else _reply(ask, answer, model=self._name)


def _reply(ask: ModelRequest, text: str, *, model: str) -> Reply:
    """Build a reply that counts words as tokens, so that totals can be tested."""
    input_tokens = sum(len(message.content.split()) for message in ask.messages)
    output_tokens = len(text.split())
    usage = Usage(input_tokens=input_tokens, output_tokens=output_tokens, total_tokens=input_tokens + output_tokens)
    return Reply(text=text, finish_reason="stop", usage=usage, model=model)


def _in_order(answers: Sequence[Answer]) -> Script:
    # One list for all requests: calls that run side by side take its answers in the order in which they begin.
    remaining = iter(answers)

    def script(ask: ModelRequest) -> Answer:
        return next(remaining, ModelFailure("script_ended", f"the script has no answer left for '{ask.call_id}'"))

    return script


def _unknown(name: str) -> str:
    judges = ", ".join(f"judge-{name}" for name in JUDGES)
    known = f"echo, empty, mcq-first, mcq-last, mcq-any, judge-1 to judge-5, judge-any, {judges}, say-TEXT, slow-MS, fail-CODE"
    return f"there is no scripted model '{name}'; there are {known} and flaky-N"


def _last_message(ask: ModelRequest) -> str:
    return ask.messages[-1].content if ask.messages else ""


def _plain(name: str) -> Script:
    choices = {"mcq-first": _choice(lambda _: 0), "mcq-last": _choice(lambda _: -1), "mcq-any": _choice(_number)}
    return {"echo": _last_message, "empty": lambda _: "", **choices}[name]


def _number(ask: ModelRequest) -> int:
    """Derive a number from the messages that looks random and is the same for the same request."""
    return int(messages_sha256(ask.messages)[:8], 16) * (2 * ask.sample + 1) >> 7


def _choice(index: Callable[[ModelRequest], int]) -> Script:
    def script(ask: ModelRequest) -> str:
        options = _OPTION.findall(_last_message(ask))
        position = index(ask)
        answer = options[position % len(options) if position > 0 else position] if options else ""
        return msgspec.json.encode({"answer": answer, "reasoning": "It is the option that the script names."}).decode()

    return script


def _judge(score: str) -> Script:
    """Script a verdict in the requested form: on the scale 1-5, as a fraction, or as met from the score 4 on."""

    def script(ask: ModelRequest) -> str:
        five = 1 + _number(ask) % 5 if score == "any" else int(score)
        reason = f"The script gives {'this' if score == 'any' else 'every'} answer the score {five}."
        members: JsonObject = (ask.reply_schema or _FIVE_POINT)["properties"]
        verdict = {name: _scripted(member, five, reason) for name, member in members.items() if name != "label"}
        return msgspec.json.encode(verdict).decode()

    return script


_FIVE_POINT: JsonObject = {"properties": {"score": {"type": "integer"}, "justification": {"type": "string"}}}
_MIDDLE = 3
"""Score from which a criterion counts as met."""


def _scripted(member: Mapping[str, Any], five: int, reason: str) -> Any:
    """Build the value of one member of a verdict; `five` is a score from 1 to 5."""
    match member.get("type"):
        case "number" if "enum" not in member:
            # The confidence: low for a score in the middle.
            return 0.5 if five == _MIDDLE else 0.9
        case "boolean":
            return five >= _MET
        case "integer" if member.get("enum") == [0, 1]:
            return int(five >= _MET)
        case "integer":
            return five
        case "number":
            return round((five - 1) / 4, 1)
        case "string" if "enum" in member:
            # The better of two answers: with the same score for both, neither.
            return "tie" if "tie" in member["enum"] else _scale_word(member["enum"], five)
        case "object":
            return {name: _scripted(inner, five, reason) for name, inner in member.get("properties", {}).items()}
        case _:
            return reason


def _scale_word(enum: Sequence[str], five: int) -> str:
    """Return the word of a user's scale for a score from 1 to 5: its number, or a category, of which the first is the best."""
    words = [word for word in enum if word != NOT_ASSESSED]
    numbers = (str(five), f"{(five - 1) / 4:.1f}", f"{round((five - 1) / 4, 1):.1f}")
    found = next((number for number in numbers if number in words), None)
    return found or words[0 if five >= _MET else -1]


def _slow(milliseconds: str) -> Script:
    async def script(ask: ModelRequest) -> Answer:
        await asyncio.sleep(int(milliseconds) / 1000)
        return _last_message(ask)

    return script


def _failing(code: str) -> Script:
    return lambda _: ModelFailure(code, f"the script fails with '{code}'")


def _flaky(times: str) -> Script:
    seen: Counter[str] = Counter()

    def script(ask: ModelRequest) -> Answer:
        # By the messages: each request fails that many times, with any other requests in flight.
        address = messages_sha256(ask.messages)
        seen[address] += 1
        is_failing = seen[address] <= int(times)
        return ModelFailure("service_unavailable", f"the script fails {times} times") if is_failing else _last_message(ask)

    return script


_SCRIPTS: dict[str, Callable[[str], Script]] = {
    "plain": _plain,
    "score": _judge,
    "named": judge_script,
    "text": lambda text: lambda _: text,
    "wait": _slow,
    "code": _failing,
    "times": _flaky,
}
