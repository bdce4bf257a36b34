"""Batches of a run in its ledger: planned, submitted, and the results merged from them."""

from collections.abc import Collection, Iterable, Sequence
from typing import Literal

import msgspec

from assay.core.outcome import Attempt, Outcome, record_status
from assay.store.sqlite import SqliteLedger

BatchState = Literal["spooled", "submitting", "submitted", "merged", "refused"]
"""`spooled`: its file is written; `submitting`: the provider may have it; `submitted`: the provider has it; `merged`: its results
are in the ledger."""

NOTE = "batches"
"""Note of a run with the summary of its batches."""
_TABLES = (
    # Made where batches are first used: ledgers of runs without batches stay as they were.
    "CREATE TABLE IF NOT EXISTS batch(number INTEGER PRIMARY KEY, body BLOB)",
    "CREATE TABLE IF NOT EXISTS batch_request"
    "(custom_id TEXT PRIMARY KEY, number INTEGER, position INTEGER, address TEXT, is_answered INTEGER)",
    "CREATE INDEX IF NOT EXISTS batch_request_by_number ON batch_request(number, is_answered)",
    "CREATE INDEX IF NOT EXISTS batch_request_by_position ON batch_request(position)",
)
_ANSWERED, _REJECTED = 1, 2
"""Values of `is_answered`: a result is stored; the provider rejected a parameter, so that the request is sent again without it."""
_encode = msgspec.json.Encoder().encode


class BatchRow(msgspec.Struct, frozen=True, kw_only=True):
    """One batch of a run."""

    number: int
    """Counts from 1 in the order of submission."""
    state: BatchState = "spooled"
    requests: int = 0
    bytes: int = 0
    sha256: str = ""
    """Hash of the submitted file."""
    estimate: float = 0.0
    """Estimated cost in US dollars, as far as prices are known."""
    upload_id: str = ""
    """Id of the file at the provider."""
    batch_id: str = ""
    """Id of the batch at the provider."""
    is_certain: bool = True
    """False for a batch that was recognised by its size alone: its results show whether it is ours."""
    strangers: tuple[str, ...] = ()
    """Ids of batches that were recognised by mistake and are not ours."""
    at: float = 0.0
    """Time of submission in seconds since 1970."""
    status: str = ""
    """Status at the last poll, in the provider's words."""
    done: int = 0
    """Requests with an answer or an error, according to the last poll."""
    looks: int = 0
    failed_looks: int = 0
    """Polls that failed."""
    lost_looks: int = 0
    """Polls in a row at which the provider did not know the batch."""
    fetches: int = 0
    """Number of times its results were fetched."""
    answered: int = 0
    errors: dict[str, int] = {}
    """Requests without an answer, by code."""
    asked_live: int = 0
    """Number of them that are called one by one instead."""
    duplicates: int = 0
    """Result lines for a request that already had one."""
    unknown: int = 0
    """Result lines for requests that are not ours."""
    malformed: int = 0
    """Result lines that cannot be parsed."""
    problems: tuple[str, ...] = ()
    """Problems of the batch as a whole."""


class BatchRequest(msgspec.Struct, frozen=True):
    """One request of a batch."""

    custom_id: str
    position: int
    address: str
    """Content address of the request."""
    is_answered: bool = False
    """Its reply is stored among the attempts of its record, or the rejection after which it is sent again."""


