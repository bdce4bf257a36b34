"""OpenAI's Batch API: a file of requests is uploaded, a batch is made of it; answers come in one file, errors in another."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from assay.core.ask import Ask, ModelFailure, Reply
from assay.core.plan import ModelPlan
from assay.models.batching import (
    PAGES,
    Batchable,
    BatchResult,
    BatchStatus,
    Found,
    Framing,
    Handover,
    Mark,
    Sink,
    checked_id,
    earliest,
    pieces_of,
    read_result,
)
from assay.models.endpoint import resolve_endpoint
from assay.models.opening import Opening
from assay.models.transport import Transport, open_transport

FRAMING = Framing(opening=b"", separator=b"\n", closing=b"\n")
WINDOW = "24h"
"""The only completion window that there is."""
MARK = "assay_batch"
"""The member of a batch's metadata that it is found by."""
ENDED = frozenset({"completed", "failed", "expired", "cancelled"})
FULL = "token_limit_exceeded"
"""The code of a batch that is refused because too much is waiting already."""
_ERROR_CODES = frozenset({"batch_expired", "batch_cancelled"})
"""Errors of a line that say nothing of the request: it was not its turn in time."""
_encode = msgspec.json.Encoder().encode


class _File(msgspec.Struct, frozen=True):
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
    metadata: dict[str, Any] | None = None


class _Page(msgspec.Struct, frozen=True):
    data: list[_Batch]
    has_more: bool = False


class _Response(msgspec.Struct, frozen=True):
    status_code: int
    body: msgspec.Raw = msgspec.Raw()


class _Line(msgspec.Struct, frozen=True):
    custom_id: str
    response: _Response | None = None
    error: Any = None


_FILE = msgspec.json.Decoder(_File)
_BATCH = msgspec.json.Decoder(_Batch)
_PAGE = msgspec.json.Decoder(_Page)
_LINE = msgspec.json.Decoder(_Line)
_MODELS = {
    "openai": ("assay.models.openai_chat", "ChatModel"),
    "openai_responses": ("assay.models.openai_responses", "ResponsesModel"),
}


@asynccontextmanager
async def open_batches(opening: Opening, model: ModelPlan) -> AsyncIterator["OpenAIBatches"]:
    """The Batch API of OpenAI, or of a server that speaks it, for one model."""
    endpoint = resolve_endpoint(opening.provider, opening.environ)
    module, name = _MODELS[opening.provider.kind]
    async with open_transport(endpoint, keep_raw=opening.keep_raw) as transport:
        yield OpenAIBatches(transport, getattr(import_module(module), name)(transport, model))


class OpenAIBatches:
    """The desk for batches of one model."""

    framing = FRAMING

    def __init__(self, transport: Transport, model: Batchable) -> None:
        self._transport = transport
        self._model = model
        self._endpoint = f"/v1{model.path}"

    def line(self, custom_id: str, ask: Ask) -> bytes:
        """One request as it stands in the file."""
        head = _encode({"custom_id": custom_id, "method": "POST", "url": self._endpoint})
        return head[:-1] + b',"body":' + self._model.request(ask) + b"}"

    async def upload(self, handover: Handover, /) -> str:
        """Upload the file with the purpose `batch`."""
        name = handover.mark.name
        boundary = f"assay-{name}"
        head = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
            f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}.jsonl"\r\n'
            "Content-Type: application/jsonl\r\n\r\n"
        ).encode()
        tail = f"\r\n--{boundary}--\r\n".encode()
        exchanged = await self._transport.upload(
            "/files",
            _enclosed(head, handover.file, tail),
            size=len(head) + handover.size + len(tail),
            content_type=f"multipart/form-data; boundary={boundary}",
            decoder=_FILE,
        )
        return checked_id(exchanged.value.id, self._transport)

    async def create(self, handover: Handover, /) -> str:
        """Make a batch of an uploaded file; its metadata says whose it is."""
        body = {
            "input_file_id": handover.upload_id,
            "endpoint": self._endpoint,
            "completion_window": WINDOW,
            "metadata": {MARK: handover.mark.name, "assay_run": handover.mark.run_id},
        }
        exchanged = await self._transport.post(self._transport.head("/batches"), _encode(body), decoder=_BATCH)
        return checked_id(exchanged.value.id, self._transport)

    async def find(self, mark: Mark) -> list[Found]:
        """The batch whose metadata has the mark."""
        after = ""
        for _ in range(PAGES):
            listed = await self._transport.get(f"/batches?limit=100{after}", decoder=_PAGE)
            page = listed.value
            found = [batch for batch in page.data if (batch.metadata or {}).get(MARK) == mark.name]
            if found:
                return [Found(checked_id(found[0].id, self._transport))]
            if not page.has_more or not page.data or page.data[-1].created_at < earliest(mark, listed.date):
                break
            after = f"&after={checked_id(page.data[-1].id, self._transport)}"
        return []

    async def look(self, batch_id: str) -> BatchStatus:
        """How far a batch is."""
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
        """Stop a batch; it takes some minutes until it says so."""
        await self._transport.post(self._transport.head(f"/batches/{batch_id}/cancel"), b"", decoder=_BATCH)

    async def fetch(self, path: str, sink: Sink) -> None:
        """Give a file of results to the sink."""
        await self._transport.download(path, sink)

    def read(self, line: bytes) -> BatchResult:
        """What a line of results says; raises Unreadable."""
        return read_result(line, _LINE, self._reply)

    def _reply(self, result: _Line) -> Reply:
        error, response = result.error, result.response
        if error or response is None:
            code = error.get("code") if isinstance(error, dict) else None
            # Whatever stands there: nothing says that it is a text.
            if isinstance(code, str) and code in _ERROR_CODES:
                raise ModelFailure(code, "the batch ended before the request was answered")
            raise self._transport.refused({"error": error or "its line has neither a response nor an error"}, "")
        return self._model.read(self._transport.decoded(response.status_code, bytes(response.body), self._model.decoder))


def _enclosed(head: bytes, file: Path, tail: bytes) -> Iterator[bytes]:
    yield head
    yield from pieces_of(file)
    yield tail


def _problem_text(problem: _Problem) -> str:
    place = f"line {problem.line}: " if problem.line is not None else ""
    code = f" ({problem.code})" if problem.code else ""
    return f"{place}{problem.message or 'it does not say what is wrong'}{code}"
