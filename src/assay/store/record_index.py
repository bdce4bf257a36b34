"""Index over the records of a finished run: derived from its artifacts, rebuilt at any time, and never one of them.

One table has what records are filtered and sorted by, with the offsets of their lines in the artifacts; a file next to it has their
texts one after the other. Searching that file costs half of what the database takes for the same search, and needs no text index.
"""

import mmap
import os
import re
import secrets
import shutil
import sqlite3
import time
import unicodedata
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from assay.core.contract import MANIFEST
from assay.core.errors import RunNotFound, StoreUnavailable
from assay.core.record_query import RecordFilter, RecordSearch
from assay.store.failures import database_errors, disk_errors
from assay.store.ledger import askable
from assay.store.published_run import read_manifest

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
    """Record's index in artifacts."""
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
    # Texts and searches go through the same function, so that they can be compared as bytes.
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

    def _condition(self, database: sqlite3.Connection, search: RecordFilter) -> tuple[str, list[object]]:
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
                # Hits come in order, so the search for the record begins at the last one found.
                found.append(bisect_right(ends, at, found[-1] if found else 0))
                at = text.find(words, ends[found[-1]])
        return found


_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM record"


def _uri(path: Path) -> str:
    # immutable: a finished index never changes, and SQLite then takes no locks, which read-only folders could not hold.
    return f"{path.absolute().as_uri()}?mode=ro&immutable=1"


def _row(values: tuple[Any, ...]) -> IndexedRecord:
    named = dict(zip(_COLUMNS, values, strict=True))
    flags = {name: None if values[column] is None else bool(values[column]) for name, column in _FLAGS.items()}
    return IndexedRecord(**{**named, **flags})


def _order(search: RecordSearch) -> str:
    column, direction = _ORDERS[search.sort.removeprefix("-")], "DESC" if search.sort.startswith("-") else "ASC"
    # `ordinal` makes the order total: equal values could otherwise change places between two pages.
    return f"ORDER BY {column} IS NULL, {column} {direction}, ordinal"


_CONDITIONS = {
    "passed": "passed = ?",
    "code": "code = ?",
    "min_score": "raw_score >= ?",
    "max_score": "raw_score <= ?",
    "tag": "ordinal IN (SELECT ordinal FROM slice WHERE name = 'tags' AND value = ?)",
}
_FLIPS = {"judges": "spread > 0", "repeats": "is_split"}


def _criterion(name: str | None, *, met: bool | None) -> tuple[str, list[object]]:
    if name is None:
        unmet = "IN (SELECT ordinal FROM criterion WHERE NOT met)"
        return (f"ordinal IN (SELECT ordinal FROM criterion) AND ordinal NOT {unmet}" if met else f"ordinal {unmet}"), []
    values: list[object] = [name] if met is None else [name, met]
    return f"ordinal IN (SELECT ordinal FROM criterion WHERE name = ?{'' if met is None else ' AND met = ?'})", values


def _parts(search: RecordFilter) -> Iterator[tuple[str, list[object]]]:
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


FOLDER = ".index"
# An index can be rebuilt at any time, so a new version needs no migration.
FORMAT = 2
"""Part of every name: an index of another version is rebuilt."""
_NAME = re.compile(r"(?P<run_id>.+)\.[0-9a-f]{16}\.\d+(?P<new>\.new-[0-9a-f]{16})?", re.DOTALL)
_ABANDONED = 3600.0
"""Seconds after which an unfinished folder must belong to a killed process."""


def index_of(run_dir: Path) -> RecordIndex | None:
    """Open the index of a finished run, if one of exactly these artifacts exists."""
    name = _name(run_dir)
    return next((RecordIndex(folder / name) for folder in _index_folders(run_dir) if (folder / name).is_dir()), None)


@contextmanager
def new_index(run_dir: Path) -> Iterator[Path]:
    """Create a folder to write the index of a run into; it gets its name when the block succeeds. Raises StoreUnavailable."""
    folder = _writable_folder(run_dir)
    _remove_stale(folder, run_dir.parent)
    name = _name(run_dir)
    new = folder / f"{name}.new-{secrets.token_hex(8)}"
    with disk_errors(new):
        new.mkdir(mode=0o700)
    try:
        yield new
        # Another process may have finished the same index in the meantime; either one will do.
        with suppress(OSError):
            new.rename(folder / name)
    finally:
        shutil.rmtree(new, ignore_errors=True)
        (folder / _progress(run_dir)).unlink(missing_ok=True)


def note_progress(new: Path, run_dir: Path, percent: int) -> None:
    """Store the progress of an index for other processes to read."""
    with disk_errors(new):
        (new.parent / _progress(run_dir)).write_text(str(percent), encoding="ascii")


def progress_of(run_dir: Path) -> int:
    """Read how much of the index of a run is written, in percent."""
    for folder in _index_folders(run_dir):
        with suppress(OSError, ValueError):
            return int((folder / _progress(run_dir)).read_text(encoding="ascii"))
    return 0


def forget_index(run_dir: Path) -> None:
    """Remove all indexes of a run, finished or not: they hold texts of its records."""
    for folder in _index_folders(run_dir):
        for path in _indexes(folder, run_dir.name):
            shutil.rmtree(path, ignore_errors=True)


def _indexes(folder: Path, run_id: str | None = None) -> Iterator[Path]:
    for path in folder.glob("*") if folder.is_dir() else ():
        match = _NAME.fullmatch(path.name)
        if match and run_id in (None, match["run_id"]):
            yield path


def _remove_stale(folder: Path, runs_dir: Path) -> None:
    """Remove outdated indexes, those of removed runs, and what killed processes left."""
    for path in _indexes(folder):
        match = _NAME.fullmatch(path.name)
        assert match is not None
        run_dir = runs_dir / match["run_id"]
        is_current = (run_dir / MANIFEST).is_file() and path.name.removesuffix(match["new"] or "") == _name(run_dir)
        if not is_current or (match["new"] and _age(path) > _ABANDONED):
            shutil.rmtree(path, ignore_errors=True)


def _age(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _name(run_dir: Path) -> str:
    # The manifest names the hashes of all artifacts: an index of other content has another name and is never found.
    return f"{run_dir.name}.{sha256(read_manifest(run_dir)).hexdigest()[:16]}.{FORMAT}"


def _progress(run_dir: Path) -> str:
    return f"{run_dir.name}.progress"


def _index_folders(run_dir: Path) -> tuple[Path, Path]:
    runs_dir = run_dir.parent.absolute()
    cache_home = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    # Runs may lie in a folder that this user can only read; the index then goes into the user's cache.
    return runs_dir / FOLDER, Path(cache_home) / "assay" / "index" / sha256(os.fsencode(runs_dir)).hexdigest()[:16]


def _writable_folder(run_dir: Path) -> Path:
    local, cached = _index_folders(run_dir)
    try:
        return _make_folder(local)
    except StoreUnavailable:
        return _make_folder(cached)


def _make_folder(folder: Path) -> Path:
    with disk_errors(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(13, "Permission denied")
    return folder


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
    """Writer of an index into its own folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._rows: list[tuple[object, ...]] = []
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
            # NUL ends each text: no search contains it, so no hit can reach from one record into the next.
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
            # Indexes are made last, which is faster than to update them with every row.
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
