"""Records of a run that a search finds: of a finished run through its index, of one under way through its ledger."""

import msgspec

from assay.core.errors import RunNotFound, UsageProblem
from assay.core.record_query import RecordSearch
from assay.engine.looking.opened import Line, Run
from assay.engine.looking.record_index import index_run
from assay.engine.places.folders import RunFolders, folders_of
from assay.store.index_folder import index_of
from assay.store.record_index import Facets, IndexedRecord, RecordIndex


class FoundRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One record in a list."""

    line: Line
    """Its prediction; of a record that broke its contract, its failure."""
    question: str
    """What was asked; empty where the record cannot be read."""
    row: IndexedRecord | None = None
    """None in a run that has not ended."""


class FoundRecords(msgspec.Struct, frozen=True, kw_only=True):
    """A part of what a search found."""

    total: int
    offset: int
    records: tuple[FoundRecord, ...]

    @property
    def next_offset(self) -> int | None:
        """Where the next part begins; None at the end."""
        end = self.offset + len(self.records)
        return end if end < self.total else None


class Neighbours(msgspec.Struct, frozen=True, kw_only=True):
    """Where a record stands among those that a search finds."""

    total: int
    number: int | None
    """From 1; None where the search does not find the record."""
    previous: IndexedRecord | None
    next: IndexedRecord | None


def find_records(run: Run, search: RecordSearch, *, limit: int, offset: int = 0, first: int = 0) -> FoundRecords:
    """A part of the records that a search finds; raises UsageProblem for what only a finished run can be asked.

    It begins with the `offset`-th of those whose index is `first` or higher. Between two looks at a run under way more records
    may end, so that only their indexes, and no offset, tell which were seen.
    The index is made where there is none yet; `missing_indexes` says beforehand whether that is so.
    """
    if not run.folders.is_sealed:
        return _live(run, search, limit=limit, offset=offset, first=first)
    index, other = _indexes(run, search)
    found = index.find(search, limit=limit, offset=offset, first=first, other=other)
    records = tuple(_read(run, row) for row in found.rows)
    return FoundRecords(total=found.total, offset=offset, records=records)


def missing_indexes(run: Run, search: RecordSearch) -> list[RunFolders]:
    """The finished runs whose index a search needs and that have none yet; raises RunNotFound for one that has not ended."""
    if not run.folders.is_sealed:
        return []
    needed = [run.folders, *([] if search.against is None else [_other(run, search.against)])]
    return [folders for folders in needed if index_of(folders.sealed) is None]


def neighbours_of(run: Run, search: RecordSearch, row: IndexedRecord) -> Neighbours:
    """The records before and after one among those that a search finds."""
    index, other = _indexes(run, search)
    ordinals = index.ordinals(search, other)
    if row.ordinal not in ordinals:
        return Neighbours(total=len(ordinals), number=None, previous=None, next=None)
    place = ordinals.index(row.ordinal)
    return Neighbours(
        total=len(ordinals),
        number=place + 1,
        previous=index.at(ordinals[place - 1]) if place else None,
        next=index.at(ordinals[place + 1]) if place + 1 < len(ordinals) else None,
    )


def row_at(run: Run, position: int) -> IndexedRecord:
    """The record of a finished run with an index; raises RunNotFound."""
    if not run.folders.is_sealed:
        raise UsageProblem(f"run '{run.folders.run_id}' has not ended", hint="its records can be labelled when it has")
    return index_run(run.folders.sealed).at_position(position)


def facets_of(run: Run) -> Facets | None:
    """What there is to choose from in a finished run; None for one under way."""
    return index_run(run.folders.sealed).facets() if run.folders.is_sealed else None


def _indexes(run: Run, search: RecordSearch) -> tuple[RecordIndex, RecordIndex | None]:
    other = None if search.against is None else index_run(_other(run, search.against).sealed)
    return index_run(run.folders.sealed), other


def _other(run: Run, run_id: str) -> RunFolders:
    folders = folders_of(run.folders.runs_dir, run_id)
    if not folders.is_sealed:
        raise RunNotFound(f"there is no finished run '{run_id}' to look for flips against", hint="`assay runs` lists the runs")
    return folders


def _read(run: Run, row: IndexedRecord) -> FoundRecord:
    return FoundRecord(line=run.line_of(row), question=question_of(run.input_of(row)), row=row)


def question_of(record: Line) -> str:
    """What a record asks, as one text: its prompt, or the last thing that is said to the candidate."""
    said = [turn.get("message") or "" for turn in record.get("turns") or ()]
    said += [message["content"] for message in record.get("messages") or () if message.get("role") == "user"]
    return record.get("prompt") or next((text for text in reversed(said) if text), "")


def _live(run: Run, search: RecordSearch, *, limit: int, offset: int, first: int) -> FoundRecords:
    if not search.is_plain or search.sort != "order":
        raise UsageProblem(
            "a run that has not ended can be searched by `status` and `passed` alone", hint="everything else waits for its end"
        )
    total, part = run.live_part(search, limit=limit, offset=offset, first=first)
    records = tuple(FoundRecord(line=line, question=question_of(record)) for line, record in part)
    return FoundRecords(total=total, offset=offset, records=records)
