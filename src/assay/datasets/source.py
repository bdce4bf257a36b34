"""Sources: files, standard input, gzip and bytes, read in lines or as one buffer; and places in them."""

import gzip
import io
import mmap
import sys
import tempfile
import weakref
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple

from assay.core.document import Place
from assay.core.errors import SourceUnreadable

Format = Literal["json", "jsonl", "yaml"]
Buffer = bytes | bytearray | mmap.mmap

BOM = b"\xef\xbb\xbf"
_GZIP_MAGIC = b"\x1f\x8b"
_SUFFIXES: dict[str, Format] = {".json": "json", ".jsonl": "jsonl", ".ndjson": "jsonl", ".yaml": "yaml", ".yml": "yaml"}
_BLOCK = 1 << 20
_BOMB_BYTES = 256 << 20
_BOMB_RATIO = 200
"""A gzip file may grow beyond 256 MiB, but not by more than this factor: real text compresses 3 to 20 times."""
_CONTINUATION = bytes(range(0x80, 0xC0))


class Line(NamedTuple):
    """One line of a source without its line break."""

    number: int
    content: bytes


class Source:
    """Something to read that can be read again: its name, its format where the name tells, its bytes."""

    def __init__(self, name: str, stream: BinaryIO, *, size: int, is_object: bool = False) -> None:
        self.name = name
        self.size = size
        self.is_object = is_object
        """The bytes were made from a Python object, so places in them mean nothing to the caller."""
        self._stream = stream
        self._buffer: Buffer | None = None
        # A report reads its cases later, so a source lives as long as anybody holds it.
        weakref.finalize(self, stream.close)

    @property
    def format(self) -> Format | None:
        """What the name says the format is: `data.jsonl.gz` is jsonl."""
        suffixes = [suffix for suffix in Path(self.name).suffixes if suffix.lower() != ".gz"]
        return _SUFFIXES.get(suffixes[-1].lower()) if suffixes else None

    def head(self, size: int = 1 << 16) -> bytes:
        """The first bytes without a byte order mark."""
        self._stream.seek(0)
        return self._stream.read(size).removeprefix(BOM)

    def buffer(self) -> Buffer:
        """All bytes at once: memory-mapped from a file, so that they cost no memory of their own."""
        if self._buffer is None:
            self._buffer = self._map()
        return self._buffer

    def _map(self) -> Buffer:
        try:
            # ACCESS_COPY: a reader may patch bytes for itself; the file never changes.
            return mmap.mmap(self._stream.fileno(), 0, access=mmap.ACCESS_COPY)
        except (io.UnsupportedOperation, ValueError, OSError):
            self._stream.seek(0)
            return self._stream.read()

    def lines(self) -> Iterator[Line]:
        """The lines, split at LF alone: U+2028 and friends are text."""
        self._stream.seek(0)
        for number, content in enumerate(self._stream, 1):
            yield Line(number, content.rstrip(b"\r\n") if number > 1 else content.rstrip(b"\r\n").removeprefix(BOM))


def open_source(source: str | Path | bytes | bytearray | memoryview, *, name: str = "<bytes>") -> Source:
    """The source behind a path, `-` (standard input) or bytes; gzip is unpacked. Raises SourceUnreadable."""
    if isinstance(source, bytes | bytearray | memoryview):
        stream: BinaryIO = io.BytesIO(source)
        return _unpacked(name, stream)
    if str(source) == "-":
        return _unpacked("-", _spooled(sys.stdin.buffer))
    path = Path(source)
    try:
        return _unpacked(str(source), path.open("rb"))
    except OSError as problem:
        reason = (problem.strerror or str(problem)).lower()
        raise SourceUnreadable(f"cannot read '{path}': {reason}", hint="check the path and its permissions") from problem


def _spooled(stream: BinaryIO) -> BinaryIO:
    """A stream that can be read once, as one that can be read again."""
    spool = tempfile.TemporaryFile()  # noqa: SIM115  # lives as long as its Source
    while block := stream.read(_BLOCK):
        spool.write(block)
    return spool


def _unpacked(name: str, stream: BinaryIO) -> Source:
    stream.seek(0)
    if stream.read(2) == _GZIP_MAGIC:
        with stream:
            stream = _gunzipped(name, stream)
    size = stream.seek(0, io.SEEK_END)
    return Source(name, stream, size=size)


def _gunzipped(name: str, stream: BinaryIO) -> BinaryIO:
    packed = stream.seek(0, io.SEEK_END)
    stream.seek(0)
    spool = tempfile.TemporaryFile()  # noqa: SIM115  # lives as long as its Source
    try:
        _unpack(stream, spool, most=max(_BOMB_BYTES, packed * _BOMB_RATIO))
    except (OSError, EOFError, zlib.error) as problem:
        spool.close()
        raise SourceUnreadable(
            f"cannot unpack '{name}': {problem}", hint="the gzip file is damaged or not what it seems"
        ) from problem
    return spool


def _unpack(stream: BinaryIO, spool: BinaryIO, *, most: int) -> None:
    size = 0
    with gzip.GzipFile(fileobj=stream) as unpacker:
        while block := unpacker.read(_BLOCK):
            size += len(block)
            if size > most:
                raise OSError(f"it grows to more than {_BOMB_RATIO} times its size; unpack it first if this is real data")
            spool.write(block)


class Cursor:
    """Turns rising byte offsets of a buffer into lines and columns, reading every byte once."""

    def __init__(self, buffer: Buffer) -> None:
        self._buffer = buffer
        self._offset = len(BOM) if buffer[: len(BOM)] == BOM else 0
        self._place = Place(1, 1)

    def place(self, offset: int) -> Place:
        """Where `offset` is; it must not be smaller than the offset before."""
        while self._offset < offset:
            end = min(offset, self._offset + _BLOCK)
            self._place = _advance(self._place, bytes(self._buffer[self._offset : end]))
            self._offset = end
        return self._place


def _advance(place: Place, block: bytes) -> Place:
    breaks = block.count(b"\n")
    last_line = block[block.rfind(b"\n") + 1 :] if breaks else block
    characters = len(last_line.translate(None, _CONTINUATION))
    return Place(place.line + breaks, characters + (1 if breaks else place.column))
