"""Audit log of a folder of runs: each decision about a run, with its author, is one line; lines are chained by hashes.

A line counts once its line feed is written. An unfinished line that a crash left is not a decision: the next append replaces it
by a line of its own that records its size and hash.
"""

import fcntl
import os
import threading
from collections.abc import Mapping
from pathlib import Path

import msgspec

from assay.core.canonical import JsonObject, sha256_hex
from assay.core.errors import StoreUnavailable
from assay.store.failures import disk_errors
from assay.store.hash_chain import AttemptChain

AUDIT_FILE = "audit.jsonl"
UNFINISHED = "unfinished_line"
"""Action of a line that replaces an unfinished one."""


class AuditLog:
    """Audit log that remembers how far it has checked the chain, so that each append reads only what is new."""

    def __init__(self, runs_dir: Path) -> None:
        self._path = runs_dir / AUDIT_FILE
        self._lock = threading.Lock()
        self._reset()

    def _reset(self) -> None:
        self._chain = AttemptChain()
        self._inode = 0
        self._size = 0
        self._lines = 0
        self._last = b""

    def append(self, entry: Mapping[str, object]) -> None:
        """Add one decision and flush it to the disk. Raises StoreUnavailable, also when the log was tampered with."""
        with self._lock, disk_errors(self._path):
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                self._add(handle, entry)
            except (OSError, StoreUnavailable):
                self._reset()
                raise
            finally:
                os.close(handle)

    def _add(self, handle: int, entry: Mapping[str, object]) -> None:
        if not self._is_unchanged(handle):
            self._reset()
            self._inode = os.fstat(handle).st_ino
        text = _read_from(handle, self._size)
        complete = text[: text.rfind(b"\n") + 1]
        self._check_lines(complete)
        # Drop the unfinished line of a crash; `_torn` records its hash.
        os.ftruncate(handle, self._size)
        torn = [_torn_line_entry(text[len(complete) :], entry)] if len(complete) < len(text) else []
        lines = b"".join(self._chain.line(msgspec.json.encode(line)) + b"\n" for line in (*torn, entry))
        self._lines += 1 + len(torn)
        _write_all(handle, lines)
        os.fsync(handle)
        self._advance(lines)

    def _is_unchanged(self, handle: int) -> bool:
        """Tell whether the lines checked before still end as they did."""
        is_same = os.fstat(handle).st_ino == self._inode
        return is_same and os.pread(handle, len(self._last), self._size - len(self._last)) == self._last

    def _check_lines(self, complete: bytes) -> None:
        for line in complete.splitlines():
            self._lines += 1
            if not self._chain.follows(line):
                raise _tampered_error(self._path, self._lines)
        self._advance(complete)

    def _advance(self, complete: bytes) -> None:
        self._size += len(complete)
        if complete:
            self._last = complete[complete.rfind(b"\n", 0, -1) + 1 :]


def append_audit(runs_dir: Path, entry: Mapping[str, object]) -> None:
    """Add one decision after checking the whole log; raises as AuditLog does."""
    AuditLog(runs_dir).append(entry)


def _read_from(handle: int, offset: int) -> bytes:
    pieces: list[bytes] = []
    while piece := os.pread(handle, 1 << 20, offset):
        pieces.append(piece)
        offset += len(piece)
    return b"".join(pieces)


def _write_all(handle: int, text: bytes) -> None:
    rest = memoryview(text)
    while rest:
        rest = rest[os.write(handle, rest) :]


def read_audit(runs_dir: Path) -> list[JsonObject]:
    """Read every decision, the oldest first; raises StoreUnavailable when a line was changed or moved, or removed before others."""
    path = runs_dir / AUDIT_FILE
    with disk_errors(path):
        text = path.read_bytes() if path.is_file() else b""
    text = text[: text.rfind(b"\n") + 1]
    _check_chain(text, path)
    return [msgspec.json.decode(line) for line in text.splitlines()]


def _check_chain(text: bytes, path: Path) -> None:
    chain = AttemptChain()
    for number, line in enumerate(text.splitlines(), 1):
        if not chain.follows(line):
            raise _tampered_error(path, number)


def _tampered_error(path: Path, number: int) -> StoreUnavailable:
    return StoreUnavailable(
        f'"{path}" was changed: line {number} does not follow from those before it', hint="restore the log from a copy"
    )


def _torn_line_entry(tail: bytes, entry: Mapping[str, object]) -> JsonObject:
    """Return the line that records an unfinished one."""
    members = {"action": UNFINISHED, "bytes": len(tail), "sha256": sha256_hex(tail)}
    return {**{name: entry[name] for name in ("at", "by") if name in entry}, **members}
