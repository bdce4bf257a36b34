"""A run to look at: its result, its records, its failures, whether it is sealed or still under way."""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from heapq import nsmallest
from itertools import groupby, islice
from pathlib import Path
from typing import TypeVar

import msgspec

from assay.core.artifact_lines import (
    AttemptLine,
    FailureLine,
    InvalidRecord,
    JudgeDisagreement,
    PredictionLine,
    RecordDetails,
    SampleResult,
    ValidationLine,
)
from assay.core.canonical import JsonObject
from assay.core.case import Case
from assay.core.contract import MANIFEST
from assay.core.errors import RunDamaged, RunNotFound, StoreUnavailable
from assay.core.manifest import Manifest
from assay.core.plan import Plan, plan_for_display
from assay.core.record_query import INVALID, RecordFilter
from assay.core.run_result import RunResult
from assay.core.runs import TERMINAL
from assay.core.summary import SliceValues, read_slices
from assay.core.text import iso
from assay.engine.finalization.artifact_lines import RecordArtifacts
from assay.engine.readers.run_list import result_of
from assay.engine.records.redaction import CASE, RedactedPlan, redactor_of
from assay.engine.storage.run_failure import failure_of, states_with_failures
from assay.engine.storage.run_paths import SEALED_IN, RunPaths, not_here_error
from assay.grading import DISAGREE
from assay.store.ledger import FinishedRecord, Ledger
from assay.store.published_run import PublishedRun, Tombstone, decode_case_line, decoded_as, open_run_folder
from assay.store.record_index import IndexedRecord, RecordIndex, index_of
from assay.store.redact import Redactor

T = TypeVar("T")
_decode_prediction = msgspec.json.Decoder(PredictionLine).decode
_decode_failure = msgspec.json.Decoder(FailureLine).decode
_decode_attempt = msgspec.json.Decoder(AttemptLine).decode


class _PredictionPosition(msgspec.Struct):
    """Where a prediction stands among the others."""

    index: int
    score: float | None = None
    passed: bool | None = None


class _ErrorLine(msgspec.Struct):
    """The part of a line of failures.jsonl that errors are counted by."""

    code: str
    taxonomy_label: str = ""


class CriterionScore(msgspec.Struct):
    """What one evaluator says of one criterion."""

    criterion: str
    score: float


class ScoreLine(msgspec.Struct):
    """The scores of a prediction."""

    raw_score: float | None
    scale: str | None
    passed: bool | None
    evaluator_scores: tuple[CriterionScore, ...]


_score_line = msgspec.json.Decoder(ScoreLine).decode
_standing = msgspec.json.Decoder(_PredictionPosition).decode


