"""Python functions as models and as graders: plain ones in threads, `async` ones on the event loop of the run."""

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from contextvars import copy_context
from typing import Any

import msgspec

from assay.core.errors import ThirdPartyCode, ThirdPartyError
from assay.core.model_call import GraderRequest, ModelFailure, ModelRequest, Reply, with_total
from assay.core.outcome import GRADER_ERROR, GradingFailure, judgement_of
from assay.core.plan import ModelPlan
from assay.core.tools import ToolCall, read_chat_tool_call, storable_call
from assay.models.failures import EXCEPTION_CODES, shorten
from assay.models.provider_protocol import Maker, ProviderContext
from assay.models.requests import chat_messages

MODEL_ERROR = "model_error"
"""Code of an attempt whose function raised an exception that is neither a timeout nor a network error."""
Function = Callable[..., Any]

_encode = msgspec.json.Encoder().encode


@asynccontextmanager
async def open_provider(context: ProviderContext) -> AsyncIterator[Maker]:
    """Open the provider; functions need no resources."""
    yield lambda model: FunctionModel(context, model)


class FunctionModel:
    """A function that answers requests, or that grades answers."""

    def __init__(self, context: ProviderContext, model: ModelPlan) -> None:
        self._name = model.model
        self._function: Function = context.functions[model.name]
        self._timeout = context.provider.timeout
        # Found once, since inspecting a signature is slow.
        self._argument = _argument_for(self._function)

    async def reply(self, ask: ModelRequest) -> Reply:
        """Call the function once; every exception becomes ModelFailure."""
        if isinstance(ask, GraderRequest):
            return await self._grade(ask)
        return self._reply_of(await self._call(self._argument(ask), error_code=MODEL_ERROR))

    async def _grade(self, ask: GraderRequest) -> Reply:
        returned = await self._call(ask.case, ask.answer, error_code=GRADER_ERROR)
        try:
            return Reply(text=_encode(judgement_of(returned)).decode(), finish_reason="stop", model=self._name)
        except GradingFailure as failure:
            raise ModelFailure(failure.code, shorten(failure.message)) from None

    async def _call(self, *arguments: object, error_code: str) -> Any:
        """Call the function and return its value; raises ModelFailure."""
        try:
            async with asyncio.timeout(self._timeout):
                return await _call_function(self._function, arguments)
        except TimeoutError:
            raise ModelFailure("timeout", f"'{self._name}' did not return within {self._timeout:g} seconds") from None
        except GradingFailure as failure:
            raise ModelFailure(failure.code, shorten(failure.message)) from None
        # The function's own exception decides what may be done: a timeout or a lost connection inside it may pass.
        except ThirdPartyError as failure:
            names = (kind.__name__ for kind in type(failure.problem).__mro__)
            code = next((EXCEPTION_CODES[name] for name in names if name in EXCEPTION_CODES), error_code)
            raise ModelFailure(code, shorten(f"'{self._name}' raised {failure}")) from failure.problem

    def _reply_of(self, returned: object) -> Reply:
        # None would become the text 'None', and be graded.
        if not isinstance(returned, str | Reply):
            raise ModelFailure("invalid_reply", f"'{self._name}' returned {type(returned).__name__}, not a text")
        reply = returned if isinstance(returned, Reply) else Reply(text=returned, finish_reason="stop", model=self._name)
        if reply.steps and not _is_json(reply.steps):
            raise ModelFailure("invalid_reply", f"'{self._name}' returned steps that are not JSON values")
        # Not every database and file format can hold a NUL or a lone surrogate.
        text = reply.text.encode("utf-8", "replace").decode().replace("\x00", "\ufffd")
        flags = reply.flags if text == reply.text else (*reply.flags, "replaced_characters")
        calls = self._tool_calls(reply.tool_calls) if reply.tool_calls else ()
        return msgspec.structs.replace(reply, text=text, flags=flags, usage=with_total(reply.usage), tool_calls=calls)

    def _tool_calls(self, given: Iterable[object]) -> tuple[ToolCall, ...]:
        calls = [storable_call(call) if isinstance(call, ToolCall) else read_chat_tool_call(call) for call in given]
        if None in calls:
            message = f"'{self._name}' returned a tool call that is neither a ToolCall nor in the format of chat completions"
            raise ModelFailure("invalid_reply", message)
        return tuple(call for call in calls if call is not None)


def _argument_for(function: Function) -> Callable[[ModelRequest], Any]:
    """Choose the function's argument by the name of its parameter; the default is the messages."""
    try:
        # Some callables in C have no signature.
        name = next(iter(inspect.signature(function).parameters), "")
    except (TypeError, ValueError):
        name = ""
    if name == "ask":
        return lambda ask: ask
    return _prompt if name == "prompt" else lambda ask: msgspec.to_builtins(chat_messages(ask.messages))


def _is_json(value: object) -> bool:
    try:
        _encode(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _prompt(ask: ModelRequest) -> str:
    return ask.messages[-1].content if ask.messages else ""


async def _call_function(function: Function, arguments: tuple[object, ...]) -> Any:
    """Call a plain or async function; raises ThirdPartyError, or our own failures that the function raises."""
    if _is_async(function):
        returned = function(*arguments)
    else:
        # A plain function may block for seconds: the event loop has other calls to look after.
        returned = await _in_thread(lambda: function(*arguments))
    # A plain function may return a coroutine, as a lambda around an async one does.
    if not isinstance(returned, Awaitable):
        return returned
    with ThirdPartyCode():
        return await returned


def _is_async(function: Function) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


async def _in_thread(call: Callable[[], Any]) -> Any:
    """Run a blocking call in a thread of its own, since one that never ends must not block a pool."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def resolve(put: Callable[[Any], None], value: object) -> None:
        # The event loop may be closed before the function returns.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(lambda: None if future.done() else put(value))

    def work() -> None:
        try:
            with ThirdPartyCode():
                returned = call()
        except (ThirdPartyError, GradingFailure, ModelFailure) as problem:
            resolve(future.set_exception, problem)
        else:
            resolve(future.set_result, returned)

    # The context goes along, with the traces of the caller's libraries; a hanging call must not keep the process alive.
    threading.Thread(target=copy_context().run, args=(work,), name="assay-function", daemon=True).start()
    return await future
