"""Bodies of requests: uploads, spooled while they arrive, forms with and without a file, and drafts of uploads."""

import asyncio
import hashlib
import os
import re
import threading
import zlib
from collections.abc import AsyncIterator, Callable
from email.message import Message
from pathlib import Path
from typing import Any, TypeVar, get_args
from urllib.parse import parse_qsl

import msgspec
from litestar.types import Receive
from multipart import MultipartError, MultipartSegment, PushMultipartParser  # type: ignore[import-untyped]  # it has no types

from assay import api
from assay.core.contract import CONTRACTS, Format
from assay.core.errors import RunNotFound, StoreUnavailable
from assay.surfaces.server.errors import AnyRequest, HttpError
from assay.surfaces.server.queries import ContractChoice

BLOCK = 1 << 20
_GZIP = 31
"""zlib's window bits for a gzip stream."""
_GZIP_MAGIC = b"\x1f\x8b"
_BITE = 16 << 10
"""Compressed bytes per step: the bytes after the end of a stream are copied, once for each stream."""
MAX_STREAMS = 10_000
"""Maximum concatenated gzip streams; empty ones cost time and count for nothing."""


class SpooledUpload(msgspec.Struct, frozen=True):
    """An upload on the disk."""

    path: Path
    size: int
    sha256: str


async def spool(pieces: AsyncIterator[bytes], path: Path, *, limit: int, is_gzip: bool = False) -> SpooledUpload:
    """Write the pieces to a new file that only its owner can read; raises HttpError beyond the limit, and then there is no file."""
    # Written in a thread and in large blocks, so that neither the disk nor a zip bomb blocks the event loop.
    file = await asyncio.to_thread(_SpoolFile, path, limit=limit, is_gzip=is_gzip)
    is_kept = False
    try:
        block = bytearray()
        async for piece in pieces:
            block += piece
            if len(block) >= BLOCK:
                await asyncio.to_thread(file.write, bytes(block))
                block.clear()
        await asyncio.to_thread(file.write, bytes(block))
        spooled = await asyncio.to_thread(file.finish)
        is_kept = True
    finally:
        if not is_kept:
            file.discard()
    return spooled


class _SpoolFile:
    """One upload while it arrives."""

    def __init__(self, path: Path, *, limit: int, is_gzip: bool) -> None:
        self._path = path
        self._limit = limit
        self._packed_size = 0
        self._size = 0
        self._streams = 0
        self._sha256 = hashlib.sha256()
        self._unpacker = zlib.decompressobj(_GZIP) if is_gzip else None
        self._is_cut = False
        self._first = b""
        # O_NOFOLLOW and O_EXCL: the file is a new one in this folder, even if one was there.
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def write(self, block: bytes) -> None:
        """Add a piece; raises HttpError as soon as the limit is exceeded."""
        if self._unpacker is None:
            self._keep(block)
            return
        self._packed_size += len(block)
        # Packed bytes count too: a stream of nothing but headers would never reach the limit of unpacked ones.
        if self._packed_size > self._limit:
            raise too_large(self._limit)
        try:
            for start in range(0, len(block), _BITE):
                self._unpack(block[start : start + _BITE])
        except zlib.error as problem:
            raise HttpError(400, f"the body is not gzip: {problem}") from problem

    def _unpack(self, bite: bytes) -> None:
        while bite:
            assert self._unpacker is not None
            # At most a block at a time, so that a zip bomb is stopped at the limit and not after it.
            self._keep(self._unpacker.decompress(bite, BLOCK))
            bite = self._unpacker.unconsumed_tail
            self._is_cut = not self._unpacker.eof
            if self._unpacker.eof:
                # gzip allows several streams one after the other, as `cat a.gz b.gz` makes them.
                bite = self._unpacker.unused_data
                self._unpacker = zlib.decompressobj(_GZIP)
                self._streams += 1
                if self._streams > MAX_STREAMS:
                    raise HttpError(400, f"the body has more than {MAX_STREAMS:,} gzip streams")

    def _keep(self, block: bytes) -> None:
        self._size += len(block)
        if self._size > self._limit:
            raise too_large(self._limit)
        # The first two bytes may arrive in two pieces.
        self._first = (self._first + block[:2])[:2]
        self._sha256.update(block)
        rest = memoryview(block)
        try:
            while rest:
                # `os.write` may write less than it was given.
                rest = rest[os.write(self._handle, rest) :]
        except OSError as problem:
            raise StoreUnavailable(f"the upload cannot be stored: {problem.strerror}", hint="try again later") from problem

    def finish(self) -> SpooledUpload:
        """Flush the upload to the disk; raises HttpError for a truncated or undeclared compressed body."""
        if self._is_cut:
            raise HttpError(400, "the body is not gzip: it ends too early")
        if self._first == _GZIP_MAGIC:
            # Files are unpacked by what they hold; a body is what its headers say, and this one is not UTF-8.
            raise HttpError(400, "the body is gzip and not UTF-8: pack it once, and send Content-Encoding: gzip")
        # Forced to the disk, because the answer to a submission is a promise (docs/decisions/014-the-service.md).
        os.fsync(self._handle)
        os.close(self._handle)
        self._handle = -1
        return SpooledUpload(self._path, self._size, self._sha256.hexdigest())

    def discard(self) -> None:
        """Remove the file."""
        if self._handle >= 0:
            os.close(self._handle)
        self._path.unlink(missing_ok=True)