class RunReader:
    """One run, read from its artifacts; of an unfinished one, from its ledger."""

    def __init__(self, folders: RunPaths) -> None:
        self.folders = folders
        self._sealed: PublishedRun | None = open_run_folder(folders.sealed) if folders.is_sealed else None
        if self._sealed is not None:
            # Read here once, so that a damaged one is reported before anything is shown of the run.
            _ = self._sealed.manifest

    @property
    def result(self) -> RunResult:
        """Where the run stands, with its counts, metrics and gate."""
        return result_of(self.folders)

    @property
    def plan_members(self) -> dict[str, object]:
        """The settings of the run, redacted, for JSON output; everything else reads `plan`."""
        return self._shown_plan().members() if self._sealed is None else self._sealed.manifest.plan_members

    @property
    def plan(self) -> Plan:
        """The settings of the run, redacted."""
        return plan_for_display(self.plan_members) if self._sealed is None else self._sealed.manifest.plan

    @property
    def run_manifest(self) -> Manifest:
        """Return the manifest; of an unfinished run, what is known of it so far."""
        if self._sealed is not None:
            return self._sealed.manifest
        result, shown = self.result, self._shown_plan()
        # Of several datasets the first one names the run, as in the manifest of a finished one.
        first = shown.datasets[0]
        return Manifest(
            run_id=shown.plan.run_id,
            status=result.state,
            created_at=self.moments["created_at"],
            dataset_id=first.dataset_id,
            dataset_version=first.dataset_version,
            counts=result.counts,
            gate=result.gate,
            candidate=shown.candidate,
            judges=shown.judges,
            plan_members=shown.members(),
        )

    def manifest_members(self) -> dict[str, object]:
        """Return the manifest as the file has it, with members that only later versions know; empty before the end."""
        return {} if self._sealed is None else self._sealed.members

    @property
    def moments(self) -> JsonObject:
        """When the run was created, started and completed, and every state that it has entered, in the words of the manifest."""
        if self._sealed is not None:
            return {name: self._sealed.members[name] for name in ("created_at", "started_at", "completed_at", "states")}
        ledger = self.folders.open_ledger()
        try:
            row = ledger.run()
        finally:
            ledger.close()
        failure = failure_of(row, self.folders.active)
        completed = row.notes.get("completed_at", "") if row.state in TERMINAL else "" if failure is None else repr(failure.at)
        states = [{"state": state, "entered_at": iso(at)} for state, at in states_with_failures(row, failure)]
        # The first one: a resumed run enters `running` again.
        started = next((state["entered_at"] for state in states if state["state"] == "running"), None)
        ended = iso(float(completed)) if completed else None
        return {"created_at": states[0]["entered_at"], "started_at": started, "completed_at": ended, "states": states}

    def validations(self) -> Iterator[ValidationLine]:
        """Read the validation result of every record, in order; none before an unfinished run has read its input."""
        if self._sealed is not None:
            yield from self._sealed.typed_lines("record_validation.jsonl", ValidationLine)
            return
        for _, evidence in self._open_evidence():
            yield evidence.validation()

    def artifacts(self) -> dict[str, Path]:
        """Return the files of a finished run by name; empty before its end."""
        if self._sealed is None:
            return {}
        names = (MANIFEST, *self._sealed.manifest.files)
        return {name: self._sealed.path / name for name in names if (self._sealed.path / name).is_file()}

    def artifact(self, name: str) -> Path:
        """Return the file of a finished run with this name; raises RunNotFound, or ArtifactGone where retention has removed it."""
        if self._sealed is None:
            raise RunNotFound(f"run '{self.folders.run_id}' has no artifacts before its end")
        return self._sealed.artifact(name)

    def removed(self) -> tuple[Tombstone, ...]:
        """Return what retention has removed from a finished run."""
        return () if self._sealed is None else self._sealed.removed()

    def predictions(self, start: int = 0) -> Iterator[PredictionLine]:
        """Read the predictions so far in order, from the one at position `start` on."""
        if self._sealed is not None:
            return self._sealed.typed_lines("predictions.jsonl", PredictionLine, start)
        return islice(self._open_predictions(), start, None)

    def _open_predictions(self) -> Iterator[PredictionLine]:
        for finished, evidence in self._open_evidence():
            if finished.record.case is not None and finished.outcome is not None:
                yield evidence.prediction(evidence.redacted(_dataset(finished)))

    def pairs(self) -> Iterator[tuple[PredictionLine, Case]]:
        """Read every prediction so far with its case, in order; raises RunDamaged for a prediction without one."""
        if self._sealed is None:
            redactor = self._shown_plan().redactor
            for finished, evidence in self._open_evidence():
                if finished.record.case is not None and finished.outcome is not None:
                    yield _prediction_of(finished, evidence), _case_of(finished, redactor)
            return
        # Both files have the order of the records, so that they are read side by side and neither is searched.
        stored = self._sealed.records()
        for line in self.predictions():
            entry = next(stored, None)
            if entry is None or (entry.record_id, entry.record_sha256) != (line.record_id, line.record_sha256):
                raise RunDamaged(f"{self._sealed.cases_name} has no record for '{line.record_id}' where predictions.jsonl has one")
            yield line, self._sealed.case_of(entry)

    def entries(self) -> Iterator[RecordDetails]:
        """Read every valid record of a finished run in order, with its attempts."""
        assert self._sealed is not None
        # The attempts at a record lie together; a record without one, such as a skipped record, has no group.
        groups = groupby(self._sealed.typed_lines("attempt_logs.jsonl", AttemptLine), key=lambda line: line.index)
        index, attempts = next(groups, (None, iter(())))
        for prediction, case in self.pairs():
            found: tuple[AttemptLine, ...] = ()
            if index == prediction.index:
                found = tuple(attempts)
                index, attempts = next(groups, (None, iter(())))
            yield RecordDetails(input=case, prediction=prediction, attempts=found)

    def scores(self) -> Iterator[ScoreLine]:
        """Return the scores of every valid record, without the rest of its line."""
        if self._sealed is not None:
            yield from (_scored(line) for line in self._sealed.raw_lines("predictions.jsonl"))
            return
        yield from (msgspec.convert(line, ScoreLine, from_attributes=True) for line in self._open_predictions())

    def predictions_as(self, kind: type[T]) -> Iterator[T]:
        """Read every valid record so far as a struct with the members that a caller needs, in order."""
        if self._sealed is not None:
            return self._sealed.typed_lines("predictions.jsonl", kind)
        # By way of plain values, because `kind` may state other types for the same members.
        return (msgspec.convert(msgspec.to_builtins(line), kind) for line in self._open_predictions())

    def live_part(
        self, search: RecordFilter, *, limit: int, offset: int = 0, first: int = 0
    ) -> tuple[int, list[tuple[PredictionLine | FailureLine, Case | None]]]:
        """Read a part of the records of an unfinished run by status and verdict, with the number of all that match.

        A record that broke its contract has a failure instead of a prediction, and no case.
        """
        shown = self._shown_plan()
        ledger = self._open_records()
        try:
            total, part = ledger.finished_part(
                statuses=search.statuses, passed=search.passed, limit=limit, offset=offset, first=first
            )
        finally:
            ledger.close()
        return total, [_line_and_case(finished, RecordArtifacts(finished, shown), shown.redactor) for finished in part]

    def failures(self, start: int = 0) -> Iterator[FailureLine]:
        """Read the records that ended in an error or did not pass, from the one at position `start` on."""
        if self._sealed is not None:
            return self._sealed.typed_lines("failures.jsonl", FailureLine, start)
        return islice(self._open_failures(), start, None)

    def _open_failures(self) -> Iterator[FailureLine]:
        for finished, evidence in self._open_evidence():
            failure = evidence.failure() if finished.outcome is not None else None
            if failure is not None:
                yield failure

    def error_counts(self) -> Counter[tuple[str, str]]:
        """Count the errors of a sealed run by code and its taxonomy label; empty for an unfinished run.

        The artifact of a large run lists many answers that did not pass; only the lines of errors are decoded.
        """
        found: Counter[tuple[str, str]] = Counter()
        if self._sealed is not None:
            decode = msgspec.json.Decoder(_ErrorLine).decode
            lines = (line for line in self._sealed.raw_lines("failures.jsonl") if b'"kind":"error"' in line)
            found.update((line.code, line.taxonomy_label) for line in map(decode, lines))
        return found

    def latest_failures(self, limit: int) -> list[FailureLine]:
        """Return the last records of an unfinished run that ended with an error, the last first; none of a finished one."""
        # Only pages that follow a run ask for the latest; those of a finished run read `failures` in order.
        if self._sealed is not None:
            return []
        shown = self._shown_plan()
        ledger = self._open_records()
        try:
            found = ledger.latest_failures(limit)
        finally:
            ledger.close()
        failures = (RecordArtifacts(finished, shown).failure() for finished in found)
        return [failure for failure in failures if failure is not None]

    def slices(self) -> dict[str, object]:
        """Slices by name as in metrics_by_slice.json; empty for an unfinished run."""
        found: JsonObject = {} if self._sealed is None else self._sealed.document("metrics_by_slice.json")["slices"]
        return found

    def slice_metrics(self) -> dict[str, SliceValues]:
        """Slices by name as types, whichever version wrote them; empty for an unfinished run."""
        return read_slices({"slices": self.slices(), "total_records": self.result.counts.total_records}).slices

    def worst(self, limit: int) -> list[PredictionLine]:
        """Return predictions that were graded and did not pass, the lowest scores first."""
        if self._sealed is not None:
            # Of all the predictions of a large run only a few are shown, so only those are decoded whole.
            ranked = (_rank(line) for line in self._sealed.raw_lines("predictions.jsonl"))
            return [_decode_prediction(line) for _, _, line in nsmallest(limit, filter(None, ranked))]
        scored = ((line.score, line.index, line) for line in self.predictions() if line.passed is False and line.score is not None)
        # Without the line in the key: lines have no order, and two records may have the same score.
        return [line for _, _, line in nsmallest(limit, scored, key=lambda entry: entry[:2])]

    def disagreements(self) -> list[JudgeDisagreement]:
        """Return every criterion on which the judges disagree, the largest spread first."""
        if self._sealed is not None:
            raw = self._sealed.raw_lines("predictions.jsonl")
            # A line without this word has no disagreement, so it is not decoded.
            lines: Iterator[PredictionLine] = (_decode_prediction(line) for line in raw if DISAGREE.encode() in line)
        else:
            lines = self.predictions()
        found = [entry for line in lines for entry in _disagreements(line)]
        return sorted(found, key=lambda entry: (-entry.spread, entry.index))

    def attempts(self, record_id: str) -> Iterator[AttemptLine]:
        """Read every attempt at one record."""
        if self._sealed is not None:
            lines = self._sealed.typed_lines("attempt_logs.jsonl", AttemptLine)
            yield from (line for line in lines if line.record_id == record_id)
            return
        for finished, evidence in self._open_evidence():
            # The id as reports show it may be redacted; users also have the one of their dataset.
            if record_id in (evidence.record_id, finished.record.record_id):
                yield from _attempts_of(finished, evidence)

    def record(self, record_id: str, *, sample: int | None = None) -> RecordDetails | InvalidRecord:
        """Return one record by its id or its index; raises RunNotFound.

        Of a record that was asked several times it is the first answer, or the one with the number `sample`; `samples` has
        the results of all answers.
        """
        index = None if self._sealed is None else index_of(self._sealed.path)
        if index is not None:
            return self.record_of(self._row(index, record_id, sample))
        # Without an index the lines are searched: building one takes longer than a single search.
        prediction = _named(self.predictions(), record_id, sample)
        if prediction is None:
            failure = _named(self.failures(), record_id, sample)
            if failure is not None:
                return InvalidRecord(failure=failure)
            raise self._without(record_id, sample)
        return self._details(prediction)

    def _details(self, prediction: PredictionLine) -> RecordDetails:
        attempts = tuple(line for line in self.attempts(prediction.record_id) if line.index == prediction.index)
        found = RecordDetails(input=self._input(prediction), prediction=prediction, attempts=attempts)
        if prediction.sample is not msgspec.UNSET:
            found.samples = self._samples(prediction)
        return found

    def record_at(self, position: int) -> RecordDetails | InvalidRecord:
        """Return one record by the index alone: an id may look like the index of another record. Raises RunNotFound."""
        index = None if self._sealed is None else index_of(self._sealed.path)
        if index is not None:
            return self.record_of(index.at_position(position))
        if self._sealed is None:
            return self._live_record(position)
        line = next((line for line in self.predictions() if line.index == position), None)
        if line is not None:
            return self._details(line)
        failure = next((line for line in self.failures() if line.index == position), None)
        if failure is None:
            raise self._without(str(position), None)
        return InvalidRecord(failure=failure)

    def _live_record(self, position: int) -> RecordDetails | InvalidRecord:
        shown = self._shown_plan()
        ledger = self._open_records()
        try:
            _, part = ledger.finished_part(statuses=(), passed=None, limit=1, first=position)
        finally:
            ledger.close()
        # The ledger returns the next finished record when the one at this position is still open.
        if not part or part[0].record.position != position:
            raise self._without(str(position), None)
        evidence = RecordArtifacts(part[0], shown)
        line, case = _line_and_case(part[0], evidence, shown.redactor)
        if isinstance(line, FailureLine):
            return InvalidRecord(failure=line)
        assert case is not None, "a prediction has a case"
        return RecordDetails(input=case, prediction=line, attempts=tuple(_attempts_of(part[0], evidence)))

    def _without(self, record_id: str, sample: int | None) -> RunNotFound:
        which = "" if sample is None else f" with a sample {sample}"
        return RunNotFound(
            f"run '{self.folders.run_id}' has no finished record '{record_id}'{which}",
            hint=f"list its records with: assay show {self.folders.run_id} --verbose",
        )

    def _row(self, index: RecordIndex, record_id: str, sample: int | None) -> IndexedRecord:
        # Several records may have one id: the samples of a repeated record, or records of several datasets.
        for found in index.named(record_id):
            if sample in (None, found.sample or 0):
                return found
        raise self._without(record_id, sample)

    def record_of(self, row: IndexedRecord) -> RecordDetails | InvalidRecord:
        """Return the record of an index entry without reading the other lines; the index lists its samples."""
        line = self.line_of(row)
        if isinstance(line, FailureLine):
            return InvalidRecord(failure=line)
        found = RecordDetails(input=self.input_of(row), prediction=line, attempts=self.attempts_of(row))
        if row.sample is not None:
            found.samples = self._samples(line)
        return found

    def line_of(self, row: IndexedRecord) -> PredictionLine | FailureLine:
        """Return the prediction of an index entry, or the failure of a record that broke its contract; raises RunDamaged."""
        line: PredictionLine | FailureLine
        if row.status == INVALID:
            (line,) = self._span(_decode_failure, "failures.jsonl", row.line_start, row.line_size)
        else:
            (line,) = self._span(_decode_prediction, "predictions.jsonl", row.line_start, row.line_size)
        # The artifacts may have been changed since; a wrong span would show another record's answer.
        if (line.index, line.record_id) != (row.position, row.record_id):
            raise RunDamaged("the artifacts are not those of the index")
        return line

    def input_of(self, row: IndexedRecord) -> Case:
        """Return the case of an index entry, which must be a valid record; raises RunDamaged."""
        assert self._sealed is not None
        (entry,) = self._span(decode_case_line, self._sealed.cases_name, row.input_start, row.input_size)
        return self._sealed.case_of(entry)

    def attempts_of(self, row: IndexedRecord) -> tuple[AttemptLine, ...]:
        """Return every attempt at the record of an index entry."""
        return tuple(self._span(_decode_attempt, "attempt_logs.jsonl", row.attempts_start, row.attempts_size))

    def _span(self, decode: Callable[[bytes], T], name: str, start: int, size: int) -> list[T]:
        assert self._sealed is not None
        path = self._sealed.path / name
        return [decoded_as(decode, line, path) for line in self._sealed.span(name, start, size).splitlines()]

    def _samples(self, prediction: PredictionLine) -> tuple[SampleResult, ...]:
        """Return the results of all answers to the record of a prediction."""
        index = None if self._sealed is None else index_of(self._sealed.path)
        if index is None:
            same = (line for line in self.predictions() if line.record_id == prediction.record_id)
        else:
            lines = (self.line_of(row) for row in index.named(prediction.record_id) if row.status != INVALID)
            same = (line for line in lines if isinstance(line, PredictionLine))
        return tuple(map(_sample_result, same))

    def _input(self, prediction: PredictionLine) -> Case:
        if self._sealed is not None:
            # With the hash, because ids are unique within a dataset only.
            wanted = (prediction.record_id, prediction.record_sha256)
            for entry in self._sealed.records():
                if (entry.record_id, entry.record_sha256) == wanted:
                    return self._sealed.case_of(entry)
            raise RunDamaged(f"{self._sealed.cases_name} has no record for '{prediction.record_id}'")
        redactor = self._shown_plan().redactor
        found = next(finished for finished, _ in self._open_evidence() if finished.record.position == prediction.index)
        return _case_of(found, redactor)

    def _shown_plan(self) -> RedactedPlan:
        plan = self._plan()
        return RedactedPlan(plan, redactor_of(plan, os.environ))

    def _plan(self) -> Plan:
        ledger = self.folders.open_ledger()
        try:
            return msgspec.json.decode(ledger.run().plan, type=Plan)
        finally:
            ledger.close()

    def _open_records(self) -> Ledger:
        """Open the ledger with the records of an unfinished run; raises RunNotFound when they are sealed on another machine."""
        ledger = self.folders.open_ledger()
        try:
            row = ledger.run()
            # Records of a sealed run are removed from a shared ledger, which would look like an empty run.
            if row.state in TERMINAL and SEALED_IN in row.notes:
                raise not_here_error(self.folders.run_id, row.notes)
        except (RunNotFound, StoreUnavailable):
            ledger.close()
            raise
        return ledger

    def _open_evidence(self) -> Iterator[tuple[FinishedRecord, RecordArtifacts]]:
        shown = self._shown_plan()
        ledger = self._open_records()
        try:
            # One record at a time: a run may have millions, and some callers stop at the first.
            for finished in ledger.finished():
                yield finished, RecordArtifacts(finished, shown)
        finally:
            ledger.close()


