"""Index over the records of a finished run: derived from its artifacts, rebuilt at any time, and never one of them.

One table has what records are filtered and sorted by, with the offsets of their lines in the artifacts; a file next to it has their
texts one after the other. Searching that file costs half of what the database takes for the same search, and needs no text index.
"""

import mmap
import sqlite3
import unicodedata
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from assay.core.errors import RunNotFound
from assay.core.record_query import RecordFilter, RecordSearch
from assay.store.failures import database_errors, disk_errors
from assay.store.ledger import askable

DATABASE, TEXTS = "records.sqlite", "texts"
_ORDERS = {
    "order": "ordinal", "id": "record_id", "score": "raw_score", "latency": "latency_ms", "cost": "cost", "disagreement": "spread",
}  # fmt: skip
# Records are paired as comparisons pair them: by dataset and id, or by id alone when no dataset is in both runs.
_FLIPPED = """EXISTS (
    SELECT 1 FROM other.record AS theirs WHERE theirs.record_id = record.record_id AND theirs.sample IS record.sample
    AND theirs.record_sha256 = record.record_sha256 AND theirs.passed != record.passed
    AND (theirs.dataset = record.dataset OR NOT EXISTS (
        SELECT 1 FROM main.slice AS mine JOIN other.slice AS known USING (name, value) WHERE name = 'dataset'))
)"""


class IndexedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Everything known about one record without reading its lines."""

    ordinal: int
    """Rank among all records of the run, from 0."""
    position: int
    """The record's index in artifacts."""
    record_id: str | None
    sample: int | None
    record_sha256: str | None
    status: str
    line_start: int
    line_size: int
    """Offsets of its line in the predictions; for an invalid record, in the failures."""
    dataset: str = ""
    score: float | None = None
    raw_score: float | None = None
    scale: str | None = None
    passed: bool | None = None
    code: str | None = None
    """Failure code, or reason for not passing."""
    latency_ms: float | None = None
    cost: float | None = None
    spread: float | None = None
    """Largest disagreement of its judges on one criterion, 0..1; None with one judge."""
    input_start: int = 0
    input_size: int = 0
    attempts_start: int = 0
    attempts_size: int = 0
    is_split: bool = False
    """Repeated answers to it got different verdicts."""


class Facets(msgspec.Struct, frozen=True, kw_only=True):
    """Values to choose from, each with its number of records."""

    records: int
    statuses: dict[str, int]
    passed: int
    not_passed: int
    codes: dict[str, int]
    tags: dict[str, int]
    slices: dict[str, dict[str, int]]
    criteria: dict[str, int]
    scale: str | None
    disagreements: int
    splits: int


class SearchPage(msgspec.Struct, frozen=True, kw_only=True):
    """One page of search results."""

    total: int
    rows: tuple[IndexedRecord, ...]


_COLUMNS = IndexedRecord.__struct_fields__
_FLAGS = {name: _COLUMNS.index(name) for name in ("passed", "is_split")}


def searchable(text: str) -> bytes:
    """Normalize a text for search: case, spaces and composition of accents do not matter."""
    return unicodedata.normalize("NFC", " ".join(text.casefold().split())).encode(errors="replace")


