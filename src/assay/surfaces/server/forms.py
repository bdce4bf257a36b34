"""Forms of pages: short ones as their fields, and one with a file whose bytes are passed on while they come in."""

import re
from collections.abc import AsyncIterator
from email.message import Message
from pathlib import Path
from typing import TypeVar
from urllib.parse import parse_qsl

import msgspec
from multipart import MultipartError, MultipartSegment, PushMultipartParser  # type: ignore[import-untyped]  # it has no types

from assay.surfaces.server.errors import Refusal
from assay.surfaces.server.queries import AnyRequest
from assay.surfaces.server.spool import Spooled, spool, too_large
from assay.surfaces.server.uploads import body_pieces

FIELD_BYTES = 4 << 10
MOST_FIELDS = 20
FORM_BYTES = 64 << 10
ENDINGS = (".json", ".jsonl", ".ndjson", ".yaml", ".yml")
"""Endings of datasets, as they are or packed with gzip."""
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+", re.ASCII)
T = TypeVar("T", bound=msgspec.Struct)


async def read_fields(request: AnyRequest, kind: type[T]) -> T:
    """The fields of a short form as a typed value; those that nobody filled in are none. Raises Refusal."""
    text = (await request.body()).decode("utf-8", "replace")
    try:
        pairs = parse_qsl(text, max_num_fields=MOST_FIELDS)
        # Browsers count a line feed as one character and send two.
        given = {name: value.replace("\r\n", "\n") for name, value in pairs if value.strip()}
        return msgspec.convert(given, kind, strict=False)
    except ValueError as problem:
        raise Refusal(400, f"the form cannot be used: {problem}") from problem


class FileForm:
    """A form with one file, while it comes in."""

    def __init__(self, request: AnyRequest) -> None:
        header = Message()
        header["content-type"] = request.headers.get("content-type", "")
        boundary = header.get_param("boundary") if header.get_content_type() == "multipart/form-data" else None
        if not isinstance(boundary, str) or not boundary:
            raise Refusal(415, "a form with a file is wanted here (multipart/form-data)")
        self.fields: dict[str, str] = {}
        self.file_name = ""
        self._declared = request.headers.get("content-length", "")
        self._parser = PushMultipartParser(boundary, max_segment_count=MOST_FIELDS, strict=True)
        self._events = self._parsed(request)

    async def open_file(self) -> None:
        """Read up to the file; raises Refusal where there is none."""
        async for event in self._events:
            if isinstance(event, MultipartSegment):
                if event.filename:
                    self.file_name = event.filename
                    return
                await self._read_field(event)
        raise Refusal(400, "no file was chosen")

    @property
    def is_gzip(self) -> bool:
        """The file is packed."""
        return self.file_name.lower().endswith(".gz")

    @property
    def stem(self) -> str:
        """The file's name without its endings, as a name for a dataset."""
        name = Path(self.file_name.replace("\\", "/")).name
        for ending in (".gz", *ENDINGS):
            name = name[: -len(ending)] if name.lower().endswith(ending) else name
        return _UNSAFE.sub("-", name).strip("-._")[:100] or "dataset"

    @property
    def ending(self) -> str:
        """The ending that says how the file is read; raises Refusal for another."""
        name = self.file_name.lower().removesuffix(".gz")
        found = next((ending for ending in ENDINGS if name.endswith(ending)), "")
        if not found:
            raise Refusal(
                415, f"'{self.file_name[:100]}' is no dataset: its name must end in {', '.join(ENDINGS)}, or that and .gz"
            )
        return found

    async def spool(self, path: Path, *, limit: int) -> Spooled:
        """The file on the disk, and the rest of the fields; raises Refusal beyond the limit, and then there is no file."""
        # What surrounds the file in a form is small.
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
                raise Refusal(400, f"the field '{segment.name[:64]}' is too long")
        self.fields[segment.name] = value.decode("utf-8", "replace")

    async def _parsed(self, request: AnyRequest) -> AsyncIterator[MultipartSegment | bytes | bytearray | None]:
        try:
            async for piece in body_pieces(request.receive):
                for event in self._parser.parse(piece):
                    yield event
            self._parser.close()
        except MultipartError as problem:
            raise Refusal(400, f"the form cannot be read: {problem}") from problem
