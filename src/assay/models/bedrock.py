"""Amazon Bedrock's Converse: one form of request for all its models, with the model in the path and a key as a bearer token."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from assay.core.canonical import RequestMembers
from assay.core.case import Message
from assay.core.model_call import ModelRequest, Reply, Usage
from assay.core.plan import ModelPlan
from assay.core.provider import MODEL_MARK
from assay.core.tools import ToolDefinition, ToolNames, arguments_object, tool_call
from assay.models.endpoint import resolve_endpoint
from assay.models.http_model import REPLY_TOOL, HttpModel, grouped_turns, merged, reply_call, with_role
from assay.models.negotiation import MAX_TOKENS, THINKING, Dialect, ReplyFormat, SentParameters, SystemRole, nested
from assay.models.provider_protocol import Maker, ProviderContext
from assay.models.requests import schema_format, schema_of
from assay.models.transport import HttpResult, ProviderAnswer, Transport, open_transport, reply_of

_FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "guardrail_intervened": "content_filter",
    "content_filtered": "content_filter",
    "tool_use": "tool_calls",
    "malformed_tool_use": "tool_calls",
}
_FAILURE_CODES = {"malformed_model_output": "internal_error"}
"""Stop reasons that are errors."""


class _ToolUse(msgspec.Struct, frozen=True, rename="camel"):
    name: str | None = None
    input: Any = None
    tool_use_id: str | None = None


class _CitedText(msgspec.Struct, frozen=True):
    text: str | None = None


class _CitationsContent(msgspec.Struct, frozen=True):
    content: list[_CitedText] | None = None


class _ContentBlock(msgspec.Struct, frozen=True, rename="camel"):
    """One block; those with thoughts and media have other members."""

    text: str | None = None
    citations_content: _CitationsContent | None = None
    """A part of the answer that cites documents."""
    tool_use: _ToolUse | None = None
    reasoning_content: Any = None


class _Message(msgspec.Struct, frozen=True):
    content: list[_ContentBlock] | None = None


class _Output(msgspec.Struct, frozen=True):
    message: _Message | None = None


class _TokenUsage(msgspec.Struct, frozen=True, rename="camel"):
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_write_input_tokens: int | None = None


class _Converse(msgspec.Struct, frozen=True, rename="camel"):
    output: _Output | None = None
    stop_reason: str | None = None
    usage: _TokenUsage | None = None
    error: Any = None


_DECODER = msgspec.json.Decoder(_Converse)


@asynccontextmanager
async def open_provider(context: ProviderContext) -> AsyncIterator[Maker]:
    """Open Bedrock's runtime in a region, or a server that speaks Converse."""
    endpoint = resolve_endpoint(context.provider, context.environ)
    async with open_transport(endpoint, keep_raw=context.keep_raw) as transport:
        yield lambda model: ConverseModel(transport, model)


