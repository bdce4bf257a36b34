"""Labels that people give to answers while reading them: files of lines next to the runs, only ever appended to."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from assay.core.errors import StoreUnavailable
from assay.store.failures import disk_errors
from assay.store.files import AppendLog

FOLDER = ".labels"


def append_label(run_dir: Path, line: Mapping[str, object]) -> None:
    """Add one label and flush it to the disk. Raises StoreUnavailable."""
    log = _log(run_dir)
    with disk_errors(log.path):
        log.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    log.append(msgspec.json.encode(line))


def read_label_lines(run_dir: Path) -> list[bytes]:
    """Read all labels of a run, the oldest first; raises StoreUnavailable."""
    return _log(run_dir).lines()


def damaged_label(run_dir: Path, number: int, problem: Exception) -> StoreUnavailable:
    """Build the error for a line that cannot be read."""
    return StoreUnavailable(f'"{_log(run_dir).path}" is damaged: line {number}: {problem}', hint="restore the file from a copy")


def _log(run_dir: Path) -> AppendLog:
    return AppendLog(run_dir.parent / FOLDER / f"{run_dir.name}.jsonl")
