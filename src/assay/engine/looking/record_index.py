"""The artifacts of a finished run into an index of its records."""

from collections.abc import Callable, Iterator
from math import inf
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from assay.core.case import Case
from assay.core.errors import RunDamaged, StoreUnavailable
from assay.core.outcome import Decision
from assay.core.plan import Plan
from assay.core.record_query import INVALID
from assay.engine.groups import RecordGroups, Slices
from assay.grading.transcript import context_text, grading_text, task_text
from assay.store.folder import RunFolder, open_run_folder
from assay.store.index_folder import index_of, new_index, note_progress
from assay.store.index_writer import IndexEntry, IndexWriter
from assay.store.record_index import IndexedRecord, RecordIndex

_STEP = 500
"""Records between two notes of how far it is."""


class _Vote(msgspec.Struct):
    criterion: str
    score: float
    scale: str


class _Prediction(msgspec.Struct):
    """What the index has of a prediction."""

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
    panel: tuple[Decision, ...] | None = None


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
    """The index of a finished run, made where there is none yet; raises RunNotFound, StoreUnavailable."""
    found = index_of(run_dir)
    if found is not None:
        return found
    with new_index(run_dir) as new:
        _write(open_run_folder(run_dir), new)
    made = index_of(run_dir)
    if made is None:
        raise StoreUnavailable(f'the index of "{run_dir}" could not be kept', hint="check the disk, then try again")
    return made


def _write(run: RunFolder, new: Path) -> None:
    writer = IndexWriter(new)
    try:
        total = run.manifest.get("artifacts", {}).get("record_validation.jsonl", {}).get("lines") or 1
        for ordinal, entry in enumerate(_entries(run)):
            if ordinal % _STEP == 0:
                note_progress(new, run.path, min(99, 100 * ordinal // total))
            writer.add(entry)
        writer.finish()
    finally:
        writer.close()


def _entries(run: RunFolder) -> Iterator[IndexEntry]:
    """The artifacts side by side: each has its lines in the order of the records."""
    reading = _Reading(run)
    ordinal = 0
    for span, prediction in _typed(run, "predictions.jsonl", _Prediction):
        for failed, failure in reading.failures.before(prediction.index):
            yield _invalid(ordinal, failed, failure, next(reading.rejected, {}))
            ordinal += 1
        yield reading.valid(ordinal, span, prediction)
        ordinal += 1
    for failed, failure in reading.failures.before(inf):
        yield _invalid(ordinal, failed, failure, next(reading.rejected, {}))
        ordinal += 1


def _invalid(ordinal: int, span: _Span, failure: _Failure, slices: Slices) -> IndexEntry:
    if failure.status != INVALID:
        raise _damaged(f"failures.jsonl has a record {failure.index} that predictions.jsonl has not")
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


class _Rejected(msgspec.Struct):
    """The part of a line of record_validation.jsonl that says which slices a broken record belongs to."""

    slices: Slices = {}


def _rejected(run: RunFolder) -> Iterator[Slices]:
    """The slices of the records that broke their contract, in order."""
    if not run.manifest["counts"]["invalid_records"]:
        return
    decode = msgspec.json.Decoder(_Rejected).decode
    for _, line in placed_lines(run, "record_validation.jsonl"):
        if b'"result":"rejected"' in line:
            yield _decoded(decode, line, "record_validation.jsonl").slices


class _Reading:
    """What stands beside the predictions of a run."""

    def __init__(self, run: RunFolder) -> None:
        plan = msgspec.convert(run.manifest["plan"], Plan)
        self._slices = tuple(dict.fromkeys((*plan.slices, "tags", "dataset")))
        self._groups = RecordGroups(plan.datasets)
        self.rejected = _rejected(run)
        self._limits = {"0/1": 1.0, "1-5": plan.case_pass_score}
        self._share = plan.pass_threshold
        self.failures = _Ahead(_typed(run, "failures.jsonl", _Failure))
        self._attempts = _Ahead(_typed(run, "attempt_logs.jsonl", _Attempt))
        self._cases_name = run.cases_name
        self._inputs = _inputs(run)

    def valid(self, ordinal: int, span: _Span, line: _Prediction) -> IndexEntry:
        """The entry of a prediction; raises StoreUnavailable where the other artifacts do not go with it."""
        place, asked = next(self._inputs, (_Span(), None))
        if asked is None or asked.record_id != line.record_id:
            raise _damaged(f"{self._cases_name} has no record for '{line.record_id}' where predictions.jsonl has one")
        failures = self.failures.before(line.index + 1)
        tried = self._attempts.before(line.index + 1)
        case = asked.record
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
            input_start=place.start,
            input_size=place.size,
            attempts_start=tried[0][0].start if tried else 0,
            attempts_size=sum(span.size + 1 for span, _ in tried),
        )
        return IndexEntry(
            record=record,
            texts=_texts(line, case),
            slices=self._groups.slices(case, self._slices),
            criteria=dict(self._criteria(line)),
        )

    def _criteria(self, line: _Prediction) -> Iterator[tuple[str, bool]]:
        """Whether each criterion is met; where the judges differ, by what was decided."""
        decided = {decision.criterion: decision.score for decision in line.panel or ()}
        for vote in line.evaluator_scores if line.status == "evaluated" else ():
            yield vote.criterion, decided.get(vote.criterion, vote.score) >= self._limits.get(vote.scale, self._share)


def _texts(line: _Prediction, case: Case) -> Iterator[str]:
    yield line.record_id
    yield task_text(case)
    for turn in case.turns:
        yield from (turn.message, turn.assistant_reply)
    yield context_text(case)
    yield grading_text(case)
    yield line.model_response or ""
    yield line.justification or ""
    yield line.error_message or ""


class _Ahead(Generic[Numbered]):
    """Lines in the order of their records, taken as far as a record."""

    def __init__(self, lines: Iterator[tuple[_Span, Numbered]]) -> None:
        self._lines: Iterator[tuple[_Span, Numbered]] = lines
        self._next: tuple[_Span, Numbered] | None = next(lines, None)

    def before(self, position: float) -> list[tuple[_Span, Numbered]]:
        """The lines that are left of the records before a position."""
        found = list[tuple[_Span, Numbered]]()
        while self._next is not None and self._next[1].index < position:
            found.append(self._next)
            self._next = next(self._lines, None)
        return found


def _typed(run: RunFolder, name: str, kind: type[T]) -> Iterator[tuple[_Span, T]]:
    decode = msgspec.json.Decoder(kind).decode
    for start, line in placed_lines(run, name):
        yield _Span(start, len(line)), _decoded(decode, line, name)


def _inputs(run: RunFolder) -> Iterator[tuple[_Span, _Input]]:
    """The cases, and where each is in its artifact."""
    decode = msgspec.json.Decoder(_Input).decode
    for start, entry in run.raw_records():
        yield _Span(start, len(entry)), _decoded(decode, entry, run.cases_name)


def placed_lines(run: RunFolder, name: str) -> Iterator[tuple[int, bytes]]:
    """The lines of an artifact, each with its place in the file."""
    start = 0
    for line in run.raw_lines(name):
        yield start, line
        start += len(line) + 1


def _decoded(decode: Callable[[bytes], T], line: bytes, name: str) -> T:
    try:
        return decode(line)
    except ValueError as problem:
        raise _damaged(f"{name}: {problem}") from problem


def _damaged(why: str) -> RunDamaged:
    return RunDamaged(f"the artifacts are damaged: {why}")
