"""All runs of a shared ledger at a glance: where each stands, and how many of its records are done."""

from collections.abc import Iterable
from typing import Any, LiteralString

import psycopg

from assay.store.ledger import StandingRow
from assay.store.postgres.shared_link import SharedLink

# A run that has ended has no records here any more, so that only those under way are counted.
_STANDINGS: LiteralString = """
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
    """The runs of one database, for whoever asks often; from any thread."""

    def __init__(self, address: str) -> None:
        self._link = SharedLink(address)

    def standings(self, run_ids: Iterable[str] | None = None) -> list[StandingRow]:
        """All runs, or those of some ids, with one query."""
        if run_ids is None:
            return [_standing(row) for row in self._rows(_STANDINGS, ())]
        return [_standing(row) for row in self._rows(f"{_STANDINGS} WHERE run_id = ANY(%s)", (list(run_ids),))]

    def plans(self, run_ids: Iterable[str]) -> dict[str, bytes]:
        """The plans of runs by id."""
        return dict(self._rows("SELECT run_id, plan FROM run WHERE run_id = ANY(%s)", (list(run_ids),)))

    def has(self, run_id: str) -> bool:
        """True when there is a run of that id."""
        return bool(self._rows("SELECT 1 FROM run WHERE run_id = %s", (run_id,)))

    def close(self) -> None:
        """Let go of the database."""
        self._link.close()

    def _rows(self, query: LiteralString, values: tuple[Any, ...]) -> list[Any]:
        def read(database: psycopg.Connection[Any]) -> list[Any]:
            return database.execute(query, values).fetchall()

        return self._link.transact(read)


def _standing(row: tuple[Any, ...]) -> StandingRow:
    """Texts are bytes in the database, and decoded here: what one run holds must not hide the others."""
    *facts, problem, names, values = row
    notes = {name: _shown(value) for name, value in zip(names or (), values or (), strict=True)}
    return StandingRow(*(*facts, _shown(problem), notes))


def _shown(content: bytes) -> str:
    return content.decode("utf-8", "replace")
