"""Chat completions, as OpenAI defined them and many servers implement them."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from assay.core.canonical import RequestMembers
from assay.core.model_call import ModelFailure, ModelRequest, Reply, Usage
from assay.core.plan import ModelPlan
from assay.core.provider import PROVIDERS
from assay.core.tools import ToolCall, ToolDefinition, ToolNames, tool_call
from assay.models.endpoint import Endpoint, resolve_endpoint
from assay.models.http_model import REPLY_TOOL, HttpModel, reply_call, uses_tools, with_role
from assay.models.negotiation import MAX_TOKENS, Dialect, ReplyFormat, SentParameters, SystemRole
from assay.models.provider_protocol import Maker, ProviderContext
from assay.models.requests import chat_messages, chat_tools, schema_format
from assay.models.transport import HttpResult, ProviderAnswer, Transport, open_transport, reply_of

_FINISH = {
    "function_call": "tool_calls",
    "max_tokens": "length",
    "model_length": "length",
    "end_turn": "stop",
    "eos": "stop",
    "stop_sequence": "stop",
}


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
    cached_tokens: int | None = None
    """Where Together reports the cached tokens."""
    num_cached_tokens: int | None = None
    """Where Mistral does."""
    prompt_cache_hit_tokens: int | None = None
    """Where DeepSeek does."""


class _Part(msgspec.Struct, frozen=True):
    type: str | None = None
    text: str | None = None


class _Message(msgspec.Struct, frozen=True):
    content: str | list[_Part] | None = None
    refusal: str | None = None
    tool_calls: Any = None
    function_call: Any = None
    """Older form of a tool call; some servers fill it with empty texts."""
    reasoning_content: Any = None
    reasoning_details: Any = None


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
_FAILURE_CODES = {"error": "internal_error", "insufficient_system_resource": "service_unavailable"}
"""Finish reasons that are errors, from servers that forward requests and from DeepSeek."""
_ANSWER_PARTS = frozenset({None, "text", "output_text"})
"""Types of the parts that are the answer; those of others are thoughts, references and media."""
_FILLED = {"type": "json_schema"}
"""A `response_format` without a schema: the default, which earlier versions wanted said."""
_NO_USAGE = Usage()
_NO_MESSAGE = _Message()
_NO_CHOICE = _CompletionChoice()


@asynccontextmanager
async def open_provider(context: ProviderContext) -> AsyncIterator[Maker]:
    """Open an OpenAI-compatible provider."""
    endpoint = resolve_endpoint(context.provider, context.environ)
    async with open_transport(endpoint, keep_raw=context.keep_raw) as transport:
        yield lambda model: ChatModel(transport, model)


class ChatModel(HttpModel[Completion]):
    """One model behind a chat-completions server."""

    path = "/chat/completions"
    decoder = _DECODER

    def __init__(self, transport: Transport, model: ModelPlan) -> None:
        super().__init__(transport, model, _dialect(model, transport.endpoint))

    def messages(self, ask: ModelRequest, role: SystemRole) -> tuple[Sequence[object], RequestMembers | None]:
        """Return the messages, with tool calls and their outputs in the format of chat completions."""
        turns = with_role(ask.messages, role)
        return (chat_messages(turns, self.tool_names(ask)) if uses_tools(ask.messages) else turns), None

    def tool_members(self, tools: Sequence[ToolDefinition], names: ToolNames) -> RequestMembers:
        """Build `tools`."""
        return chat_tools(tools, names)

    def members(self, sent: SentParameters) -> RequestMembers:
        """Build the parameters; a `response_format` without its schema is filled by each request that has one."""
        members = sent.body()
        if members.get("response_format") == _FILLED:
            del members["response_format"]
        return members

    def schema_members(self, schema: Mapping[str, object], form: ReplyFormat) -> RequestMembers:
        """Build `response_format`, or a tool that the model must call."""
        if form == "json_schema":
            return {"response_format": {"type": "json_schema", "json_schema": schema_format(schema)}}
        if form == "json_object":
            return {"response_format": {"type": "json_object"}}
        if form == "plain":
            return {}
        tool = {"name": REPLY_TOOL, "description": "Give the reply.", "parameters": dict(schema)}
        return {
            "tools": [{"type": "function", "function": tool}],
            "tool_choice": {"type": "function", "function": {"name": REPLY_TOOL}},
        }

    def read(self, result: HttpResult[Completion], applied: RequestMembers | None = None) -> Reply:
        """Parse a body, from a direct call or a batch; raises ModelFailure."""
        completion = result.value
        if completion.choices is None and not completion.error:
            raise self.transport.unexpected(result, "it has no choices", result.request_id or completion.id or "")
        return completion_reply(result, self.applied if applied is None else applied, refused=self.transport.refused)


def completion_reply(
    result: HttpResult[Completion], applied: RequestMembers, *, refused: Callable[[Any, str], ModelFailure]
) -> Reply:
    """Parse a completion; raises ModelFailure when it holds an error or no answer."""
    completion = result.value
    request_id = result.request_id or completion.id or ""
    choice = completion.choices[0] if completion.choices else _NO_CHOICE
    error = completion.error or choice.error
    if error or completion.choices is None:
        raise refused({"error": error or "it has no choices"}, request_id)
    reason = choice.finish_reason or ""
    message = choice.message or _NO_MESSAGE
    calls = _tool_calls(message)
    called = reply_call(calls) if "tool_choice" in applied else None
    answer = ProviderAnswer(
        text=_text(message) if called is None else called,
        finish_reason=_FINISH.get(reason, reason) if called is None else "stop",
        usage=_usage(completion.usage) if completion.usage else _NO_USAGE,
        model=completion.model or "",
        request_id=request_id,
        is_refusal=bool(message.refusal),
        has_tool_calls=called is None and bool(message.tool_calls or calls),
        tool_calls=calls if called is None else (),
        native=_thoughts(message) if calls else None,
        failure_code=_FAILURE_CODES.get(reason, ""),
    )
    return reply_of(answer, result, applied)


def _text(message: _Message) -> str | None:
    """Return the answer; an empty string is one, null is not. A refusal in words is an answer too."""
    content = message.content
    if isinstance(content, str):
        return content or message.refusal or ""
    if content:
        texts = [part.text for part in content if part.text is not None and part.type in _ANSWER_PARTS]
        return "".join(texts) if texts else message.refusal
    return message.refusal


def _usage(usage: _Usage) -> Usage:
    details, output = usage.prompt_tokens_details, usage.completion_tokens_details
    reasoning = output.reasoning_tokens if output else None
    cached = (
        details.cached_tokens if details else None,
        usage.cached_tokens,
        usage.num_cached_tokens,
        usage.prompt_cache_hit_tokens,
    )
    unlisted = _unlisted_tokens(usage)
    return Usage(
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens + unlisted if usage.completion_tokens is not None else None,
        total_tokens=usage.total_tokens,
        cached_tokens=next((count for count in cached if count is not None), None),
        reasoning_tokens=reasoning if reasoning or not unlisted else unlisted,
    )


def _unlisted_tokens(usage: _Usage) -> int:
    """Count the tokens of thoughts that xAI and Google's compatible API leave out of `completion_tokens`, but not of the total."""
    if usage.prompt_tokens is None or usage.completion_tokens is None or usage.total_tokens is None:
        return 0
    return max(0, usage.total_tokens - usage.prompt_tokens - usage.completion_tokens)


