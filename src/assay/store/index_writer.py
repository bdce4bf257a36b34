"""Writer of the index over the records of a finished run, in a folder of its own."""

import sqlite3
from array import array
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from assay.store.failures import database_errors, disk_errors
from assay.store.record_index import DATABASE, TEXTS, Facets, IndexedRecord, searchable

LISTED = 200
"""Maximum tags, codes and criteria listed to choose from, the most frequent ones; searches accept all."""
_BATCH = 1000
_TABLES = """
CREATE TABLE record(
    ordinal INTEGER PRIMARY KEY, position INTEGER, record_id TEXT, sample INTEGER, dataset TEXT, record_sha256 TEXT, status TEXT,
    score REAL, raw_score REAL, scale TEXT, passed INTEGER, code TEXT, latency_ms REAL, cost REAL, spread REAL,
    line_start INTEGER, line_size INTEGER, input_start INTEGER, input_size INTEGER, attempts_start INTEGER, attempts_size INTEGER,
    is_split INTEGER DEFAULT 0
);
CREATE TABLE slice(ordinal INTEGER, name TEXT, value TEXT);
CREATE TABLE criterion(ordinal INTEGER, name TEXT, met INTEGER);
CREATE TABLE note(name TEXT PRIMARY KEY, value BLOB);
"""
_FINISH_STATEMENTS = """
CREATE INDEX record_by_id ON record(record_id, sample);
CREATE INDEX record_by_position ON record(position);
CREATE INDEX slice_by_value ON slice(name, value, ordinal);
CREATE INDEX criterion_by_name ON criterion(name, met, ordinal);
UPDATE record SET is_split = 1 WHERE (dataset, record_id) IN (
    SELECT dataset, record_id FROM record WHERE sample IS NOT NULL GROUP BY 1, 2 HAVING min(passed) != max(passed)
);
"""
_WRITTEN_COLUMNS = IndexedRecord.__struct_fields__[:-1]
_INSERT = f"INSERT INTO record({', '.join(_WRITTEN_COLUMNS)}) VALUES ({', '.join('?' * len(_WRITTEN_COLUMNS))})"


class IndexEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that an index stores about one record."""

    record: IndexedRecord
    texts: Iterable[str]
    """Texts that a search finds it by."""
    slices: dict[str, tuple[str, ...]] = {}
    criteria: dict[str, bool] = {}
    """Whether each of its criteria is met."""


class IndexWriter:
    """Writer of an index into a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._rows: list[tuple[Any, ...]] = []
        self._slices: list[tuple[int, str, str]] = []
        self._criteria: list[tuple[int, str, bool]] = []
        self._ends = array("Q")
        with disk_errors(folder), database_errors(folder):
            self._texts = (folder / TEXTS).open("xb")
            self._database = sqlite3.connect(folder / DATABASE, isolation_level=None)
            # No durability needed: the index can be rebuilt, and after a crash the folder never gets its name.
            self._database.executescript(f"PRAGMA page_size = 8192; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; {_TABLES}")
            self._database.execute("BEGIN")

    def add(self, entry: IndexEntry) -> None:
        """Add one record; the caller keeps the order of the run."""
        ordinal = entry.record.ordinal
        self._rows.append(tuple(getattr(entry.record, name) for name in _WRITTEN_COLUMNS))
        self._slices += [(ordinal, name, value) for name, values in entry.slices.items() for value in dict.fromkeys(values)]
        self._criteria += [(ordinal, name, met) for name, met in entry.criteria.items()]
        text = searchable("\n".join(entry.texts))
        with disk_errors(self._folder):
            self._texts.write(text + b"\0")
        self._ends.append((self._ends[-1] if self._ends else 0) + len(text) + 1)
        if len(self._rows) >= _BATCH:
            self._flush()

    def _flush(self) -> None:
        with database_errors(self._folder):
            self._database.executemany(_INSERT, self._rows)
            self._database.executemany("INSERT INTO slice VALUES (?, ?, ?)", self._slices)
            self._database.executemany("INSERT INTO criterion VALUES (?, ?, ?)", self._criteria)
        self._rows, self._slices, self._criteria = [], [], []

    def finish(self) -> None:
        """Write everything that is left and make the index readable."""
        self._flush()
        with disk_errors(self._folder), database_errors(self._folder):
            self._database.execute("COMMIT")
            self._database.executescript(_FINISH_STATEMENTS)
            notes = {"text_ends": self._ends.tobytes(), "facets": msgspec.json.encode(_facets(self._database))}
            self._database.executemany("INSERT INTO note VALUES (?, ?)", notes.items())
        self.close()

    def close(self) -> None:
        """Close the files as they are."""
        self._texts.close()
        self._database.close()


def _facets(database: sqlite3.Connection) -> Facets:
    def counts(query: str, *values: object) -> dict[str, int]:
        return dict(database.execute(f"{query} GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT {LISTED}", values).fetchall())

    verdicts = Counter(dict(database.execute("SELECT passed, count(*) FROM record GROUP BY 1").fetchall()))
    names = [name for (name,) in database.execute("SELECT DISTINCT name FROM slice WHERE name != 'tags' ORDER BY 1")]
    totals = database.execute("SELECT count(*), max(scale), count(nullif(spread, 0)), coalesce(sum(is_split), 0) FROM record")
    records, scale, disagreements, splits = totals.fetchone()
    return Facets(
        records=records,
        statuses=counts("SELECT status, count(*) FROM record"),
        passed=verdicts[1],
        not_passed=verdicts[0],
        codes=counts("SELECT code, count(*) FROM record WHERE code IS NOT NULL"),
        tags=counts("SELECT value, count(*) FROM slice WHERE name = 'tags'"),
        slices={name: counts("SELECT value, count(*) FROM slice WHERE name = ?", name) for name in names},
        criteria=counts("SELECT name, count(*) FROM criterion"),
        scale=scale,
        disagreements=disagreements,
        splits=splits,
    )
