"""OpenAI's Batch API: a batch is created from an uploaded file of requests; answers come in one file, errors in another."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from assay.core.canonical import JsonObject
from assay.core.model_call import ModelFailure, ModelRequest, Reply
from assay.core.plan import ModelPlan
from assay.core.provider import ProviderKind
from assay.models.batch_api import (
    BatchableModel,
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

WINDOW = "24h"
"""Only completion window that the API offers."""
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
_MODELS: dict[ProviderKind, tuple[str, str]] = {
    "openai": ("assay.models.openai_chat", "ChatModel"),
    "openai_responses": ("assay.models.openai_responses", "ResponsesModel"),
}


def batch_client(transport: Transport, model: ModelPlan, *, kind: ProviderKind) -> BatchClient:
    """Create the client of OpenAI, or of a server with that API, for one model."""
    module, name = _MODELS[kind]
    return OpenAIBatches(transport, getattr(import_module(module), name)(transport, model))


class OpenAIBatches(BatchClient):
    """Batches of an uploaded file, with metadata that identifies ours."""

    framing = RequestFraming(opening=b"", separator=b"\n", closing=b"\n")
    path = "/batches"
    cursor = "after"
    batch_decoder = msgspec.json.Decoder(_Batch)
    page_decoder = msgspec.json.Decoder(_Page)
    line_decoder = msgspec.json.Decoder(_OpenAILine)

    def __init__(self, transport: Transport, model: BatchableModel) -> None:
        super().__init__(transport, model)
        self._endpoint = f"/v1{model.path}"

    def line(self, custom_id: str, ask: ModelRequest) -> bytes:
        """Encode one request as a line of the file."""
        head = _encode({"custom_id": custom_id, "method": "POST", "url": self._endpoint})
        return head[:-1] + b',"body":' + self.model.request(ask) + b"}"

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
        result = await self.transport.upload(
            "/files",
            _multipart_body(head, batch_file.file, tail),
            size=len(head) + batch_file.size + len(tail),
            content_type=f"multipart/form-data; boundary={boundary}",
            decoder=_FILE,
        )
        return checked_id(result.value.id, self.transport)

    async def create(self, batch_file: BatchUpload, /) -> str:
        """Create a batch from an uploaded file; its metadata identifies it as ours."""
        body = {
            "input_file_id": batch_file.upload_id,
            "endpoint": self._endpoint,
            "completion_window": WINDOW,
            "metadata": {MARK: batch_file.mark.name, "assay_run": batch_file.mark.run_id},
        }
        result = await self.transport.post(self.transport.head(self.path), _encode(body), decoder=self.batch_decoder)
        return checked_id(result.value.id, self.transport)

    def created_at(self, batch: _Batch) -> float:
        """Return the provider's time."""
        return batch.created_at

    def match(self, batch: _Batch, key: BatchKey, *, is_recent: bool) -> BatchMatch | None:  # noqa: ARG002  # a name is certain
        """Match the batch whose metadata has the key."""
        is_same = (batch.metadata or {}).get(MARK) == key.name
        return BatchMatch(checked_id(batch.id, self.transport)) if is_same else None

    def status(self, batch_id: str, batch: _Batch) -> BatchStatus:
        """Describe a batch, with what is wrong with it and its two files of results."""
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
            files=tuple(f"/files/{checked_id(file, self.transport)}/content" for file in named),
        )

    def reply(self, line: _OpenAILine) -> Reply:
        """Parse a line of results; raises ModelFailure."""
        error, response = line.error, line.response
        if error or response is None:
            code = error.get("code") if isinstance(error, dict) else None
            # The code may be of any JSON type.
            if isinstance(code, str) and code in _ERROR_CODES:
                raise ModelFailure(code, "the batch ended before the request was answered")
            raise self.transport.refused({"error": error or "its line has neither a response nor an error"}, "")
        return self.model.read(self.transport.decoded(response.status_code, bytes(response.body), self.model.decoder))


def _multipart_body(head: bytes, file: Path, tail: bytes) -> Iterator[bytes]:
    yield head
    yield from pieces_of(file)
    yield tail


def _problem_text(problem: _Problem) -> str:
    location = f"line {problem.line}: " if problem.line is not None else ""
    code = f" ({problem.code})" if problem.code else ""
    return f"{location}{problem.message or 'it does not say what is wrong'}{code}"
