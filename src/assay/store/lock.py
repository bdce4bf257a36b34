"""File lock on a run: one process drives it, and the kernel releases the lock when that process dies."""

import fcntl
import os
import socket
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from assay.core.errors import StoreUnavailable
from assay.store.failures import disk_errors

LOCK_FILE = "run.lock"
LEASE_SECONDS = 10.0
"""Seconds for which a lease outlives a process on another machine, whose death no local kernel reports."""


class RunLock:
    """Exclusive lock to drive the run in this working folder; a crash leaves nothing to clean up."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / LOCK_FILE
        self._handle: int | None = None

    def try_acquire(self) -> bool:
        """Take the lock; False when another process, or another RunLock of this one, holds it."""
        assert self._handle is None, "the lock is held"
        with disk_errors(self._path):
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                # flock and not a file that says "locked": the kernel releases it however the process ends.
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.ftruncate(handle, 0)
                # Only for messages. Whether the run is driven is asked of the lock, since process ids are used again.
                os.pwrite(handle, str(os.getpid()).encode(), 0)
            except OSError as problem:
                os.close(handle)
                if isinstance(problem, BlockingIOError):
                    return False
                raise
        self._handle = handle
        return True

    def share(self) -> bool:
        """Hold the lock together with other sharers instead of exclusively; False when another process holds it exclusively."""
        with disk_errors(self._path):
            if self._handle is None:
                self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(self._handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                self.release()
                return False
        return True

    def wait(self, seconds: float, *, poll: float = 0.1) -> bool:
        """Try until the lock is free or the time is up; True when it was taken."""
        end = time.monotonic() + seconds
        while not self.try_acquire():
            if time.monotonic() >= end:
                return False
            time.sleep(poll)
        return True

    def is_held(self) -> bool:
        """Return whether a process drives the run, without taking the lock."""
        try:
            handle = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            # Shared and only for a moment, so that several readers can look without keeping a driver out.
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(handle)
        return False

    def holder(self) -> int | None:
        """Read the process id that the last holder wrote, for messages; None when there is none."""
        try:
            text = self._path.read_bytes()
        except OSError:
            return None
        return int(text) if text.isdigit() else None

    def release(self) -> None:
        """Release the lock; the file stays, since two processes could otherwise lock two files of the same name."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def __enter__(self) -> Self:
        """Take the lock, or raise StoreUnavailable with the holder's process id."""
        if not self.try_acquire():
            raise StoreUnavailable(
                f'process {self.holder()} works on the run in "{self._path.parent}"', hint="wait for it, or stop it and try again"
            )
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        self.release()


def worker_name() -> str:
    """Return the name under which this process claims shards: host and process id."""
    return f"{socket.gethostname()}:{os.getpid()}"
