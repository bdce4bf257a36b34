"""List of all runs in a shared ledger, each with its state and progress."""

from collections.abc import Iterable
from typing import Any, LiteralString

import psycopg

from assay.integrations.postgres.connection import ThreadSafeConnection
from assay.store.ledger import RunStatusRow

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
    """The runs of one database, for callers that poll; from any thread."""

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
        """Tell whether there is a run of that id."""
        return bool(self._rows("SELECT 1 FROM run WHERE run_id = %s", (run_id,)))

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    def _rows(self, query: LiteralString, values: tuple[Any, ...]) -> list[Any]:
        def read(database: psycopg.Connection[Any]) -> list[Any]:
            return database.execute(query, values).fetchall()

        return self._connection.transact(read)


def _status_row(row: tuple[Any, ...]) -> RunStatusRow:
    """Build a row; the database stores texts as bytes, and one invalid text must not hide the other runs."""
    *facts, problem, names, values = row
    notes = {name: _decode_text(value) for name, value in zip(names or (), values or (), strict=True)}
    return RunStatusRow(*(*facts, _decode_text(problem), notes))


def _decode_text(content: bytes) -> str:
    return content.decode("utf-8", "replace")
