"""Audit log of a folder of runs: each decision about a run, with its author, is one line; lines are chained by hashes.

A line counts once its line feed is written. An unfinished line that a crash left is not a decision: the next append replaces it
by a line of its own that records its size and hash.
"""

import threading
from collections.abc import Mapping
from pathlib import Path

import msgspec

from assay.core.canonical import JsonObject, sha256_hex
from assay.core.errors import StoreUnavailable
from assay.store.artifacts import AttemptChain
from assay.store.files import AppendLog, LockedLog

AUDIT_FILE = "audit.jsonl"
UNFINISHED = "unfinished_line"
"""Action of a line that replaces an unfinished one."""


class AuditLog:
    """Audit log that remembers how far it has checked the chain, so that each append reads only what is new."""

    def __init__(self, runs_dir: Path) -> None:
        self._file = AppendLog(runs_dir / AUDIT_FILE)
        self._lock = threading.Lock()
        self._reset()

    def _reset(self) -> None:
        self._chain = AttemptChain()
        # An inode of 0 matches no file, so that the first append reads the whole log.
        self._inode = 0
        self._size = 0
        self._lines = 0
        self._last = b""

    def append(self, entry: Mapping[str, object]) -> None:
        """Add one decision and flush it to the disk. Raises StoreUnavailable, also when the log was tampered with."""
        # flock keeps other processes away; the lock guards the checked chain, which the threads of this one share.
        with self._lock, self._file.locked() as log:
            try:
                self._add(log, entry)
            # What was read may be stale now; the next append checks the log from its start.
            except (OSError, StoreUnavailable):
                self._reset()
                raise

    def _add(self, log: LockedLog, entry: Mapping[str, object]) -> None:
        if not self._is_unchanged(log):
            self._reset()
            self._inode = log.inode
        # Only the lines that this process has not checked yet, so that the cost of a line does not grow with the log.
        text = log.read(self._size)
        complete = log.complete(text)
        self._check_lines(complete)
        # The unfinished line of a crash is dropped; its size and hash are recorded.
        torn = [_torn_line_entry(text[len(complete) :], entry)] if len(complete) < len(text) else []
        lines = b"".join(self._chain.line(msgspec.json.encode(line)) + b"\n" for line in (*torn, entry))
        self._lines += 1 + len(torn)
        log.write(lines, at=self._size)
        self._advance(lines)

    def _is_unchanged(self, log: LockedLog) -> bool:
        """Return whether the lines checked before still end as they did."""
        return log.inode == self._inode and log.read(self._size - len(self._last), len(self._last)) == self._last

    def _check_lines(self, complete: bytes) -> None:
        for line in complete.splitlines():
            self._lines += 1
            if not self._chain.follows(line):
                # Refused, not repaired: a decision that was changed afterwards is exactly what the log is there to show.
                raise _tampered_error(self._file.path, self._lines)
        self._advance(complete)

    def _advance(self, complete: bytes) -> None:
        self._size += len(complete)
        if complete:
            self._last = complete[complete.rfind(b"\n", 0, -1) + 1 :]


def append_audit(runs_dir: Path, entry: Mapping[str, object]) -> None:
    """Add one decision after checking the whole log; raises as AuditLog does."""
    AuditLog(runs_dir).append(entry)


def read_audit(runs_dir: Path) -> list[JsonObject]:
    """Read every decision, the oldest first; raises StoreUnavailable when a line was changed or moved, or removed before others."""
    log, chain = AppendLog(runs_dir / AUDIT_FILE), AttemptChain()
    lines = log.lines()
    for number, line in enumerate(lines, 1):
        if not chain.follows(line):
            raise _tampered_error(log.path, number)
    return [msgspec.json.decode(line) for line in lines]


def _tampered_error(path: Path, number: int) -> StoreUnavailable:
    return StoreUnavailable(
        f'"{path}" was changed: line {number} does not follow from those before it', hint="restore the log from a copy"
    )


def _torn_line_entry(tail: bytes, entry: Mapping[str, object]) -> dict[str, object]:
    """Return the line that records an unfinished one."""
    members = {"action": UNFINISHED, "bytes": len(tail), "sha256": sha256_hex(tail)}
    return {**{name: entry[name] for name in ("at", "by") if name in entry}, **members}
