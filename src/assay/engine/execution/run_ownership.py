"""Ownership of a run by one process: its lock, its lease in a shared ledger, and the signals that end it."""

import asyncio
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from math import inf
from typing import Protocol
from uuid import uuid4

import msgspec

from assay.core.errors import StoreUnavailable
from assay.core.runs import TERMINAL
from assay.core.stop_signals import stop_signals
from assay.engine.execution.run_context import RunEnvironment
from assay.engine.storage.run_paths import RunPaths
from assay.store.ledgers import DriverLease, lease_of
from assay.store.lock import LEASE_SECONDS, RunLock, worker_name

LOCK_PATIENCE = 60.0
MARGIN = 1.5
"""Seconds before the end of a lease in which no new call is made: clocks differ, and a run polls for stops only at intervals."""
_RENEWALS = 4
"""Renewals per lease time, so that a lease survives lost ones."""
_POLL = 0.5


@contextmanager
def exclusive_run(folders: RunPaths, environment: RunEnvironment, *, patience: float = inf) -> Iterator[RunEnvironment | None]:
    """Own the run inside the block; yield an environment that stops the run when ownership is lost.

    Yields None when another process keeps the run for `patience` seconds.
    """
    end = time.monotonic() + patience
    lock = RunLock(folders.active)
    try:
        is_owner = _acquire_lock(lock, environment, end=end)
    except StoreUnavailable:
        # The previous owner may have finished the run and removed its folder while we waited for the lock.
        if not folders.is_sealed:
            raise
        is_owner = False
    try:
        if is_owner:
            with _hold_lease(folders, environment, end=end) as owned:
                yield owned
        else:
            yield None
    finally:
        lock.release()


def _acquire_lock(lock: RunLock, environment: RunEnvironment, *, end: float) -> bool:
    if lock.try_acquire():
        return True
    if time.monotonic() >= end:
        return False
    if environment.on_busy is not None:
        environment.on_busy(lock.holder())
    while not lock.wait(min(LOCK_PATIENCE, end - time.monotonic())):
        if time.monotonic() >= end:
            return False
    return True


@contextmanager
def _hold_lease(folders: RunPaths, environment: RunEnvironment, *, end: float) -> Iterator[RunEnvironment | None]:
    lease = lease_of(folders.active, owner=f"{worker_name()} {uuid4().hex}")
    if lease is None:
        yield environment
        return
    try:
        renewer = _acquire_lease(lease, folders, environment, end=end)
        if renewer is None:
            # A run that has ended on another machine needs no lease: only its artifacts are fetched.
            yield environment if _has_ended_elsewhere(folders) else None
            return
        try:
            yield renewer.stop_when_lost(environment)
        finally:
            renewer.end()
    finally:
        lease.close()


def _acquire_lease(lease: DriverLease, folders: RunPaths, environment: RunEnvironment, *, end: float) -> "_LeaseRenewer | None":
    """Acquire the lease and renew it; None when another process keeps it, or has finished the run on another machine."""
    was_reported = environment.on_busy is None
    while not _has_ended_elsewhere(folders):
        asked = time.monotonic()
        if lease.take():
            renewer = _LeaseRenewer(lease, asked)
            # The previous owner may have finished the run before its lease expired.
            if not _has_ended_elsewhere(folders):
                return renewer
            renewer.end()
        elif time.monotonic() >= end:
            return None
        elif not was_reported and environment.on_busy is not None:
            environment.on_busy(None)
            was_reported = True
        time.sleep(_POLL)
    return None


def _has_ended_elsewhere(folders: RunPaths) -> bool:
    if folders.is_sealed:
        return False
    ledger = folders.open_ledger()
    try:
        return ledger.run().state in TERMINAL
    finally:
        ledger.close()


class _LeaseRenewer:
    """Thread that renews an acquired lease while the database confirms that it is ours."""

    def __init__(self, lease: DriverLease, asked: float) -> None:
        self._lease = lease
        self._until = asked + LEASE_SECONDS
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="lease", daemon=True)
        self._thread.start()

    def stop_when_lost(self, environment: RunEnvironment) -> RunEnvironment:
        """Return the environment, extended so that the run stops when the lease is lost."""
        is_stopping = environment.is_stopping
        return msgspec.structs.replace(
            environment,
            driver=self._lease.owner,
            is_stopping=lambda: self.is_lost or (is_stopping is not None and is_stopping()),
        )

    @property
    def is_lost(self) -> bool:
        """True when another machine may own the run: calls from here could then be paid for twice."""
        return time.monotonic() > self._until - MARGIN

    def end(self) -> None:
        """Stop renewing and release the lease; without the database it expires by itself."""
        self._is_over.set()
        self._thread.join(LEASE_SECONDS)
        if not self._thread.is_alive():
            with suppress(StoreUnavailable):
                self._lease.release()

    def _renew(self) -> None:
        while not self._is_over.wait(LEASE_SECONDS / _RENEWALS):
            asked = time.monotonic()
            # During an outage of the database no other process gets the lease; but the outage may be ours alone, so time counts.
            with suppress(StoreUnavailable):
                if not self._lease.renew():
                    self._until = asked
                    return
                self._until = asked + LEASE_SECONDS


class InterruptiblePart(Protocol):
    """A part of a run that a signal can interrupt."""

    is_interrupted: bool
    """Set by the first signal."""


class GracefulShutdown:
    """Signal handlers while a run works: the first signal drains the run, the second ends it at once."""

    def __init__(self, part: InterruptiblePart, stop: asyncio.Event) -> None:
        self._part = part
        self._stop = stop
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()

    def __enter__(self) -> None:
        self._before = {number: signal.getsignal(number) for number in stop_signals()}
        for number in self._before:
            self._loop.add_signal_handler(number, self._on_signal)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            self._loop.remove_signal_handler(number)
            # The loop would restore the system's default, which kills the process silently while the run is finalized.
            signal.signal(number, handler)

    def _on_signal(self) -> None:
        if self._part.is_interrupted and self._task is not None:
            self._task.cancel()
        self._part.is_interrupted = True
        self._stop.set()
