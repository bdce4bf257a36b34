"""The batches of a run in its ledger: what was meant to be sent, what was sent, and what came back."""

from collections.abc import Collection, Iterable, Sequence
from typing import Literal

import msgspec

from assay.core.outcome import Attempt, Outcome, record_status
from assay.store.sqlite import SqliteLedger

BatchState = Literal["spooled", "submitting", "submitted", "merged", "refused"]
"""`spooled`: its file is written; `submitting`: it may be at the provider; `submitted`: it is; `merged`: its results are here."""

NOTE = "batches"
"""The note of a run with what became of its batches."""
_TABLES = (
    "CREATE TABLE IF NOT EXISTS batch(number INTEGER PRIMARY KEY, body BLOB)",
    "CREATE TABLE IF NOT EXISTS batch_request"
    "(custom_id TEXT PRIMARY KEY, number INTEGER, position INTEGER, address TEXT, is_answered INTEGER)",
    "CREATE INDEX IF NOT EXISTS batch_request_by_number ON batch_request(number, is_answered)",
    "CREATE INDEX IF NOT EXISTS batch_request_by_position ON batch_request(position)",
)
_encode = msgspec.json.Encoder().encode


class BatchRow(msgspec.Struct, frozen=True, kw_only=True):
    """One batch of a run."""

    number: int
    """From 1 on, in the order in which they are handed in."""
    state: BatchState = "spooled"
    requests: int = 0
    bytes: int = 0
    sha256: str = ""
    """Of the file that is handed in."""
    estimate: float = 0.0
    """US dollars that it may cost, as far as prices are known."""
    upload_id: str = ""
    """What the provider calls the file."""
    batch_id: str = ""
    """What the provider calls the batch."""
    is_certain: bool = True
    """False of a batch that was found again by its size: its results tell whether it is ours."""
    strangers: tuple[str, ...] = ()
    """Batches that were found again and are not ours."""
    at: float = 0.0
    """When it was to be handed in, in seconds since 1970."""
    status: str = ""
    """What the provider last said of it, in its own words."""
    done: int = 0
    """Requests that have an answer or an error, as the provider last said."""
    looks: int = 0
    failed_looks: int = 0
    """Looks that brought no answer."""
    lost_looks: int = 0
    """Looks in a row at which the provider knew no such batch."""
    fetches: int = 0
    """How often its results were fetched."""
    answered: int = 0
    errors: dict[str, int] = {}
    """Requests without an answer by code."""
    asked_live: int = 0
    """Those of them that are asked by themselves."""
    duplicates: int = 0
    """Lines of results for a request that had one."""
    unknown: int = 0
    """Lines of results for requests that are not ours."""
    malformed: int = 0
    """Lines of results that cannot be read."""
    problems: tuple[str, ...] = ()
    """What is wrong with it as a whole."""


class BatchRequest(msgspec.Struct, frozen=True):
    """One request of a batch."""

    custom_id: str
    position: int
    address: str
    """The content address of what is asked."""
    is_answered: bool = False
    """What came back for it is among the attempts of its record."""


class BatchBook:
    """The tables of batches beside those of the run; every method is one durable transaction."""

    def __init__(self, ledger: SqliteLedger) -> None:
        self._ledger = ledger
        with ledger.transaction() as database:
            for statement in _TABLES:
                database.execute(statement)

    def rows(self) -> list[BatchRow]:
        """All batches in their order."""
        with self._ledger.transaction("DEFERRED") as database:
            bodies = database.execute("SELECT body FROM batch ORDER BY number").fetchall()
        return [msgspec.json.decode(body, type=BatchRow) for (body,) in bodies]

    def intend(self, row: BatchRow, requests: Iterable[BatchRequest]) -> None:
        """Note a batch and all of its requests before anything leaves the machine."""
        values = ((one.custom_id, row.number, one.position, one.address) for one in requests)
        with self._ledger.transaction() as database:
            database.execute("INSERT INTO batch VALUES (?, ?)", (row.number, _encode(row)))
            database.executemany("INSERT INTO batch_request VALUES (?, ?, ?, ?, 0)", values)

    def save(self, row: BatchRow) -> None:
        """Note how a batch stands."""
        with self._ledger.transaction() as database:
            database.execute("UPDATE batch SET body = ? WHERE number = ?", (_encode(row), row.number))

    def release(self, row: BatchRow) -> None:
        """Note a batch that is not worked on: its requests are free for another one."""
        with self._ledger.transaction() as database:
            database.execute("UPDATE batch SET body = ? WHERE number = ?", (_encode(row), row.number))
            database.execute("DELETE FROM batch_request WHERE number = ? AND NOT is_answered", (row.number,))

    def forget(self, number: int) -> None:
        """Drop a batch that never left the machine."""
        with self._ledger.transaction() as database:
            database.execute("DELETE FROM batch WHERE number = ?", (number,))
            database.execute("DELETE FROM batch_request WHERE number = ?", (number,))

    def sent(self, first: int, last: int) -> frozenset[int]:
        """The positions, of those from one to another, that are in a batch already."""
        with self._ledger.transaction("DEFERRED") as database:
            rows = database.execute("SELECT position FROM batch_request WHERE position BETWEEN ? AND ?", (first, last)).fetchall()
        return frozenset(position for (position,) in rows)

    def requests(self, number: int, custom_ids: Collection[str]) -> dict[str, BatchRequest]:
        """Those of a batch's requests that have one of the ids."""
        with self._ledger.transaction("DEFERRED") as database:
            marks = ", ".join("?" * len(custom_ids))
            rows = database.execute(
                f"SELECT custom_id, position, address, is_answered FROM batch_request WHERE number = ? AND custom_id IN ({marks})",
                (number, *custom_ids),
            ).fetchall()
        return {name: BatchRequest(name, position, address, bool(answered)) for name, position, address, answered in rows}

    def unanswered(self, number: int, limit: int) -> list[BatchRequest]:
        """The first of a batch's requests for which nothing came back."""
        with self._ledger.transaction("DEFERRED") as database:
            rows = database.execute(
                "SELECT custom_id, position, address FROM batch_request WHERE number = ? AND is_answered = 0"
                " ORDER BY position LIMIT ?",
                (number, limit),
            ).fetchall()
        return [BatchRequest(*row) for row in rows]

    def merge(self, row: BatchRow, attempts: Sequence[tuple[BatchRequest, Attempt]]) -> None:
        """Append what came back for requests that were unanswered, mark them, and note how their batch stands."""
        with self._ledger.transaction() as database:
            database.execute("UPDATE batch SET body = ? WHERE number = ?", (_encode(row), row.number))
            answered = [(request.custom_id,) for request, _ in attempts]
            database.executemany("UPDATE batch_request SET is_answered = 1 WHERE custom_id = ?", answered)
            values = [(request.position, _encode(attempt)) for request, attempt in attempts]
            database.executemany("INSERT INTO attempt(position, body) VALUES (?, ?)", values)

    def note(self, attempts: Iterable[tuple[int, Attempt]]) -> None:
        """Append attempts for records that no batch can hold."""
        values = [(position, _encode(attempt)) for position, attempt in attempts]
        with self._ledger.transaction() as database:
            database.executemany("INSERT INTO attempt(position, body) VALUES (?, ?)", values)

    def close(self, positions: Iterable[int], outcome: Outcome) -> None:
        """Give records that no batch will hold an outcome."""
        values = [(position, record_status(outcome), _encode(outcome)) for position in positions]
        with self._ledger.transaction() as database:
            database.executemany("INSERT INTO outcome VALUES (?, ?, ?) ON CONFLICT DO NOTHING", values)