def too_large(limit: int) -> HttpError:
    """Build the answer to a payload beyond the limit."""
    return HttpError(413, f"the payload exceeds {limit:,} bytes", details={"max_bytes": limit})


LINES = ("application/x-ndjson", "application/jsonl", "application/jsonlines")
YAML = ("application/yaml", "application/x-yaml")
TABLES = {
    "text/csv": ".csv",
    "text/tab-separated-values": ".tsv",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": ".xlsx",
    "application/vnd.apache.parquet": ".parquet",
}
"""Content types of tables, whose columns the parameters name."""
_TABLE_CONTRACTS = ("auto", "legal_eval_v1", "batch_v1")
_ENDINGS = {"application/json": ".json", **dict.fromkeys(LINES, ".jsonl"), **dict.fromkeys(YAML, ".yaml"), **TABLES}


class ClientGone(Exception):
    """Client that closed the connection before its body was complete, so that no response reaches it."""


def media_types(contract: ContractChoice) -> tuple[str, ...]:
    """List the content types of a contract; lines may also be called JSON."""
    formats = get_args(Format) if contract == "auto" else CONTRACTS[contract].formats
    return ("application/json", *(LINES if "jsonl" in formats else ()), *(YAML if "yaml" in formats else ()))


def ending_of(request: AnyRequest, contract: ContractChoice) -> str:
    """Return the file extension for a body; raises HttpError for a content type that the contract does not have."""
    # The parser of email headers knows quoted parameters and comments.
    header = Message()
    header["content-type"] = request.headers.get("content-type", "")
    media_type = header.get_content_type() if header["content-type"] else ""
    # RFC 2231 spellings such as `charset*` begin with the same word.
    charsets = {str(value).lower() for name, value in header.get_params([]) if name.lower().startswith("charset")}
    if media_type in TABLES and contract in _TABLE_CONTRACTS:
        # A table may be in any encoding, which is found by its bytes.
        return TABLES[media_type]
    if media_type not in media_types(contract) or not charsets <= {"utf-8", "utf8"}:
        raise HttpError(
            415,
            f"the content type must be {' or '.join(media_types(contract))}, in UTF-8",
            details={"given": header["content-type"][:200]},
        )
    # JSON Lines under application/json are common, so the contract decides.
    is_lines = contract != "auto" and CONTRACTS[contract].is_lines
    return ".jsonl" if is_lines else _ENDINGS[media_type]


async def spool_body(request: AnyRequest, path: Path, *, limit: int) -> SpooledUpload:
    """Store the body of a request in a new private file; raises HttpError and ClientGone, and then there is no file."""
    encoding = request.headers.get("content-encoding", "identity").lower()
    if encoding not in ("identity", "gzip"):
        raise HttpError(415, f"the content encoding '{encoding[:64]}' is not known", details={"known": ["gzip"]})
    declared = request.headers.get("content-length", "")
    # Twenty digits are more than any file has; a longer number is left to the parser.
    if declared.isdecimal() and len(declared) < 20 and int(declared) > limit:
        raise too_large(limit)
    return await spool(body_pieces(request.receive), path, limit=limit, is_gzip=encoding == "gzip")


