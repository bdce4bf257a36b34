"""Errors of the disk and the database as StoreUnavailable, each with a hint."""

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from assay.core.errors import StoreUnavailable

_OTHER_FOLDER = "choose another folder with --runs-dir"


class _Advice(NamedTuple):
    """Advice on a failure."""

    remedy: str = ""
    """Advice before trying again."""
    hint: str = ""
    """Whole advice, where trying again is not a part of it."""
    is_of_folder: bool = False
    """Another folder does not have the problem."""


# The advice per code is kept here, so that every part of the store gives the same one for the same failure.
_FULL = _Advice("free some space on that disk", is_of_folder=True)
_READ_ONLY = _Advice("make that place readable and writable for this user", is_of_folder=True)
_HANDLES = _Advice("raise the limit of open files (ulimit -n)")
_BUSY = _Advice(hint="another process is using the file; try again when it is done")
_DAMAGED = _Advice(hint="the file is damaged: restore it from a copy, or start a new run")
_DISK = _Advice("check the disk and the system log")
_PATH = _Advice("check that the folder exists and can be reached")
_CANNOT_OPEN = _Advice(
    "check that the folder exists, can be reached and is writable, and that the limit of open files is not reached"
)

_BY_ERRNO = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EFBIG: _FULL,
    errno.EROFS: _READ_ONLY,
    errno.EACCES: _READ_ONLY,
    errno.EPERM: _READ_ONLY,
    errno.EMFILE: _HANDLES,
    errno.ENFILE: _HANDLES,
    errno.EIO: _DISK,
    errno.ENOENT: _PATH,
    errno.ENOTDIR: _PATH,
}
_BY_SQLITE = {
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_READONLY: _READ_ONLY,
    sqlite3.SQLITE_PERM: _READ_ONLY,
    sqlite3.SQLITE_CANTOPEN: _CANNOT_OPEN,
    sqlite3.SQLITE_BUSY: _BUSY,
    sqlite3.SQLITE_LOCKED: _BUSY,
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
    # Our statements are correct, so a generic error means that the tables are not those that we made.
    sqlite3.SQLITE_ERROR: _DAMAGED,
}


def unavailable(problem: OSError | sqlite3.Error, path: Path, *, is_new: bool = False) -> StoreUnavailable:
    """Build the error for a problem with a file or folder of the store; `is_new` ones may as well be made in another folder."""
    if isinstance(problem, OSError):
        what, advice = problem.strerror or str(problem), _BY_ERRNO.get(problem.errno or 0, _DISK)
    else:
        # The low byte is the primary code; the rest says more than a user can use.
        code = getattr(problem, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        what, advice = str(problem), _BY_SQLITE.get(code, _DISK)
    message = f'cannot use "{path}": {what}'
    if is_new and advice.is_of_folder:
        return StoreUnavailable(message, hint=f"{advice.remedy}, or {_OTHER_FOLDER}")
    return StoreUnavailable(message, hint=advice.hint, remedy=advice.remedy)


@contextmanager
def disk_errors(path: Path, *, is_new: bool = False) -> Iterator[None]:
    """Turn failures of the operating system into StoreUnavailable."""
    try:
        yield
    except OSError as problem:
        raise unavailable(problem, path, is_new=is_new) from problem


@contextmanager
def database_errors(path: Path) -> Iterator[None]:
    """Turn database failures into StoreUnavailable; errors of usage pass through, since they are bugs."""
    try:
        yield
    except sqlite3.ProgrammingError:
        raise
    except sqlite3.Error as problem:
        raise unavailable(problem, path) from problem


def sync_folder(folder: Path) -> None:
    """Flush the directory entries of a folder to the disk; raises StoreUnavailable."""
    with disk_errors(folder):
        # Without this, a new name may be lost in a power failure although the file's content is on the disk.
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
