"""The one strict door for zip archives: entries by name, each unpacked within a bound and checked, none ever written to a path."""

import struct
import zipfile
import zlib
from collections.abc import Iterator
from importlib import import_module
from io import SEEK_END, BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from assay.core.errors import MissingExtra, SourceUnreadable

MAX_ENTRIES = 500_000
MAX_ENTRY_BYTES = 256 << 20
"""Maximum bytes of one entry, unpacked."""
_FREE_BYTES = 16 << 20
_MAX_RATIO = 200
"""An entry beyond 16 MiB may grow by this factor: real logs shrink 5 to 50 times."""
_BLOCK = 1 << 20
_STORED, _DEFLATED, _ZSTANDARD = 0, 8, 93
_LOCAL_HEADER = struct.Struct("<4s5H3I2H")
_ENCRYPTED = 1


class Archive:
    """An open zip archive; two entries of one name are the later one, as every reader of zip files has it."""

    def __init__(self, path: Path) -> None:
        """Open an archive; raises SourceUnreadable for one that cannot be used."""
        self._name = str(path)
        # Kept open: entries are read by their places, one at a time.
        self._stream: BinaryIO = path.open("rb")
        try:
            self._entries = self._read_directory()
        except (OSError, zipfile.BadZipFile, zlib.error, NotImplementedError, ValueError, struct.error) as problem:
            self._stream.close()
            raise SourceUnreadable(f"cannot read '{path}': {problem}", hint="the archive is damaged or no zip file") from problem

    def _read_directory(self) -> dict[str, zipfile.ZipInfo]:
        with zipfile.ZipFile(self._stream) as archive:
            listed = archive.infolist()
        # ZipFile closes nothing that it has not opened itself.
        # Only the directory is read by ZipFile; entries are unpacked below, each within its bounds.
        if len(listed) > MAX_ENTRIES:
            raise ValueError(f"it has {len(listed):,} entries, at most {MAX_ENTRIES:,} are read")
        # Each entry may be within its own bound, and many of them the same bytes.
        # The size that the directory claims: nothing is unpacked for this check.
        size, most = sum(entry.file_size for entry in listed), max(MAX_ENTRY_BYTES, self._stream.seek(0, SEEK_END) * _MAX_RATIO)
        if size > most:
            raise ValueError(f"its entries grow to {size:,} bytes, at most {most:,} are read")
        return {entry.filename: entry for entry in listed}

    def __enter__(self) -> "Archive":
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def names(self) -> Iterator[str]:
        """Return the names of all entries, which are keys and never paths."""
        return iter(self._entries)

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def read(self, name: str) -> bytes:
        """Return an entry, unpacked; raises SourceUnreadable where it is damaged or grows beyond all measure."""
        entry = self._entries[name]
        try:
            content = self._unpack(entry)
        except (OSError, ValueError, zlib.error, struct.error) as problem:
            raise SourceUnreadable(
                f"cannot unpack '{name}' of '{self._name}': {problem}", hint="the archive is damaged or not what it seems"
            ) from problem
        return content

    def _unpack(self, entry: zipfile.ZipInfo) -> bytes:
        if entry.flag_bits & _ENCRYPTED:
            raise ValueError("it is encrypted")
        most = min(MAX_ENTRY_BYTES, max(_FREE_BYTES, entry.compress_size * _MAX_RATIO))
        if entry.file_size > most:
            raise ValueError(f"it grows to {entry.file_size:,} bytes, at most {most:,} are read")
        content = _inflate(entry.compress_type, self._read_packed(entry), size=entry.file_size)
        if len(content) != entry.file_size or zlib.crc32(content) != entry.CRC:
            # Size and checksum of the directory, so that an entry that was changed behind it is found.
            raise ValueError("its content does not match its size and checksum")
        return content

    def _read_packed(self, entry: zipfile.ZipInfo) -> bytes:
        """Return the entry's own bytes; only its local header states the length of what precedes them."""
        self._stream.seek(entry.header_offset)
        header = _LOCAL_HEADER.unpack(self._stream.read(_LOCAL_HEADER.size))
        # The directory may point anywhere in the file.
        if header[0] != b"PK\x03\x04":
            raise ValueError("there is no entry where the directory says")
        self._stream.seek(header[-2] + header[-1], 1)
        return self._stream.read(entry.compress_size)


def _inflate(method: int, packed: bytes, *, size: int) -> bytes:
    """Return the content, of which never more than one byte beyond its stated size is unpacked."""
    if method == _STORED:
        return packed
    if method == _DEFLATED:
        # One byte more than stated: a longer content is found without unpacking it.
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, size + 1)
    if method == _ZSTANDARD:
        with _zstandard_reader(packed) as reader:
            return b"".join(_blocks(reader, size + 1))
    raise ValueError(f"it is packed by method {method}, which is not read here")


def _blocks(reader: Any, most: int) -> Iterator[bytes]:
    while most and (block := reader.read(min(most, _BLOCK))):
        most -= len(block)
        yield block


def _zstandard_reader(packed: bytes) -> Any:
    """Return a reader of what Zstandard has packed, by whichever package is installed; its errors become ValueError."""
    try:
        return _ZstandardPackage(packed)
    # The package is optional; pyarrow can read the same.
    except ImportError:
        pass
    try:
        pyarrow = import_module("pyarrow")
    except ImportError:
        raise MissingExtra(
            "this archive is packed with Zstandard, which needs the package zstandard or pyarrow",
            hint="pip install zstandard; or let Inspect write JSON: inspect log convert --to json",
        ) from None
    return pyarrow.CompressedInputStream(pyarrow.py_buffer(packed), "zstd")


class _ZstandardPackage:
    """A stream reader of the zstandard package that turns the package's errors into ValueError."""

    def __init__(self, packed: bytes) -> None:
        self._package = import_module("zstandard")
        self._reader = self._package.ZstdDecompressor().stream_reader(BytesIO(packed))

    def __enter__(self) -> "_ZstandardPackage":
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()

    def read(self, size: int) -> bytes:
        try:
            block: bytes = self._reader.read(size)
        except self._package.ZstdError as problem:
            raise ValueError(str(problem)) from problem
        return block
