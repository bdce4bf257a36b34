"""What the disk and the database complain about, turned into one clear line and what to do."""

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from assay.core.errors import StoreUnavailable

AGAIN = "then try again"
"""Ends a hint: what failed here may be any command. Whoever works on a run says that it can be resumed."""
_ELSEWHERE = "or choose another folder with --runs-dir"
_FULL = f"free some space on that disk, {AGAIN}"
_READ_ONLY = f"make that place readable and writable for this user, {AGAIN}"
_HANDLES = f"raise the limit of open files (ulimit -n), {AGAIN}"
_BUSY = "another process is using the file; try again when it is done"
_DAMAGED = "the file is damaged: restore it from a copy, or start a new run"
_DISK = f"check the disk and the system log, {AGAIN}"
_PATH = f"check that the folder exists and can be reached, {AGAIN}"

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
    sqlite3.SQLITE_CANTOPEN: f"{_PATH}; it must be writable, and the limit of open files not reached",
    sqlite3.SQLITE_BUSY: _BUSY,
    sqlite3.SQLITE_LOCKED: _BUSY,
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
    sqlite3.SQLITE_ERROR: _DAMAGED,
}


def unavailable(problem: OSError | sqlite3.Error, path: Path, *, is_new: bool = False) -> StoreUnavailable:
    """The error to raise for a problem with a file or folder of the store; what is new may as well be made elsewhere."""
    if isinstance(problem, OSError):
        what, hint = problem.strerror or str(problem), _BY_ERRNO.get(problem.errno or 0, _DISK)
    else:
        # The low byte is the primary code; the rest says more than a user can use.
        code = getattr(problem, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        what, hint = str(problem), _BY_SQLITE.get(code, _DISK)
    if is_new and hint in (_FULL, _READ_ONLY):
        hint = hint.replace(AGAIN, _ELSEWHERE)
    return StoreUnavailable(f'cannot use "{path}": {what}', hint=hint)


@contextmanager
def disk_errors(path: Path, *, is_new: bool = False) -> Iterator[None]:
    """Inside, a failure of the operating system is StoreUnavailable."""
    try:
        yield
    except OSError as problem:
        raise unavailable(problem, path, is_new=is_new) from problem


@contextmanager
def database_errors(path: Path) -> Iterator[None]:
    """Inside, a failure of the database is StoreUnavailable; misuse of it stays what it is."""
    try:
        yield
    except sqlite3.ProgrammingError:
        raise
    except sqlite3.Error as problem:
        raise unavailable(problem, path) from problem


def sync_folder(folder: Path) -> None:
    """Force the names in a folder to the disk; raises StoreUnavailable."""
    with disk_errors(folder):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