def _disagreements(line: PredictionLine) -> Iterator[JudgeDisagreement]:
    """Yield the criteria of one prediction on which the judges disagree."""
    for decision in line.panel or ():
        if decision.spread:
            yield JudgeDisagreement(
                record_id=line.record_id,
                index=line.index,
                sample=line.sample,
                passed=line.passed,
                votes=tuple(score for score in line.evaluator_scores if score.criterion == decision.criterion),
                **msgspec.structs.asdict(decision),
            )


def _sample_result(line: PredictionLine) -> SampleResult:
    return SampleResult(
        sample=line.sample or 0,
        index=line.index,
        status=line.status,
        score=line.score,
        raw_score=line.raw_score,
        scale=line.scale,
        passed=line.passed,
        error_code=line.error_code,
    )


Line = TypeVar("Line", PredictionLine, FailureLine)


def _named(lines: Iterator[Line], name: str, sample: int | None) -> Line | None:
    """Return the line with that record id, of that sample if one is given; otherwise the line with that index."""
    at_index: Line | None = None
    for line in lines:
        if line.record_id == name and sample in (None, line.sample or 0):
            return line
        # An id wins over an index, also when it comes later: ids may be numbers.
        if str(line.index) == name and sample in (None, line.sample or 0):
            at_index = line
    return at_index


