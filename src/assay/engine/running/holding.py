"""A run for one process at a time: a lock in its folder, and for a run that other machines reach a lease that is kept alive."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from math import inf
from typing import TYPE_CHECKING
from uuid import uuid4

import msgspec

from assay.core.errors import StoreUnavailable
from assay.core.run_state import TERMINAL
from assay.engine.places.folders import RunFolders
from assay.engine.running.local import worker_name
from assay.engine.running.surroundings import Surroundings
from assay.store.ledgers import lease_of
from assay.store.lock import LEASE_SECONDS, RunLock

if TYPE_CHECKING:
    from assay.store.postgres import PostgresLease

LOCK_PATIENCE = 60.0
MARGIN = 1.5
"""Seconds before the end of a lease in which no new call is made: clocks differ, and whoever stops looks a few times a second."""
_RENEWALS = 4
"""In the time of one lease."""
_POLL = 0.5


@contextmanager
def held(folders: RunFolders, surroundings: Surroundings, *, patience: float = inf) -> Iterator[Surroundings | None]:
    """Inside, this process has the run for itself, and stops when it loses it; None where another one has it for so long."""
    end = time.monotonic() + patience
    lock = RunLock(folders.active)
    try:
        is_ours = _take(lock, surroundings, end=end)
    except StoreUnavailable:
        # Whoever had the lock may have brought the run to its end and cleared the folder away.
        if not folders.is_sealed:
            raise
        is_ours = False
    try:
        if is_ours:
            with _leased(folders, surroundings, end=end) as around:
                yield around
        else:
            yield None
    finally:
        lock.release()


def _take(lock: RunLock, surroundings: Surroundings, *, end: float) -> bool:
    if lock.try_acquire():
        return True
    if time.monotonic() >= end:
        return False
    if surroundings.on_busy is not None:
        surroundings.on_busy(lock.holder())
    while not lock.wait(min(LOCK_PATIENCE, end - time.monotonic())):
        if time.monotonic() >= end:
            return False
    return True


@contextmanager
def _leased(folders: RunFolders, surroundings: Surroundings, *, end: float) -> Iterator[Surroundings | None]:
    lease = lease_of(folders.active, owner=f"{worker_name()} {uuid4().hex}")
    if lease is None:
        yield surroundings
        return
    try:
        keeper = _taken(lease, folders, surroundings, end=end)
        if keeper is None:
            # Of a run that has ended elsewhere only the artifacts are to be fetched.
            yield surroundings if _has_ended_elsewhere(folders) else None
            return
        try:
            yield keeper.around(surroundings)
        finally:
            keeper.end()
    finally:
        lease.close()


def _taken(lease: "PostgresLease", folders: RunFolders, surroundings: Surroundings, *, end: float) -> "_Keeper | None":
    """The lease while it is kept alive; None when somebody else has it, or has brought the run to its end elsewhere."""
    is_told = surroundings.on_busy is None
    while not _has_ended_elsewhere(folders):
        asked = time.monotonic()
        if lease.take():
            keeper = _Keeper(lease, asked)
            # Whoever had it may have ended the run in the meantime.
            if not _has_ended_elsewhere(folders):
                return keeper
            keeper.end()
        elif time.monotonic() >= end:
            return None
        elif not is_told and surroundings.on_busy is not None:
            surroundings.on_busy(None)
            is_told = True
        time.sleep(_POLL)
    return None


def _has_ended_elsewhere(folders: RunFolders) -> bool:
    if folders.is_sealed:
        return False
    ledger = folders.open_ledger()
    try:
        return ledger.run().state in TERMINAL
    finally:
        ledger.close()


class _Keeper:
    """A lease that was taken, renewed by a thread of its own for as long as the database says that it is ours."""

    def __init__(self, lease: "PostgresLease", asked: float) -> None:
        self._lease = lease
        self._until = asked + LEASE_SECONDS
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="lease", daemon=True)
        self._thread.start()

    def around(self, surroundings: Surroundings) -> Surroundings:
        """The same surroundings, in which the run stops when the lease is lost."""
        is_stopping = surroundings.is_stopping
        return msgspec.structs.replace(
            surroundings,
            driver=self._lease.owner,
            is_stopping=lambda: self.is_lost or (is_stopping is not None and is_stopping()),
        )

    @property
    def is_lost(self) -> bool:
        """True as soon as another machine may have the run: calls from here would be paid for twice."""
        return time.monotonic() > self._until - MARGIN

    def end(self) -> None:
        """Let the next one have the run; where the database is away, the lease ends by itself."""
        self._is_over.set()
        self._thread.join(LEASE_SECONDS)
        if not self._thread.is_alive():
            with suppress(StoreUnavailable):
                self._lease.release()

    def _renew(self) -> None:
        while not self._is_over.wait(LEASE_SECONDS / _RENEWALS):
            asked = time.monotonic()
            # While the database is away nobody else gets the lease; but it may be away from here alone, so that the time runs.
            with suppress(StoreUnavailable):
                if not self._lease.renew():
                    self._until = asked
                    return
                self._until = asked + LEASE_SECONDS
