"""Search for records: in a finished run through its index, in an unfinished one through its ledger."""

import msgspec

from assay.core.canonical import JsonObject
from assay.core.errors import RunNotFound, UsageProblem
from assay.core.record_query import RecordSearch
from assay.engine.readers.record_index import index_run
from assay.engine.readers.run_reader import RunReader
from assay.engine.storage.run_paths import RunPaths, folders_of
from assay.store.index_folder import index_of
from assay.store.record_index import Facets, IndexedRecord, RecordIndex


class RecordHit(msgspec.Struct, frozen=True, kw_only=True):
    """One record in a list."""

    line: JsonObject
    """Its prediction; for a record that broke its contract, its failure."""
    question: str
    """The record's question; empty when the record cannot be read."""
    row: IndexedRecord | None = None
    """Entry of the index; None in an unfinished run."""


class RecordHits(msgspec.Struct, frozen=True, kw_only=True):
    """One page of a search's results."""

    total: int
    offset: int
    records: tuple[RecordHit, ...]

    @property
    def next_offset(self) -> int | None:
        """Offset of the next page; None at the end."""
        end = self.offset + len(self.records)
        return end if end < self.total else None


class Neighbours(msgspec.Struct, frozen=True, kw_only=True):
    """Position of a record among a search's results, with the records before and after it."""

    total: int
    number: int | None
    """Position from 1; None when the search does not find the record."""
    previous: IndexedRecord | None
    next: IndexedRecord | None


def find_records(run: RunReader, search: RecordSearch, *, limit: int, offset: int = 0, first: int = 0) -> RecordHits:
    """Return one page of a search's results; raises UsageProblem for a search that needs a finished run.

    The page begins with the `offset`-th result whose record index is `first` or higher. In an unfinished run more records may end
    between two pages, so that callers continue by record index instead of offset.
    A missing index is created; `missing_indexes` tells beforehand whether that is necessary.
    """
    if not run.folders.is_sealed:
        return _live(run, search, limit=limit, offset=offset, first=first)
    index, other = _indexes(run, search)
    found = index.find(search, limit=limit, offset=offset, first=first, other=other)
    records = tuple(_read(run, row) for row in found.rows)
    return RecordHits(total=found.total, offset=offset, records=records)


def missing_indexes(run: RunReader, search: RecordSearch) -> list[RunPaths]:
    """Return the finished runs whose missing indexes a search needs; raises RunNotFound for an unfinished run to compare with."""
    if not run.folders.is_sealed:
        return []
    needed = [run.folders, *([] if search.against is None else [_other(run, search.against)])]
    return [folders for folders in needed if index_of(folders.sealed) is None]


def neighbours_of(run: RunReader, search: RecordSearch, row: IndexedRecord) -> Neighbours:
    """Return a record's position among a search's results, with its neighbours."""
    index, other = _indexes(run, search)
    ordinals = index.ordinals(search, other)
    if row.ordinal not in ordinals:
        return Neighbours(total=len(ordinals), number=None, previous=None, next=None)
    index_in_hits = ordinals.index(row.ordinal)
    return Neighbours(
        total=len(ordinals),
        number=index_in_hits + 1,
        previous=index.at(ordinals[index_in_hits - 1]) if index_in_hits else None,
        next=index.at(ordinals[index_in_hits + 1]) if index_in_hits + 1 < len(ordinals) else None,
    )


def row_at(run: RunReader, position: int) -> IndexedRecord:
    """Return the record of a finished run at a position; raises RunNotFound."""
    if not run.folders.is_sealed:
        raise UsageProblem(f"run '{run.folders.run_id}' is unfinished", hint="its records can be labelled when it has")
    return index_run(run.folders.sealed).at_position(position)


def facets_of(run: RunReader) -> Facets | None:
    """Return the values that a finished run can be filtered by; None for an unfinished run."""
    return index_run(run.folders.sealed).facets() if run.folders.is_sealed else None


def _indexes(run: RunReader, search: RecordSearch) -> tuple[RecordIndex, RecordIndex | None]:
    other = None if search.against is None else index_run(_other(run, search.against).sealed)
    return index_run(run.folders.sealed), other


def _other(run: RunReader, run_id: str) -> RunPaths:
    folders = folders_of(run.folders.runs_dir, run_id)
    if not folders.is_sealed:
        raise RunNotFound(f"there is no finished run '{run_id}' to look for flips against", hint="`assay runs` lists the runs")
    return folders


def _read(run: RunReader, row: IndexedRecord) -> RecordHit:
    return RecordHit(line=run.line_of(row), question=question_of(run.input_of(row)), row=row)


def question_of(record: JsonObject) -> str:
    """Return a record's question: its prompt, or the last message to the candidate."""
    texts = [turn.get("message") or "" for turn in record.get("turns") or ()]
    texts += [message["content"] for message in record.get("messages") or () if message.get("role") == "user"]
    return record.get("prompt") or next((text for text in reversed(texts) if text), "")


def _live(run: RunReader, search: RecordSearch, *, limit: int, offset: int, first: int) -> RecordHits:
    if not search.is_plain or search.sort != "order":
        raise UsageProblem(
            f"run '{run.folders.run_id}' is unfinished: it can be searched by status and result only",
            hint="other filters work when it has ended",
        )
    total, part = run.live_part(search, limit=limit, offset=offset, first=first)
    records = tuple(RecordHit(line=line, question=question_of(record)) for line, record in part)
    return RecordHits(total=total, offset=offset, records=records)
