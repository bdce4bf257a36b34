"""The audit log of a folder of runs: who decided what about which run, one line each, chained by hashes and never rewritten."""

import fcntl
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from assay.core.errors import StoreUnavailable
from assay.store.evidence import AttemptChain
from assay.store.failures import disk_errors

AUDIT_FILE = "audit.jsonl"

Entry = dict[str, Any]


def append_audit(runs_dir: Path, entry: Mapping[str, Any]) -> None:
    """Add one decision; it is on the disk when this returns. Raises StoreUnavailable, also when the log was tampered with."""
    path = runs_dir / AUDIT_FILE
    with disk_errors(path):
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            text = path.read_bytes()
            chain = _chain(text, path)
            os.write(handle, chain.line(msgspec.json.encode(entry)) + b"\n")
            os.fsync(handle)
        finally:
            os.close(handle)


def read_audit(runs_dir: Path) -> list[Entry]:
    """Every decision, the oldest first; raises StoreUnavailable when a line was changed, dropped or moved."""
    path = runs_dir / AUDIT_FILE
    with disk_errors(path):
        text = path.read_bytes() if path.is_file() else b""
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
    if text and not text.endswith(b"\n"):
        raise StoreUnavailable(f'the last line of "{path}" is cut off', hint="restore the log from a copy")
    return chain
