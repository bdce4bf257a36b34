"""Who submitted which run under which idempotency key, for all servers over one ledger; and which runs wait for a driver."""

from typing import Any, LiteralString, TypeVar

import psycopg

from assay.store.ledger import READ
from assay.store.postgres.connection import FIRST_PATIENCE, Link
from assay.store.postgres.ledger import PostgresLedger, insert_run
from assay.store.postgres.shared_link import SharedLink
from assay.store.submissions import SubmissionRow, Submitted, WaitingRun

T = TypeVar("T")
_UNFINISHED: LiteralString = "state NOT IN ('completed', 'completed_with_failures', 'failed', 'cancelled')"
_SELECT: LiteralString = "SELECT run_id, owner, key, fingerprint, answer, at FROM submission JOIN run USING (run)"
_WAITING: LiteralString = (
    "SELECT run_id, submission.owner, EXISTS (SELECT FROM note WHERE note.run = run.run AND name = 'temporal')"
    " FROM submission JOIN run USING (run) LEFT JOIN driver USING (run)"
    f" WHERE {_UNFINISHED} AND problem = '' AND (driver.until IS NULL OR driver.until < clock_timestamp())"
    " AND NOT EXISTS (SELECT FROM note WHERE note.run = run.run AND name IN ('problem', 'failure') AND value != '')"
    " ORDER BY at LIMIT %s"
)


class _KeyTaken(Exception):
    """Another server has a run under the same idempotency key."""


class PostgresSubmissions:
    """The submissions to all servers over one ledger; every method is one durable transaction, from any thread."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._link = SharedLink(address)

    def enter(self, row: SubmissionRow, submitted: Submitted) -> bool:
        """Make the run with its records and its key, all or nothing; False when there is a run under that key already.

        Whoever else enters the same key at this moment waits until it is decided.
        """
        # On a connection of its own, because this may take a while.
        link = Link(self._address, patience=FIRST_PATIENCE)
        try:
            link.transact(lambda database: self._entered(database, row, submitted))
        except _KeyTaken:
            return False
        finally:
            link.close()
        return True

    def _entered(self, database: psycopg.Connection[Any], row: SubmissionRow, submitted: Submitted) -> None:
        run = insert_run(database, row.run_id, plan=submitted.plan, plan_sha256=submitted.plan_sha256, at=row.at)
        if run is None:
            # Its id is nobody else's: this very call was committed, and only the answer was lost.
            return
        entered = database.execute(
            "INSERT INTO submission(run, owner, key, fingerprint, answer, at) VALUES (%s, %s, %s, %s, %s, %s)"
            " ON CONFLICT DO NOTHING",
            (run, row.owner, row.key, row.fingerprint, row.answer, row.at),
        )
        if entered.rowcount == 0:
            raise _KeyTaken
        PostgresLedger(self._address, row.run_id, run).write_records(database, submitted.records())
        for name, value in {READ: "1", **submitted.notes}.items():
            database.execute("INSERT INTO note VALUES (%s, %s, %s)", (run, name, value.encode()))

    def under(self, owner: str, key: str) -> SubmissionRow | None:
        """The submission under an idempotency key."""
        return self._found(f"{_SELECT} WHERE owner = %s AND key = %s AND key != ''", (owner, key))

    def of(self, run_id: str) -> SubmissionRow | None:
        """The submission of a run."""
        return self._found(f"{_SELECT} WHERE run_id = %s", (run_id,))

    def waiting(self, limit: int) -> list[WaitingRun]:
        """The submitted runs that have not ended and that nobody drives, the oldest first."""
        return [WaitingRun(*row) for row in self._rows(_WAITING, (limit,))]

    def set_problem(self, run_id: str, problem: str) -> None:
        """Say why nobody goes on with a run until somebody resumes it; empty lets it go on."""
        statement: LiteralString = "UPDATE submission SET problem = %s FROM run WHERE run.run = submission.run AND run_id = %s"
        self._link.transact(lambda database: database.execute(statement, (problem.encode("utf-8", "replace"), run_id)))

    def close(self) -> None:
        """Let go of the database."""
        self._link.close()

    def _found(self, query: LiteralString, values: tuple[Any, ...]) -> SubmissionRow | None:
        rows = self._rows(query, values)
        return SubmissionRow(*rows[0]) if rows else None

    def _rows(self, query: LiteralString, values: tuple[Any, ...]) -> list[Any]:
        return self._link.transact(lambda database: database.execute(query, values).fetchall())
