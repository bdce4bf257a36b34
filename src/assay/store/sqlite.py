"""Ledger of one run in one SQLite file."""

import os
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import astuple

from assay.core.errors import LedgerLost, RunNotFound, StoreUnavailable, UsageProblem
from assay.core.outcome import Outcome
from assay.core.runs import State, may_follow
from assay.store.failures import database_errors, disk_errors, sync_folder, unavailable
from assay.store.ledger import (
    SHARD_SIZE,
    UNPREPARED,
    Claim,
    ClaimLost,
    CommitEntry,
    FinishedRecord,
    OpenRecord,
    RecordRow,
    RowGroups,
    RunRow,
    askable,
    attempts_of,
    decode_outcome,
    encode,
    finished_record,
    in_shards,
    invalid_outcomes,
    outcome_values,
)

FORMAT = 3
"""Version of the tables, stored in the file's user_version; opening a file of an earlier version migrates it."""

_ROWS_PER_STATEMENT = 64
"""Rows per statement: SQLite releases the GIL at each step, and then waits for it behind the event loop."""
_BYTES_PER_STATEMENT = 1 << 20
"""Bytes after which a statement takes no further row, because SQLite copies its parameters."""
BUSY_SECONDS = 10.0
"""Seconds that a transaction waits for another process before it gives up."""

# Attempts have a serial number and an index by record: half the cost of storing their bodies sorted by record.
_TABLES = """
CREATE TABLE run(plan BLOB, plan_sha256 TEXT, state TEXT, records INTEGER, is_cancel_requested INTEGER);
CREATE TABLE state(seq INTEGER PRIMARY KEY, state TEXT, at REAL);
CREATE TABLE note(name TEXT PRIMARY KEY, value TEXT);
CREATE TABLE record(position INTEGER PRIMARY KEY, record_id TEXT, sha256 TEXT, case_json BLOB, issues BLOB, row BLOB, head BLOB);
CREATE TABLE shard(shard INTEGER PRIMARY KEY, epoch INTEGER, owner TEXT);
CREATE TABLE span(shard INTEGER PRIMARY KEY, first INTEGER, last INTEGER);
CREATE TABLE attempt(seq INTEGER PRIMARY KEY, position INTEGER, body BLOB);
CREATE INDEX attempt_by_position ON attempt(position);
CREATE TABLE outcome(position INTEGER PRIMARY KEY, status TEXT, body BLOB);
"""
_RECORD_COLUMNS = "position, record_id, sha256, case_json, issues, outcome.body"
_WHOLE_RECORD = f"{_RECORD_COLUMNS}, row, head"
"""Columns that only the finalization of a run needs, included."""
_SELECT_RECORDS = f"SELECT {_WHOLE_RECORD} FROM record LEFT JOIN outcome USING (position) ORDER BY position"
_SELECT_FAILED = (
    f"SELECT {_RECORD_COLUMNS} FROM outcome JOIN record USING (position)"
    " WHERE status IN ('timeout', 'evaluation_error') ORDER BY position DESC"
)
_SELECT_OPEN_SHARDS = (
    "SELECT shard FROM span WHERE last - first >= (SELECT count(*) FROM outcome WHERE position BETWEEN first AND last)"
    " ORDER BY shard"
)
_SELECT_CLAIM = "SELECT epoch, is_cancel_requested FROM run LEFT JOIN shard ON shard = ?"
_INSERT_SPAN = "INSERT INTO span VALUES (?, ?, ?)"
_INSERT_OUTCOME = "INSERT INTO outcome VALUES (?, ?, ?) ON CONFLICT DO NOTHING"


