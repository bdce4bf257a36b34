"""Ledger of a run in PostgreSQL, shared by workers on many machines."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, LiteralString, TypeVar
from uuid import UUID, uuid4

import msgspec
import psycopg

from assay.core.errors import RunNotFound, StoreUnavailable, UsageProblem
from assay.core.outcome import GradedOutcome, Outcome
from assay.core.runs import State, may_follow
from assay.integrations.postgres.connection import (
    BRIEF_PATIENCE,
    BRIEF_TIMEOUT,
    FIRST_PATIENCE,
    PATIENCE,
    READING,
    DatabaseRow,
    ReconnectingConnection,
    connect,
    shown_address,
)
from assay.integrations.postgres.leases import PostgresLeases
from assay.integrations.postgres.migrations import migrate
from assay.store.ledger import (
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
from assay.store.lock import LEASE_SECONDS

_RECORD_COLUMNS: LiteralString = "position, record_id, sha256, case_json, issues, outcome.body"
_WHOLE_RECORD: LiteralString = "position, record_id, sha256, case_json, issues, row_json, head, outcome.body"
"""Columns that only the finalization of a run needs, included."""
_INSERT_OUTCOMES: LiteralString = (
    "INSERT INTO outcome(run, position, status, passed, body)"
    " SELECT %s, * FROM unnest(%s::bigint[], %s::text[], %s::boolean[], %s::bytea[]) ON CONFLICT DO NOTHING"
)
_COPY_RECORDS: LiteralString = (
    "COPY record(run, position, record_id, sha256, case_json, issues, row_json, head) FROM STDIN (FORMAT BINARY)"
)
_ENTER_STATE: LiteralString = (
    "UPDATE run SET state = %s WHERE run = %s AND state = %s"
    # FOR SHARE: no other process can become the driver before the state is entered.
    " AND (%s = '' OR EXISTS (SELECT FROM driver WHERE driver.run = run.run AND owner = %s FOR SHARE))"
)
_RENEW_DRIVER: LiteralString = (
    "UPDATE driver SET until = clock_timestamp() + make_interval(secs => %s) FROM run"
    " WHERE driver.run = run.run AND run.run = %s AND run.state = %s AND owner = %s"
)
_SELECT_RUN: LiteralString = "SELECT run FROM run WHERE run_id = %s"
_FETCH_SIZE = 2000
"""Rows per fetch of a cursor over everything."""

T = TypeVar("T")


class PostgresLedgers:
    """Runs of one database; opening it creates or migrates its tables."""

    def __init__(self, address: str) -> None:
        self._connection = ReconnectingConnection(address, patience=FIRST_PATIENCE)
        try:
            self._connection.attempt(migrate)
        except StoreUnavailable:
            self._connection.close()
            raise

    def create(self, run_id: str, *, plan: bytes, plan_sha256: str, at: float) -> "PostgresLedger":
        """Create a run in state `queued`; raises UsageProblem when there is a run of that id already."""
        call_id = uuid4()

        def created(database: psycopg.Connection) -> int | None:
            run = insert_run(database, run_id, plan=plan, plan_sha256=plan_sha256, at=at)
            if run is None:
                return _created_run(database, run_id, call_id)
            # The token tells a repeated call its own run from that of another process.
            database.execute("INSERT INTO note VALUES (%s, '.created', %s)", (run, call_id.bytes))
            return run

        run = self._connection.transact(created)
        if run is None:
            shown = shown_address(self._connection.address)
            raise UsageProblem(f'{shown} holds a run "{run_id}" already', hint="resume that run, or choose another run id")
        return PostgresLedger(self._connection.address, run_id, run)

    def open(self, run_id: str) -> "PostgresLedger":
        """Open the ledger of an existing run; raises RunNotFound when there is none."""
        return open_run(self._connection.address, run_id)

    def remove(self, run_id: str) -> None:
        """Delete everything that is stored for a run."""
        self._connection.transact(lambda database: database.execute("DELETE FROM run WHERE run_id = %s", (run_id,)))

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class PostgresLedger:
    """Rows of one run; every method is one durable transaction, which survives restarts of the server."""

    def __init__(self, address: str, run_id: str, run: int, *, driver: str = "", is_brief: bool = False) -> None:
        """Prepare the connection; `is_brief` callers do not wait for a server that is away."""
        self.run_id = run_id
        self._run = run
        self._driver = driver
        # The row's number is looked up once; all other tables refer to it.
        self._is_brief = is_brief
        self._connection = self._new_connection(address, PATIENCE)

    @property
    def address(self) -> str:
        """Address of the database."""
        return self._connection.address

    def find(self) -> None:
        """Look the run up by its id; raises RunNotFound."""
        first = self._new_connection(self._connection.address, FIRST_PATIENCE)
        try:
            found = first.transact(lambda database: _fetch_row(database.execute(_SELECT_RUN, (self.run_id,))))
        finally:
            self._connection.take_over(first)
        if found is None:
            shown = shown_address(self._connection.address)
            raise RunNotFound(
                f'there is no run "{self.run_id}" at {shown}', hint="check the id and the address; it may have been removed there"
            )
        self._run = int(found[0])

    def _new_connection(self, address: str, patience: float) -> ReconnectingConnection:
        return (
            ReconnectingConnection(address, patience=BRIEF_PATIENCE, timeout=BRIEF_TIMEOUT)
            if self._is_brief
            else ReconnectingConnection(address, patience=patience)
        )

    def remove_records(self, *, shown_plan: bytes) -> None:
        """Delete the records of a run with their attempts and outcomes; states and notes stay, and the plan without secrets."""

        def removed(database: psycopg.Connection) -> None:
            database.execute("UPDATE run SET plan = %s WHERE run = %s", (shown_plan, self._run))
            # Table by table: deleting the run's row would also lose its states and notes.
            for table in ("attempt", "outcome", "record", "shard", "span", "pool"):
                database.execute(f"DELETE FROM {table} WHERE run = %s", (self._run,))

        self._connection.transact(removed)

    def check(self) -> None:
        """Do nothing: a database that has lost the run reports that itself."""

    def rescue(self) -> bool:
        """Return False: rows that the database lost cannot be restored from here."""
        return False

    def run(self) -> RunRow:
        """Read the run's row."""

        def read(database: psycopg.Connection) -> tuple[DatabaseRow | None, list[DatabaseRow], list[DatabaseRow]]:
            row = _fetch_row(
                database.execute("SELECT plan, plan_sha256, state, is_cancel_requested FROM run WHERE run = %s", (self._run,))
            )
            states = database.execute("SELECT state, at FROM state WHERE run = %s ORDER BY seq", (self._run,)).fetchall()
            # Names that begin with a dot are of the ledger itself.
            notes = database.execute("SELECT name, value FROM note WHERE run = %s AND name NOT LIKE '.%%'", (self._run,)).fetchall()
            return row, states, notes

        row, states, notes = self._connection.transact(read)
        if row is None:
            raise RunNotFound(f'the run "{self.run_id}" is gone', hint="it was removed from the ledger")
        plan, sha256, state, is_cancelled = row
        return RunRow(plan, sha256, state, tuple(states), is_cancelled, {name: _text(value) for name, value in notes})

    def set_state(self, old: State, new: State, *, at: float) -> bool:
        """Change the state from `old` to `new`; False when the run is no longer in `old`, or another process drives it."""
        assert may_follow(old, new), f"{new} does not follow {old}"

        is_retry = False

        def changed(database: psycopg.Connection) -> bool:
            # Set by the first attempt: only a repetition can find its own commit.
            nonlocal is_retry
            was_retry, is_retry = is_retry, True
            values = (new, self._run, old, self._driver, self._driver)
            if database.execute(_ENTER_STATE, values).rowcount == 1:
                database.execute("INSERT INTO state(run, state, at) VALUES (%s, %s, %s)", (self._run, new, at))
                return True
            # The same step at the same time is our own commit, whose reply was lost.
            last = _fetch_row(
                database.execute("SELECT state, at FROM state WHERE run = %s ORDER BY seq DESC LIMIT 1", (self._run,))
            )
            # Without a retry the same state is that of another process.
            return was_retry and last == (new, at)

        return self._connection.transact(changed)

    def is_ours(self, state: State) -> bool:
        """Return whether the run is in this state and our driver holds the lease, which is renewed; without one, the state."""
        if not self._driver:
            return self.run().state == state
        values = (LEASE_SECONDS, self._run, state, self._driver)
        return self._connection.transact(lambda database: database.execute(_RENEW_DRIVER, values).rowcount == 1)

    def set_note(self, name: str, value: str) -> None:
        """Store a small value under a name."""
        self._do(
            "INSERT INTO note VALUES (%s, %s, %s) ON CONFLICT (run, name) DO UPDATE SET value = excluded.value",
            (self._run, name, _bytes(value)),
        )

    def request_cancel(self) -> None:
        """Request a cancel; the workers of the run see it at their next append."""
        self._do("UPDATE run SET is_cancel_requested = true WHERE run = %s", (self._run,))

    def replace_records(self, rows: Iterable[RecordRow]) -> int:
        """Replace the whole input, in one transaction and in constant memory; returns the number of records.

        The rows can be read only once, so there is no retry: a server that goes away is StoreUnavailable, and nothing was changed.
        """
        once = ReconnectingConnection(self._connection.address, patience=0.0, idle_in_transaction=READING)
        # No patience, since the rows can be read only once; and a longer idle limit, because reading them may
        # pause.
        try:
            return once.transact(lambda database: self.write_records(database, rows))
        finally:
            once.close()

    def write_records(self, database: psycopg.Connection, rows: Iterable[RecordRow]) -> int:
        """Replace the whole input in the caller's transaction."""
        # The row lock is held until commit: of two concurrent writers, one waits for the other.
        row = _fetch_row(database.execute("SELECT state FROM run WHERE run = %s FOR UPDATE", (self._run,)))
        if row is not None and row[0] not in UNPREPARED:
            raise ClaimLost(f"the run is {row[0]}")
        # Once a run is prepared its records are fixed: another process has read the input meanwhile.
        for table in ("record", "attempt", "outcome", "span"):
            database.execute(f"DELETE FROM {table} WHERE run = %s", (self._run,))
        # Epochs only grow, so that no earlier claim becomes valid again.
        database.execute("UPDATE shard SET epoch = epoch + 1, last_append = NULL, spent = 0 WHERE run = %s", (self._run,))
        records = 0
        # A shard is written at a time, so that memory holds one and not the input.
        for shard, part in enumerate(in_shards(rows)):
            self._copy(database, part)
            invalid = invalid_outcomes(part)
            if invalid:
                database.execute(_INSERT_OUTCOMES, self._outcomes(invalid))
            database.execute("INSERT INTO span VALUES (%s, %s, %s, %s)", (self._run, shard, records, records + len(part) - 1))
            records += len(part)
        database.execute("UPDATE run SET records = %s WHERE run = %s", (records, self._run))
        return records

    def _copy(self, database: psycopg.Connection, part: Sequence[RecordRow]) -> None:
        with database.cursor() as cursor, cursor.copy(_COPY_RECORDS) as copying:
            copying.set_types(["int8", "int8", "bytea", "text", "bytea", "bytea", "bytea", "bytea"])
            for row in part:
                identity = None if row.record_id is None else _bytes(row.record_id)
                copying.write_row((self._run, row.position, identity, row.sha256, row.case, row.issues, row.row, row.head))

    def shards(self) -> Sequence[int]:
        """List the shards that have records without an outcome."""
        query: LiteralString = (
            # Compared by counts: an outcome is never removed, so a shard without as many as it has records is
            # open.
            "SELECT shard FROM span WHERE run = %s AND last - first >="
            " (SELECT count(*) FROM outcome WHERE outcome.run = span.run AND position BETWEEN first AND last) ORDER BY shard"
        )
        rows = self._connection.transact(lambda database: database.execute(query, (self._run,)).fetchall())
        return [shard for (shard,) in rows]

    def claim(self, shard: int, *, owner: str) -> Claim:
        """Claim a shard, which ends every earlier claim to it."""
        epoch = self._connection.transact(
            lambda database: _fetch_row(
                database.execute(
                    # The upsert is atomic: two workers that claim at once get different epochs, and the first can
                    # no longer write.
                    "INSERT INTO shard VALUES (%s, %s, 1, %s) ON CONFLICT (run, shard)"
                    " DO UPDATE SET epoch = shard.epoch + 1, owner = excluded.owner, last_append = NULL RETURNING epoch",
                    (self._run, shard, owner),
                )
            )
        )
        assert epoch is not None
        return Claim(shard, epoch[0])

    def open_records(self, shard: int) -> list[OpenRecord]:
        """Read the shard's records that have no outcome, in order."""

        def read(database: psycopg.Connection) -> tuple[list[DatabaseRow], list[DatabaseRow]]:
            found = _fetch_row(
                database.execute("SELECT run, first, last FROM span WHERE run = %s AND shard = %s", (self._run, shard))
            )
            span = found or (self._run, 0, -1)
            cases = database.execute(
                "SELECT position, case_json FROM record LEFT JOIN outcome USING (run, position)"
                " WHERE run = %s AND position BETWEEN %s AND %s AND outcome.body IS NULL ORDER BY position",
                span,
                # Binary, since JSON bodies as text would be escaped and parsed again.
                binary=True,
            ).fetchall()
            tried = database.execute(
                "SELECT position, body FROM attempt WHERE run = %s AND position BETWEEN %s AND %s ORDER BY position, seq",
                span,
                binary=True,
            ).fetchall()
            return cases, tried

        cases, tried = self._connection.transact(read)
        attempts = RowGroups(iter(tried))
        return self._decoded(lambda: [OpenRecord(at, case, attempts_of(attempts.of(at))) for at, case in cases])

    def append(self, claim: Claim, entries: Sequence[CommitEntry]) -> bool:
        """Append attempts and outcomes; True when a cancel was requested. Raises ClaimLost, and then nothing was appended.

        The first outcome of a record counts; later ones are ignored.
        """
        # Drawn once for all attempts at this append.
        call_id = uuid4()
        attempts = [(entry.position, encode(attempt)) for entry in entries for attempt in entry.attempts]
        # Encoded outside of the transaction, which holds the row's lock.
        outcomes = self._outcomes([outcome_values(entry.position, entry.outcome) for entry in entries if entry.outcome is not None])
        passed = [_passed_of(entry.outcome) for entry in entries if entry.outcome is not None]
        spent = sum(attempt.cost or 0.0 for entry in entries for attempt in entry.attempts)
        rows = (attempts, (*outcomes[:3], passed, outcomes[4]))
        return self._connection.transact(lambda database: self._append_once(database, claim, call_id, rows, spent=spent))

    def _append_once(
        self,
        database: psycopg.Connection,
        claim: Claim,
        call_id: UUID,
        rows: tuple[Sequence[tuple[int, bytes]], Any],
        *,
        spent: float,
    ) -> bool:
        attempts, outcomes = rows
        row = _fetch_row(
            database.execute(
                # The lock on the shard's row orders this append against a claim by another worker.
                "SELECT epoch, last_append FROM shard WHERE run = %s AND shard = %s FOR UPDATE",
                (self._run, claim.shard),
            )
        )
        # A worker that was frozen and wakes up ends here, before it has written anything.
        if row is None or row[0] != claim.epoch:
            raise ClaimLost(f"shard {claim.shard} was taken over")
        if row[1] != call_id:  # else this very append was committed, and only the answer was lost
            database.execute(
                "UPDATE shard SET last_append = %s, spent = spent + %s WHERE run = %s AND shard = %s",
                (call_id, spent, self._run, claim.shard),
            )
            database.execute(
                # `unnest` inserts any number of rows with one statement and one plan.
                "INSERT INTO attempt(run, position, body) SELECT %s, * FROM unnest(%s::bigint[], %s::bytea[])",
                (self._run, [at for at, _ in attempts], [body for _, body in attempts]),
            )
            database.execute(_INSERT_OUTCOMES, outcomes)
        cancelled = _fetch_row(database.execute("SELECT is_cancel_requested FROM run WHERE run = %s", (self._run,)))
        return cancelled is not None and bool(cancelled[0])

    def close_open(self, outcome: Outcome) -> int:
        """Give this outcome to every record without one; returns how many there were."""
        _, status, body = outcome_values(0, outcome)
        return self._do(
            "INSERT INTO outcome(run, position, status, passed, body) SELECT run, position, %s, %s, %s FROM record"
            " WHERE run = %s AND NOT EXISTS (SELECT FROM outcome o WHERE o.run = record.run AND o.position = record.position)",
            (status, _passed_of(outcome), body, self._run),
        )

    def counts(self) -> dict[str, int]:
        """Count records by status; those without an outcome are counted as `open`."""

        def read(database: psycopg.Connection) -> tuple[int, dict[str, int]]:
            by_status = "SELECT status, count(*) FROM outcome WHERE run = %s GROUP BY status ORDER BY status"
            return self._records(database), dict(database.execute(by_status, (self._run,)).fetchall())

        records, by_status = self._connection.transact(read)
        return {**by_status, "open": records - sum(by_status.values())}

    def spent(self) -> float:
        """Sum the cost of all attempts in US dollars, as far as prices are known."""
        # Kept by shard, so that workers that append at once do not wait for one row of the run.
        query: LiteralString = "SELECT coalesce(sum(spent), 0) FROM shard WHERE run = %s"
        found = self._connection.transact(lambda database: _fetch_row(database.execute(query, (self._run,))))
        return 0.0 if found is None else float(found[0])

    def latest_failures(self, limit: int) -> list[FinishedRecord]:
        """Read the last records that ended with an error, the last first, without their attempts."""
        query: LiteralString = (
            f"SELECT {_RECORD_COLUMNS} FROM outcome JOIN record USING (run, position) WHERE run = %s"
            " AND status IN ('timeout', 'evaluation_error') ORDER BY position DESC LIMIT %s"
        )
        rows = self._connection.transact(lambda database: database.execute(query, (self._run, limit), binary=True).fetchall())
        return self._decoded(lambda: [FinishedRecord(_record(values), (), decode_outcome(end)) for *values, end in rows])

    def finished(self) -> Iterator[FinishedRecord]:
        """Read all records in order, each with its attempts and outcome, in constant memory.

        Reads a snapshot through a connection of its own, so that the ledger can be written meanwhile.
        """
        try:
            # A cursor needs a transaction for its whole life, which the ledger's own connection cannot give while
            # it is written.
            with connect(self._connection.address, is_reading=True) as database:
                yield from self._merge_cursors(database)
        except psycopg.Error as problem:
            raise self._connection.unavailable(problem) from problem

    def _merge_cursors(self, database: psycopg.Connection) -> Iterator[FinishedRecord]:
        """Merge two server-side cursors, both ordered by position, so that memory stays constant."""
        with database.cursor("attempts", binary=True) as tried, database.cursor("records", binary=True) as records:
            # Rows come in portions: one by one would be a round trip for each record.
            tried.itersize = records.itersize = _FETCH_SIZE
            tried.execute("SELECT position, body FROM attempt WHERE run = %s ORDER BY position, seq", (self._run,))
            records.execute(
                f"SELECT {_WHOLE_RECORD} FROM record LEFT JOIN outcome USING (run, position) WHERE run = %s ORDER BY position",
                (self._run,),
            )
            attempts = RowGroups(iter(tried))
            for *values, end in records:
                record = _record(values)
                bodies = attempts.of(record.position)
                yield self._decoded(lambda record=record, bodies=bodies, end=end: finished_record(record, bodies, end))  # type: ignore[misc]

    def finished_part(
        self, *, statuses: Sequence[str], passed: bool | None, limit: int, offset: int = 0, first: int = 0
    ) -> tuple[int, list[FinishedRecord]]:
        """Count the records with one of these statuses (or any) and this verdict (or any), and read a page of them."""
        # One query for any filter: an empty list of statuses means all, and NULL means any verdict.
        wanted: LiteralString = (
            "FROM outcome JOIN record USING (run, position) WHERE run = %(run)s"
            " AND (%(any)s OR status = ANY(%(statuses)s)) AND (%(passed)s::boolean IS NULL OR passed = %(passed)s)"
        )
        values = {"run": self._run, "any": not statuses, "statuses": list(statuses), "passed": passed}
        part = {**values, "first": askable(first), "limit": limit, "offset": offset}

        def read(database: psycopg.Connection) -> tuple[int, list[DatabaseRow], list[DatabaseRow]]:
            total = _fetch_row(database.execute(f"SELECT count(*) {wanted}", values))
            rows = database.execute(
                f"SELECT {_RECORD_COLUMNS} {wanted} AND position >= %(first)s ORDER BY position LIMIT %(limit)s OFFSET %(offset)s",
                part,
                binary=True,
            ).fetchall()
            tried = database.execute(
                "SELECT position, body FROM attempt WHERE run = %s AND position = ANY(%s) ORDER BY position, seq",
                (self._run, [row[0] for row in rows]),
                binary=True,
            ).fetchall()
            return 0 if total is None else total[0], rows, tried

        total, rows, tried = self._connection.transact(read)
        attempts = RowGroups(iter(tried))
        return total, self._decoded(
            lambda: [finished_record(record := _record(values), attempts.of(record.position), end) for *values, end in rows]
        )

    def leases(self) -> PostgresLeases:
        """Open the limits that the workers of the run share."""
        return PostgresLeases(self._connection.address, self._run)

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    def _do(self, statement: LiteralString, values: Sequence[object]) -> int:
        return self._connection.transact(lambda database: database.execute(statement, values).rowcount)

    def _records(self, database: psycopg.Connection) -> int:
        found = _fetch_row(database.execute("SELECT records FROM run WHERE run = %s", (self._run,)))
        return 0 if found is None else int(found[0])

    def _outcomes(self, rows: Sequence[tuple[int, str, bytes]]) -> tuple[object, ...]:
        """Build the parameters that insert outcomes without a verdict."""
        return self._run, [row[0] for row in rows], [row[1] for row in rows], [None for _ in rows], [row[2] for row in rows]

    def _decoded(self, decode: Callable[[], T]) -> T:
        try:
            return decode()
        except msgspec.DecodeError as problem:
            raise StoreUnavailable(
                f'the ledger of "{self.run_id}" holds a damaged row: {problem}', hint="restore the database from a copy"
            ) from problem


