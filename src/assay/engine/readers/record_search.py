"""Records of a run, found: the index that is built from its artifacts, and the search in it."""

from collections.abc import Callable, Iterator
from math import inf
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from assay.core.artifact_lines import FailureLine, PredictionLine, Slices
from assay.core.case import Case
from assay.core.errors import RunDamaged, RunNotFound, StoreUnavailable, UsageProblem
from assay.core.outcome import PanelDecision
from assay.core.record_query import INVALID, RecordSearch
from assay.engine.readers.run_reader import RunReader
from assay.engine.records.groups import RecordGroups
from assay.engine.storage.run_paths import RunPaths, folders_of
from assay.grading.candidate import context_text, grading_text, task_text
from assay.store.published_run import PublishedRun, open_run_folder
from assay.store.record_index import Facets, IndexedRecord, IndexEntry, IndexWriter, RecordIndex, index_of, new_index, note_progress

_STEP = 500
"""Records between two progress notes."""


class _Vote(msgspec.Struct):
    criterion: str
    score: float
    scale: str


class _IndexedPrediction(msgspec.Struct):
    """The members of a prediction that the index stores."""

    index: int
    record_id: str
    record_sha256: str
    dataset: str
    status: str
    model_response: str | None
    evaluator_scores: tuple[_Vote, ...]
    score: float | None
    raw_score: float | None
    scale: str | None
    passed: bool | None
    justification: str | None
    latency_ms: float | None
    cost: float | None
    error_message: str | None
    sample: int | None = None
    panel: tuple[PanelDecision, ...] | None = None


class _Failure(msgspec.Struct):
    index: int
    record_id: str | None
    record_sha256: str | None
    status: str
    code: str
    message: str
    sample: int | None = None


class _Input(msgspec.Struct):
    record_id: str
    record: Case


class _Attempt(msgspec.Struct):
    index: int


T = TypeVar("T")
Numbered = TypeVar("Numbered", _Failure, _Attempt)


class _Span(msgspec.Struct, frozen=True):
    start: int = 0
    size: int = 0


def index_run(run_dir: Path) -> RecordIndex:
    """Open the index of a finished run, building a missing one; raises RunNotFound, StoreUnavailable."""
    found = index_of(run_dir)
    if found is not None:
        return found
    with new_index(run_dir) as new:
        _write(open_run_folder(run_dir), new)
    made = index_of(run_dir)
    if made is None:
        raise StoreUnavailable(f'the index of "{run_dir}" could not be kept', remedy="check the disk")
    return made


