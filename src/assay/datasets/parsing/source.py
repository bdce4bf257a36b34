"""Sources: files, standard input, gzip and bytes, read in lines or as one buffer."""

import gzip
import hashlib
import io
import mmap
import os
import re
import sys
import tempfile
import weakref
import zlib
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, cast

from assay.core.contract import Format, StoredName
from assay.core.errors import SourceUnreadable
from assay.core.narrow_text import LARGE_BYTES, NarrowText
from assay.core.strict_json import ParsedDocument, decode_for_checks, parse_json, parse_json_lines

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


Buffer = bytes | bytearray | mmap.mmap

BOM = b"\xef\xbb\xbf"
_LINE_FEED = ord("\n")
_GZIP_MAGIC = b"\x1f\x8b"
_LFS_MAGIC = b"version https://git-lfs.github.com/spec/v1"
_LFS_SIZE = re.compile(rb"^size ([0-9]{1,15})$", re.MULTILINE)
_LFS_BYTES = 1 << 10
"""A pointer of Git LFS has about 130 bytes; a larger file is content that only begins like one."""
# The name decides where it is clear; content is only looked at for pipes, uploads and unknown endings.
_SUFFIXES: dict[str, Format] = {".json": "json", ".jsonl": "jsonl", ".ndjson": "jsonl", ".yaml": "yaml", ".yml": "yaml"}
BATCH_BYTES = 384 << 10
"""Bytes of records that are scanned together, which fit the processor's cache."""
_FILLED = re.compile(rb"[^ \t\n\r\x0b\x0c]")
BEGINNING = 8 << 20
"""Maximum bytes in which the contract of a source is searched."""
_BLOCK = 1 << 20
_BOMB_BYTES = 256 << 20
_BOMB_RATIO = 200
"""A gzip file may grow beyond 256 MiB, but not by more than this factor: real text compresses 3 to 20 times."""


class NoTable(Exception):
    """A source that holds no table; not an error of the user."""


class TextLine(NamedTuple):
    """One line of a source; a line break at its end is white space to every reader."""

    number: int
    content: bytes
    """In the lines of a block a view where the line is large, since copies of it would not fit into memory."""

    @property
    def text(self) -> bytes:
        """Content without its line break."""
        return bytes(self.content).rstrip(b"\r\n")

    def document_to_check(self) -> ParsedDocument:
        """Parse the content for checks: long strings of a large line may have stand-ins."""
        return _parsed(decode_for_checks(self.content, is_whole=False))


class LineBlock(NamedTuple):
    """Consecutive whole lines of a source: the first `size` bytes of a buffer that the next block overwrites."""

    buffer: bytearray
    size: int

    @property
    def view(self) -> memoryview:
        """Lines, without a copy."""
        return memoryview(self.buffer)[: self.size]

    def lines(self, number: int) -> list[TextLine]:
        """Return the lines that are not blank; `number` is that of the first line."""
        if self.size > LARGE_BYTES:
            return self._long_lines(number)
        # One very long line is a block by itself: split with its line feed, it would be copied once more.
        whole = bytes(self.view[: self.size - self.buffer.endswith(b"\n", 0, self.size)])
        if whole.isspace():
            return []
        numbered = enumerate(whole.split(b"\n"), number)
        return [TextLine(at, content) for at, content in numbered if content and not content.isspace()]

    def _long_lines(self, number: int) -> list[TextLine]:
        lines = []
        at = 0
        while at < self.size:
            end = self.buffer.find(b"\n", at, self.size) + 1 or self.size
            content = self.view[at : end - (self.buffer[end - 1] == _LINE_FEED)]
            if _FILLED.search(content):
                lines.append(TextLine(number, cast("bytes", content) if end - at > LARGE_BYTES else bytes(content)))
            at = end
            number += 1
        return lines

    def filled_lines(self, number: int) -> Iterator[TextLine]:
        """Yield the lines that are not blank, with their line breaks; a search skips millions of blank ones fast."""
        buffer, size = self
        at = 0
        while found := _FILLED.search(buffer, at, size):
            start = buffer.rfind(b"\n", at, found.start()) + 1 or at
            number += buffer.count(b"\n", at, start)
            at = buffer.find(b"\n", found.start(), size) + 1 or size
            yield TextLine(number, bytes(memoryview(buffer)[start:at]))
            number += 1

    def line_feed_count(self) -> int:
        """Count the line feeds."""
        return self.buffer.count(b"\n", 0, self.size)