def create_ledger(path: Path, *, plan: bytes, plan_sha256: str, at: float) -> "SqliteLedger":
    """Create a run in state `queued`, in a file that only its owner can read; raises UsageProblem when it exists already.

    The file gets its name when it is complete: every file of that name is a run, even after a crash during creation.
    """
    new = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    with disk_errors(path):
        os.close(os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        try:
            _write_run(new, path, plan=plan, plan_sha256=plan_sha256, at=at)
            _link_name(new, path)
        finally:
            for leftover in path.parent.glob(f"{new.name}*"):
                leftover.unlink()
    sync_folder(path.parent)
    return open_ledger(path)


def _write_run(new: Path, path: Path, *, plan: bytes, plan_sha256: str, at: float) -> None:
    """Write the tables of a run into the new file; errors name the final path."""
    ledger = SqliteLedger(path, _connect(new))
    try:
        with database_errors(path):
            # The page size can change only before the first table; 8 KiB pages hold the usual rows without overflow.
            ledger.database.execute("PRAGMA page_size = 8192")
            ledger.database.execute("PRAGMA journal_mode = WAL")
        with ledger.transaction() as database:
            for statement in _TABLES.strip().splitlines():
                database.execute(statement)
            database.execute("INSERT INTO run VALUES (?, ?, 'queued', 0, 0)", (plan, plan_sha256))
            database.execute("INSERT INTO state(state, at) VALUES ('queued', ?)", (at,))
            database.execute(f"PRAGMA user_version = {FORMAT}")
        with database_errors(path):
            # Closing would checkpoint too, but without reporting a failure; and the rename does not move the log.
            ledger.database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        ledger.close()


def _link_name(new: Path, path: Path) -> None:
    """Link the file to its name: unlike a rename, a link never replaces an existing file."""
    try:
        path.hardlink_to(new)
    except FileExistsError:
        raise UsageProblem(f'"{path}" holds a run already', hint="resume that run, or choose another run id") from None
    except PermissionError:
        # Some file systems have no links.
        new.rename(path)


def open_ledger(path: Path) -> "SqliteLedger":
    """Open the ledger of an existing run; raises RunNotFound when there is none."""
    if not path.is_file():
        raise RunNotFound(f'there is no run at "{path}"', hint="`assay runs` lists the runs of a folder")
    database = _connect(path)
    found = _format(database)
    if found < 1:
        # A run's file gets its name only once it has its tables.
        database.close()
        raise _lost_error(path, "is empty")
    # Refused rather than guessed: a later version may store what this one would silently drop.
    if found > FORMAT:
        database.close()
        raise StoreUnavailable(
            f'"{path}" has format {found}, this version reads {FORMAT}', hint="use the version that started the run"
        )
    ledger = SqliteLedger(path, database, file=_file_identity(path))
    if found < FORMAT:
        _migrate(ledger)
    return ledger


def _migrate(ledger: "SqliteLedger") -> None:
    """Bring the tables of an earlier version up to date, in one transaction."""
    with ledger.transaction() as database:
        # Read again inside the transaction: another process may have migrated meanwhile.
        found = _format(database)
        if found < 2:
            _note_spans(database)
        if found < 3:
            for column in ("row", "head"):
                database.execute(f"ALTER TABLE record ADD COLUMN {column} BLOB DEFAULT x''")
        database.execute(f"PRAGMA user_version = {FORMAT}")


def _note_spans(database: sqlite3.Connection) -> None:
    """Fill the table of spans: in version 1 all shards but the last have the same number of records."""
    database.execute(next(table for table in _TABLES.splitlines() if "TABLE span" in table))
    (records,) = database.execute("SELECT records FROM run").fetchone()
    starts = enumerate(range(0, records, SHARD_SIZE))
    database.executemany(_INSERT_SPAN, ((shard, first, min(first + SHARD_SIZE, records) - 1) for shard, first in starts))


@contextmanager
def _ledger_errors(path: Path) -> Iterator[None]:
    """Handle errors as database_errors does, but raise LedgerLost when the file's content was overwritten."""
    with database_errors(path):
        try:
            yield
        except sqlite3.DatabaseError as problem:
            if getattr(problem, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
                raise _lost_error(path, f"cannot be read: {problem}") from problem
            raise


def _connect(path: Path) -> sqlite3.Connection:
    """Open a connection without implicit transactions, for use by one thread at a time."""
    with _ledger_errors(path):
        # mode=rw never creates a file: an empty one would pass for the ledger that was lost.
        uri_text = f"{path.absolute().as_uri()}?mode=rw"
        database = sqlite3.connect(uri_text, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            # A result counts when it is durable: with NORMAL, a power failure could lose the last commits of a run.
            database.execute("PRAGMA synchronous = FULL")
            # Otherwise the log of a large input keeps its size for the rest of the run.
            database.execute("PRAGMA journal_size_limit = 16777216")
            _format(database)  # fails for a file that is not a database
        except sqlite3.Error:
            database.close()
            raise
    return database


def _format(database: sqlite3.Connection) -> int:
    return int(database.execute("PRAGMA user_version").fetchone()[0])


def _file_identity(path: Path) -> tuple[int, int] | None:
    """Return device and inode of a path; None when it does not exist."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as problem:
        raise unavailable(problem, path) from problem
    return found.st_dev, found.st_ino


def _write_log_ahead(new: Path) -> None:
    """Convert a copy to write-ahead logging, as a ledger has, and flush it to the disk."""
    database = _connect(new)
    try:
        with database_errors(new):
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        database.close()
    handle = os.open(new, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def set_aside(path: Path) -> None:
    """Rename a damaged ledger and delete its log, which SQLite would otherwise apply to the new file."""
    if path.exists():
        path.rename(path.with_name(f"lost-{secrets.token_hex(4)}-{path.name}"))
    for rest in ("-wal", "-shm"):
        path.with_name(f"{path.name}{rest}").unlink(missing_ok=True)


def _lost_error(path: Path, what: str) -> LedgerLost:
    return LedgerLost(
        f'the ledger was lost: "{path}" {what}',
        hint="it is damaged or gone: restore it from a copy; a run that is `failed` for that begins again when it is resumed",
    )


class SqliteLedger:
    """Tables of one run; every method is one durable transaction."""

    def __init__(self, path: Path, database: sqlite3.Connection, *, file: tuple[int, int] | None = None) -> None:
        self.path = path
        self.database = database
        self._opened_file = file

    def check(self) -> None:
        """Check the file; raises LedgerLost when it was removed, replaced or overwritten."""
        self._check_file()
        # An open connection may not notice a corrupt file for a long time.
        open_ledger(self.path).close()

    def _check_file(self) -> None:
        """Check that the open file still has its name; SQLite writes on to a deleted one without an error."""
        if self._opened_file is not None and _file_identity(self.path) != self._opened_file:
            raise _lost_error(self.path, "was removed or replaced")

    def rescue(self) -> bool:
        """Restore a removed or replaced file from the open connection; False when it was overwritten."""
        try:
            self._check_file()
        except LedgerLost:
            pass
        else:
            return False
        new = self.path.with_name(f".{self.path.name}-{secrets.token_hex(8)}")
        with disk_errors(self.path):
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                os.close(os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
                with database_errors(self.path):
                    # The open connection still sees the deleted file, and can write its content to a new one.
                    self.database.execute("VACUUM INTO ?", (str(new),))
                _write_log_ahead(new)
                set_aside(self.path)
                new.rename(self.path)
            finally:
                for leftover in self.path.parent.glob(f"{new.name}*"):
                    leftover.unlink()
        sync_folder(self.path.parent)
        return True

    @contextmanager
    def transaction(self, kind: str = "IMMEDIATE") -> Iterator[sqlite3.Connection]:
        """Run the statements of the block all or nothing; raises StoreUnavailable when the database cannot do it."""
        database = self.database
        # Before each write: SQLite goes on writing to a deleted file without an error, and all of that would be lost.
        if kind == "IMMEDIATE":
            self._check_file()
        with _ledger_errors(self.path):
            # IMMEDIATE takes the write lock at once; a lock that is taken later can fail when the work is already done.
            database.execute(f"BEGIN {kind}")
            try:
                yield database
                database.execute("COMMIT")
            finally:
                if database.in_transaction:
                    # When this fails too, report the first problem.
                    with suppress(sqlite3.Error):
                        database.execute("ROLLBACK")

    def run(self) -> RunRow:
        """Read the run's row."""
        with self.transaction("DEFERRED") as database:
            plan, sha256, state, is_cancelled = database.execute(
                "SELECT plan, plan_sha256, state, is_cancel_requested FROM run"
            ).fetchone()
            states = database.execute("SELECT state, at FROM state ORDER BY seq").fetchall()
            notes = database.execute("SELECT name, value FROM note").fetchall()
        return RunRow(plan, sha256, state, tuple(states), bool(is_cancelled), dict(notes))

    def set_state(self, old: State, new: State, *, at: float) -> bool:
        """Change the state from `old` to `new`; False when the run is no longer in `old`."""
        assert may_follow(old, new), f"{new} does not follow {old}"
        with self.transaction() as database:
            # Compare and set: of two processes that change the state, one wins and the other hears of it.
            is_changed = database.execute("UPDATE run SET state = ? WHERE state = ?", (new, old)).rowcount == 1
            if is_changed:
                database.execute("INSERT INTO state(state, at) VALUES (?, ?)", (new, at))
        return is_changed

    def is_ours(self, state: State) -> bool:
        """Return whether the run is in this state; the lock in its folder keeps other drivers away."""
        return self.run().state == state

    def set_note(self, name: str, value: str) -> None:
        """Store a small value under a name."""
        with self.transaction() as database:
            database.execute("INSERT INTO note VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value", (name, value))

    def request_cancel(self) -> None:
        """Request a cancel; the workers of the run see it at their next append."""
        with self.transaction() as database:
            database.execute("UPDATE run SET is_cancel_requested = 1")

    def replace_records(self, rows: Iterable[RecordRow]) -> int:
        """Replace the whole input, in one transaction and in constant memory; returns the number of records.

        An invalid record gets its outcome here: the first of its errors.
        """
        records = 0
        with self.transaction() as database:
            (state,) = database.execute("SELECT state FROM run").fetchone()
            if state not in UNPREPARED:
                raise ClaimLost(f"the run is {state}")
            for table in ("record", "attempt", "outcome", "span"):
                database.execute(f"DELETE FROM {table}")
            # Epochs only grow, so that no earlier claim becomes valid again.
            database.execute("UPDATE shard SET epoch = epoch + 1")
            for shard, part in enumerate(in_shards(rows)):
                database.executemany("INSERT INTO record VALUES (?, ?, ?, ?, ?, ?, ?)", map(astuple, part))
                database.executemany(_INSERT_OUTCOME, invalid_outcomes(part))
                database.execute(_INSERT_SPAN, (shard, records, records + len(part) - 1))
                records += len(part)
            database.execute("UPDATE run SET records = ?", (records,))
        return records

    def shards(self) -> Sequence[int]:
        """List the shards that have records without an outcome."""
        with self.transaction("DEFERRED") as database:
            return [shard for (shard,) in database.execute(_SELECT_OPEN_SHARDS)]

    def claim(self, shard: int, *, owner: str) -> Claim:
        """Claim a shard, which ends every earlier claim to it."""
        with self.transaction() as database:
            database.execute(
                "INSERT INTO shard VALUES (?, 1, ?) ON CONFLICT DO UPDATE SET epoch = epoch + 1, owner = excluded.owner",
                (shard, owner),
            )
            (epoch,) = database.execute("SELECT epoch FROM shard WHERE shard = ?", (shard,)).fetchone()
        return Claim(shard, epoch)

    def open_records(self, shard: int) -> list[OpenRecord]:
        """Read the shard's records that have no outcome, in order."""
        with self.transaction("DEFERRED") as database:
            span = database.execute("SELECT first, last FROM span WHERE shard = ?", (shard,)).fetchone() or (0, -1)
            cases = database.execute(
                "SELECT position, case_json FROM record WHERE position BETWEEN ? AND ?"
                " AND position NOT IN (SELECT position FROM outcome WHERE position BETWEEN ? AND ?) ORDER BY position",
                span + span,
            ).fetchall()
            tried = database.execute(
                "SELECT position, body FROM attempt WHERE position BETWEEN ? AND ? ORDER BY position, seq", span
            ).fetchall()
        attempts = RowGroups(iter(tried))
        with self._decoding():
            return [OpenRecord(position, case, attempts_of(attempts.of(position))) for position, case in cases]

    def append(self, claim: Claim, entries: Sequence[CommitEntry]) -> bool:
        """Append attempts and outcomes; True when a cancel was requested. Raises ClaimLost, and then nothing was appended.

        The first outcome of a record counts; later ones are ignored.
        """
        # Encoded before the transaction begins, so that the file is locked for the writing alone.
        attempts = [(entry.position, encode(attempt)) for entry in entries for attempt in entry.attempts]
        outcomes = [outcome_values(entry.position, entry.outcome) for entry in entries if entry.outcome is not None]
        with self.transaction() as database:
            epoch, is_cancelled = database.execute(_SELECT_CLAIM, (claim.shard,)).fetchone()
            if epoch != claim.epoch:
                raise ClaimLost(f"shard {claim.shard} was taken over")
            _insert(database, "attempt(position, body)", attempts)
            _insert(database, "outcome", outcomes, otherwise="ON CONFLICT DO NOTHING")
        return bool(is_cancelled)

    def close_open(self, outcome: Outcome) -> int:
        """Give this outcome to every record without one; returns how many there were."""
        _, status, body = outcome_values(0, outcome)
        with self.transaction() as database:
            return database.execute(
                "INSERT INTO outcome SELECT position, ?, ? FROM record WHERE position NOT IN (SELECT position FROM outcome)",
                (status, body),
            ).rowcount

    def counts(self) -> dict[str, int]:
        """Count records by status; those without an outcome are counted as `open`."""
        with self.transaction("DEFERRED") as database:
            (records,) = database.execute("SELECT records FROM run").fetchone()
            by_status = dict(database.execute("SELECT status, count(*) FROM outcome GROUP BY status").fetchall())
        return {**by_status, "open": records - sum(by_status.values())}

    def spent(self) -> float:
        """Sum the cost of all attempts in US dollars, as far as prices are known."""
        # Summed up only when a run is resumed or hands in a batch; in between, the budget counts by itself.
        return sum(attempt.cost or 0.0 for record in self.finished() for attempt in record.attempts)

    def latest_failures(self, limit: int) -> list[FinishedRecord]:
        """Read the last records that ended with an error, the last first, without their attempts."""
        with self.transaction("DEFERRED") as database:
            rows = database.execute(f"{_SELECT_FAILED} LIMIT ?", (limit,)).fetchall()
        with self._decoding():
            return [FinishedRecord(RecordRow(*values), (), decode_outcome(end)) for *values, end in rows]

    def finished(self) -> Iterator[FinishedRecord]:
        """Read all records in order, each with its attempts and outcome, in constant memory.

        Reads a snapshot through a connection of its own, so that the ledger can be written meanwhile.
        """
        database = _connect(self.path)
        try:
            with _ledger_errors(self.path), self._decoding():
                yield from _merge_cursors(database)
        finally:
            database.close()

    def finished_part(
        self, *, statuses: Sequence[str], passed: bool | None, limit: int, offset: int = 0, first: int = 0
    ) -> tuple[int, list[FinishedRecord]]:
        """Count the records with one of these statuses (or any) and this verdict (or any), and read a page of them."""
        conditions, values = ["1"], list[Any](statuses)
        if statuses:
            conditions.append(f"outcome.status IN ({', '.join('?' * len(statuses))})")
        if passed is not None:
            # Only pages of a run under way ask for this; a column for it would cost every append.
            conditions.append("json_extract(CAST(outcome.body AS TEXT), '$.grade.passed') = ?")
            values.append(passed)
        wanted = f"FROM outcome JOIN record USING (position) WHERE {' AND '.join(conditions)}"
        with self.transaction("DEFERRED") as database:
            (total,) = database.execute(f"SELECT count(*) {wanted}", values).fetchone()
            part = f"SELECT {_RECORD_COLUMNS} {wanted} AND position >= ? ORDER BY position LIMIT ? OFFSET ?"
            rows = database.execute(part, [*values, askable(first), limit, offset]).fetchall()
            bodies = [
                [body for (body,) in database.execute("SELECT body FROM attempt WHERE position = ? ORDER BY seq", row[:1])]
                for row in rows
            ]
        with self._decoding():
            return total, [
                finished_record(RecordRow(*values), tried, end) for (*values, end), tried in zip(rows, bodies, strict=True)
            ]

    def leases(self) -> None:
        """Return None: the file belongs to one worker, which shares no limits."""

    def close(self) -> None:
        """Close the database."""
        self.database.close()

    @contextmanager
    def _decoding(self) -> Iterator[None]:
        try:
            yield
        except msgspec.DecodeError as problem:
            raise StoreUnavailable(
                f'"{self.path}" holds a damaged row: {problem}', hint="restore the file from a copy"
            ) from problem


StoredRow = tuple[int, bytes] | tuple[int, str, bytes]
"""A row of the table of attempts or of outcomes."""


def _insert(database: sqlite3.Connection, table: str, rows: Sequence[StoredRow], *, otherwise: str = "") -> None:
    for part in _parts(rows):
        placeholders = f"({', '.join('?' * len(part[0]))})"
        values = ", ".join([placeholders] * len(part))
        database.execute(f"INSERT INTO {table} VALUES {values} {otherwise}", tuple(chain.from_iterable(part)))


def _parts(rows: Sequence[StoredRow]) -> Iterator[Sequence[StoredRow]]:
    """Split rows into the parts of one statement each; the last value of a row is its body."""
    start = size = 0
    for end, row in enumerate(rows, 1):
        size += len(row[-1])
        if end - start == _ROWS_PER_STATEMENT or size >= _BYTES_PER_STATEMENT or end == len(rows):
            yield rows[start:end]
            start, size = end, 0


# Two ordered cursors instead of a join, which would repeat the record's texts for each of its attempts.
def _merge_cursors(database: sqlite3.Connection) -> Iterator[FinishedRecord]:
    """Merge two cursors, both ordered by position, so that memory stays constant."""
    database.execute("BEGIN")
    attempts = RowGroups(database.execute("SELECT position, body FROM attempt ORDER BY position, seq"))
    for position, record_id, sha256, case, issues, end, row, head in database.execute(_SELECT_RECORDS):
        yield finished_record(RecordRow(position, record_id, sha256, case, issues, row, head), attempts.of(position), end)