def _line_and_case(
    finished: FinishedRecord, evidence: RecordArtifacts, redactor: Redactor
) -> tuple[PredictionLine | FailureLine, Case | None]:
    """Return the prediction of a record with its case; of a record that broke its contract, its failure."""
    if finished.record.case is None:
        failure = evidence.failure()
        assert failure is not None, "a record that broke its contract did not pass"
        return failure, None
    return _prediction_of(finished, evidence), _case_of(finished, redactor)


def _prediction_of(finished: FinishedRecord, evidence: RecordArtifacts) -> PredictionLine:
    return evidence.prediction(evidence.redacted(_dataset(finished)))


def _attempts_of(finished: FinishedRecord, evidence: RecordArtifacts) -> Iterator[AttemptLine]:
    return (evidence.attempt(number, attempt) for number, attempt in enumerate(finished.attempts, 1))


def _case_of(finished: FinishedRecord, redactor: Redactor) -> Case:
    """Return the case of a valid record, redacted as in the artifacts."""
    return msgspec.convert(redactor.structure(msgspec.json.decode(finished.record.case or b"{}"), CASE), Case)


def _dataset(finished: FinishedRecord) -> str:
    name: str = msgspec.json.decode(finished.record.case or b"{}").get("dataset", "")
    return name


def _scored(line: bytes) -> ScoreLine:
    try:
        return _score_line(line)
    except ValueError as problem:
        raise _damaged(problem) from problem


def _damaged(problem: ValueError) -> RunDamaged:
    return RunDamaged(f"predictions.jsonl is damaged: {problem}")


def _rank(line: bytes) -> tuple[float, int, bytes] | None:
    """Return score, position and the line itself; None unless it was graded and did not pass."""
    try:
        found = _standing(line)
    except ValueError as problem:
        raise _damaged(problem) from problem
    return (found.score, found.index, line) if found.passed is False and found.score is not None else None
