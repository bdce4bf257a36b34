"""Functions as models and as graders: plain ones in a thread of their own, `async` ones on the event loop of the run."""

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from contextvars import copy_context
from typing import Any

import msgspec

from assay.core.ask import Ask, GraderAsk, ModelFailure, Reply, with_total
from assay.core.foreign import ForeignCode, ForeignFailure
from assay.core.judgement import GRADER_ERROR, judgement_of
from assay.core.outcome import GradingFailure
from assay.core.plan import ModelPlan
from assay.models.failures import EXCEPTION_CODES, shorten
from assay.models.opening import Maker, Opening

MODEL_ERROR = "model_error"
"""Code of an attempt whose function raised an exception that is no matter of time or network."""
Function = Callable[..., Any]

_encode = msgspec.json.Encoder().encode


@asynccontextmanager
async def open_provider(opening: Opening) -> AsyncIterator[Maker]:
    """Functions need nothing but themselves."""
    yield lambda model: FunctionModel(opening, model)


class FunctionModel:
    """A function that answers asks, or that grades answers."""

    def __init__(self, opening: Opening, model: ModelPlan) -> None:
        self._name = model.model
        self._function: Function = opening.functions[model.name]
        self._timeout = opening.provider.timeout
        self._argument = _argument_for(self._function)

    async def reply(self, ask: Ask) -> Reply:
        """One call; raises ModelFailure, whatever the function raises."""
        if isinstance(ask, GraderAsk):
            return await self._judged(ask)
        return self._reply_of(await self._said(self._argument(ask), error_code=MODEL_ERROR))

    async def _judged(self, ask: GraderAsk) -> Reply:
        said = await self._said(ask.case, ask.answer, error_code=GRADER_ERROR)
        try:
            return Reply(text=_encode(judgement_of(said)).decode(), finish_reason="stop", model=self._name)
        except GradingFailure as failure:
            raise ModelFailure(failure.code, shorten(failure.message)) from None

    async def _said(self, *arguments: Any, error_code: str) -> Any:
        """What the function returns; raises ModelFailure."""
        try:
            async with asyncio.timeout(self._timeout):
                return await _called(self._function, arguments)
        except TimeoutError:
            raise ModelFailure("timeout", f"'{self._name}' did not return within {self._timeout:g} seconds") from None
        except GradingFailure as failure:
            raise ModelFailure(failure.code, shorten(failure.message)) from None
        except ForeignFailure as failure:
            names = (kind.__name__ for kind in type(failure.problem).__mro__)
            code = next((EXCEPTION_CODES[name] for name in names if name in EXCEPTION_CODES), error_code)
            raise ModelFailure(code, shorten(f"'{self._name}' raised {failure}")) from failure.problem

    def _reply_of(self, said: Any) -> Reply:
        if not isinstance(said, str | Reply):
            raise ModelFailure("invalid_reply", f"'{self._name}' returned {type(said).__name__}, not a text")
        reply = said if isinstance(said, Reply) else Reply(text=said, finish_reason="stop", model=self._name)
        # Databases and files cannot be trusted to hold a NUL, nor half a character.
        text = reply.text.encode("utf-8", "replace").decode().replace("\x00", "\ufffd")
        flags = reply.flags if text == reply.text else (*reply.flags, "replaced_characters")
        return msgspec.structs.replace(reply, text=text, flags=flags, usage=with_total(reply.usage))


def _argument_for(function: Function) -> Callable[[Ask], Any]:
    """What a function is called with: its only parameter's name says it, and else it gets the messages."""
    try:
        name = next(iter(inspect.signature(function).parameters), "")
    except (TypeError, ValueError):
        name = ""
    if name == "ask":
        return lambda ask: ask
    return _prompt if name == "prompt" else lambda ask: msgspec.to_builtins(ask.messages)


def _prompt(ask: Ask) -> str:
    return ask.messages[-1].content if ask.messages else ""


async def _called(function: Function, arguments: tuple[Any, ...]) -> Any:
    """What a function returns; raises ForeignFailure, or what the function says in our own words."""
    if _is_async(function):
        said = function(*arguments)
    else:
        said = await _in_thread(lambda: function(*arguments))
    if not isinstance(said, Awaitable):
        return said
    with ForeignCode():
        return await said


def _is_async(function: Function) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


async def _in_thread(call: Callable[[], Any]) -> Any:
    """The result of a call that may block. A thread for each call, since one that never ends must not keep others waiting."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def settle(put: Callable[[Any], None], value: Any) -> None:
        # The run may be over before the function is.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(lambda: None if future.done() else put(value))

    def work() -> None:
        try:
            with ForeignCode():
                said = call()
        except (ForeignFailure, GradingFailure, ModelFailure) as problem:
            settle(future.set_exception, problem)
        else:
            settle(future.set_result, said)

    threading.Thread(target=copy_context().run, args=(work,), name="assay-function", daemon=True).start()
    return await future
