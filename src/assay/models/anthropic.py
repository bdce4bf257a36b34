"""Anthropic's messages API: the system prompt is a separate member, an answer has blocks, cached tokens are counted separately."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from assay.core.canonical import JsonObject
from assay.core.model_call import ModelRequest, Reply, Usage
from assay.core.plan import ModelPlan
from assay.models.endpoint import resolve_endpoint
from assay.models.provider_protocol import Maker, ProviderContext
from assay.models.requests import BodyWriter, applied_parameters
from assay.models.transport import HttpResult, ProviderAnswer, Transport, open_transport, reply_of

MAX_TOKENS = 4096
"""Default limit, which the API requires when the plan has none."""

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


class MessagesModel:
    """One model behind the messages API."""

    path = "/messages"
    decoder = _DECODER

    def __init__(self, transport: Transport, model: ModelPlan) -> None:
        self._transport = transport
        self._head = transport.head(self.path)
        self._applied = _parameters(model)
        self._body = BodyWriter({"model": model.model}, "messages", self._applied)

    async def reply(self, ask: ModelRequest) -> Reply:
        """Make one attempt; raises ModelFailure. A reply schema is not sent: not every model accepts one."""
        return self.read(await self._transport.post(self._head, self.request(ask), decoder=_DECODER))

    def request(self, ask: ModelRequest) -> bytes:
        """Build the body of the HTTP request."""
        system = "\n\n".join(message.content for message in ask.messages if message.role == "system")
        turns = [message for message in ask.messages if message.role != "system"]
        return self._body.write(turns, {"system": system} if system else None)

    def read(self, result: HttpResult[_MessagesReply]) -> Reply:
        """Parse a body, from a direct call or a batch; raises ModelFailure."""
        body = result.value
        request_id = result.request_id or body.id or ""
        if body.error or body.content is None:
            raise self._transport.refused({"error": body.error or "it has no content"}, request_id)
        texts = [block.text for block in body.content if block.type == "text" and block.text is not None]
        answer = ProviderAnswer(
            text="".join(texts) if texts else None,
            finish_reason=_FINISH.get(body.stop_reason or "", body.stop_reason or ""),
            usage=_usage(body.usage),
            model=body.model or "",
            request_id=request_id,
            # tool_use, server_tool_use and mcp_tool_use.
            has_tool_calls=any(block.type.endswith("tool_use") for block in body.content),
        )
        return reply_of(answer, result, self._applied)


def _usage(usage: _Usage | None) -> Usage:
    """Count the whole input: the API leaves cached tokens out of `input_tokens`."""
    if usage is None:
        return Usage()
    read, written = usage.cache_read_input_tokens, usage.cache_creation_input_tokens
    total_input = None if usage.input_tokens is None else usage.input_tokens + (read or 0) + (written or 0)
    return Usage(input_tokens=total_input, output_tokens=usage.output_tokens, cached_tokens=read)


def _parameters(model: ModelPlan) -> JsonObject:
    """Build the parameters; the API has neither seed nor penalties, and no temperature with thinking. Lists only sent ones."""
    wanted = model.parameters
    budget = wanted.thinking_budget
    return applied_parameters(
        {
            "max_tokens": wanted.max_tokens or MAX_TOKENS + (budget or 0),
            "temperature": None if budget else wanted.temperature,
            "top_p": None if budget else wanted.top_p,
            "thinking": {"type": "enabled", "budget_tokens": budget} if budget else None,
            "output_config": {"effort": wanted.reasoning_effort} if wanted.reasoning_effort else None,
        },
        wanted.extra_body,
    )
