"""Folders of record indexes: next to the runs, or in the user's cache when that is read-only."""

import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

from assay.core.errors import StoreUnavailable
from assay.core.input_document import MANIFEST
from assay.store.failures import disk_errors
from assay.store.published_run import read_manifest
from assay.store.record_index import RecordIndex

FOLDER = ".index"
FORMAT = 2
"""Part of every name: an index of another version is rebuilt."""
_NAME = re.compile(r"(?P<run_id>.+)\.[0-9a-f]{16}\.\d+(?P<new>\.new-[0-9a-f]{16})?", re.DOTALL)
_ABANDONED = 3600.0
"""Seconds after which an unfinished folder must belong to a killed process."""


def index_of(run_dir: Path) -> RecordIndex | None:
    """Open the index of a finished run, if one of exactly these artifacts exists."""
    name = _name(run_dir)
    return next((RecordIndex(folder / name) for folder in _index_folders(run_dir) if (folder / name).is_dir()), None)


@contextmanager
def new_index(run_dir: Path) -> Iterator[Path]:
    """Create a folder to write the index of a run into; it gets its name when the block succeeds. Raises StoreUnavailable."""
    folder = _writable_folder(run_dir)
    _remove_stale(folder, run_dir.parent)
    name = _name(run_dir)
    new = folder / f"{name}.new-{secrets.token_hex(8)}"
    with disk_errors(new):
        new.mkdir(mode=0o700)
    try:
        yield new
        # Another process may have finished the same index in the meantime; either one will do.
        with suppress(OSError):
            new.rename(folder / name)
    finally:
        shutil.rmtree(new, ignore_errors=True)
        (folder / _progress(run_dir)).unlink(missing_ok=True)


def note_progress(new: Path, run_dir: Path, percent: int) -> None:
    """Store the progress of an index for other processes to read."""
    with disk_errors(new):
        (new.parent / _progress(run_dir)).write_text(str(percent), encoding="ascii")


def progress_of(run_dir: Path) -> int:
    """Read how much of the index of a run is written, in percent."""
    for folder in _index_folders(run_dir):
        with suppress(OSError, ValueError):
            return int((folder / _progress(run_dir)).read_text(encoding="ascii"))
    return 0


def forget_index(run_dir: Path) -> None:
    """Remove all indexes of a run, finished or not: they hold texts of its records."""
    for folder in _index_folders(run_dir):
        for path in _indexes(folder, run_dir.name):
            shutil.rmtree(path, ignore_errors=True)


def _indexes(folder: Path, run_id: str | None = None) -> Iterator[Path]:
    for path in folder.glob("*") if folder.is_dir() else ():
        match = _NAME.fullmatch(path.name)
        if match and run_id in (None, match["run_id"]):
            yield path


def _remove_stale(folder: Path, runs_dir: Path) -> None:
    """Remove outdated indexes, those of removed runs, and what killed processes left."""
    for path in _indexes(folder):
        match = _NAME.fullmatch(path.name)
        assert match is not None
        run_dir = runs_dir / match["run_id"]
        is_current = (run_dir / MANIFEST).is_file() and path.name.removesuffix(match["new"] or "") == _name(run_dir)
        if not is_current or (match["new"] and _age(path) > _ABANDONED):
            shutil.rmtree(path, ignore_errors=True)


def _age(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _name(run_dir: Path) -> str:
    return f"{run_dir.name}.{sha256(read_manifest(run_dir)).hexdigest()[:16]}.{FORMAT}"


def _progress(run_dir: Path) -> str:
    return f"{run_dir.name}.progress"


def _index_folders(run_dir: Path) -> tuple[Path, Path]:
    runs_dir = run_dir.parent.absolute()
    cache_home = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    return runs_dir / FOLDER, Path(cache_home) / "assay" / "index" / sha256(os.fsencode(runs_dir)).hexdigest()[:16]


def _writable_folder(run_dir: Path) -> Path:
    local, cached = _index_folders(run_dir)
    try:
        return _make_folder(local)
    except StoreUnavailable:
        return _make_folder(cached)


def _make_folder(folder: Path) -> Path:
    with disk_errors(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(13, "Permission denied")
    return folder
