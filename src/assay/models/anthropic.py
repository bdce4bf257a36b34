"""Anthropic's messages API: the system prompt is a separate member, an answer has blocks, cached tokens are counted separately."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from assay.core.canonical import RequestMembers
from assay.core.case import Message
from assay.core.model_call import ModelRequest, Reply, Usage
from assay.core.plan import ModelPlan
from assay.core.tools import ToolDefinition, ToolNames, arguments_object, tool_call
from assay.models.endpoint import resolve_endpoint
from assay.models.http_model import REPLY_TOOL, HttpModel, grouped_turns, merged, reply_call, uses_tools, with_role
from assay.models.negotiation import MAX_TOKENS, THINKING, Dialect, ReplyFormat, SentParameters, SystemRole
from assay.models.provider_protocol import Maker, ProviderContext
from assay.models.requests import schema_of
from assay.models.transport import HttpResult, ProviderAnswer, Transport, open_transport, reply_of

ADAPTIVE = "adaptive"
"""The form of thinking that has no budget; newer models take no other."""

_FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
    "tool_use": "tool_calls",
}


class _Usage(msgspec.Struct, frozen=True):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class _ContentBlock(msgspec.Struct, frozen=True):
    type: str = ""
    text: str | None = None
    name: str | None = None
    input: Any = None
    id: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    """Thoughts that the provider keeps to itself."""


class _MessagesReply(msgspec.Struct, frozen=True):
    content: list[_ContentBlock] | None = None
    stop_reason: str | None = None
    usage: _Usage | None = None
    id: str | None = None
    model: str | None = None
    error: Any = None


_DECODER = msgspec.json.Decoder(_MessagesReply)


@asynccontextmanager
async def open_provider(context: ProviderContext) -> AsyncIterator[Maker]:
    """Open Anthropic, or a server with its messages API."""
    endpoint = resolve_endpoint(context.provider, context.environ)
    async with open_transport(endpoint, keep_raw=context.keep_raw) as transport:
        yield lambda model: MessagesModel(transport, model)


class MessagesModel(HttpModel[_MessagesReply]):
    """One model behind the messages API."""

    path = "/messages"
    decoder = _DECODER

    def __init__(self, transport: Transport, model: ModelPlan) -> None:
        is_set = "format" in (model.parameters.extra_body.get("output_config") or {})
        super().__init__(transport, model, msgspec.structs.replace(_DIALECT, formats=("plain",)) if is_set else _DIALECT)

    def messages(self, ask: ModelRequest, role: SystemRole) -> tuple[Sequence[object], RequestMembers | None]:
        """Return the turns, and the instructions in a member of their own."""
        messages: Sequence[object] = ask.messages
        more: RequestMembers | None = None
        if role != "system":
            messages = with_role(ask.messages, role)
        else:
            system = "\n\n".join(message.content for message in ask.messages if message.role == "system")
            messages = [message for message in ask.messages if message.role != "system"]
            more = {"system": system} if system else None
        return (_turns(messages, self.tool_names(ask)) if uses_tools(ask.messages) else messages), more

    def tool_members(self, tools: Sequence[ToolDefinition], names: ToolNames) -> RequestMembers:
        """Build `tools`."""
        return {
            "tools": [
                {"name": names.sent(tool.name), "description": tool.description, "input_schema": schema_of(tool)} for tool in tools
            ]
        }

    def members(self, sent: SentParameters) -> RequestMembers:
        """Build the parameters; thinking has a budget of its own within the output limit."""
        members, budget = sent.body(), sent.parameters.get(THINKING)
        if "effort" in members:
            members = merged(members, {"output_config": {"effort": members.pop("effort")}})
        if budget is None:
            return members
        is_adaptive = members.pop(sent.names[THINKING]) is not None and sent.names[THINKING] == ADAPTIVE
        thinking = {"type": "adaptive"} if is_adaptive else {"type": "enabled", "budget_tokens": budget}
        return {**members, "thinking": thinking}

    def schema_members(self, schema: Mapping[str, object], form: ReplyFormat) -> RequestMembers:
        """Build `output_config.format`, or a tool that the model must call."""
        if form == "json_schema":
            return {"output_config": {"format": {"type": "json_schema", "schema": dict(schema)}}}
        if form == "plain":
            return {}
        tool = {"name": REPLY_TOOL, "description": "Give the reply.", "input_schema": dict(schema)}
        return {"tools": [tool], "tool_choice": {"type": "tool", "name": REPLY_TOOL}}

    def read(self, result: HttpResult[_MessagesReply], applied: RequestMembers | None = None) -> Reply:
        """Parse a body, from a direct call or a batch; raises ModelFailure."""
        body = result.value
        request_id = result.request_id or body.id or ""
        if body.error:
            raise self.transport.refused({"error": body.error}, request_id)
        if body.content is None:
            raise self.transport.unexpected(result, "it has no content", request_id)
        applied = self.applied if applied is None else applied
        calls = tuple(
            tool_call(block.name or "", block.input, block.id or "") for block in body.content if block.type == "tool_use"
        )
        called = reply_call(calls) if "tool_choice" in applied else None
        texts = [block.text for block in body.content if block.type == "text" and block.text is not None]
        text = "".join(texts) if texts else None
        reason = _FINISH.get(body.stop_reason or "", body.stop_reason or "")
        answer = ProviderAnswer(
            text=text if called is None else called,
            finish_reason="stop" if called is not None and reason == "tool_calls" else reason,
            usage=_usage(body.usage),
            model=body.model or "",
            request_id=request_id,
            # tool_use, server_tool_use and mcp_tool_use.
            has_tool_calls=called is None and any(block.type.endswith("tool_use") for block in body.content),
            tool_calls=calls if called is None else (),
            native=_native(body.content) if calls else None,
        )
        return reply_of(answer, result, applied)


def _usage(usage: _Usage | None) -> Usage:
    """Count the whole input: the API leaves cached tokens out of `input_tokens`."""
    if usage is None:
        return Usage()
    read, written = usage.cache_read_input_tokens, usage.cache_creation_input_tokens
    total_input = None if usage.input_tokens is None else usage.input_tokens + (read or 0) + (written or 0)
    return Usage(input_tokens=total_input, output_tokens=usage.output_tokens, cached_tokens=read)


_SENT_BACK = {
    "thinking": ("thinking", "signature"),
    "redacted_thinking": ("data",),
    "text": ("text",),
    "tool_use": ("id", "name", "input"),
}
"""Members of each type of block that are sent back with the outputs of its calls."""


def _native(content: Sequence[_ContentBlock]) -> list[RequestMembers]:
    # Thoughts before a call have to be sent back unchanged, with their signatures.
    return [
        {"type": block.type, **{name: getattr(block, name) for name in _SENT_BACK[block.type]}}
        for block in content
        if block.type in _SENT_BACK and (block.type != "text" or block.text)
    ]


def _turns(messages: Sequence[object], names: ToolNames) -> list[object]:
    def turn(message: Message) -> object:
        return {"role": message.role, "content": message.native or _blocks(message, names)} if message.tool_calls else message

    def output(message: Message) -> RequestMembers:
        return {"type": "tool_result", "tool_use_id": message.tool_call_id, "content": message.content}

    return grouped_turns(messages, turn, output=output)


def _blocks(message: Message, names: ToolNames) -> list[RequestMembers]:
    text: list[RequestMembers] = [{"type": "text", "text": message.content}] if message.content else []
    return text + [
        {"type": "tool_use", "id": call.id, "name": names.sent(call.name), "input": arguments_object(call)}
        for call in message.tool_calls
    ]


_DIALECT = Dialect(
    # The messages API has neither seed nor penalties, and no role of its own for instructions.
    names={
        MAX_TOKENS: ("max_tokens",),
        "temperature": ("temperature",),
        "top_p": ("top_p",),
        THINKING: ("thinking", ADAPTIVE),
        "reasoning_effort": ("effort",),
    },
    formats=("json_schema", "tools", "plain"),
    roles=("system", "user"),
    requires_limit=True,
)