class RecordIndex:
    """A finished index; every method opens its own connection, so that any thread may call it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def facets(self) -> Facets:
        """Read the values to choose from."""
        with self._open() as database:
            (found,) = database.execute("SELECT value FROM note WHERE name = 'facets'").fetchone()
        return msgspec.json.decode(found, type=Facets)

    def find(
        self, search: RecordSearch, *, limit: int, offset: int = 0, first: int = 0, other: "RecordIndex | None" = None
    ) -> SearchPage:
        """Find a page of records, from an offset or a position on, and count all of them."""
        with self._open(other) as database:
            condition, values = self._condition(database, search)
            (total,) = database.execute(f"SELECT count(*) FROM record WHERE {condition}", values).fetchone()
            part = f"{_SELECT} WHERE {condition} AND position >= ? {_order(search)} LIMIT ? OFFSET ?"
            rows = database.execute(part, [*values, first, limit, offset]).fetchall()
        return SearchPage(total=total, rows=tuple(map(_row, rows)))

    def ordinals(self, search: RecordSearch, other: "RecordIndex | None" = None) -> list[int]:
        """Find the ranks of all matching records, in the order of the search."""
        with self._open(other) as database:
            condition, values = self._condition(database, search)
            found = database.execute(f"SELECT ordinal FROM record WHERE {condition} {_order(search)}", values)
            return [ordinal for (ordinal,) in found]

    def texts(self) -> Iterator[str]:
        """Read the searchable text of each record, in the order of the run."""
        with self._open() as database:
            (ends,) = database.execute("SELECT value FROM note WHERE name = 'text_ends'").fetchone()
        path, start = self.folder / TEXTS, 0
        with disk_errors(path), path.open("rb") as file:
            for end in array("Q", ends):
                yield file.read(end - start)[:-1].decode()
                start = end

    def at(self, ordinal: int) -> IndexedRecord:
        """Read the record with this rank."""
        (found,) = self._rows("ordinal = ?", (ordinal,))
        return found

    def at_position(self, position: int) -> IndexedRecord:
        """Read the record with this index in artifacts; raises RunNotFound."""
        found = self._rows("position = ?", (askable(position),))
        if not found:
            raise RunNotFound(f"the run has no record with the index {position}", hint="its list of records has them all")
        return found[0]

    def named(self, name: str) -> list[IndexedRecord]:
        """Read the records with that id, all samples, followed by the one with that index."""
        is_index = name.isascii() and name.isdigit() and len(name) <= 12
        return self._rows("record_id = ?", (name,)) + (self._rows("position = ?", (int(name),)) if is_index else [])

    def _rows(self, condition: str, values: tuple[object, ...]) -> list[IndexedRecord]:
        with self._open() as database:
            return list(map(_row, database.execute(f"{_SELECT} WHERE {condition} ORDER BY ordinal", values).fetchall()))

    @contextmanager
    def _open(self, other: "RecordIndex | None" = None) -> Iterator[sqlite3.Connection]:
        path = self.folder / DATABASE
        with database_errors(path):
            database = sqlite3.connect(_uri(path), uri=True, isolation_level=None)
            try:
                if other is not None:
                    database.execute("ATTACH ? AS other", (_uri(other.folder / DATABASE),))
                yield database
            finally:
                database.close()

    def _condition(self, database: sqlite3.Connection, search: RecordFilter) -> tuple[str, list[Any]]:
        parts = list(_parts(search))
        if search.text is not None:
            (ends,) = database.execute("SELECT value FROM note WHERE name = 'text_ends'").fetchone()
            hits = self._hits(searchable(search.text), array("Q", ends))
            parts.append(("ordinal IN (SELECT value FROM json_each(?))", [msgspec.json.encode(hits).decode()]))
        return " AND ".join(part for part, _ in parts), [value for _, values in parts for value in values]

    def _hits(self, words: bytes, ends: "array[int]") -> list[int]:
        """Find the ranks of records whose texts hold the words; after a hit the search continues with the next record."""
        if not words or not ends:
            return list(range(len(ends)))
        # One search over the mapped file instead of one per record: most records do not match.
        path, found = self.folder / TEXTS, list[int]()
        with disk_errors(path), path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            at = text.find(words)
            while at >= 0:
                found.append(bisect_right(ends, at, found[-1] if found else 0))
                at = text.find(words, ends[found[-1]])
        return found


_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM record"


def _uri(path: Path) -> str:
    return f"{path.absolute().as_uri()}?mode=ro&immutable=1"


def _row(values: tuple[Any, ...]) -> IndexedRecord:
    named = dict(zip(_COLUMNS, values, strict=True))
    flags = {name: None if values[column] is None else bool(values[column]) for name, column in _FLAGS.items()}
    return IndexedRecord(**{**named, **flags})


def _order(search: RecordSearch) -> str:
    column, direction = _ORDERS[search.sort.removeprefix("-")], "DESC" if search.sort.startswith("-") else "ASC"
    return f"ORDER BY {column} IS NULL, {column} {direction}, ordinal"


_CONDITIONS = {
    "passed": "passed = ?",
    "code": "code = ?",
    "min_score": "raw_score >= ?",
    "max_score": "raw_score <= ?",
    "tag": "ordinal IN (SELECT ordinal FROM slice WHERE name = 'tags' AND value = ?)",
}
_FLIPS = {"judges": "spread > 0", "repeats": "is_split"}


def _criterion(name: str | None, *, met: bool | None) -> tuple[str, list[Any]]:
    if name is None:
        unmet = "IN (SELECT ordinal FROM criterion WHERE NOT met)"
        return (f"ordinal IN (SELECT ordinal FROM criterion) AND ordinal NOT {unmet}" if met else f"ordinal {unmet}"), []
    values: list[Any] = [name] if met is None else [name, met]
    return f"ordinal IN (SELECT ordinal FROM criterion WHERE name = ?{'' if met is None else ' AND met = ?'})", values


def _parts(search: RecordFilter) -> Iterator[tuple[str, list[Any]]]:
    yield "1", []
    for name, condition in _CONDITIONS.items():
        value = getattr(search, name)
        if value is not None:
            yield condition, [value]
    if search.statuses:
        yield f"status IN ({', '.join('?' * len(search.statuses))})", [*search.statuses]
    if search.slice is not None:
        yield "ordinal IN (SELECT ordinal FROM slice WHERE name = ? AND value = ?)", [*search.slice.partition(":")[::2]]
    if search.criterion is not None or search.met is not None:
        yield _criterion(search.criterion, met=search.met)
    if search.flips is not None:
        yield _FLIPS[search.flips], []
    if search.against is not None:
        yield _FLIPPED, []