async def body_pieces(receive: Receive) -> AsyncIterator[bytes]:
    """Iterate over the body of a request as it arrives; raises ClientGone."""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            # Disconnected.
            raise ClientGone
        if message["body"]:
            yield message["body"]
        if not message.get("more_body", False):
            return


DRAFT_SECONDS = 3600.0
MAX_DRAFTS_OF_ONE = 4
"""Maximum drafts of one owner; a further one replaces the oldest."""
MAX_DRAFTS = 16
MAX_RESULTS = 20
"""Maximum results stored per draft besides its report, which comes first: the newest estimates."""


class UploadDraft(msgspec.Struct, frozen=True, kw_only=True):
    """An upload without a run."""

    upload: api.UploadTarget
    owner: str
    file_name: str
    """Name of the file at the owner."""
    name: str
    """Name of the dataset if its contract gives it no id."""
    contract: ContractChoice
    spooled: SpooledUpload
    at: float
    allow_size: bool = False
    """Skip the limit of cases in a golden dataset."""

    @property
    def id(self) -> str:
        """Return the id of the draft, and of the run that may be made of it."""
        return self.upload.run_id


class DraftStore:
    """Drafts of one server; a restart forgets them, and removes their files."""

    def __init__(self, submissions: api.Submissions, clock: Callable[[], float]) -> None:
        self._submissions = submissions
        self._clock = clock
        self._kept: dict[str, UploadDraft] = {}
        self._results: dict[tuple[str, str], Any] = {}
        self._lock = threading.Lock()

    def keep(self, draft: UploadDraft) -> None:
        """Add a draft; expired and surplus ones are removed."""
        # Files are removed outside of the lock: a disk may be slow.
        with self._lock:
            self._kept[draft.id] = draft
            gone = self._superfluous(draft.owner)
        for old in gone:
            self.drop(old)

    def _superfluous(self, owner: str) -> list[UploadDraft]:
        drafts = sorted(self._kept.values(), key=lambda draft: draft.at, reverse=True)
        old = [draft for draft in drafts if draft.at < self._clock() - DRAFT_SECONDS]
        own = [draft for draft in drafts if draft.owner == owner]
        return [*old, *own[MAX_DRAFTS_OF_ONE:], *drafts[MAX_DRAFTS:]]

    def of(self, draft_id: str, owner: str) -> UploadDraft:
        """Find the owner's draft; raises RunNotFound."""
        draft = self._kept.get(draft_id)
        # The id of a draft is in the address, so another caller may know it.
        if draft is None or draft.owner != owner or draft.at < self._clock() - DRAFT_SECONDS:
            raise RunNotFound("the upload has expired", hint="an upload is stored for an hour; choose the file again")
        return draft

    def drop(self, draft: UploadDraft) -> None:
        """Forget a draft and remove its file, unless a run was made of it."""
        with self._lock:
            self._kept.pop(draft.id, None)
            self._results = {key: value for key, value in self._results.items() if key[0] != draft.id}
        self._submissions.discard(draft.upload)

    def result(self, draft: UploadDraft, what: str) -> object:
        """Return a stored result about a draft; None without one."""
        return self._results.get((draft.id, what))

    def keep_result(self, draft: UploadDraft, what: str, result: object) -> None:
        """Store a result about a draft, for as long as the draft exists."""
        with self._lock:
            if draft.id in self._kept:
                self._results[draft.id, what] = result
            # The report is first and stays; of the estimates the oldest go.
            for key in [key for key in self._results if key[0] == draft.id][1:-MAX_RESULTS]:
                del self._results[key]


FIELD_BYTES = 4 << 10
MAX_FIELDS = 20
FORM_BYTES = 64 << 10
ENDINGS = (".json", ".jsonl", ".ndjson", ".yaml", ".yml")
"""File extensions of datasets, plain or compressed with gzip."""
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+", re.ASCII)
T = TypeVar("T", bound=msgspec.Struct)


