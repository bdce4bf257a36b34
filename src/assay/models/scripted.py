"""Scripted models: `scripted/NAME` answers by rule, without a network and the same every time, for tests and demos.

`echo` repeats the last message; `empty` says nothing; `mcq-first` and `mcq-last` choose an option; `judge-1` to `judge-5`
give that score; `say-TEXT` says the text; `slow-MS` waits that many milliseconds and echoes; `fail-CODE` fails every time;
`flaky-N` fails N times for each request, then echoes.
"""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import msgspec

from assay.core.ask import Ask, ModelFailure, Reply, Usage
from assay.core.errors import UsageProblem
from assay.models.address import messages_sha256
from assay.models.opening import Maker, Opening

Answer = str | Reply | ModelFailure
"""What a script may say: a text, a whole reply, or a failure to raise."""
Script = Callable[[Ask], Answer | Awaitable[Answer]]

_NAME = re.compile(
    r"(?P<plain>echo|empty|mcq-first|mcq-last)|judge-(?P<score>[1-5])|say-(?P<text>.+)|slow-(?P<wait>\d{1,6})"
    r"|fail-(?P<code>[a-z][a-z_]*)|flaky-(?P<times>\d{1,3})",
    re.DOTALL,
)
_OPTION = re.compile(r"^\W{0,4}(?i:option |choice )?([A-Z]{1,2}|\d{1,2})[).:\]]\W{0,3}[ \t]+\S", re.MULTILINE)


@asynccontextmanager
async def open_provider(opening: Opening) -> AsyncIterator[Maker]:  # noqa: ARG001  # every provider is opened the same way
    """Scripted models need nothing."""
    yield lambda model: ScriptedModel(named_script(model.model), name=model.model)


def scripted_problems(name: str) -> list[str]:
    """Why there is no script of that name."""
    return [] if _NAME.fullmatch(name) else [_unknown(name)]


def named_script(name: str) -> Script:
    """The script of that name; raises UsageProblem."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise UsageProblem(_unknown(name))
    kind, value = next((kind, value) for kind, value in match.groupdict().items() if value is not None)
    return _SCRIPTS[kind](value)


class ScriptedModel:
    """A model that answers from a function, or from a list in its order; it remembers what it was asked."""

    def __init__(self, answers: Script | Sequence[Answer], *, name: str = "scripted") -> None:
        self._script = answers if callable(answers) else _in_order(answers)
        self._name = name
        self.asks: list[Ask] = []

    async def reply(self, ask: Ask) -> Reply:
        """The next answer; raises ModelFailure where the script has one."""
        self.asks.append(ask)
        said = self._script(ask)
        answer = said if isinstance(said, str | Reply | ModelFailure) else await said
        if isinstance(answer, ModelFailure):
            raise answer
        return answer if isinstance(answer, Reply) else _reply(ask, answer, model=self._name)


def _reply(ask: Ask, text: str, *, model: str) -> Reply:
    """A reply that counts words as tokens, so that sums have something to add."""
    asked = sum(len(message.content.split()) for message in ask.messages)
    said = len(text.split())
    usage = Usage(input_tokens=asked, output_tokens=said, total_tokens=asked + said)
    return Reply(text=text, finish_reason="stop", usage=usage, model=model)


def _in_order(answers: Sequence[Answer]) -> Script:
    left = iter(answers)

    def script(ask: Ask) -> Answer:
        return next(left, ModelFailure("script_ended", f"the script has no answer left for '{ask.call_id}'"))

    return script


def _unknown(name: str) -> str:
    known = "echo, empty, mcq-first, mcq-last, judge-1 to judge-5, say-TEXT, slow-MS, fail-CODE, flaky-N"
    return f"there is no scripted model '{name}'; there are {known}"


def _last_message(ask: Ask) -> str:
    return ask.messages[-1].content if ask.messages else ""


def _plain(name: str) -> Script:
    return {"echo": _last_message, "empty": lambda _: "", "mcq-first": _choice(0), "mcq-last": _choice(-1)}[name]


def _choice(index: int) -> Script:
    def script(ask: Ask) -> str:
        options = _OPTION.findall(_last_message(ask))
        answer = options[index] if options else ""
        return msgspec.json.encode({"answer": answer, "reasoning": "It is the option that the script names."}).decode()

    return script


def _judge(score: str) -> Script:
    verdict = {"score": int(score), "justification": f"The script gives every answer the score {score}."}
    return lambda _: msgspec.json.encode(verdict).decode()


def _slow(milliseconds: str) -> Script:
    async def script(ask: Ask) -> Answer:
        await asyncio.sleep(int(milliseconds) / 1000)
        return _last_message(ask)

    return script


def _failing(code: str) -> Script:
    return lambda _: ModelFailure(code, f"the script fails with '{code}'")


def _flaky(times: str) -> Script:
    seen: Counter[str] = Counter()

    def script(ask: Ask) -> Answer:
        address = messages_sha256(ask.messages)
        seen[address] += 1
        is_failing = seen[address] <= int(times)
        return ModelFailure("service_unavailable", f"the script fails {times} times") if is_failing else _last_message(ask)

    return script


_SCRIPTS: dict[str, Callable[[str], Script]] = {
    "plain": _plain,
    "score": _judge,
    "text": lambda text: lambda _: text,
    "wait": _slow,
    "code": _failing,
    "times": _flaky,
}