def _tool_calls(message: _Message) -> tuple[ToolCall, ...]:
    """Read the calls, and the older form with a single one."""
    found = []
    for entry in message.tool_calls if isinstance(message.tool_calls, list) else ():
        # `custom` tools of OpenAI take a text instead of an object.
        called = entry.get("function") or entry.get("custom") if isinstance(entry, dict) else None
        if isinstance(called, dict) and called.get("name"):
            arguments = called.get("arguments", called.get("input"))
            found.append(tool_call(str(called["name"]), arguments, str(entry.get("id") or "")))
    older = message.function_call
    if not found and isinstance(older, dict) and older.get("name"):
        found.append(tool_call(str(older["name"]), older.get("arguments")))
    return tuple(found)


def _thoughts(message: _Message) -> RequestMembers | None:
    """Return the members that DeepSeek and OpenRouter want back with the calls that they led to."""
    members = {"reasoning_content": message.reasoning_content, "reasoning_details": message.reasoning_details}
    return {name: value for name, value in members.items() if value} or None


def _dialect(model: ModelPlan, endpoint: Endpoint) -> Dialect:
    """Return the names of parameters: those of the provider's row, except at a server that only speaks like OpenAI."""
    sent_names = PROVIDERS[endpoint.kind].sent_names
    has_own_names = endpoint.is_vendor or endpoint.kind != "openai"
    own = {name: sent for sent, name in sent_names.items()} if has_own_names else {}
    usual = {name: (name,) for name in _PARAMETERS}
    # OpenAI deprecates `max_tokens`, and most other servers know nothing else.
    names = {**usual, MAX_TOKENS: ("max_tokens", "max_completion_tokens"), "seed": ("seed", "random_seed")}
    for name, sent in own.items():
        names[name] = (sent, *(other for other in names[name] if other != sent))
    is_set = model.parameters.extra_body.get("response_format", _FILLED) != _FILLED
    return Dialect(names=names, formats=("plain",)) if is_set else Dialect(names=names)


_PARAMETERS = ("temperature", "top_p", "frequency_penalty", "presence_penalty", "reasoning_effort")