async def read_fields(request: AnyRequest, kind: type[T]) -> T:
    """Decode the fields of a short form into a typed value; empty fields are None. Raises HttpError."""
    text = (await request.body()).decode("utf-8", "replace")
    try:
        # A limit on fields: each costs memory before it is looked at.
        pairs = parse_qsl(text, max_num_fields=MAX_FIELDS)
        # Browsers count a line feed as one character and send two.
        given = {name: value.replace("\r\n", "\n") for name, value in pairs if value.strip()}
        return msgspec.convert(given, kind, strict=False)
    except ValueError as problem:
        raise HttpError(400, f"the form cannot be used: {problem}") from problem


class FileForm:
    """A form with one file, read while it arrives."""

    def __init__(self, request: AnyRequest) -> None:
        header = Message()
        header["content-type"] = request.headers.get("content-type", "")
        boundary = header.get_param("boundary") if header.get_content_type() == "multipart/form-data" else None
        if not isinstance(boundary, str) or not boundary:
            raise HttpError(415, "a form with a file is wanted here (multipart/form-data)")
        self.fields: dict[str, str] = {}
        self.file_name = ""
        self._declared = request.headers.get("content-length", "")
        # Strict, since a lenient reading of a boundary could differ from a proxy's.
        self._parser = PushMultipartParser(boundary, max_segment_count=MAX_FIELDS, strict=True)
        self._events = self._parsed(request)

    async def open_file(self) -> None:
        """Read up to the file; raises HttpError when there is none."""
        async for event in self._events:
            if isinstance(event, MultipartSegment):
                if event.filename:
                    self.file_name = event.filename
                    return
                await self._read_field(event)
        # Browsers send an empty file name where nothing was chosen.
        raise HttpError(400, "no file was chosen")

    @property
    def is_gzip(self) -> bool:
        """True for a file that is compressed with gzip."""
        return self.file_name.lower().endswith(".gz")

    @property
    def stem(self) -> str:
        """Return the file's name without extensions, as a name for a dataset."""
        # Some browsers send a whole Windows path.
        name = Path(self.file_name.replace("\\", "/")).name
        for ending in (".gz", *ENDINGS):
            name = name[: -len(ending)] if name.lower().endswith(ending) else name
        return _UNSAFE.sub("-", name).strip("-._")[:100] or "dataset"

    @property
    def ending(self) -> str:
        """Return the extension, which determines the format; raises HttpError for an unknown one."""
        name = self.file_name.lower().removesuffix(".gz")
        found = next((ending for ending in ENDINGS if name.endswith(ending)), "")
        if not found:
            raise HttpError(
                415, f"'{self.file_name[:100]}' is not a dataset: its name must end in {', '.join(ENDINGS)}, or that and .gz"
            )
        return found

    async def spool(self, path: Path, *, limit: int) -> SpooledUpload:
        """Store the file and read the rest of the fields; raises HttpError beyond the limit, and then there is no file."""
        # The rest of the form is small.
        if self._declared.isdecimal() and len(self._declared) < 20 and int(self._declared) > limit + FORM_BYTES:
            raise too_large(limit)
        return await spool(self._pieces(), path, limit=limit, is_gzip=self.is_gzip)

    async def _pieces(self) -> AsyncIterator[bytes]:
        async for event in self._events:
            if event is None:
                break
            assert isinstance(event, bytes | bytearray)
            yield bytes(event)
        # Fields may stand behind the file in the form.
        async for event in self._events:
            if isinstance(event, MultipartSegment):
                await self._read_field(event)

    async def _read_field(self, segment: MultipartSegment) -> None:
        value = bytearray()
        async for event in self._events:
            if event is None:
                break
            assert isinstance(event, bytes | bytearray)
            value += event
            # Fields are kept in memory, unlike the file.
            if len(value) > FIELD_BYTES:
                raise HttpError(400, f"the field '{segment.name[:64]}' is too long")
        self.fields[segment.name] = value.decode("utf-8", "replace")

    async def _parsed(self, request: AnyRequest) -> AsyncIterator[MultipartSegment | bytes | bytearray | None]:
        try:
            async for piece in body_pieces(request.receive):
                for event in self._parser.parse(piece):
                    yield event
            self._parser.close()
        except MultipartError as problem:
            raise HttpError(400, f"the form cannot be read: {problem}") from problem
