"""A connection to PostgreSQL that outlives restarts of the server: what was cut off is done again, and done once."""

import time
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import IsolationLevel, errors
from psycopg.conninfo import conninfo_to_dict

from assay.core.errors import StoreUnavailable, UsageProblem

PATIENCE = 60.0
"""Seconds that a transaction is tried again while the server is away."""
FIRST_PATIENCE = 10.0
"""The same before anything has begun: an address may be wrong, and somebody waits to hear of it."""
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

_EXAMPLE = "an address looks like postgresql://user@host:5432/database"

T = TypeVar("T")


def shown_address(address: str) -> str:
    """Host and database of an address, for messages: who uses it is left out."""
    try:
        known = conninfo_to_dict(address)
    except psycopg.ProgrammingError:
        return "an address that cannot be read"
    hosts = str(known.get("host") or "localhost").split(",")
    ports = str(known.get("port") or "5432").split(",")
    places = [f"{host}:{ports[min(number, len(ports) - 1)]}" for number, host in enumerate(hosts)]
    return f"postgresql://{','.join(places)}/{known.get('dbname') or ''}"


def address_without_password(address: str) -> str:
    """The address as it may be kept; raises UsageProblem for one that is none."""
    try:
        known = conninfo_to_dict(address)
    except psycopg.ProgrammingError as problem:
        raise UsageProblem(f"this is no address of PostgreSQL: {problem}".strip(), hint=_EXAMPLE) from problem
    if not known.get("password"):
        return address
    parts = urlsplit(address)
    if parts.scheme not in ("postgresql", "postgres") or not parts.password:
        raise UsageProblem("the password of the ledger stands where it cannot be left out", hint=_EXAMPLE)
    user, host = parts.netloc.rpartition("@")[0].split(":")[0], parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{user}@{host}"))


class Link:
    """One connection, opened when it is needed and opened again when it is lost."""

    def __init__(self, address: str, *, patience: float = PATIENCE, idle_in_transaction: float = _IDLE_IN_TRANSACTION) -> None:
        self.address = address
        self._patience = patience
        self._idle_in_transaction = idle_in_transaction
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

    def unavailable(self, problem: psycopg.Error) -> StoreUnavailable:
        """The error to raise for a problem with the database."""
        what = " ".join(str(problem).split()) or type(problem).__name__
        return StoreUnavailable(
            f"cannot use the ledger at {shown_address(self.address)}: {what}",
            hint="check that PostgreSQL runs, then resume the run",
        )

    def take_over(self, other: "Link") -> None:
        """Use the connection of another link, which has none afterwards."""
        self._database, other._database = other._database, None

    def _connected(self) -> psycopg.Connection:
        if self._database is None or self._database.closed:
            self._database = connect(self.address, idle_in_transaction=self._idle_in_transaction)
        return self._database

    def close(self) -> None:
        """Let go of the connection; the next transaction opens another."""
        database, self._database = self._database, None
        if database is not None:
            database.close()


def connect(address: str, *, is_reading: bool = False, idle_in_transaction: float = READING) -> psycopg.Connection:
    """A connection that commits durably; one for reading sees the state of the moment of its first query."""
    options = f"-c idle_in_transaction_session_timeout={round(1000 * idle_in_transaction)} -c synchronous_commit=on"
    database = psycopg.connect(address, connect_timeout=_TIMEOUT, options=options, autocommit=not is_reading)
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
