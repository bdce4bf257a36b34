"""Forms of pages: short ones as fields, and uploads whose bytes are processed while they arrive."""

import re
from collections.abc import AsyncIterator
from email.message import Message
from pathlib import Path
from typing import TypeVar
from urllib.parse import parse_qsl

import msgspec
from multipart import MultipartError, MultipartSegment, PushMultipartParser  # type: ignore[import-untyped]  # it has no types

from assay.surfaces.server.errors import HttpError
from assay.surfaces.server.queries import AnyRequest
from assay.surfaces.server.uploads import SpooledUpload, body_pieces, spool, too_large

FIELD_BYTES = 4 << 10
MOST_FIELDS = 20
FORM_BYTES = 64 << 10
ENDINGS = (".json", ".jsonl", ".ndjson", ".yaml", ".yml")
"""File extensions of datasets, plain or compressed with gzip."""
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+", re.ASCII)
T = TypeVar("T", bound=msgspec.Struct)


async def read_fields(request: AnyRequest, kind: type[T]) -> T:
    """Decode the fields of a short form into a typed value; empty fields are None. Raises HttpError."""
    text = (await request.body()).decode("utf-8", "replace")
    try:
        pairs = parse_qsl(text, max_num_fields=MOST_FIELDS)
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
        self._parser = PushMultipartParser(boundary, max_segment_count=MOST_FIELDS, strict=True)
        self._events = self._parsed(request)

    async def open_file(self) -> None:
        """Read up to the file; raises HttpError when there is none."""
        async for event in self._events:
            if isinstance(event, MultipartSegment):
                if event.filename:
                    self.file_name = event.filename
                    return
                await self._read_field(event)
        raise HttpError(400, "no file was chosen")

    @property
    def is_gzip(self) -> bool:
        """The file is packed."""
        return self.file_name.lower().endswith(".gz")

    @property
    def stem(self) -> str:
        """Return the file's name without extensions, as a name for a dataset."""
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
