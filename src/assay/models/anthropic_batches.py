"""Anthropic's Message Batches: one request creates a batch of many, and one file holds all of its results."""

from datetime import UTC, datetime
from typing import Any

import msgspec

from assay.core.model_call import ModelFailure, ModelRequest, Reply
from assay.core.plan import ModelPlan
from assay.core.provider import ProviderKind
from assay.models.anthropic import MessagesModel
from assay.models.batch_api import (
    BatchClient,
    BatchKey,
    BatchMatch,
    BatchStatus,
    BatchUpload,
    RequestFraming,
    checked_id,
    pieces_of,
)
from assay.models.transport import Transport

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


_UNANSWERED = {"canceled": "batch_cancelled", "expired": "batch_expired"}


def batch_client(transport: Transport, model: ModelPlan, *, kind: ProviderKind) -> BatchClient:  # noqa: ARG001  # one kind only
    """Create the client of Anthropic, or of a server with that API, for one model."""
    return AnthropicBatches(transport, MessagesModel(transport, model))


class AnthropicBatches(BatchClient):
    """Batches without names, each created with all of its requests."""

    framing = RequestFraming(opening=b'{"requests":[', separator=b",\n", closing=b"]}")
    path = "/messages/batches"
    cursor = "after_id"
    batch_decoder = msgspec.json.Decoder(_Batch)
    page_decoder = msgspec.json.Decoder(_Page)
    line_decoder = msgspec.json.Decoder(_AnthropicLine)

    def line(self, custom_id: str, ask: ModelRequest) -> bytes:
        """Encode one request as an entry of the file."""
        return b'{"custom_id":' + _encode(custom_id) + b',"params":' + self.model.request(ask) + b"}"

    async def upload(self, _: BatchUpload, /) -> str:
        """Do nothing: the requests are sent when the batch is created."""
        return ""

    async def create(self, batch_file: BatchUpload, /) -> str:
        """Create a batch with all requests of the file."""
        pieces = pieces_of(batch_file.file)
        result = await self.transport.upload(
            self.path, pieces, size=batch_file.size, content_type="application/json", decoder=self.batch_decoder
        )
        return checked_id(result.value.id, self.transport)

    def created_at(self, batch: _Batch) -> float:
        """Parse the provider's time; an invalid one counts as now, because the batch may be ours."""
        try:
            return datetime.fromisoformat(batch.created_at).timestamp()
        except ValueError:
            return datetime.now(UTC).timestamp()

    def match(self, batch: _Batch, key: BatchKey, *, is_recent: bool) -> BatchMatch | None:
        """Match recent batches of the same size: they have no names, so only their results show whose they are."""
        counts = batch.request_counts
        is_same = is_recent and counts.processing + counts.done == key.requests
        return BatchMatch(checked_id(batch.id, self.transport), is_certain=False) if is_same else None

    def status(self, batch_id: str, batch: _Batch) -> BatchStatus:
        """Describe a batch by its counts; it has results once it has ended."""
        counts = batch.request_counts
        is_ended = batch.processing_status == "ended"
        return BatchStatus(
            id=batch_id,
            word=batch.processing_status,
            is_ended=is_ended,
            total=counts.processing + counts.done,
            done=counts.done,
            # The URL that the batch names may be on another host, which must not get the key; the path is documented.
            files=(f"{self.path}/{batch_id}/results",) if is_ended and batch.results_url else (),
        )

    def reply(self, line: _AnthropicLine) -> Reply:
        """Parse a line of results; raises ModelFailure."""
        result = line.result
        if result.type in _UNANSWERED:
            raise ModelFailure(_UNANSWERED[result.type], "the batch ended before the request was answered")
        if result.type != "succeeded":
            inner = result.error.get("error", result.error) if isinstance(result.error, dict) else result.error
            raise self.transport.refused({"error": inner or f"its result is of the type '{result.type}'"}, "")
        return self.model.read(self.transport.decoded(200, bytes(result.message), self.model.decoder))
