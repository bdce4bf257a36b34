"""Chat completions, as OpenAI defined them and many servers implement them.

To OpenAI's own host: `max_completion_tokens`, and `response_format` if the request has a schema. To any other server:
`max_tokens`, and `response_format` only if `extra_body` holds `{"response_format": {"type": "json_schema"}}`, which
is filled with the schema of the request. Any other `response_format` in `extra_body` is sent as it is.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from assay.core.canonical import JsonObject
from assay.core.model_call import ModelFailure, ModelRequest, Reply, Usage
from assay.core.plan import ModelPlan
from assay.models.endpoint import resolve_endpoint
from assay.models.provider_protocol import Maker, ProviderContext
from assay.models.requests import BodyWriter, applied_parameters, refuses_sampling, schema_format
from assay.models.transport import HttpResult, ProviderAnswer, Transport, open_transport, reply_of

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
    """Older form of a tool call."""


class _CompletionChoice(msgspec.Struct, frozen=True):
    message: _Message | None = None
    finish_reason: str | None = None
    error: Any = None


class Completion(msgspec.Struct, frozen=True):
    """Members of a completion that matter for its answer; all others are ignored."""

    choices: list[_CompletionChoice] | None = None
    usage: _Usage | None = None
    id: str | None = None
    model: str | None = None
    error: Any = None


_DECODER = msgspec.json.Decoder(Completion)
_FAILURE_CODES = {"error": "internal_error"}
"""Finish reasons that are errors, from servers that forward requests."""
_NO_USAGE = Usage()
_NO_MESSAGE = _Message()
_NO_CHOICE = _CompletionChoice()


@asynccontextmanager
async def open_provider(context: ProviderContext) -> AsyncIterator[Maker]:
    """Open an OpenAI-compatible provider."""
    endpoint = resolve_endpoint(context.provider, context.environ)
    async with open_transport(endpoint, keep_raw=context.keep_raw) as transport:
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

    async def reply(self, ask: ModelRequest) -> Reply:
        """Make one attempt; raises ModelFailure."""
        extra = self._extra(ask)
        result = await self._transport.post(self._head, self._body.write(ask.messages, extra), decoder=_DECODER)
        return self.read(result, {**self.applied, **extra} if extra else self.applied)

    def request(self, ask: ModelRequest) -> bytes:
        """Build the body of the HTTP request."""
        return self._body.write(ask.messages, self._extra(ask))

    def read(self, result: HttpResult[Completion], applied: JsonObject | None = None) -> Reply:
        """Parse a body, from a direct call or a batch; raises ModelFailure."""
        return completion_reply(result, self.applied if applied is None else applied, refused=self._transport.refused)

    def _extra(self, ask: ModelRequest) -> JsonObject | None:
        return _response_format(ask.reply_schema) if self._takes_schema and ask.reply_schema else None


def completion_reply(result: HttpResult[Completion], applied: JsonObject, *, refused: Callable[[Any, str], ModelFailure]) -> Reply:
    """Parse a completion; raises ModelFailure when it holds an error or no answer."""
    completion = result.value
    request_id = result.request_id or completion.id or ""
    choice = completion.choices[0] if completion.choices else _NO_CHOICE
    error = completion.error or choice.error
    if error or completion.choices is None:
        raise refused({"error": error or "it has no choices"}, request_id)
    reason = choice.finish_reason or ""
    message = choice.message or _NO_MESSAGE
    answer = ProviderAnswer(
        text=_text(message),
        finish_reason=_FINISH.get(reason, reason),
        usage=_usage(completion.usage) if completion.usage else _NO_USAGE,
        model=completion.model or "",
        request_id=request_id,
        is_refusal=bool(message.refusal),
        has_tool_calls=bool(message.tool_calls or message.function_call),
        failure_code=_FAILURE_CODES.get(reason, ""),
    )
    return reply_of(answer, result, applied)


def _text(message: _Message) -> str | None:
    """Return the answer; an empty string is one, null is not. A refusal in words is an answer too."""
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


def _parameters(model: ModelPlan, *, is_vendor: bool) -> JsonObject:
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


def _response_format(schema: Mapping[str, object]) -> JsonObject:
    return {"response_format": {"type": "json_schema", "json_schema": schema_format(schema)}}
