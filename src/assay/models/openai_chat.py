"""Chat completions, as OpenAI defined them and many servers speak them.

To OpenAI's own host: `max_completion_tokens`, and `response_format` where the ask has a schema. To any other server:
`max_tokens`, and `response_format` only where `extra_body` holds `{"response_format": {"type": "json_schema"}}`, which
is filled with the schema of the ask. Any other `response_format` in `extra_body` is sent as it is.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from assay.core.ask import Ask, ModelFailure, Reply, Usage
from assay.core.plan import ModelPlan
from assay.models.answers import Answered, reply_of
from assay.models.body import BodyWriter, applied_parameters, refuses_sampling, schema_format
from assay.models.endpoint import resolve_endpoint
from assay.models.opening import Maker, Opening
from assay.models.transport import Exchanged, Transport, open_transport

_FINISH = {"function_call": "tool_calls", "max_tokens": "length", "end_turn": "stop", "eos": "stop", "stop_sequence": "stop"}


class _InputDetails(msgspec.Struct, frozen=True):
    cached_tokens: int | None = None


class _OutputDetails(msgspec.Struct, frozen=True):
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct, frozen=True):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: _InputDetails | None = None
    completion_tokens_details: _OutputDetails | None = None


class _Part(msgspec.Struct, frozen=True):
    type: str = ""
    text: str | None = None


class _Message(msgspec.Struct, frozen=True):
    content: str | list[_Part] | None = None
    refusal: str | None = None
    tool_calls: Any = None
    function_call: Any = None
    """The older form of a tool call."""


class _Choice(msgspec.Struct, frozen=True):
    message: _Message | None = None
    finish_reason: str | None = None
    error: Any = None


class Completion(msgspec.Struct, frozen=True):
    """The members of a completion that say something about its answer; all others are passed over."""

    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    id: str | None = None
    model: str | None = None
    error: Any = None


_DECODER = msgspec.json.Decoder(Completion)
_BROKEN = {"error": "internal_error"}
"""Ends that are errors; servers that pass requests on say so."""
_NO_USAGE = Usage()
_NO_MESSAGE = _Message()
_NO_CHOICE = _Choice()


@asynccontextmanager
async def open_provider(opening: Opening) -> AsyncIterator[Maker]:
    """An OpenAI-compatible provider, ready to make its models."""
    endpoint = resolve_endpoint(opening.provider, opening.environ)
    async with open_transport(endpoint, keep_raw=opening.keep_raw) as transport:
        yield lambda model: ChatModel(transport, model)


class ChatModel:
    """One model behind a chat-completions server."""

    path = "/chat/completions"
    decoder = _DECODER

    def __init__(self, transport: Transport, model: ModelPlan) -> None:
        self._transport = transport
        self._head = transport.head(self.path)
        self.applied = _parameters(model, is_vendor=transport.endpoint.is_vendor)
        wanted = self.applied.get("response_format", {"type": "json_schema"} if transport.endpoint.is_vendor else None)
        self._takes_schema = wanted == {"type": "json_schema"}
        if self._takes_schema:
            self.applied.pop("response_format", None)
        self._body = BodyWriter({"model": model.model}, "messages", self.applied)

    async def reply(self, ask: Ask) -> Reply:
        """One attempt at one ask; raises ModelFailure."""
        extra = self._extra(ask)
        exchanged = await self._transport.post(self._head, self._body.write(ask.messages, extra), decoder=_DECODER)
        return self.read(exchanged, {**self.applied, **extra} if extra else self.applied)

    def request(self, ask: Ask) -> bytes:
        """The body of the request that asks it."""
        return self._body.write(ask.messages, self._extra(ask))

    def read(self, exchanged: Exchanged[Completion], applied: dict[str, Any] | None = None) -> Reply:
        """What a body says, however it came; raises ModelFailure."""
        return completion_reply(exchanged, self.applied if applied is None else applied, refused=self._transport.refused)

    def _extra(self, ask: Ask) -> dict[str, Any] | None:
        return _response_format(ask.reply_schema) if self._takes_schema and ask.reply_schema else None


def completion_reply(
    exchanged: Exchanged[Completion], applied: dict[str, Any], *, refused: Callable[[Any, str], ModelFailure]
) -> Reply:
    """What a completion says; raises ModelFailure where it holds an error or no answer."""
    completion = exchanged.value
    request_id = exchanged.request_id or completion.id or ""
    choice = completion.choices[0] if completion.choices else _NO_CHOICE
    error = completion.error or choice.error
    if error or completion.choices is None:
        raise refused({"error": error or "it has no choices"}, request_id)
    reason = choice.finish_reason or ""
    message = choice.message or _NO_MESSAGE
    answered = Answered(
        text=_text(message),
        finish_reason=_FINISH.get(reason, reason),
        usage=_usage(completion.usage) if completion.usage else _NO_USAGE,
        model=completion.model or "",
        request_id=request_id,
        is_refusal=bool(message.refusal),
        has_tool_calls=bool(message.tool_calls or message.function_call),
        failure_code=_BROKEN.get(reason, ""),
    )
    return reply_of(answered, exchanged, applied)


def _text(message: _Message) -> str | None:
    """The answer; an empty string is one, null is none. A refusal that is said in words is an answer too."""
    content = message.content
    if isinstance(content, str):
        return content or message.refusal or ""
    if content:
        return "".join(part.text for part in content if part.text is not None)
    return message.refusal


def _usage(usage: _Usage) -> Usage:
    details, output = usage.prompt_tokens_details, usage.completion_tokens_details
    return Usage(
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        total_tokens=usage.total_tokens,
        cached_tokens=details.cached_tokens if details else None,
        reasoning_tokens=output.reasoning_tokens if output else None,
    )


def _parameters(model: ModelPlan, *, is_vendor: bool) -> dict[str, Any]:
    wanted = model.parameters
    samples = not (is_vendor and refuses_sampling(model.model))
    return applied_parameters(
        {
            "temperature": wanted.temperature if samples else None,
            "top_p": wanted.top_p if samples else None,
            "frequency_penalty": wanted.frequency_penalty if samples else None,
            "presence_penalty": wanted.presence_penalty if samples else None,
            "max_completion_tokens" if is_vendor else "max_tokens": wanted.max_tokens,
            "seed": wanted.seed,
            "reasoning_effort": wanted.reasoning_effort,
        },
        wanted.extra_body,
    )


def _response_format(schema: dict[str, Any]) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "json_schema": schema_format(schema)}}