def _write(run: PublishedRun, new: Path) -> None:
    # `new_index` renames the folder at the end, so that a reader never sees a half-built index.
    writer = IndexWriter(new)
    try:
        validations = run.hashes.get("record_validation.jsonl")
        # At least 1, as it is divided by; the number only serves the progress that is shown.
        total = (validations and validations.lines) or 1
        for ordinal, entry in enumerate(_entries(run)):
            if ordinal % _STEP == 0:
                note_progress(new, run.path, min(99, 100 * ordinal // total))
            writer.add(entry)
        writer.finish()
    finally:
        writer.close()


def _entries(run: PublishedRun) -> Iterator[IndexEntry]:
    """Merge the artifacts in one pass: each has its lines in the order of the records, so that memory stays bounded."""
    reader = _ArtifactReader(run)
    ordinal = 0
    for span, prediction in _typed(run, "predictions.jsonl", _IndexedPrediction):
        # What lies before a prediction and has no prediction itself broke its contract.
        for failed, failure in reader.failures.before(prediction.index):
            yield _invalid(ordinal, failed, failure, next(reader.rejected, {}))
            ordinal += 1
        yield reader.valid(ordinal, span, prediction)
        ordinal += 1
    for failed, failure in reader.failures.before(inf):
        yield _invalid(ordinal, failed, failure, next(reader.rejected, {}))
        ordinal += 1


def _invalid(ordinal: int, span: _Span, failure: _Failure, slices: Slices) -> IndexEntry:
    # Any other failure has a prediction; without one a line is missing from an artifact.
    if failure.status != INVALID:
        raise _damaged_error(f"failures.jsonl has a record {failure.index} that predictions.jsonl has not")
    record = IndexedRecord(
        ordinal=ordinal,
        position=failure.index,
        record_id=failure.record_id,
        sample=failure.sample,
        record_sha256=failure.record_sha256,
        status=failure.status,
        code=failure.code,
        line_start=span.start,
        line_size=span.size,
    )
    return IndexEntry(record=record, texts=(failure.record_id or "", failure.message), slices=slices)


class _RejectedRecord(msgspec.Struct):
    """The slices of an invalid record, from a line of record_validation.jsonl."""

    slices: Slices = {}


def _rejected(run: PublishedRun) -> Iterator[Slices]:
    """Yield the slices of the records that broke their contract, in order."""
    if not run.manifest.counts.invalid_records:
        return
    decode = msgspec.json.Decoder(_RejectedRecord).decode
    for _, line in placed_lines(run, "record_validation.jsonl"):
        # Searching the bytes first: most lines are of accepted records and need no decoding.
        if b'"result":"rejected"' in line:
            yield _decode_line(decode, line, "record_validation.jsonl").slices


class _ArtifactReader:
    """Reader of the artifacts that accompany a run's predictions, in step with them."""

    def __init__(self, run: PublishedRun) -> None:
        plan = run.manifest.settings
        # Pages filter by tags and dataset, whether or not the plan has slices by them.
        self._slices = tuple(dict.fromkeys((*plan.slices, "tags", "dataset")))
        self._groups = RecordGroups(plan.datasets)
        self.rejected = _rejected(run)
        self._limits = {"0/1": 1.0, "1-5": plan.case_pass_score}
        self._share = plan.pass_threshold
        self.failures = _LineLookahead(_typed(run, "failures.jsonl", _Failure))
        self._attempts = _LineLookahead(_typed(run, "attempt_logs.jsonl", _Attempt))
        self._cases_name = run.cases_name
        self._inputs = _inputs(run)

    def valid(self, ordinal: int, span: _Span, line: _IndexedPrediction) -> IndexEntry:
        """Return the index entry of a prediction; raises RunDamaged when the other artifacts do not match it."""
        input_span, input_record = next(self._inputs, (_Span(), None))
        if input_record is None or input_record.record_id != line.record_id:
            raise _damaged_error(f"{self._cases_name} has no record for '{line.record_id}' where predictions.jsonl has one")
        # Lines of earlier records have been taken: what is left up to this position belongs to this record.
        failures = self.failures.before(line.index + 1)
        attempts = self._attempts.before(line.index + 1)
        case = input_record.record
        record = IndexedRecord(
            ordinal=ordinal,
            position=line.index,
            record_id=line.record_id,
            sample=line.sample,
            dataset=line.dataset,
            record_sha256=line.record_sha256,
            status=line.status,
            score=line.score,
            raw_score=line.raw_score,
            scale=line.scale,
            passed=line.passed,
            code=failures[0][1].code if failures else None,
            latency_ms=line.latency_ms,
            cost=line.cost,
            spread=None if line.panel is None else max((decision.spread for decision in line.panel), default=0.0),
            line_start=span.start,
            line_size=span.size,
            input_start=input_span.start,
            input_size=input_span.size,
            attempts_start=attempts[0][0].start if attempts else 0,
            # The attempts at a record lie together, so one span holds all of them, each with its line feed.
            attempts_size=sum(span.size + 1 for span, _ in attempts),
        )
        return IndexEntry(
            record=record,
            texts=_texts(line, case),
            slices=self._groups.slices(case, self._slices),
            criteria=dict(self._criteria(line)),
        )

    def _criteria(self, line: _IndexedPrediction) -> Iterator[tuple[str, bool]]:
        """Yield whether each criterion is met, by the panel's decision where there is one."""
        decided = {decision.criterion: decision.score for decision in line.panel or ()}
        for vote in line.evaluator_scores if line.status == "evaluated" else ():
            # A criterion on a scale without a limit of its own passes at the run's share.
            yield vote.criterion, decided.get(vote.criterion, vote.score) >= self._limits.get(vote.scale, self._share)


def _texts(line: _IndexedPrediction, case: Case) -> Iterator[str]:
    # The texts that the page of the record shows, so that a search finds what its reader can see.
    yield line.record_id
    yield task_text(case)
    for turn in case.turns:
        yield from (turn.message, turn.assistant_reply)
    yield context_text(case)
    yield grading_text(case)
    yield line.model_response or ""
    yield line.justification or ""
    yield line.error_message or ""


class _LineLookahead(Generic[Numbered]):
    """Iterator over lines in the order of their records, with one line of lookahead."""

    def __init__(self, lines: Iterator[tuple[_Span, Numbered]]) -> None:
        self._lines: Iterator[tuple[_Span, Numbered]] = lines
        self._next: tuple[_Span, Numbered] | None = next(lines, None)

    def before(self, position: float) -> list[tuple[_Span, Numbered]]:
        """Take the remaining lines of the records before a position."""
        found = list[tuple[_Span, Numbered]]()
        while self._next is not None and self._next[1].index < position:
            found.append(self._next)
            self._next = next(self._lines, None)
        return found


def _typed(run: PublishedRun, name: str, kind: type[T]) -> Iterator[tuple[_Span, T]]:
    decode = msgspec.json.Decoder(kind).decode
    for start, line in placed_lines(run, name):
        yield _Span(start, len(line)), _decode_line(decode, line, name)


def _inputs(run: PublishedRun) -> Iterator[tuple[_Span, _Input]]:
    """Yield the cases with their byte spans in the artifact."""
    decode = msgspec.json.Decoder(_Input).decode
    for start, entry in run.raw_records():
        yield _Span(start, len(entry)), _decode_line(decode, entry, run.cases_name)


def placed_lines(run: PublishedRun, name: str) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of an artifact with their byte offsets."""
    start = 0
    for line in run.raw_lines(name):
        yield start, line
        # The line feed is not part of the line.
        start += len(line) + 1


def _decode_line(decode: Callable[[bytes], T], line: bytes, name: str) -> T:
    try:
        return decode(line)
    except ValueError as problem:
        raise _damaged_error(f"{name}: {problem}") from problem


def _damaged_error(reason: str) -> RunDamaged:
    return RunDamaged(f"the artifacts are damaged: {reason}")


class RecordHit(msgspec.Struct, frozen=True, kw_only=True):
    """One record in a list."""

    line: PredictionLine | FailureLine
    """A failure for a record that broke its contract."""
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
    # Ordinals alone: the search may find every record of a large run.
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
    line = run.line_of(row)
    return RecordHit(line=line, question=question_of(run.input_of(row)) if isinstance(line, PredictionLine) else "", row=row)


def question_of(case: Case) -> str:
    """Return a record's question: its prompt, or the last message to the candidate."""
    texts = [turn.message for turn in case.turns]
    texts += [message.content for message in case.messages if message.role == "user"]
    return case.prompt or next((text for text in reversed(texts) if text), "")


def _live(run: RunReader, search: RecordSearch, *, limit: int, offset: int, first: int) -> RecordHits:
    if not search.is_plain or search.sort != "order":
        raise UsageProblem(
            f"run '{run.folders.run_id}' is unfinished: it can be searched by status and result only",
            hint="other filters work when it has ended",
        )
    total, part = run.live_part(search, limit=limit, offset=offset, first=first)
    records = tuple(RecordHit(line=line, question="" if case is None else question_of(case)) for line, case in part)
    return RecordHits(total=total, offset=offset, records=records)
