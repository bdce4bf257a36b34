"""The audit log of a folder of runs: who decided what about which run, one line each, chained by hashes.

A line counts when its line feed is there. What a crash left behind the last one was never decided: it is set aside when the
next line is written, and that is a line of its own.
"""

import fcntl
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from assay.core.canonical import sha256_hex
from assay.core.errors import StoreUnavailable
from assay.store.evidence import AttemptChain
from assay.store.failures import disk_errors

AUDIT_FILE = "audit.jsonl"
UNFINISHED = "unfinished_line"
"""Action of a line that stands for what a crash left unfinished."""

Entry = dict[str, Any]


class AuditLog:
    """The log of a folder for whoever adds to it again and again: what was found right once is not read again, only its end."""

    def __init__(self, runs_dir: Path) -> None:
        self._path = runs_dir / AUDIT_FILE
        self._lock = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self._chain = AttemptChain()
        self._inode = 0
        self._size = 0
        self._lines = 0
        self._last = b""

    def append(self, entry: Mapping[str, Any]) -> None:
        """Add one decision; it is on the disk when this returns. Raises StoreUnavailable, also when the log was tampered with."""
        with self._lock, disk_errors(self._path):
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                self._add(handle, entry)
            except (OSError, StoreUnavailable):
                self._forget()
                raise
            finally:
                os.close(handle)

    def _add(self, handle: int, entry: Mapping[str, Any]) -> None:
        if not self._is_as_it_was(handle):
            self._forget()
            self._inode = os.fstat(handle).st_ino
        text = _read_from(handle, self._size)
        whole = text[: text.rfind(b"\n") + 1]
        self._follow(whole)
        os.ftruncate(handle, self._size)
        torn = [_torn(text[len(whole) :], entry)] if len(whole) < len(text) else []
        added = b"".join(self._chain.line(msgspec.json.encode(line)) + b"\n" for line in (*torn, entry))
        self._lines += 1 + len(torn)
        _write_all(handle, added)
        os.fsync(handle)
        self._passed(added)

    def _is_as_it_was(self, handle: int) -> bool:
        """True when the lines that were read before still end as they did."""
        is_same = os.fstat(handle).st_ino == self._inode
        return is_same and os.pread(handle, len(self._last), self._size - len(self._last)) == self._last

    def _follow(self, whole: bytes) -> None:
        for line in whole.splitlines():
            self._lines += 1
            if not self._chain.follows(line):
                raise _changed(self._path, self._lines)
        self._passed(whole)

    def _passed(self, whole: bytes) -> None:
        self._size += len(whole)
        if whole:
            self._last = whole[whole.rfind(b"\n", 0, -1) + 1 :]


def append_audit(runs_dir: Path, entry: Mapping[str, Any]) -> None:
    """Add one decision to a log that is read whole; raises as AuditLog does."""
    AuditLog(runs_dir).append(entry)


def _read_from(handle: int, place: int) -> bytes:
    pieces: list[bytes] = []
    while piece := os.pread(handle, 1 << 20, place):
        pieces.append(piece)
        place += len(piece)
    return b"".join(pieces)


def _write_all(handle: int, text: bytes) -> None:
    rest = memoryview(text)
    while rest:
        rest = rest[os.write(handle, rest) :]


def read_audit(runs_dir: Path) -> list[Entry]:
    """Every decision, the oldest first; raises StoreUnavailable when a line was changed or moved, or dropped before others."""
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
            raise _changed(path, number)


def _changed(path: Path, number: int) -> StoreUnavailable:
    return StoreUnavailable(
        f'"{path}" was changed: line {number} does not follow from those before it', hint="restore the log from a copy"
    )


def _torn(tail: bytes, entry: Mapping[str, Any]) -> Entry:
    """The line that says what was left of an unfinished one."""
    members = {"action": UNFINISHED, "bytes": len(tail), "sha256": sha256_hex(tail)}
    return {**{name: entry[name] for name in ("at", "by") if name in entry}, **members}