class Source:
    """A source that can be read again: its name, the format that the name shows, its bytes."""

    def __init__(self, name: str, stream: BinaryIO, *, size: int, is_object: bool = False, form: Format | None = None) -> None:
        self.name = name
        self.size = size
        self.is_object = is_object
        """True if the bytes were made from a Python object, so locations in them mean nothing to the caller."""
        self.stored: StoredName | None = None
        """Names in the run that has stored it; None if it is not the input of a run."""
        self.rows: Any = None
        """Return the rows as lines, for a document with rows whose caller has asked for them."""
        self.is_folder = False
        """True if it is a folder that holds one dataset; the bytes are then the hashes of its files."""
        self.table: Any = None
        """Records of a table, once it was read."""
        self._form = form
        self._stream = stream
        self._buffer: Buffer | None = None
        # A report reads its cases later, so the stream is closed when the last reference to the source is gone.
        weakref.finalize(self, stream.close)

    @property
    def stem(self) -> str:
        """File name without suffix; for the input of a run, that of the original file."""
        return Path(self.stored.file if self.stored else self.name).stem

    @property
    def format(self) -> Format | None:
        """Format by the name: `data.jsonl.gz` is jsonl; for a part of a file, the format that its opener stated."""
        if self._form is not None:
            return self._form
        suffixes = [suffix for suffix in Path(self.name).suffixes if suffix.lower() != ".gz"]
        return _SUFFIXES.get(suffixes[-1].lower()) if suffixes else None

    def head(self, size: int = 1 << 16) -> bytes:
        """Return the first bytes without a byte order mark."""
        self._stream.seek(0)
        return self._stream.read(size).removeprefix(BOM)

    def buffer(self) -> Buffer:
        """Return all bytes: memory-mapped from a file, so that the page cache holds them."""
        if self._buffer is None:
            self._buffer = self._map()
        return self._buffer

    def document_to_check(self, *, by_line: bool = False) -> ParsedDocument:
        """Parse all of it as one JSON value, or one per line, for checks: long strings of a large text may have stand-ins."""
        text = decode_for_checks(self.buffer())
        self.release()
        return _parsed(text, by_line=by_line)

    def release(self) -> None:
        """Release the memory of a map once the caller has read enough; later reads load it from the file again."""
        if self._buffer is not None:
            release(self._buffer)

    def part(self, start: int, end: int) -> bytes:
        """Read the bytes from one offset to another."""
        if isinstance(self._stream, io.BytesIO):
            return bytes(self._stream.getbuffer()[start:end])
        return os.pread(self._stream.fileno(), end - start, start)

    def sha256(self) -> str:
        """Hash all bytes; they are read in pieces, since a map of the file would stay in memory."""
        digest = hashlib.sha256()
        with self._raw_reader() as reader:
            while piece := reader.read(_BLOCK):
                digest.update(piece)
        return digest.hexdigest()

    def _map(self) -> Buffer:
        try:
            # ACCESS_COPY: a reader may patch bytes for itself; the file never changes.
            return mmap.mmap(self._stream.fileno(), 0, access=mmap.ACCESS_COPY)
        except (io.UnsupportedOperation, ValueError, OSError):
            self._stream.seek(0)
            return self._stream.read()

    # A line of JSON ends at LF alone: str.splitlines would also cut at U+2028, which is legal inside a JSON string.
    def lines(self) -> Iterator[TextLine]:
        """Yield the lines with their line breaks, split at LF alone: U+2028 and others are text."""
        with self._reader() as reader:
            lines = iter(reader)
            for number, content in enumerate(lines, 1):
                yield TextLine(number, content.removeprefix(BOM))
                break
            yield from map(TextLine, count(2), lines)

    def blocks(self) -> Iterator[LineBlock]:
        """Yield whole lines, about 384 KB at a time, in reused memory: the next block overwrites the last one."""
        # Read into one buffer again and again. A map would be quicker, but a file that is cut off meanwhile would end the process.
        buffer = bytearray(2 * BATCH_BYTES)
        with self._raw_reader() as reader:
            kept = reader.readinto(memoryview(buffer)[: len(BOM)]) or 0
            kept, searched = (0 if buffer.startswith(BOM) else kept), 0
            while size := reader.readinto(memoryview(buffer)[kept : kept + BATCH_BYTES]):
                end = kept + size
                cut = buffer.rfind(b"\n", searched, end) + 1
                if cut:
                    yield LineBlock(buffer, cut)
                    buffer[: end - cut] = buffer[cut:end]
                # The rest is the beginning of a line and has no line feed, so the next search starts after it.
                kept = searched = end - cut
                if kept + BATCH_BYTES > len(buffer):
                    buffer = _longer(buffer)
        if kept:
            yield LineBlock(buffer, kept)

    def another(self) -> "Source":
        """Return another source over the same bytes, which stays open when this one is gone."""
        stream = self._stream
        same = io.BytesIO(stream.getbuffer()) if isinstance(stream, io.BytesIO) else os.fdopen(os.dup(stream.fileno()), "rb")
        return Source(self.name, same, size=self.size, is_object=self.is_object, form=self._form)

    def open_bytes(self) -> BinaryIO:
        """Open a reader of all bytes, with a position of its own."""
        return self._reader()

    def _reader(self) -> BinaryIO:
        """Open a reader with its own position, so that several may read at once."""
        raw = self._raw_reader()
        return raw if isinstance(raw, io.BytesIO) else io.BufferedReader(raw, _BLOCK)

    def _raw_reader(self) -> "io.BytesIO | _FileWindow":
        if isinstance(self._stream, io.BytesIO):
            return io.BytesIO(self._stream.getbuffer())
        # pread leaves the position alone, so that several readers of one source do not disturb each other.
        return _FileWindow(self._stream.fileno())


