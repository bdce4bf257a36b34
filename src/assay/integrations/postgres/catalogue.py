"""Runs and submissions of a shared ledger: the list of all runs, and those that wait for a server."""

from collections.abc import Iterable
from typing import LiteralString, TypeVar

import psycopg

from assay.integrations.postgres.connection import FIRST_PATIENCE, DatabaseRow, ReconnectingConnection, ThreadSafeConnection
from assay.integrations.postgres.ledger import PostgresLedger, insert_run
from assay.store.ledger import READ, RunStatusRow
from assay.store.submissions import NewSubmission, SubmissionRow, WaitingRun

# A run that has ended has no records here any more, so that only active ones are counted.
_STATUS_QUERY: LiteralString = """
SELECT run_id, state, records, is_cancel_requested,
    (SELECT at FROM state WHERE state.run = run.run ORDER BY seq LIMIT 1),
    (SELECT count(*) FROM outcome WHERE outcome.run = run.run),
    submission.run IS NOT NULL,
    coalesce(driver.until >= clock_timestamp(), false),
    EXISTS (SELECT FROM note WHERE note.run = run.run AND name = 'temporal'),
    coalesce(nullif(submission.problem, ''), (SELECT value FROM note WHERE note.run = run.run AND name = 'problem'), ''),
    (SELECT array_agg(name ORDER BY name) FROM note
        WHERE note.run = run.run AND name IN ('counts', 'failure', 'sealed_in', 'store')),
    (SELECT array_agg(value ORDER BY name) FROM note
        WHERE note.run = run.run AND name IN ('counts', 'failure', 'sealed_in', 'store'))
FROM run LEFT JOIN submission USING (run) LEFT JOIN driver USING (run)
"""


class PostgresCatalogue:
    """Runs of one database, for callers that poll; from any thread."""

    # One connection for all callers: these are short reads, a few for each second.
    def __init__(self, address: str) -> None:
        self._connection = ThreadSafeConnection(address)

    def standings(self, run_ids: Iterable[str] | None = None) -> list[RunStatusRow]:
        """Read the status of all runs, or of those with some ids, with one query."""
        if run_ids is None:
            return [_status_row(row) for row in self._rows(_STATUS_QUERY, ())]
        return [_status_row(row) for row in self._rows(f"{_STATUS_QUERY} WHERE run_id = ANY(%s)", (list(run_ids),))]

    def plans(self, run_ids: Iterable[str]) -> dict[str, bytes]:
        """Read the plans of runs by id."""
        return dict(self._rows("SELECT run_id, plan FROM run WHERE run_id = ANY(%s)", (list(run_ids),)))

    def has(self, run_id: str) -> bool:
        """Return whether there is a run of that id."""
        return bool(self._rows("SELECT 1 FROM run WHERE run_id = %s", (run_id,)))

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    def _rows(self, query: LiteralString, values: tuple[object, ...]) -> list[DatabaseRow]:
        # In one transaction, as every access: a retry repeats it whole.
        def read(database: psycopg.Connection) -> list[DatabaseRow]:
            return database.execute(query, values).fetchall()

        return self._connection.transact(read)


def _status_row(row: DatabaseRow) -> RunStatusRow:
    """Build a row; the database stores texts as bytes, and one invalid text must not hide the other runs."""
    *facts, problem, names, values = row
    notes = {name: _decode_text(value) for name, value in zip(names or (), values or (), strict=True)}
    return RunStatusRow(*(*facts, _decode_text(problem), notes))


def _decode_text(content: bytes) -> str:
    return content.decode("utf-8", "replace")


T = TypeVar("T")
# The same words as TERMINAL, written out so that the partial index can be used.
_UNFINISHED: LiteralString = "state NOT IN ('completed', 'completed_with_failures', 'failed', 'cancelled')"
_SELECT: LiteralString = "SELECT run_id, owner, key, fingerprint, answer, at FROM submission JOIN run USING (run)"
_WAITING: LiteralString = (
    "SELECT run_id, submission.owner, EXISTS (SELECT FROM note WHERE note.run = run.run AND name = 'temporal')"
    " FROM submission JOIN run USING (run) LEFT JOIN driver USING (run)"
    f" WHERE {_UNFINISHED} AND problem = '' AND (driver.until IS NULL OR driver.until < clock_timestamp())"
    " AND NOT EXISTS (SELECT FROM note WHERE note.run = run.run AND name IN ('problem', 'failure') AND value != '')"
    " ORDER BY at LIMIT %s"
)


class _IdempotencyKeyTaken(Exception):
    """Another server has a run under the same idempotency key."""


class PostgresSubmissions:
    """Submissions to all servers of one ledger; every method is one durable transaction, from any thread."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._connection = ThreadSafeConnection(address)

    def enter(self, row: SubmissionRow, submitted: NewSubmission) -> bool:
        """Create the run with its records and its key, all or nothing; False when there is a run under that key already.

        A concurrent call with the same key waits until this one has committed or failed.
        """
        # A separate connection, because this may take a while.
        connection = ReconnectingConnection(self._address, patience=FIRST_PATIENCE)
        try:
            connection.transact(lambda database: self._insert(database, row, submitted))
        except _IdempotencyKeyTaken:
            return False
        finally:
            connection.close()
        return True

    def _insert(self, database: psycopg.Connection, row: SubmissionRow, submitted: NewSubmission) -> None:
        run = insert_run(database, row.run_id, plan=submitted.plan, plan_sha256=submitted.plan_sha256, at=row.at)
        if run is None:
            # Run ids are unique: the run is from this very call, which was committed before its reply was lost.
            return
        inserted = database.execute(
            "INSERT INTO submission(run, owner, key, fingerprint, answer, at) VALUES (%s, %s, %s, %s, %s, %s)"
            " ON CONFLICT DO NOTHING",
            (run, row.owner, row.key, row.fingerprint, row.answer, row.at),
        )
        if inserted.rowcount == 0:
            raise _IdempotencyKeyTaken
        PostgresLedger(self._address, row.run_id, run).write_records(database, submitted.records())
        for name, value in {READ: "1", **submitted.notes}.items():
            database.execute("INSERT INTO note VALUES (%s, %s, %s)", (run, name, value.encode()))

    def under(self, owner: str, key: str) -> SubmissionRow | None:
        """Find the submission under an idempotency key."""
        # The condition of the partial index, in which submissions without a key are not.
        return self._find(f"{_SELECT} WHERE owner = %s AND key = %s AND key != ''", (owner, key))

    def of(self, run_id: str) -> SubmissionRow | None:
        """Find the submission of a run."""
        return self._find(f"{_SELECT} WHERE run_id = %s", (run_id,))

    def waiting(self, limit: int) -> list[WaitingRun]:
        """List submitted runs that have not ended and have no driver, the oldest first."""
        return [WaitingRun(*row) for row in self._rows(_WAITING, (limit,))]

    def set_problem(self, run_id: str, problem: str) -> None:
        """Store why no server continues a run until a user resumes it; empty lets the servers continue."""
        statement: LiteralString = "UPDATE submission SET problem = %s FROM run WHERE run.run = submission.run AND run_id = %s"
        self._connection.transact(lambda database: database.execute(statement, (problem.encode("utf-8", "replace"), run_id)))

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    def _find(self, query: LiteralString, values: tuple[object, ...]) -> SubmissionRow | None:
        rows = self._rows(query, values)
        return SubmissionRow(*rows[0]) if rows else None

    def _rows(self, query: LiteralString, values: tuple[object, ...]) -> list[DatabaseRow]:
        return self._connection.transact(lambda database: database.execute(query, values).fetchall())
