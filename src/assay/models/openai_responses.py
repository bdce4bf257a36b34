"""OpenAI's responses API: the same models as chat completions, with reasoning as a separate part."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from assay.core.canonical import RequestMembers
from assay.core.case import Message
from assay.core.model_call import ModelRequest, Reply, Usage
from assay.core.plan import ModelPlan
from assay.core.tools import ToolCall, ToolDefinition, ToolNames, arguments_text, tool_call
from assay.models.endpoint import resolve_endpoint
from assay.models.http_model import REPLY_TOOL, HttpModel, reply_call, uses_tools, with_role
from assay.models.negotiation import MAX_TOKENS, Dialect, ReplyFormat, SentParameters, SystemRole
from assay.models.provider_protocol import Maker, ProviderContext
from assay.models.requests import schema_format, schema_of
from assay.models.transport import HttpResult, ProviderAnswer, Transport, open_transport, reply_of

_INCOMPLETE = {"max_output_tokens": "length", "max_tokens": "length", "content_filter": "content_filter"}


class _InputDetails(msgspec.Struct, frozen=True):
    cached_tokens: int | None = None


class _OutputDetails(msgspec.Struct, frozen=True):
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct, frozen=True):
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    input_tokens_details: _InputDetails | None = None
    output_tokens_details: _OutputDetails | None = None


class _Part(msgspec.Struct, frozen=True):
    type: str = ""
    text: str | None = None
    refusal: str | None = None


class _OutputItem(msgspec.Struct, frozen=True):
    type: str = ""
    content: list[_Part] | None = None
    name: str | None = None
    arguments: Any = None
    input: Any = None
    """The text that a custom tool is called with."""
    call_id: str | None = None


class _IncompleteDetails(msgspec.Struct, frozen=True):
    reason: str | None = None


class _Response(msgspec.Struct, frozen=True):
    output: list[_OutputItem] | None = None
    status: str | None = None
    usage: _Usage | None = None
    id: str | None = None
    model: str | None = None
    error: Any = None
    incomplete_details: _IncompleteDetails | None = None


_FAILURE_CODES = {"failed": "internal_error", "cancelled": "internal_error"}
"""Statuses that are errors."""
_DECODER = msgspec.json.Decoder(_Response)


@asynccontextmanager
async def open_provider(context: ProviderContext) -> AsyncIterator[Maker]:
    """Open a provider of the responses API."""
    endpoint = resolve_endpoint(context.provider, context.environ)
    async with open_transport(endpoint, keep_raw=context.keep_raw) as transport:
        yield lambda model: ResponsesModel(transport, model)


class ResponsesModel(HttpModel[_Response]):
    """One model behind the responses API."""

    path = "/responses"
    messages_member = "input"
    decoder = _DECODER

    def __init__(self, transport: Transport, model: ModelPlan) -> None:
        is_set = "text" in model.parameters.extra_body
        super().__init__(transport, model, msgspec.structs.replace(_DIALECT, formats=("plain",)) if is_set else _DIALECT)

    def messages(self, ask: ModelRequest, role: SystemRole) -> tuple[Sequence[object], RequestMembers | None]:
        """Return the messages; tool calls and their outputs are items of their own."""
        turns = with_role(ask.messages, role)
        return (_items(turns, self.tool_names(ask)) if uses_tools(ask.messages) else turns), None

    def tool_members(self, tools: Sequence[ToolDefinition], names: ToolNames) -> RequestMembers:
        """Build `tools`; strict mode would refuse schemas with optional members."""
        functions = [
            {"name": names.sent(tool.name), "description": tool.description, "parameters": schema_of(tool), "strict": False}
            for tool in tools
        ]
        return {"tools": [{"type": "function", **function} for function in functions]}

    def members(self, sent: SentParameters) -> RequestMembers:
        """Build the parameters; no evaluation data is left at the provider unless the plan says so."""
        members = sent.body()
        if isinstance(members.get("reasoning"), str):
            members["reasoning"] = {"effort": members["reasoning"]}
        return {"store": False, **members}

    def schema_members(self, schema: Mapping[str, object], form: ReplyFormat) -> RequestMembers:
        """Build `text.format`, or a tool that the model must call."""
        if form == "json_schema":
            return {"text": {"format": {"type": "json_schema", **schema_format(schema)}}}
        if form == "json_object":
            return {"text": {"format": {"type": "json_object"}}}
        if form == "plain":
            return {}
        tool = {
            "type": "function",
            "name": REPLY_TOOL,
            "description": "Give the reply.",
            "parameters": dict(schema),
            "strict": False,
        }
        return {"tools": [tool], "tool_choice": {"type": "function", "name": REPLY_TOOL}}

    def read(self, result: HttpResult[_Response], applied: RequestMembers | None = None) -> Reply:
        """Parse a body, from a direct call or a batch; raises ModelFailure."""
        response = result.value
        request_id = result.request_id or response.id or ""
        if response.error:
            raise self.transport.refused({"error": response.error}, request_id)
        if response.output is None:
            raise self.transport.unexpected(result, "it has no output", request_id)
        parts = [part for item in response.output if item.type == "message" for part in item.content or ()]
        applied = self.applied if applied is None else applied
        calls = tuple(
            tool_call(item.name or "", item.input if item.arguments is None else item.arguments, item.call_id or "")
            for item in response.output
            if item.type in ("function_call", "custom_tool_call")
        )
        called = reply_call(calls) if "tool_choice" in applied else None
        text = "".join(part.text or part.refusal or "" for part in parts) if parts else None
        answer = ProviderAnswer(
            text=text if called is None else called,
            finish_reason=_finish_reason(response),
            usage=_usage(response.usage),
            model=response.model or "",
            request_id=request_id,
            is_refusal=any(part.refusal for part in parts),
            # function_call, custom_tool_call, web_search_call and so on: each kind of call is an item type of its own.
            has_tool_calls=called is None and any(item.type.endswith("_call") for item in response.output),
            tool_calls=calls if called is None else (),
            failure_code=_FAILURE_CODES.get(response.status or "", ""),
        )
        return reply_of(answer, result, applied)


def _finish_reason(response: _Response) -> str:
    reason = (response.incomplete_details.reason if response.incomplete_details else None) or ""
    if reason:
        return _INCOMPLETE.get(reason, reason)
    return "stop" if response.status in (None, "completed") else str(response.status)


def _usage(usage: _Usage | None) -> Usage:
    if usage is None:
        return Usage()
    details, output = usage.input_tokens_details, usage.output_tokens_details
    return Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        total_tokens=usage.total_tokens,
        cached_tokens=details.cached_tokens if details else None,
        reasoning_tokens=output.reasoning_tokens if output else None,
    )


def _items(messages: Sequence[object], names: ToolNames) -> list[object]:
    """Build the input: a turn with tool calls is its text and an item for each call."""
    items: list[object] = []
    for message in messages:
        if isinstance(message, Message) and message.role == "tool":
            items.append({"type": "function_call_output", "call_id": message.tool_call_id, "output": message.content})
        elif isinstance(message, Message) and message.tool_calls:
            items += [Message(message.role, message.content)] if message.content else []
            items += [_call_item(call, names) for call in message.tool_calls]
        else:
            items.append(message)
    return items


def _call_item(call: ToolCall, names: ToolNames) -> RequestMembers:
    return {"type": "function_call", "call_id": call.id, "name": names.sent(call.name), "arguments": arguments_text(call)}


_DIALECT = Dialect(
    # The responses API has neither seed nor penalties.
    names={
        "temperature": ("temperature",),
        "top_p": ("top_p",),
        MAX_TOKENS: ("max_output_tokens",),
        "reasoning_effort": ("reasoning",),
    }
)
