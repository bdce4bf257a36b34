"""Connection to PostgreSQL that survives restarts of the server: an interrupted transaction is repeated, and takes effect once."""

import os
import time
from collections.abc import Callable
from typing import Any, TypeVar

import psycopg
from psycopg import IsolationLevel, errors

from assay.core.errors import LedgerUnavailable
from assay.integrations.postgres.address import parameters_of, shown_address

PATIENCE = 60.0
"""Seconds for which a transaction is retried while the server is away."""
FIRST_PATIENCE = 10.0
"""The same before a run has started: the address may be wrong, and the user is waiting."""
BRIEF_PATIENCE = 2.0
"""The same for callers that read many runs and can do without this one."""
BRIEF_TIMEOUT = 3
_PAUSE = 0.1
_LONGEST_PAUSE = 2.0
_TIMEOUT = 10
_RETRIED_ERRORS = (
    *(psycopg.OperationalError, psycopg.InterfaceError, errors.SerializationFailure, errors.DeadlockDetected),
    # The worker was suspended in the middle of a transaction; repeat it.
    errors.IdleInTransactionSessionTimeout,
)
_IDLE_IN_TRANSACTION = 5.0
"""Seconds after which the server ends an idle transaction, because its client is suspended or gone: it holds locks that the next
worker needs once this one is missed."""
READING = 60.0
"""The same for transactions in which something else is read or written between two statements."""

_KEEPALIVE: dict[str, Any] = {"keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3, "tcp_user_timeout": 12_000}
"""libpq's keepalive parameters: a silently broken connection is given up after about 12 seconds."""

T = TypeVar("T")


class ReconnectingConnection:
    """One connection, opened when it is needed and reopened when it is lost."""

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
        """Run the work in one transaction, retried while the server is away; raises StoreUnavailable in the end.

        A commit whose reply is lost may have happened: the work itself must detect that it was done already.
        """

        def in_transaction(database: psycopg.Connection) -> T:
            with database.transaction():
                return work(database)

        return self.attempt(in_transaction)

    def attempt(self, work: Callable[[psycopg.Connection], T]) -> T:
        """Run work that opens its transactions itself, with the same retries."""
        end = time.monotonic() + self._patience
        pause = _PAUSE
        while True:
            try:
                return work(self._open())
            except _RETRIED_ERRORS as problem:
                self.close()
                if not _is_passing(problem) or time.monotonic() + pause > end:
                    raise self.unavailable(problem) from problem
            except psycopg.Error as problem:
                raise self.unavailable(problem) from problem
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def unavailable(self, problem: psycopg.Error) -> LedgerUnavailable:
        """Build the error for a problem with the database."""
        what = " ".join(str(problem).split()) or type(problem).__name__
        return LedgerUnavailable(
            f"cannot use the ledger at {shown_address(self.address)}: {what}",
            remedy="check that PostgreSQL runs",
        )

    def take_over(self, other: "ReconnectingConnection") -> None:
        """Take the open connection of another object, which reconnects when it is used again."""
        self._database, other._database = other._database, None

    def _open(self) -> psycopg.Connection:
        if self._database is None or self._database.closed:
            self._database = connect(self.address, idle_in_transaction=self._idle_in_transaction, timeout=self._timeout)
        return self._database

    def close(self) -> None:
        """Close the connection; the next transaction opens another."""
        database, self._database = self._database, None
        if database is not None:
            database.close()


def connect(
    address: str, *, is_reading: bool = False, idle_in_transaction: float = READING, timeout: int = _TIMEOUT
) -> psycopg.Connection:
    """Open a connection that commits durably; one for reading sees a snapshot as of its first query."""
    given = parameters_of(address)
    own = f"-c idle_in_transaction_session_timeout={round(1000 * idle_in_transaction)} -c synchronous_commit=on"
    options = f"{given.get('options') or os.environ.get('PGOPTIONS', '')} {own}".lstrip()
    seconds = int(given.get("connect_timeout") or timeout)
    keepalive = {name: value for name, value in _KEEPALIVE.items() if name not in given}
    database = psycopg.connect(address, connect_timeout=seconds, options=options, autocommit=not is_reading, **keepalive)
    if is_reading:
        database.isolation_level = IsolationLevel.REPEATABLE_READ
        database.read_only = True
    return database


def _is_passing(problem: psycopg.Error) -> bool:
    """Tell whether waiting may help: a server that starts, stops or is away, unlike a wrong password or a missing database."""
    state = problem.sqlstate
    if state is None:
        return "password" not in str(problem) and "does not exist" not in str(problem)
    return state[:2] in {"08", "40", "53", "55", "57"} or state == errors.IdleInTransactionSessionTimeout.sqlstate