class ConverseModel(HttpModel[_Converse]):
    """One model, inference profile or prompt router behind Converse."""

    path = f"/model/{MODEL_MARK}/converse"
    names_model = False
    decoder = _DECODER

    def __init__(self, transport: Transport, model: ModelPlan) -> None:
        is_set = "outputConfig" in model.parameters.extra_body
        super().__init__(transport, model, msgspec.structs.replace(_DIALECT, formats=("plain",)) if is_set else _DIALECT)

    def messages(self, ask: ModelRequest, role: SystemRole) -> tuple[Sequence[object], RequestMembers | None]:
        """Return the turns, and the instructions in a member of their own."""
        if role != "system":
            return _turns(with_role(ask.messages, role), self.tool_names(ask)), None
        system = [{"text": message.content} for message in ask.messages if message.role == "system"]
        turns = _turns([message for message in ask.messages if message.role != "system"], self.tool_names(ask))
        return turns, {"system": system} if system else None

    def tool_members(self, tools: Sequence[ToolDefinition], names: ToolNames) -> RequestMembers:
        """Build `toolConfig`; descriptions must not be empty here."""
        specs = [
            {
                "name": names.sent(tool.name),
                "description": tool.description or tool.name,
                "inputSchema": {"json": schema_of(tool)},
            }
            for tool in tools
        ]
        return {"toolConfig": {"tools": [{"toolSpec": spec} for spec in specs]}}

    def members(self, sent: SentParameters) -> RequestMembers:
        """Build the parameters: those of all models, and those that only some know."""
        config: RequestMembers = {}
        own: RequestMembers = {}
        for name, value in sent.parameters.items():
            if name == THINKING:
                own = merged(own, {_FIELDS: {"thinking": {"type": "enabled", "budget_tokens": value}}})
            elif name == "reasoning_effort":
                own = merged(own, {_FIELDS: {sent.names[name]: value}})
            elif name in _DIALECT.names:
                config[sent.names[name]] = value
            else:
                own = merged(own, nested(sent.names[name], value, _DIALECT.containers))
        return merged({"inferenceConfig": config} if config else {}, own)

    def schema_members(self, schema: Mapping[str, object], form: ReplyFormat) -> RequestMembers:
        """Build `outputConfig.textFormat`, or a tool that the model must call."""
        if form == "json_schema":
            named = schema_format(schema)
            # The schema is a text inside the request.
            structure = {"jsonSchema": {"name": named["name"], "schema": msgspec.json.encode(named["schema"]).decode()}}
            return {"outputConfig": {"textFormat": {"type": "json_schema", "structure": structure}}}
        if form == "plain":
            return {}
        spec = {"name": REPLY_TOOL, "description": "Give the reply.", "inputSchema": {"json": dict(schema)}}
        return {"toolConfig": {"tools": [{"toolSpec": spec}], "toolChoice": {"tool": {"name": REPLY_TOOL}}}}

    def read(self, result: HttpResult[_Converse], applied: RequestMembers | None = None) -> Reply:
        """Parse a body; raises ModelFailure."""
        body = result.value
        message = body.output.message if body.output else None
        if body.error:
            raise self.transport.refused({"error": body.error}, result.request_id)
        if message is None or message.content is None:
            raise self.transport.unexpected(result, "it has no output", result.request_id)
        applied = self.applied if applied is None else applied
        used = (block.tool_use for block in message.content)
        calls = tuple(tool_call(call.name or "", call.input, call.tool_use_id or "") for call in used if call)
        called = reply_call(calls) if "toolConfig" in applied else None
        texts = [text for block in message.content for text in _texts(block)]
        reason = body.stop_reason or ""
        finish = _FINISH.get(reason, reason)
        answer = ProviderAnswer(
            text="".join(texts) if texts and called is None else called,
            finish_reason="stop" if called is not None and finish == "tool_calls" else finish,
            usage=_usage(body.usage),
            # The reply does not say which model answered.
            model="",
            request_id=result.request_id,
            explanation=reason if finish == "content_filter" else "",
            has_tool_calls=called is None and bool(calls),
            tool_calls=calls if called is None else (),
            native=_native(message.content) if calls else None,
            failure_code=_FAILURE_CODES.get(reason, ""),
        )
        return reply_of(answer, result, applied)


def _texts(block: _ContentBlock) -> list[str]:
    cited = (block.citations_content.content if block.citations_content else None) or []
    return [text for text in (block.text, *(part.text for part in cited)) if text is not None]


def _native(content: Sequence[_ContentBlock]) -> list[RequestMembers]:
    # Thoughts before a call have to be sent back unchanged.
    found: list[RequestMembers] = []
    for block in content:
        if block.reasoning_content is not None:
            found.append({"reasoningContent": block.reasoning_content})
        if block.text:
            found.append({"text": block.text})
        if block.tool_use is not None:
            use = block.tool_use
            found.append({"toolUse": {"toolUseId": use.tool_use_id, "name": use.name, "input": use.input}})
    return found


def _turns(messages: Sequence[object], names: ToolNames) -> list[object]:
    def output(message: Message) -> RequestMembers:
        return {"toolResult": {"toolUseId": message.tool_call_id, "content": [{"text": message.content}]}}

    return grouped_turns(messages, lambda message: {"role": message.role, "content": _blocks(message, names)}, output=output)


def _blocks(message: Message, names: ToolNames) -> object:
    if not message.tool_calls:
        return [{"text": message.content}]
    text: list[RequestMembers] = [{"text": message.content}] if message.content else []
    uses = [
        {"toolUse": {"toolUseId": call.id, "name": names.sent(call.name), "input": arguments_object(call)}}
        for call in message.tool_calls
    ]
    return message.native or text + uses


def _usage(usage: _TokenUsage | None) -> Usage:
    """Count the whole input: the API leaves cached tokens out of `inputTokens`."""
    if usage is None:
        return Usage()
    read, written = usage.cache_read_input_tokens, usage.cache_write_input_tokens
    total_input = None if usage.input_tokens is None else usage.input_tokens + (read or 0) + (written or 0)
    return Usage(input_tokens=total_input, output_tokens=usage.output_tokens, total_tokens=usage.total_tokens, cached_tokens=read)


_FIELDS = "additionalModelRequestFields"
_DIALECT = Dialect(
    # Converse has neither seed nor penalties.
    names={
        "temperature": ("temperature",),
        "top_p": ("topP",),
        MAX_TOKENS: ("maxTokens",),
        THINKING: ("thinking",),
        "reasoning_effort": ("reasoning_effort",),
    },
    formats=("json_schema", "tools", "plain"),
    roles=("system", "user"),
    containers=("inferenceConfig", _FIELDS),
)
