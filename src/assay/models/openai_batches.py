"""OpenAI's Batch API: a batch is created from an uploaded file of requests; answers come in one file, errors in another."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from assay.core.canonical import JsonObject
from assay.core.model_call import ModelFailure, ModelRequest, Reply
from assay.core.plan import ModelPlan
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

FRAMING = RequestFraming(opening=b"", separator=b"\n", closing=b"\n")
WINDOW = "24h"
"""The only completion window that the API offers."""
MARK = "assay_batch"
"""Member of a batch's metadata that identifies it."""
ENDED = frozenset({"completed", "failed", "expired", "cancelled"})
FULL = "token_limit_exceeded"
"""Code of a batch that is refused because too many requests are waiting."""
_ERROR_CODES = frozenset({"batch_expired", "batch_cancelled"})
"""Errors of a line that are not about the request: it was not processed in time."""
_encode = msgspec.json.Encoder().encode


class _UploadedFile(msgspec.Struct, frozen=True):
    id: str


class _Counts(msgspec.Struct, frozen=True):
    total: int = 0
    completed: int = 0
    failed: int = 0


class _Problem(msgspec.Struct, frozen=True):
    code: str | None = None
    message: str | None = None
    param: str | None = None
    line: int | None = None


class _Problems(msgspec.Struct, frozen=True):
    data: list[_Problem] | None = None


class _Batch(msgspec.Struct, frozen=True):
    id: str
    status: str = ""
    created_at: float = 0.0
    output_file_id: str | None = None
    error_file_id: str | None = None
    errors: _Problems | None = None
    request_counts: _Counts | None = None
    metadata: JsonObject | None = None


class _Page(msgspec.Struct, frozen=True):
    data: list[_Batch]
    has_more: bool = False


class _Response(msgspec.Struct, frozen=True):
    status_code: int
    body: msgspec.Raw = msgspec.Raw()


class _OpenAILine(msgspec.Struct, frozen=True):
    custom_id: str
    response: _Response | None = None
    error: Any = None


_FILE = msgspec.json.Decoder(_UploadedFile)
_BATCH = msgspec.json.Decoder(_Batch)
_PAGE = msgspec.json.Decoder(_Page)
_LINE = msgspec.json.Decoder(_OpenAILine)
_MODELS = {
    "openai": ("assay.models.openai_chat", "ChatModel"),
    "openai_responses": ("assay.models.openai_responses", "ResponsesModel"),
}


@asynccontextmanager
async def open_batches(context: ProviderContext, model: ModelPlan) -> AsyncIterator["OpenAIBatches"]:
    """Open the Batch API of OpenAI, or of a server with that API, for one model."""
    endpoint = resolve_endpoint(context.provider, context.environ)
    module, name = _MODELS[context.provider.kind]
    async with open_transport(endpoint, keep_raw=context.keep_raw) as transport:
        yield OpenAIBatches(transport, getattr(import_module(module), name)(transport, model))


class OpenAIBatches:
    """Batch client for one model."""

    framing = FRAMING

    def __init__(self, transport: Transport, model: BatchableModel) -> None:
        self._transport = transport
        self._model = model
        self._endpoint = f"/v1{model.path}"

    def line(self, custom_id: str, ask: ModelRequest) -> bytes:
        """Encode one request as a line of the file."""
        head = _encode({"custom_id": custom_id, "method": "POST", "url": self._endpoint})
        return head[:-1] + b',"body":' + self._model.request(ask) + b"}"

    async def upload(self, batch_file: BatchUpload, /) -> str:
        """Upload the file with the purpose `batch`."""
        name = batch_file.mark.name
        boundary = f"assay-{name}"
        head = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
            f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}.jsonl"\r\n'
            "Content-Type: application/jsonl\r\n\r\n"
        ).encode()
        tail = f"\r\n--{boundary}--\r\n".encode()
        result = await self._transport.upload(
            "/files",
            _multipart_body(head, batch_file.file, tail),
            size=len(head) + batch_file.size + len(tail),
            content_type=f"multipart/form-data; boundary={boundary}",
            decoder=_FILE,
        )
        return checked_id(result.value.id, self._transport)

    async def create(self, batch_file: BatchUpload, /) -> str:
        """Create a batch from an uploaded file; its metadata identifies it as ours."""
        body = {
            "input_file_id": batch_file.upload_id,
            "endpoint": self._endpoint,
            "completion_window": WINDOW,
            "metadata": {MARK: batch_file.mark.name, "assay_run": batch_file.mark.run_id},
        }
        result = await self._transport.post(self._transport.head("/batches"), _encode(body), decoder=_BATCH)
        return checked_id(result.value.id, self._transport)

    async def find(self, key: BatchKey) -> list[BatchMatch]:
        """Find the batch whose metadata has the key."""
        after = ""
        for _ in range(PAGES):
            listed = await self._transport.get(f"/batches?limit=100{after}", decoder=_PAGE)
            page = listed.value
            found = [batch for batch in page.data if (batch.metadata or {}).get(MARK) == key.name]
            if found:
                return [BatchMatch(checked_id(found[0].id, self._transport))]
            if not page.has_more or not page.data or page.data[-1].created_at < earliest(key, listed.date):
                break
            after = f"&after={checked_id(page.data[-1].id, self._transport)}"
        return []

    async def look(self, batch_id: str) -> BatchStatus:
        """Poll a batch."""
        batch = (await self._transport.get(f"/batches/{batch_id}", decoder=_BATCH)).value
        counts = batch.request_counts or _Counts()
        problems = (batch.errors.data or []) if batch.errors else []
        named = [file for file in (batch.output_file_id, batch.error_file_id) if file]
        return BatchStatus(
            id=batch_id,
            word=batch.status,
            is_ended=batch.status in ENDED,
            is_refused=batch.status == "failed",
            is_full=bool(problems) and all(problem.code == FULL for problem in problems),
            total=counts.total,
            done=counts.completed + counts.failed,
            problems=tuple(map(_problem_text, problems)),
            files=tuple(f"/files/{checked_id(file, self._transport)}/content" for file in named),
        )

    async def cancel(self, batch_id: str) -> None:
        """Cancel a batch; its status changes only after some minutes."""
        await self._transport.post(self._transport.head(f"/batches/{batch_id}/cancel"), b"", decoder=_BATCH)

    async def fetch(self, path: str, sink: ByteSink) -> None:
        """Download a file of results to the sink."""
        await self._transport.download(path, sink)

    def read(self, line: bytes) -> BatchResult:
        """Parse one line of results; raises MalformedResult."""
        return read_result(line, _LINE, self._reply)

    def _reply(self, result: _OpenAILine) -> Reply:
        error, response = result.error, result.response
        if error or response is None:
            code = error.get("code") if isinstance(error, dict) else None
            # The code may be of any JSON type.
            if isinstance(code, str) and code in _ERROR_CODES:
                raise ModelFailure(code, "the batch ended before the request was answered")
            raise self._transport.refused({"error": error or "its line has neither a response nor an error"}, "")
        return self._model.read(self._transport.decoded(response.status_code, bytes(response.body), self._model.decoder))


def _multipart_body(head: bytes, file: Path, tail: bytes) -> Iterator[bytes]:
    yield head
    yield from pieces_of(file)
    yield tail


def _problem_text(problem: _Problem) -> str:
    location = f"line {problem.line}: " if problem.line is not None else ""
    code = f" ({problem.code})" if problem.code else ""
    return f"{location}{problem.message or 'it does not say what is wrong'}{code}"
