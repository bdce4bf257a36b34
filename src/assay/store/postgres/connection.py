"""A connection to PostgreSQL that outlives restarts of the server: what was cut off is done again, and done once."""

import os
import time
from collections.abc import Callable
from typing import Any, TypeVar

import psycopg
from psycopg import IsolationLevel, errors

from assay.core.errors import LedgerUnavailable
from assay.store.failures import AGAIN
from assay.store.postgres.address import parameters_of, shown_address

PATIENCE = 60.0
"""Seconds that a transaction is tried again while the server is away."""
FIRST_PATIENCE = 10.0
"""The same before anything has begun: an address may be wrong, and somebody waits to hear of it."""
BRIEF_PATIENCE = 2.0
"""The same for whoever looks at many runs and can do without this one."""
BRIEF_TIMEOUT = 3
_PAUSE = 0.1
_LONGEST_PAUSE = 2.0
_TIMEOUT = 10
_AGAIN = (
    *(psycopg.OperationalError, psycopg.InterfaceError, errors.SerializationFailure, errors.DeadlockDetected),
    # Whoever was frozen in the middle of a transaction begins it anew.
    errors.IdleInTransactionSessionTimeout,
)
_IDLE_IN_TRANSACTION = 5.0
"""Seconds after which the server ends a transaction that nobody goes on with, because its machine stands still or is gone: it has
locks, and whoever goes on with the work is to find them free when the worker is missed."""
READING = 60.0
"""The same for transactions in which something else is read or written between two statements."""

_ALIVE: dict[str, Any] = {"keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3, "tcp_user_timeout": 12_000}
"""When a connection that was cut off without a word is given up, in words of PostgreSQL's library: after about 12 seconds."""

T = TypeVar("T")


class Link:
    """One connection, opened when it is needed and opened again when it is lost."""

    def __init__(
        self,
        address: str,
        *,
        patience: float = PATIENCE,
        idle_in_transaction: float = _IDLE_IN_TRANSACTION,
        timeout: int = _TIMEOUT,
    ) -> None:
        self.address = address
        self._patience = patience
        self._idle_in_transaction = idle_in_transaction
        self._timeout = timeout
        self._database: psycopg.Connection | None = None

    def transact(self, work: Callable[[psycopg.Connection], T]) -> T:
        """What the work gives in one transaction, tried again while the server is away; raises StoreUnavailable in the end.

        A commit whose answer is lost may have happened: the work must see by itself that it was done already.
        """

        def in_transaction(database: psycopg.Connection) -> T:
            with database.transaction():
                return work(database)

        return self.attempt(in_transaction)

    def attempt(self, work: Callable[[psycopg.Connection], T]) -> T:
        """The same for work that makes its transactions itself."""
        end = time.monotonic() + self._patience
        pause = _PAUSE
        while True:
            try:
                return work(self._connected())
            except _AGAIN as problem:
                self.close()
                if not _is_passing(problem) or time.monotonic() + pause > end:
                    raise self.unavailable(problem) from problem
            except psycopg.Error as problem:
                raise self.unavailable(problem) from problem
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def unavailable(self, problem: psycopg.Error) -> LedgerUnavailable:
        """The error to raise for a problem with the database."""
        what = " ".join(str(problem).split()) or type(problem).__name__
        return LedgerUnavailable(
            f"cannot use the ledger at {shown_address(self.address)}: {what}",
            hint=f"check that PostgreSQL runs, {AGAIN}",
        )

    def take_over(self, other: "Link") -> None:
        """Use the connection of another link, which has none afterwards."""
        self._database, other._database = other._database, None

    def _connected(self) -> psycopg.Connection:
        if self._database is None or self._database.closed:
            self._database = connect(self.address, idle_in_transaction=self._idle_in_transaction, timeout=self._timeout)
        return self._database

    def close(self) -> None:
        """Let go of the connection; the next transaction opens another."""
        database, self._database = self._database, None
        if database is not None:
            database.close()


def connect(
    address: str, *, is_reading: bool = False, idle_in_transaction: float = READING, timeout: int = _TIMEOUT
) -> psycopg.Connection:
    """A connection that commits durably; one for reading sees the state of the moment of its first query."""
    given = parameters_of(address)
    own = f"-c idle_in_transaction_session_timeout={round(1000 * idle_in_transaction)} -c synchronous_commit=on"
    options = f"{given.get('options') or os.environ.get('PGOPTIONS', '')} {own}".lstrip()
    seconds = int(given.get("connect_timeout") or timeout)
    alive = {name: value for name, value in _ALIVE.items() if name not in given}
    database = psycopg.connect(address, connect_timeout=seconds, options=options, autocommit=not is_reading, **alive)
    if is_reading:
        database.isolation_level = IsolationLevel.REPEATABLE_READ
        database.read_only = True
    return database


def _is_passing(problem: psycopg.Error) -> bool:
    """Whether waiting may heal it: a server that starts, stops or is not there, unlike a wrong password or a missing database."""
    state = problem.sqlstate
    if state is None:
        return "password" not in str(problem) and "does not exist" not in str(problem)
    return state[:2] in {"08", "40", "53", "55", "57"} or state == errors.IdleInTransactionSessionTimeout.sqlstate
