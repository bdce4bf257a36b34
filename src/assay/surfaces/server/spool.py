"""Spooled uploads: counted, hashed and unpacked into private files on arrival, and removed unless a run takes them."""

import asyncio
import hashlib
import os
import zlib
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from assay.core.errors import StoreUnavailable
from assay.surfaces.server.errors import HttpError

BLOCK = 1 << 20
_GZIP = 31
"""zlib's window bits for a gzip stream."""
_GZIP_MAGIC = b"\x1f\x8b"
_BITE = 16 << 10
"""Compressed bytes per step: the bytes after the end of a stream are copied, once for each stream."""
MOST_STREAMS = 10_000
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
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def write(self, block: bytes) -> None:
        """Add a piece; raises HttpError as soon as the limit is exceeded."""
        if self._unpacker is None:
            self._keep(block)
            return
        self._packed_size += len(block)
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
            self._keep(self._unpacker.decompress(bite, BLOCK))
            bite = self._unpacker.unconsumed_tail
            self._is_cut = not self._unpacker.eof
            if self._unpacker.eof:
                bite = self._unpacker.unused_data
                self._unpacker = zlib.decompressobj(_GZIP)
                self._streams += 1
                if self._streams > MOST_STREAMS:
                    raise HttpError(400, f"the body has more than {MOST_STREAMS:,} gzip streams")

    def _keep(self, block: bytes) -> None:
        self._size += len(block)
        if self._size > self._limit:
            raise too_large(self._limit)
        self._first = (self._first + block[:2])[:2]
        self._sha256.update(block)
        rest = memoryview(block)
        try:
            while rest:
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