def _parsed(text: str | NarrowText | ParsedDocument, *, by_line: bool = False) -> ParsedDocument:
    if isinstance(text, ParsedDocument):
        return text
    return parse_json_lines(text) if by_line else parse_json(text)


def _longer(buffer: bytearray) -> bytearray:
    """Enlarge a buffer by one block; in place, because a line may be so large that memory holds it only once."""
    try:
        buffer += bytes(BATCH_BYTES)
    except BufferError:
        # A caller still holds a view of the last block.
        return buffer + bytes(len(buffer))
    return buffer


class _FileWindow(io.RawIOBase):
    """Reads an open file from its start without moving the file's own position."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._offset = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._offset}.get(whence)
        self._offset = max(0, (os.fstat(self._descriptor).st_size if start is None else start) + offset)
        return self._offset

    def tell(self) -> int:
        return self._offset

    def readinto(self, buffer: "WriteableBuffer") -> int:
        size = os.preadv(self._descriptor, [buffer], self._offset)
        self._offset += size
        return size


def release(buffer: Buffer) -> None:
    """Release the memory of an unchanged map; later reads load it from the file again."""
    if isinstance(buffer, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        buffer.madvise(mmap.MADV_DONTNEED)


def filled_lines(source: Source) -> Iterator[TextLine]:
    """Yield the lines that are not blank."""
    number = 1
    for block in source.blocks():
        yield from block.filled_lines(number)
        number += block.line_feed_count()


def open_source(source: str | Path | bytes | bytearray | memoryview, *, name: str = "<bytes>") -> Source:
    """Open a path, `-` (standard input) or bytes; gzip is unpacked. Raises SourceUnreadable."""
    if isinstance(source, bytes | bytearray | memoryview):
        stream: BinaryIO = io.BytesIO(source)
        return _unpacked(name, stream)
    if str(source) == "-":
        # A source is read several times, which a pipe does not allow.
        return _unpacked("-", _spooled(sys.stdin.buffer))
    path = Path(source)
    try:
        opened = _unpacked(str(source), path.open("rb"))
    except (OSError, ValueError) as problem:
        reason = (getattr(problem, "strerror", None) or str(problem)).lower()
        raise SourceUnreadable(f"cannot read '{path}': {reason}", hint="check the path and its permissions") from problem
    if opened.size <= _LFS_BYTES and opened.head(_LFS_BYTES).startswith(_LFS_MAGIC):
        raise _lfs_problem(opened)
    return opened


def _lfs_problem(source: Source) -> SourceUnreadable:
    """Describe a file that Git LFS has put in place of the content."""
    size = _LFS_SIZE.search(source.head(_LFS_BYTES))
    content = f"its content ({int(size[1]):,} bytes)" if size else "its content"
    return SourceUnreadable(
        f"'{source.name}' is a Git LFS pointer: {content} was not fetched", hint=f"git lfs pull --include {Path(source.name).name}"
    )


def is_packed(path: str) -> bool:
    """Return whether a file is gzip; raises SourceUnreadable."""
    try:
        with Path(path).open("rb") as stream:
            return stream.read(2) == _GZIP_MAGIC
    except OSError as problem:
        raise SourceUnreadable(f"cannot read '{path}': {problem}", hint="check the path and its permissions") from problem


def open_beginning(path: str, size: int = BEGINNING) -> Source:
    """Open a source just to detect its format: a gzip file is unpacked only as far as needed."""
    try:
        with Path(path).open("rb") as stream:
            if stream.read(2) != _GZIP_MAGIC:
                return open_source(path)
            stream.seek(0)
            return open_source(gzip.GzipFile(fileobj=stream).read(size), name=path)
    except (OSError, EOFError, ValueError, zlib.error) as problem:
        raise SourceUnreadable(f"cannot read '{path}': {problem}", hint="check the path and its permissions") from problem


def _spooled(stream: BinaryIO) -> BinaryIO:
    """Copy a stream that can be read once into one that can be read again."""
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
            # Counted while unpacking: the size in the header of a gzip file is what its writer claims.
            if size > most:
                raise OSError(f"it grows to more than {_BOMB_RATIO} times its size; unpack it first if this is real data")
            spool.write(block)
