"""Connections to PostgreSQL: addresses without secrets, transactions that survive restarts of the server, sharing by threads."""

import os
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import psycopg
from psycopg import IsolationLevel, errors
from psycopg.conninfo import conninfo_to_dict

from assay.core.errors import LedgerUnavailable, StoreUnavailable, UsageProblem

SECRETS = ("password", "sslpassword", "oauth_client_secret")
"""Connection parameters that must not be stored."""
_EXAMPLE = "an address looks like postgresql://user@host:5432/database"
_ESCAPE = "write each character of a password except letters and digits as %XX, such as %2F for a slash"


def shown_address(address: str) -> str:
    """Return host and database of an address, for messages; user and password are left out."""
    try:
        known = parameters_of(address)
    except UsageProblem:
        return "an address that cannot be read"
    # libpq takes several hosts; one port stands for all of them.
    hosts, ports = known.get("host", "localhost").split(","), known.get("port", "5432").split(",")
    locations = [f"{host}:{ports[min(number, len(ports) - 1)]}" for number, host in enumerate(hosts)]
    return f"postgresql://{','.join(locations)}/{known.get('dbname', '')}"


def parameters_of(address: str) -> dict[str, str]:
    """Parse an address into libpq's parameters; raises UsageProblem for an invalid one."""
    try:
        # Only to check and to show: the library gets the address as it was given.
        known = {name: str(value) for name, value in conninfo_to_dict(address).items() if value}
    except psycopg.ProgrammingError:
        # The library would quote the address, and with it a password.
        raise UsageProblem("this is not an address of PostgreSQL", hint=_EXAMPLE) from None
    # In a URL, an unescaped slash ends the password: the rest of it would be taken for the database's name.
    if not all(port.isdigit() for port in known.get("port", "").split(",") if port) or "@" in known.get("dbname", ""):
        raise UsageProblem("the address of the ledger cannot be read", hint=_ESCAPE)
    return known


def address_without_password(address: str) -> str:
    """Return the address as it may be stored; raises UsageProblem for an invalid one, or when its secret cannot be removed."""
    if not any(name in parameters_of(address) for name in SECRETS):
        # Most addresses have no secret, and then nothing about their spelling is changed.
        return address
    try:
        parts = urlsplit(address)
    except ValueError:
        raise UsageProblem("the address of the ledger cannot be read", hint=_ESCAPE) from None
    user, _, locations = parts.netloc.rpartition("@")
    query = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name not in SECRETS]
    # User names stay: without one libpq would take that of the process.
    netloc = f"{user.partition(':')[0]}@{locations}" if user else locations
    stored = urlunsplit(parts._replace(netloc=netloc, query=urlencode(query)))
    # A key=value address cannot be rewritten as a URL.
    if any(name in parameters_of(stored) for name in SECRETS):
        raise UsageProblem("the password of the ledger is in a place where it cannot be left out", hint=_EXAMPLE)
    return stored


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

DatabaseRow = tuple[Any, ...]
"""A row of a query, whose columns have the types that the query gives them."""
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
        # By the monotonic clock: the wall clock may jump while a machine sleeps.
        end = time.monotonic() + self._patience
        pause = _PAUSE
        while True:
            try:
                return work(self._open())
            except _RETRIED_ERRORS as problem:
                # Closed after each failure, since the state of a broken connection is unknown.
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
        # Moved and not shared: two objects must never use one connection at once.
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
    # Given with each connection, because neither is a default that a database has to have.
    own = f"-c idle_in_transaction_session_timeout={round(1000 * idle_in_transaction)} -c synchronous_commit=on"
    options = f"{given.get('options') or os.environ.get('PGOPTIONS', '')} {own}".lstrip()
    seconds = int(given.get("connect_timeout") or timeout)
    keepalive = {name: value for name, value in _KEEPALIVE.items() if name not in given}
    # Autocommit, so that only `transaction()` decides where one begins; a reader has one snapshot for all its
    # cursors.
    database = psycopg.connect(address, connect_timeout=seconds, options=options, autocommit=not is_reading, **keepalive)
    if is_reading:
        database.isolation_level = IsolationLevel.REPEATABLE_READ
        database.read_only = True
    return database


def _is_passing(problem: psycopg.Error) -> bool:
    """Return whether waiting may help: a server that starts, stops or is away, unlike a wrong password or a missing database."""
    state = problem.sqlstate
    if state is None:
        # libpq reports a failed connection without an SQLSTATE: only its text tells a wrong password from a server that is away.
        return "password" not in str(problem) and "does not exist" not in str(problem)
    # Classes 08 connection, 40 rollback, 53 resources, 55 not in the right state, 57 operator intervention.
    return state[:2] in {"08", "40", "53", "55", "57"} or state == errors.IdleInTransactionSessionTimeout.sqlstate


SHARED_PATIENCE = 5.0
"""Seconds for which one transaction is retried; callers that serve people or programs can ask again."""


class ThreadSafeConnection:
    """A ReconnectingConnection for any thread."""

    def __init__(self, address: str) -> None:
        self._connection = ReconnectingConnection(address, patience=SHARED_PATIENCE)
        self._lock = threading.Lock()
        self._failure: tuple[float, StoreUnavailable] | None = None

    def transact(self, work: Callable[[psycopg.Connection], T]) -> T:
        """Run the work in one transaction; raises StoreUnavailable."""
        requested_at = time.monotonic()
        with self._lock:
            if self._failure is not None and self._failure[0] >= requested_at:
                # Another thread failed while this one waited: trying in turn would make each wait longer than the last.
                failure = self._failure[1]
                # A new exception: one object raised in two threads would share its traceback.
                raise type(failure)(failure.message, hint=failure.hint)
            try:
                return self._connection.transact(work)
            except StoreUnavailable as problem:
                self._failure = (time.monotonic(), problem)
                raise

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._connection.close()
