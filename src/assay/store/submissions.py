"""Submissions of runs with their idempotency keys, in one SQLite file next to the runs."""

import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from assay.store.failures import database_errors, disk_errors
from assay.store.ledger import RecordRow

BUSY_SECONDS = 10.0
_TABLES = """
CREATE TABLE IF NOT EXISTS submission(
    run_id TEXT PRIMARY KEY, owner TEXT, key TEXT, fingerprint TEXT, answer BLOB, at REAL
);
CREATE UNIQUE INDEX IF NOT EXISTS submission_by_key ON submission(owner, key) WHERE key != '';
"""
_COLUMNS = "run_id, owner, key, fingerprint, answer, at"


class SubmissionRow(msgspec.Struct, frozen=True):
    """One accepted submission."""

    run_id: str
    owner: str
    """Name of the API key that submitted it; empty when the server needs none."""
    key: str
    """Idempotency key; empty without one."""
    fingerprint: str
    """Hash of the body and the settings: the same key with another hash is a conflict."""
    # Stored as it was sent, because a repeated request must get the same answer.
    answer: bytes
    """HTTP answer as JSON, without quotes of records: the run has those, redacted."""
    at: float


class NewSubmission(msgspec.Struct, frozen=True):
    """A run to submit: its plan, and a function that reads its records."""

    plan: bytes
    plan_sha256: str
    records: Callable[[], Iterable[RecordRow]]
    notes: Mapping[str, str] = {}
    """Notes to store in the ledger."""


class WaitingRun(msgspec.Struct, frozen=True):
    """An unfinished run that no process drives."""

    run_id: str
    owner: str
    is_with_workers: bool = False
    """A Temporal server distributes it to workers."""


class SubmissionBook:
    """Submissions of a folder of runs; every method is one durable transaction, from any thread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        with disk_errors(path):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.touch(mode=0o600)
        with database_errors(path):
            self._database = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
            self._database.execute("PRAGMA journal_mode = WAL")
            # With NORMAL a power failure could lose the last commits, whose callers have their answer already.
            self._database.execute("PRAGMA synchronous = FULL")
            self._database.executescript(_TABLES)

    def enter(self, row: SubmissionRow) -> None:
        """Store a submission; it replaces an earlier one under the same key, whose run was never created."""
        with self._transaction() as database:
            if row.key:
                database.execute("DELETE FROM submission WHERE owner = ? AND key = ?", (row.owner, row.key))
            database.execute(f"INSERT INTO submission({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)", msgspec.structs.astuple(row))

    def under(self, owner: str, key: str) -> SubmissionRow | None:
        """Find the submission under an idempotency key."""
        return self._find("owner = ? AND key = ? AND key != ''", (owner, key))

    def of(self, run_id: str) -> SubmissionRow | None:
        """Find the submission of a run."""
        return self._find("run_id = ?", (run_id,))

    def _find(self, condition: str, values: tuple[str, ...]) -> SubmissionRow | None:
        with self._transaction() as database:
            found = database.execute(f"SELECT {_COLUMNS} FROM submission WHERE {condition}", values).fetchone()
        return None if found is None else SubmissionRow(*found)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock, database_errors(self.path):
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield self._database
                self._database.execute("COMMIT")
            finally:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")

    def close(self) -> None:
        """Close the database."""
        self._database.close()
