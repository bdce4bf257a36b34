"""The audit log of a folder of runs: who decided what about which run, one line each, chained by hashes.

A line counts when its line feed is there. What a crash left behind the last one was never decided: it is set aside when the
next line is written, and that is a line of its own.
"""

import fcntl
import os
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


def append_audit(runs_dir: Path, entry: Mapping[str, Any]) -> None:
    """Add one decision; it is on the disk when this returns. Raises StoreUnavailable, also when the log was tampered with."""
    path = runs_dir / AUDIT_FILE
    with disk_errors(path):
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            text = path.read_bytes()
            whole = text[: text.rfind(b"\n") + 1]
            chain = _chain(whole, path)
            os.ftruncate(handle, len(whole))
            torn = [_torn(text[len(whole) :], entry)] if len(whole) < len(text) else []
            os.write(handle, b"".join(chain.line(msgspec.json.encode(line)) + b"\n" for line in (*torn, entry)))
            os.fsync(handle)
        finally:
            os.close(handle)


def read_audit(runs_dir: Path) -> list[Entry]:
    """Every decision, the oldest first; raises StoreUnavailable when a line was changed or moved, or dropped before others."""
    path = runs_dir / AUDIT_FILE
    with disk_errors(path):
        text = path.read_bytes() if path.is_file() else b""
    text = text[: text.rfind(b"\n") + 1]
    _chain(text, path)
    return [msgspec.json.decode(line) for line in text.splitlines()]


def _chain(text: bytes, path: Path) -> AttemptChain:
    """The chain after the last line."""
    chain = AttemptChain()
    for number, line in enumerate(text.splitlines(), 1):
        if not chain.follows(line):
            raise StoreUnavailable(
                f'"{path}" was changed: line {number} does not follow from those before it', hint="restore the log from a copy"
            )
    return chain


def _torn(tail: bytes, entry: Mapping[str, Any]) -> Entry:
    """The line that says what was left of an unfinished one."""
    members = {"action": UNFINISHED, "bytes": len(tail), "sha256": sha256_hex(tail)}
    return {**{name: entry[name] for name in ("at", "by") if name in entry}, **members}
