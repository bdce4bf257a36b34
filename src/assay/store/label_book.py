"""Labels that people give to answers while reading them: files of lines next to the runs, only ever appended to."""

import fcntl
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from assay.core.errors import StoreUnavailable
from assay.store.failures import disk_errors

FOLDER = ".labels"


def append_label(run_dir: Path, line: Mapping[str, object]) -> None:
    """Add one label and flush it to the disk. Raises StoreUnavailable."""
    path = _path(run_dir)
    with disk_errors(path):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            # An unfinished last line is what a crash left; its label was never confirmed.
            complete = path.read_bytes().rfind(b"\n") + 1
            os.ftruncate(handle, complete)
            os.write(handle, msgspec.json.encode(line) + b"\n")
            os.fsync(handle)
        finally:
            os.close(handle)


def read_label_lines(run_dir: Path) -> list[bytes]:
    """Read all labels of a run, the oldest first; raises StoreUnavailable."""
    path = _path(run_dir)
    with disk_errors(path):
        text = path.read_bytes() if path.is_file() else b""
    return text[: text.rfind(b"\n") + 1].splitlines()


def damaged_label(run_dir: Path, number: int, problem: Exception) -> StoreUnavailable:
    """Build the error for a line that cannot be read."""
    return StoreUnavailable(f'"{_path(run_dir)}" is damaged: line {number}: {problem}', hint="restore the file from a copy")


def _path(run_dir: Path) -> Path:
    return run_dir.parent / FOLDER / f"{run_dir.name}.jsonl"
