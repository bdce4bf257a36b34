"""OpenAI's responses API: the same models as chat completions, with reasoning as a separate part."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from assay.core.canonical import RequestMembers
from assay.core.model_call import Reply, Usage
from assay.core.plan import ModelPlan
from assay.models.endpoint import resolve_endpoint
from assay.models.http_model import REPLY_TOOL, HttpModel, tool_text
from assay.models.negotiation import MAX_TOKENS, Dialect, ReplyFormat, SentParameters
from assay.models.provider_protocol import Maker, ProviderContext
from assay.models.requests import schema_format
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
        called = _reply_call(response.output) if "tool_choice" in applied else None
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


def _reply_call(output: list[_OutputItem]) -> str | None:
    """Return the input of the call by which the model replies, where it was told to reply by one."""
    calls = (item for item in output if item.type == "function_call" and item.name == REPLY_TOOL)
    return next((tool_text(call.arguments) for call in calls), None)


_DIALECT = Dialect(
    # The responses API has neither seed nor penalties.
    names={
        "temperature": ("temperature",),
        "top_p": ("top_p",),
        MAX_TOKENS: ("max_output_tokens",),
        "reasoning_effort": ("reasoning",),
    }
)