class BatchStore:
    """Tables of batches in the ledger of the run; every method is one durable transaction."""

    def __init__(self, ledger: SqliteLedger) -> None:
        self._ledger = ledger
        with ledger.transaction() as database:
            for statement in _TABLES:
                database.execute(statement)

    def rows(self) -> list[BatchRow]:
        """Read all batches in order."""
        with self._ledger.transaction("DEFERRED") as database:
            bodies = database.execute("SELECT body FROM batch ORDER BY number").fetchall()
        return [msgspec.json.decode(body, type=BatchRow) for (body,) in bodies]

    # Before sending: after a crash the provider may have a batch that is paid for, and it must be found again.
    def intend(self, row: BatchRow, requests: Iterable[BatchRequest]) -> None:
        """Store a batch and all of its requests before anything is sent to the provider."""
        values = ((request.custom_id, row.number, request.position, request.address) for request in requests)
        with self._ledger.transaction() as database:
            database.execute("INSERT INTO batch VALUES (?, ?)", (row.number, _encode(row)))
            database.executemany("INSERT INTO batch_request VALUES (?, ?, ?, ?, 0)", values)

    def save(self, row: BatchRow) -> None:
        """Store the state of a batch."""
        with self._ledger.transaction() as database:
            database.execute("UPDATE batch SET body = ? WHERE number = ?", (_encode(row), row.number))

    def release(self, row: BatchRow) -> None:
        """Store a batch that is given up: its unanswered requests are free for another one."""
        with self._ledger.transaction() as database:
            database.execute("UPDATE batch SET body = ? WHERE number = ?", (_encode(row), row.number))
            database.execute("DELETE FROM batch_request WHERE number = ? AND NOT is_answered", (row.number,))

    def forget(self, number: int) -> None:
        """Delete a batch that was never sent."""
        with self._ledger.transaction() as database:
            database.execute("DELETE FROM batch WHERE number = ?", (number,))
            database.execute("DELETE FROM batch_request WHERE number = ?", (number,))

    def sent(self, first: int, last: int) -> frozenset[int]:
        """Return the positions in a range that already belong to a batch, without those that are to be sent again."""
        query = "SELECT position FROM batch_request WHERE position BETWEEN ? AND ? AND is_answered < ?"
        with self._ledger.transaction("DEFERRED") as database:
            rows = database.execute(query, (first, last, _REJECTED)).fetchall()
        return frozenset(position for (position,) in rows)

    def requests(self, number: int, custom_ids: Collection[str]) -> dict[str, BatchRequest]:
        """Return a batch's requests that have one of the ids."""
        with self._ledger.transaction("DEFERRED") as database:
            placeholders = ", ".join("?" * len(custom_ids))
            rows = database.execute(
                f"SELECT custom_id, position, address, is_answered FROM batch_request"
                f" WHERE number = ? AND custom_id IN ({placeholders})",
                (number, *custom_ids),
            ).fetchall()
        return {name: BatchRequest(name, position, address, bool(answered)) for name, position, address, answered in rows}

    def unanswered(self, number: int, limit: int) -> list[BatchRequest]:
        """Return the first requests of a batch that have no answer."""
        with self._ledger.transaction("DEFERRED") as database:
            rows = database.execute(
                "SELECT custom_id, position, address FROM batch_request WHERE number = ? AND is_answered = 0"
                " ORDER BY position LIMIT ?",
                (number, limit),
            ).fetchall()
        return [BatchRequest(*row) for row in rows]

    def merge(self, row: BatchRow, attempts: Sequence[tuple[BatchRequest, Attempt]]) -> None:
        """Append the attempts for unanswered requests, mark these as answered, and store the state of their batch."""
        with self._ledger.transaction() as database:
            database.execute("UPDATE batch SET body = ? WHERE number = ?", (_encode(row), row.number))
            answered = [(_REJECTED if attempt.is_rejection else _ANSWERED, request.custom_id) for request, attempt in attempts]
            # In the transaction of the attempts: a result that is merged twice would be an attempt that never happened.
            database.executemany("UPDATE batch_request SET is_answered = ? WHERE custom_id = ?", answered)
            values = [(request.position, _encode(attempt)) for request, attempt in attempts]
            database.executemany("INSERT INTO attempt(position, body) VALUES (?, ?)", values)

    def note(self, attempts: Iterable[tuple[int, Attempt]]) -> None:
        """Append attempts for records that no batch can hold."""
        values = [(position, _encode(attempt)) for position, attempt in attempts]
        with self._ledger.transaction() as database:
            database.executemany("INSERT INTO attempt(position, body) VALUES (?, ?)", values)

    def close(self, positions: Iterable[int], outcome: Outcome) -> None:
        """Store an outcome for records that no batch will hold."""
        values = [(position, record_status(outcome), _encode(outcome)) for position in positions]
        with self._ledger.transaction() as database:
            # The first outcome of a record counts, as everywhere in the ledger.
            database.executemany("INSERT INTO outcome VALUES (?, ?, ?) ON CONFLICT DO NOTHING", values)