def open_run(address: str, run_id: str, *, driver: str = "", is_brief: bool = False) -> PostgresLedger:
    """Open the ledger of an existing run; raises RunNotFound when there is none. With `driver`, only that one changes states."""
    ledger = PostgresLedger(address, run_id, 0, driver=driver, is_brief=is_brief)
    try:
        ledger.find()
    # No connection stays behind for a run that is not there.
    except (RunNotFound, StoreUnavailable):
        ledger.close()
        raise
    return ledger


def insert_run(database: psycopg.Connection, run_id: str, *, plan: bytes, plan_sha256: str, at: float) -> int | None:
    """Insert a run in state `queued` and return its number; None when there is a run of that id already."""
    run = _fetch_row(
        database.execute(
            "INSERT INTO run(run_id, plan, plan_sha256, state) VALUES (%s, %s, %s, 'queued') ON CONFLICT DO NOTHING RETURNING run",
            (run_id, plan, plan_sha256),
        )
    )
    if run is None:
        return None
    database.execute("INSERT INTO state(run, state, at) VALUES (%s, 'queued', %s)", (run[0], at))
    return int(run[0])


def _fetch_row(cursor: psycopg.Cursor[DatabaseRow]) -> DatabaseRow | None:
    row: DatabaseRow | None = cursor.fetchone()
    return row


def _created_run(database: psycopg.Connection, run_id: str, call_id: UUID) -> int | None:
    """Find the run of that id if this very call created it and only the reply was lost."""
    found = _fetch_row(
        database.execute(
            "SELECT run FROM run JOIN note USING (run) WHERE run_id = %s AND name = '.created' AND value = %s",
            (run_id, call_id.bytes),
        )
    )
    return None if found is None else int(found[0])


def _record(values: Sequence[Any]) -> RecordRow:
    position, record_id, *others = values
    return RecordRow(position, None if record_id is None else _text(record_id), *others)


def _passed_of(outcome: Outcome | None) -> bool | None:
    return outcome.grade.passed if isinstance(outcome, GradedOutcome) else None


def _bytes(text: str) -> bytes:
    # Ids may hold lone surrogates, which are legal in JSON and not in UTF-8.
    return text.encode("utf-8", "surrogatepass")


def _text(content: bytes) -> str:
    return content.decode("utf-8", "surrogatepass")
