"""Anthropic's Message Batches: one request creates a batch of many, and one file holds all of its results."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec

from assay.core.model_call import ModelFailure, ModelRequest, Reply
from assay.core.plan import ModelPlan
from assay.models.anthropic import MessagesModel
from assay.models.batch_api import (
    PAGES,
    BatchableModel,
    BatchKey,
    BatchMatch,
    BatchResult,
    BatchStatus,
    BatchUpload,
    ByteSink,
    RequestFraming,
    checked_id,
    earliest,
    pieces_of,
    read_result,
)
from assay.models.endpoint import resolve_endpoint
from assay.models.provider_protocol import ProviderContext
from assay.models.transport import Transport, open_transport

FRAMING = RequestFraming(opening=b'{"requests":[', separator=b",\n", closing=b"]}")
_encode = msgspec.json.Encoder().encode


class _Counts(msgspec.Struct, frozen=True):
    processing: int = 0
    succeeded: int = 0
    errored: int = 0
    canceled: int = 0
    expired: int = 0

    @property
    def done(self) -> int:
        """Requests that are finished, with or without an answer."""
        return self.succeeded + self.errored + self.canceled + self.expired


class _Batch(msgspec.Struct, frozen=True):
    id: str
    processing_status: str = ""
    created_at: str = ""
    results_url: str | None = None
    request_counts: _Counts = _Counts()


class _Page(msgspec.Struct, frozen=True):
    data: list[_Batch]
    has_more: bool = False


class _ResultBody(msgspec.Struct, frozen=True):
    type: str
    message: msgspec.Raw = msgspec.Raw()
    error: Any = None


class _AnthropicLine(msgspec.Struct, frozen=True):
    custom_id: str
    result: _ResultBody


_BATCH = msgspec.json.Decoder(_Batch)
_PAGE = msgspec.json.Decoder(_Page)
_LINE = msgspec.json.Decoder(_AnthropicLine)
_UNANSWERED = {"canceled": "batch_cancelled", "expired": "batch_expired"}


@asynccontextmanager
async def open_batches(context: ProviderContext, model: ModelPlan) -> AsyncIterator["AnthropicBatches"]:
    """Open the Message Batches of Anthropic, or of a server with that API, for one model."""
    endpoint = resolve_endpoint(context.provider, context.environ)
    async with open_transport(endpoint, keep_raw=context.keep_raw) as transport:
        yield AnthropicBatches(transport, MessagesModel(transport, model))


class AnthropicBatches:
    """Batch client for one model."""

    framing = FRAMING

    def __init__(self, transport: Transport, model: BatchableModel) -> None:
        self._transport = transport
        self._model = model

    def line(self, custom_id: str, ask: ModelRequest) -> bytes:
        """Encode one request as an entry of the file."""
        return b'{"custom_id":' + _encode(custom_id) + b',"params":' + self._model.request(ask) + b"}"

    async def upload(self, _: BatchUpload, /) -> str:
        """Do nothing: the requests are sent when the batch is created."""
        return ""

    async def create(self, batch_file: BatchUpload, /) -> str:
        """Create a batch with all requests of the file."""
        result = await self._transport.upload(
            "/messages/batches",
            pieces_of(batch_file.file),
            size=batch_file.size,
            content_type="application/json",
            decoder=_BATCH,
        )
        return checked_id(result.value.id, self._transport)

    async def find(self, key: BatchKey) -> list[BatchMatch]:
        """Find recent batches of the same size: they have no names, so only their results show whose they are."""
        found: list[BatchMatch] = []
        after = ""
        for _ in range(PAGES):
            listed = await self._transport.get(f"/messages/batches?limit=100{after}", decoder=_PAGE)
            page, since = listed.value, earliest(key, listed.date)
            recent = [batch for batch in page.data if _seconds(batch.created_at) >= since]
            same_size = [batch for batch in recent if batch.request_counts.processing + batch.request_counts.done == key.requests]
            found += [BatchMatch(checked_id(batch.id, self._transport), is_certain=False) for batch in same_size]
            if not page.has_more or len(recent) < len(page.data) or not page.data:
                break
            after = f"&after_id={checked_id(page.data[-1].id, self._transport)}"
        return found

    async def look(self, batch_id: str) -> BatchStatus:
        """Poll a batch."""
        batch = (await self._transport.get(f"/messages/batches/{batch_id}", decoder=_BATCH)).value
        counts = batch.request_counts
        is_ended = batch.processing_status == "ended"
        return BatchStatus(
            id=batch_id,
            word=batch.processing_status,
            is_ended=is_ended,
            total=counts.processing + counts.done,
            done=counts.done,
            # The URL that the batch names may be on another host, which must not get the key; the path is documented.
            files=(f"/messages/batches/{batch_id}/results",) if is_ended and batch.results_url else (),
        )

    async def cancel(self, batch_id: str) -> None:
        """Cancel a batch; requests in progress are still answered."""
        await self._transport.post(self._transport.head(f"/messages/batches/{batch_id}/cancel"), b"", decoder=_BATCH)

    async def fetch(self, path: str, sink: ByteSink) -> None:
        """Download the file of results to the sink."""
        await self._transport.download(path, sink)

    def read(self, line: bytes) -> BatchResult:
        """Parse one line of results; raises MalformedResult."""
        return read_result(line, _LINE, lambda found: self._reply(found.result))

    def _reply(self, result: _ResultBody) -> Reply:
        if result.type in _UNANSWERED:
            raise ModelFailure(_UNANSWERED[result.type], "the batch ended before the request was answered")
        if result.type != "succeeded":
            inner = result.error.get("error", result.error) if isinstance(result.error, dict) else result.error
            raise self._transport.refused({"error": inner or f"its result is of the type '{result.type}'"}, "")
        return self._model.read(self._transport.decoded(200, bytes(result.message), self._model.decoder))


def _seconds(at: str) -> float:
    """Parse a provider's time into seconds since 1970; an invalid one counts as now, because the batch may be ours."""
    try:
        return datetime.fromisoformat(at).timestamp()
    except ValueError:
        return datetime.now(UTC).timestamp()
