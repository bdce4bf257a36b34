"""OpenAI's responses API: the same models as chat completions, with reasoning as a separate part."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from assay.core.canonical import JsonObject
from assay.core.model_call import ModelRequest, Reply, Usage
from assay.core.plan import ModelPlan
from assay.models.endpoint import resolve_endpoint
from assay.models.provider_protocol import Maker, ProviderContext
from assay.models.requests import BodyWriter, applied_parameters, refuses_sampling, schema_format
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


class ResponsesModel:
    """One model behind the responses API."""

    path = "/responses"
    decoder = _DECODER

    def __init__(self, transport: Transport, model: ModelPlan) -> None:
        self._transport = transport
        self._head = transport.head(self.path)
        self._applied = _parameters(model, is_vendor=transport.endpoint.is_vendor)
        self._takes_schema = "text" not in self._applied
        # Do not leave evaluation data at the provider unless the plan says so.
        stored = {} if "store" in self._applied else {"store": False}
        self._body = BodyWriter({"model": model.model, **stored}, "input", self._applied)

    async def reply(self, ask: ModelRequest) -> Reply:
        """Make one attempt; raises ModelFailure."""
        extra = self._extra(ask)
        result = await self._transport.post(self._head, self._body.write(ask.messages, extra), decoder=_DECODER)
        return self.read(result, {**self._applied, **extra} if extra else self._applied)

    def request(self, ask: ModelRequest) -> bytes:
        """Build the body of the HTTP request."""
        return self._body.write(ask.messages, self._extra(ask))

    def _extra(self, ask: ModelRequest) -> JsonObject | None:
        return _text_format(ask.reply_schema) if self._takes_schema and ask.reply_schema else None

    def read(self, result: HttpResult[_Response], applied: JsonObject | None = None) -> Reply:
        """Parse a body, from a direct call or a batch; raises ModelFailure."""
        response = result.value
        request_id = result.request_id or response.id or ""
        if response.error or response.output is None:
            raise self._transport.refused({"error": response.error or "it has no output"}, request_id)
        parts = [part for item in response.output if item.type == "message" for part in item.content or ()]
        answer = ProviderAnswer(
            text="".join(part.text or part.refusal or "" for part in parts) if parts else None,
            finish_reason=_finish_reason(response),
            usage=_usage(response.usage),
            model=response.model or "",
            request_id=request_id,
            is_refusal=any(part.refusal for part in parts),
            # function_call, custom_tool_call, web_search_call and so on: each kind of call is an item type of its own.
            has_tool_calls=any(item.type.endswith("_call") for item in response.output),
            failure_code=_FAILURE_CODES.get(response.status or "", ""),
        )
        return reply_of(answer, result, self._applied if applied is None else applied)


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


def _parameters(model: ModelPlan, *, is_vendor: bool) -> JsonObject:
    """Build the parameters; the responses API has neither seed nor penalties. Lists only sent ones."""
    wanted = model.parameters
    samples = not (is_vendor and refuses_sampling(model.model))
    return applied_parameters(
        {
            "temperature": wanted.temperature if samples else None,
            "top_p": wanted.top_p if samples else None,
            "max_output_tokens": wanted.max_tokens,
            "reasoning": {"effort": wanted.reasoning_effort} if wanted.reasoning_effort else None,
        },
        wanted.extra_body,
    )


def _text_format(schema: Mapping[str, object]) -> JsonObject:
    return {"text": {"format": {"type": "json_schema", **schema_format(schema)}}}
