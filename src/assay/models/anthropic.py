"""Anthropic's messages: the system prompt apart, an answer in blocks, cached tokens counted beside the others."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from assay.core.ask import Ask, Reply, Usage
from assay.core.plan import ModelPlan
from assay.models.answers import Answered, reply_of
from assay.models.body import BodyWriter, applied_parameters
from assay.models.endpoint import resolve_endpoint
from assay.models.opening import Maker, Opening
from assay.models.transport import Exchanged, Transport, open_transport

MAX_TOKENS = 4096
"""The API wants a limit in every request; this is sent where the plan has none."""

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


class _Block(msgspec.Struct, frozen=True):
    type: str = ""
    text: str | None = None


class _Answer(msgspec.Struct, frozen=True):
    content: list[_Block] | None = None
    stop_reason: str | None = None
    usage: _Usage | None = None
    id: str | None = None
    model: str | None = None
    error: Any = None


_DECODER = msgspec.json.Decoder(_Answer)


@asynccontextmanager
async def open_provider(opening: Opening) -> AsyncIterator[Maker]:
    """Anthropic, or a server that speaks its messages, ready to make its models."""
    endpoint = resolve_endpoint(opening.provider, opening.environ)
    async with open_transport(endpoint, keep_raw=opening.keep_raw) as transport:
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

    async def reply(self, ask: Ask) -> Reply:
        """One attempt at one ask; raises ModelFailure. A reply schema is not sent: not every model takes one."""
        return self.read(await self._transport.post(self._head, self.request(ask), decoder=_DECODER))

    def request(self, ask: Ask) -> bytes:
        """The body of the request that asks it."""
        system = "\n\n".join(message.content for message in ask.messages if message.role == "system")
        turns = [message for message in ask.messages if message.role != "system"]
        return self._body.write(turns, {"system": system} if system else None)

    def read(self, exchanged: Exchanged[_Answer]) -> Reply:
        """What a body says, however it came; raises ModelFailure."""
        answer = exchanged.value
        request_id = exchanged.request_id or answer.id or ""
        if answer.error or answer.content is None:
            raise self._transport.refused({"error": answer.error or "it has no content"}, request_id)
        texts = [block.text for block in answer.content if block.type == "text" and block.text is not None]
        answered = Answered(
            text="".join(texts) if texts else None,
            finish_reason=_FINISH.get(answer.stop_reason or "", answer.stop_reason or ""),
            usage=_usage(answer.usage),
            model=answer.model or "",
            request_id=request_id,
            # tool_use, server_tool_use and mcp_tool_use.
            has_tool_calls=any(block.type.endswith("tool_use") for block in answer.content),
        )
        return reply_of(answered, exchanged, self._applied)


def _usage(usage: _Usage | None) -> Usage:
    """Input is counted whole: the API leaves cached tokens out of `input_tokens`."""
    if usage is None:
        return Usage()
    read, written = usage.cache_read_input_tokens, usage.cache_creation_input_tokens
    total_input = None if usage.input_tokens is None else usage.input_tokens + (read or 0) + (written or 0)
    return Usage(input_tokens=total_input, output_tokens=usage.output_tokens, cached_tokens=read)


def _parameters(model: ModelPlan) -> dict[str, Any]:
    """The API has neither seed nor penalties, and no temperature beside thinking; what is not sent is not among the applied."""
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
