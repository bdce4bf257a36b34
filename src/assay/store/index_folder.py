"""Where the indexes of runs are: beside the runs, or in the user's cache where nothing can be written there."""

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
from assay.store.folder import read_manifest
from assay.store.record_index import RecordIndex

FOLDER = ".index"
FORMAT = 2
"""Part of every name: an index of another version is made anew."""
_NAME = re.compile(r"(?P<run_id>.+)\.[0-9a-f]{16}\.\d+(?P<new>\.new-[0-9a-f]{16})?", re.DOTALL)
_ABANDONED = 3600.0
"""Seconds after which a folder that never got its name belongs to a process that was killed."""


def index_of(run_dir: Path) -> RecordIndex | None:
    """The index of a finished run, where there is one of exactly these artifacts."""
    name = _name(run_dir)
    return next((RecordIndex(place / name) for place in _places(run_dir) if (place / name).is_dir()), None)


@contextmanager
def new_index(run_dir: Path) -> Iterator[Path]:
    """A folder to write the index of a run into; it gets its name when the block has come to its end. Raises StoreUnavailable."""
    place = _writable(run_dir)
    _sweep(place, run_dir.parent)
    name = _name(run_dir)
    new = place / f"{name}.new-{secrets.token_hex(8)}"
    with disk_errors(new):
        new.mkdir(mode=0o700)
    try:
        yield new
        # Another process that has made the same index in the meantime was as good.
        with suppress(OSError):
            new.rename(place / name)
    finally:
        shutil.rmtree(new, ignore_errors=True)
        (place / _progress(run_dir)).unlink(missing_ok=True)


def note_progress(new: Path, run_dir: Path, percent: int) -> None:
    """Tell others how far an index is that is being written."""
    with disk_errors(new):
        (new.parent / _progress(run_dir)).write_text(str(percent), encoding="ascii")


def progress_of(run_dir: Path) -> int:
    """How much of the index of a run is written, in percent."""
    for place in _places(run_dir):
        with suppress(OSError, ValueError):
            return int((place / _progress(run_dir)).read_text(encoding="ascii"))
    return 0


def forget_index(run_dir: Path) -> None:
    """Remove all indexes of a run, whole or not, which hold texts of its records."""
    for place in _places(run_dir):
        for path in _indexes(place, run_dir.name):
            shutil.rmtree(path, ignore_errors=True)


def _indexes(place: Path, run_id: str | None = None) -> Iterator[Path]:
    for path in place.glob("*") if place.is_dir() else ():
        match = _NAME.fullmatch(path.name)
        if match and run_id in (None, match["run_id"]):
            yield path


def _sweep(place: Path, runs_dir: Path) -> None:
    """Remove the indexes of runs that are gone, earlier ones of those that are there, and what killed processes left."""
    for path in _indexes(place):
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


def _places(run_dir: Path) -> tuple[Path, Path]:
    runs_dir = run_dir.parent.absolute()
    home = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    return runs_dir / FOLDER, Path(home) / "assay" / "index" / sha256(os.fsencode(runs_dir)).hexdigest()[:16]


def _writable(run_dir: Path) -> Path:
    beside, cached = _places(run_dir)
    try:
        return _made(beside)
    except StoreUnavailable:
        return _made(cached)


def _made(place: Path) -> Path:
    with disk_errors(place):
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(place, os.W_OK):
            raise PermissionError(13, "Permission denied")
    return place
