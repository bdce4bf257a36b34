"""A run to look at: its result, its records, its failures, whether it is sealed or still under way."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from heapq import nsmallest
from itertools import groupby, islice
from pathlib import Path
from typing import TypeVar

import msgspec

from assay.core.canonical import JsonObject
from assay.core.contract import MANIFEST
from assay.core.errors import RunDamaged, RunNotFound, StoreUnavailable
from assay.core.manifest import Manifest
from assay.core.outcome import PanelDecision
from assay.core.plan import Plan
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
from assay.store.published_run import PublishedRun, Tombstone, decoded, open_run_folder
from assay.store.record_index import IndexedRecord, RecordIndex, index_of
from assay.store.redact import Redactor

T = TypeVar("T")
_SAMPLE_MEMBERS = ("sample", "index", "status", "score", "raw_score", "scale", "passed", "error_code")


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
    def shown_plan(self) -> JsonObject:
        """Return the settings of the run, redacted."""
        return self._shown_plan().members() if self._sealed is None else self._sealed.manifest.plan

    @property
    def run_manifest(self) -> Manifest:
        """Return the manifest; of an unfinished run, what is known of it so far."""
        if self._sealed is not None:
            return self._sealed.manifest
        result, shown = self.result, self._shown_plan()
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
            plan=shown.members(),
        )

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
        started = next((state["entered_at"] for state in states if state["state"] == "running"), None)
        ended = iso(float(completed)) if completed else None
        return {"created_at": states[0]["entered_at"], "started_at": started, "completed_at": ended, "states": states}

    def validations(self) -> Iterator[JsonObject]:
        """Every record with what validation says of it, in order; none before an unfinished run has read its input."""
        if self._sealed is not None:
            yield from self._sealed.lines("record_validation.jsonl")
            return
        for _, evidence in self._open_evidence():
            yield msgspec.json.decode(msgspec.json.encode(evidence.validation()))

    def artifacts(self) -> dict[str, Path]:
        """The files of a finished run by name; empty before its end."""
        if self._sealed is None:
            return {}
        names = (MANIFEST, *self._sealed.manifest.files)
        return {name: self._sealed.path / name for name in names if (self._sealed.path / name).is_file()}

    def artifact(self, name: str) -> Path:
        """The file of a finished run with this name; raises RunNotFound, or ArtifactGone where retention has removed it."""
        if self._sealed is None:
            raise RunNotFound(f"run '{self.folders.run_id}' has no artifacts before its end")
        return self._sealed.artifact(name)

    def removed(self) -> tuple[Tombstone, ...]:
        """What retention has removed from a finished run."""
        return () if self._sealed is None else self._sealed.removed()

    def predictions(self, start: int = 0) -> Iterator[JsonObject]:
        """Every valid record with what came of it so far, in order, from the one at `start` on."""
        if self._sealed is not None:
            # Of the lines before it only the ends are looked for.
            yield from self._sealed.lines("predictions.jsonl", start)
            return
        yield from islice(self._open_predictions(), start, None)

    def _open_predictions(self) -> Iterator[JsonObject]:
        for finished, evidence in self._open_evidence():
            if finished.record.case is not None and finished.outcome is not None:
                yield msgspec.to_builtins(evidence.prediction(evidence.redacted(_dataset(finished))))

    def pairs(self) -> Iterator[tuple[JsonObject, JsonObject]]:
        """Every prediction so far with the record that was asked, in order; raises StoreUnavailable where one has no record."""
        if self._sealed is None:
            redactor = self._shown_plan().redactor
            for finished, evidence in self._open_evidence():
                if finished.record.case is not None and finished.outcome is not None:
                    yield _told(finished, evidence, redactor)
            return
        asked = self._sealed.records()
        for line in self.predictions():
            entry = next(asked, {})
            if (entry.get("record_id"), entry.get("record_sha256")) != (line["record_id"], line["record_sha256"]):
                raise RunDamaged(
                    f"{self._sealed.cases_name} has no record for '{line['record_id']}' where predictions.jsonl has one"
                )
            yield line, entry["record"]

    def entries(self) -> Iterator[JsonObject]:
        """Every valid record of a finished run in order, each as `record` has it: `input`, `prediction` and `attempts`."""
        assert self._sealed is not None
        groups = groupby(self._sealed.lines("attempt_logs.jsonl"), key=lambda line: line["index"])
        index, attempts = next(groups, (None, iter(())))
        for prediction, asked in self.pairs():
            found: list[JsonObject] = []
            if index == prediction["index"]:
                found = list(attempts)
                index, attempts = next(groups, (None, iter(())))
            yield {"input": asked, "prediction": prediction, "attempts": found}

    def scores(self) -> Iterator[ScoreLine]:
        """The scores of every valid record, without the rest of its line."""
        if self._sealed is not None:
            yield from (_scored(line) for line in self._sealed.raw_lines("predictions.jsonl"))
            return
        yield from (msgspec.convert(line, ScoreLine) for line in self._open_predictions())

    def predictions_as(self, kind: type[T]) -> Iterator[T]:
        """Read every valid record so far as a struct with the members that a caller needs, in order."""
        if self._sealed is not None:
            return self._sealed.typed_lines("predictions.jsonl", kind)
        return (msgspec.convert(line, kind) for line in self._open_predictions())

    def live_part(
        self, search: RecordFilter, *, limit: int, offset: int = 0, first: int = 0
    ) -> tuple[int, list[tuple[JsonObject, JsonObject]]]:
        """A part of the records of an unfinished run by status and verdict, each with what was asked, and how many there are."""
        shown = self._shown_plan()
        ledger = self._open_records()
        try:
            total, part = ledger.finished_part(
                statuses=search.statuses, passed=search.passed, limit=limit, offset=offset, first=first
            )
        finally:
            ledger.close()
        return total, [_told(finished, RecordArtifacts(finished, shown), shown.redactor) for finished in part]

    def failures(self, start: int = 0) -> Iterator[JsonObject]:
        """Every record that ended in an error or did not pass, from the one at `start` on."""
        if self._sealed is not None:
            yield from self._sealed.lines("failures.jsonl", start)
            return
        yield from islice(self._open_failures(), start, None)

    def _open_failures(self) -> Iterator[JsonObject]:
        for finished, evidence in self._open_evidence():
            failure = evidence.failure() if finished.outcome is not None else None
            if failure is not None:
                yield msgspec.to_builtins(failure)

    def error_counts(self) -> Counter[tuple[str, str]]:
        """How many records of a sealed run ended in an error, by its code and its taxonomy label; empty for an unfinished run.

        The artifact of a large run lists many answers that did not pass; only the lines of errors are decoded.
        """
        found: Counter[tuple[str, str]] = Counter()
        if self._sealed is not None:
            decode = msgspec.json.Decoder(_ErrorLine).decode
            lines = (line for line in self._sealed.raw_lines("failures.jsonl") if b'"kind":"error"' in line)
            found.update((line.code, line.taxonomy_label) for line in map(decode, lines))
        return found

    def latest_failures(self, limit: int) -> list[JsonObject]:
        """The last records of an unfinished run that ended with an error, the last first; none of a finished one."""
        if self._sealed is not None:
            return []
        shown = self._shown_plan()
        ledger = self._open_records()
        try:
            found = ledger.latest_failures(limit)
        finally:
            ledger.close()
        failures = (RecordArtifacts(finished, shown).failure() for finished in found)
        return [msgspec.to_builtins(failure) for failure in failures if failure is not None]

    def slices(self) -> JsonObject:
        """Slices by name as in metrics_by_slice.json; empty for an unfinished run."""
        found: JsonObject = {} if self._sealed is None else self._sealed.document("metrics_by_slice.json")["slices"]
        return found

    def slice_metrics(self) -> dict[str, SliceValues]:
        """Slices by name as types, whichever version wrote them; empty for an unfinished run."""
        return read_slices({"slices": self.slices(), "total_records": self.result.counts.total_records}).slices

    def worst(self, limit: int) -> list[JsonObject]:
        """Predictions that were graded and did not pass, the lowest scores first."""
        if self._sealed is not None:
            # Of all the predictions of a large run only a few are shown, so only those are decoded whole.
            places = (_placed(line) for line in self._sealed.raw_lines("predictions.jsonl"))
            return [msgspec.json.decode(line) for _, _, line in nsmallest(limit, filter(None, places))]
        missed = (line for line in self.predictions() if line["passed"] is False)
        return nsmallest(limit, missed, key=lambda line: (line["score"], line["index"]))

    def disagreements(self) -> list[JsonObject]:
        """Every criterion on which judges do not say the same, with all votes; the widest apart first."""
        if self._sealed is not None:
            raw = self._sealed.raw_lines("predictions.jsonl")
            lines: Iterator[JsonObject] = (msgspec.json.decode(line) for line in raw if DISAGREE.encode() in line)
        else:
            lines = self.predictions()
        found = [entry for line in lines for entry in _disagreements(line)]
        return sorted(found, key=lambda entry: (-entry["spread"], entry["index"]))

    def attempts(self, record_id: str) -> Iterator[JsonObject]:
        """Every attempt at one record."""
        if self._sealed is not None:
            yield from (line for line in self._sealed.lines("attempt_logs.jsonl") if line["record_id"] == record_id)
            return
        for finished, evidence in self._open_evidence():
            if record_id in (evidence.record_id, finished.record.record_id):
                for number, attempt in enumerate(finished.attempts, 1):
                    yield msgspec.to_builtins(evidence.attempt(number, attempt))

    def record(self, record_id: str, *, sample: int | None = None) -> JsonObject:
        """One record by its id or its index: what was asked, what came of it, every attempt; raises RunNotFound.

        Of a record that was asked several times it is the first answer, or the one with the number `sample`; `samples` has
        what came of each.
        """
        index = None if self._sealed is None else index_of(self._sealed.path)
        if index is not None:
            return self._indexed(self._row(index, record_id, sample))
        prediction = _named(self.predictions(), record_id, sample)
        if prediction is None:
            failure = _named(self.failures(), record_id, sample)
            if failure is not None:
                return {"failure": failure}
            raise self._without(record_id, sample)
        return self._whole(prediction)

    def _whole(self, prediction: JsonObject) -> JsonObject:
        index = prediction["index"]
        attempts = [line for line in self.attempts(prediction["record_id"]) if line["index"] == index]
        found = {"input": self._input(prediction), "prediction": prediction, "attempts": attempts}
        return {**found, "samples": self._samples(prediction)} if "sample" in prediction else found

    def record_at(self, position: int) -> JsonObject:
        """As `record`, by the index alone: an id may look like the index of another record."""
        index = None if self._sealed is None else index_of(self._sealed.path)
        if index is not None:
            return self._indexed(index.at_position(position))
        if self._sealed is None:
            return self._live_record(position)
        line = next((line for line in self.predictions() if line["index"] == position), None)
        failure = next((line for line in self.failures() if line["index"] == position), None)
        if line is None and failure is None:
            raise self._without(str(position), None)
        return {"failure": failure} if line is None else self._whole(line)

    def _live_record(self, position: int) -> JsonObject:
        shown = self._shown_plan()
        ledger = self._open_records()
        try:
            _, part = ledger.finished_part(statuses=(), passed=None, limit=1, first=position)
        finally:
            ledger.close()
        if not part or part[0].record.position != position:
            raise self._without(str(position), None)
        evidence = RecordArtifacts(part[0], shown)
        line, asked = _told(part[0], evidence, shown.redactor)
        if part[0].record.case is None:
            return {"failure": line}
        attempts = [msgspec.to_builtins(evidence.attempt(number, attempt)) for number, attempt in enumerate(part[0].attempts, 1)]
        return {"input": asked, "prediction": line, "attempts": attempts}

    def record_of(self, row: IndexedRecord) -> JsonObject:
        """As `record`, at a place of the index."""
        return self._indexed(row)

    def _without(self, record_id: str, sample: int | None) -> RunNotFound:
        which = "" if sample is None else f" with a sample {sample}"
        return RunNotFound(
            f"run '{self.folders.run_id}' has no finished record '{record_id}'{which}",
            hint=f"list its records with: assay show {self.folders.run_id} --verbose",
        )

    def _row(self, index: RecordIndex, record_id: str, sample: int | None) -> IndexedRecord:
        for found in index.named(record_id):
            if sample in (None, found.sample or 0):
                return found
        raise self._without(record_id, sample)

    def _indexed(self, row: IndexedRecord) -> JsonObject:
        """As `record`, without reading the lines of all the others; only samples are looked for in the index."""
        line = self.line_of(row)
        if row.status == INVALID:
            return {"failure": line}
        found = {"input": self.input_of(row), "prediction": line, "attempts": self.attempts_of(row)}
        return found if row.sample is None else {**found, "samples": self._samples(line)}

    def line_of(self, row: IndexedRecord) -> JsonObject:
        """The prediction at a place of the index; of a record that broke its contract, its failure. Raises StoreUnavailable."""
        (line,) = self._span("failures.jsonl" if row.status == INVALID else "predictions.jsonl", row.line_start, row.line_size)
        if (line.get("index"), line.get("record_id")) != (row.position, row.record_id):
            raise RunDamaged("the artifacts are not those of the index")
        return line

    def input_of(self, row: IndexedRecord) -> JsonObject:
        """What was asked, at a place of the index; empty for a record that broke its contract."""
        assert self._sealed is not None
        found: JsonObject = next(iter(self._span(self._sealed.cases_name, row.input_start, row.input_size)), {}).get("record", {})
        return found

    def attempts_of(self, row: IndexedRecord) -> list[JsonObject]:
        """Every attempt at the record at a place of the index."""
        return self._span("attempt_logs.jsonl", row.attempts_start, row.attempts_size)

    def _span(self, name: str, start: int, size: int) -> list[JsonObject]:
        assert self._sealed is not None
        path = self._sealed.path / name
        return [decoded(line, path) for line in self._sealed.span(name, start, size).splitlines()]

    def _samples(self, prediction: JsonObject) -> list[JsonObject]:
        """What came of every answer to the record of a prediction."""
        record_id = prediction["record_id"]
        index = None if self._sealed is None else index_of(self._sealed.path)
        if index is None:
            same = (line for line in self.predictions() if line["record_id"] == record_id)
        else:
            same = (self.line_of(row) for row in index.named(record_id) if row.status != INVALID)
        return [{name: line[name] for name in _SAMPLE_MEMBERS} for line in same]

    def _input(self, prediction: Mapping[str, object]) -> JsonObject:
        if self._sealed is not None:
            same = ("record_id", "record_sha256")
            records = (entry for entry in self._sealed.records() if all(entry[name] == prediction[name] for name in same))
            return next((entry["record"] for entry in records), {})
        redactor = self._shown_plan().redactor
        cases = (finished.record.case for finished, _ in self._open_evidence() if finished.record.position == prediction["index"])
        found: JsonObject = redactor.structure(msgspec.json.decode(next(cases) or b"{}"), CASE)
        return found

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
        """The ledger with the records of an unfinished run; raises RunNotFound when they are sealed on another machine."""
        ledger = self.folders.open_ledger()
        try:
            row = ledger.run()
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
            for finished in ledger.finished():
                yield finished, RecordArtifacts(finished, shown)
        finally:
            ledger.close()


def _disagreements(line: JsonObject) -> Iterator[JsonObject]:
    """What the judges of one prediction do not agree on."""
    same: JsonObject = {name: line[name] for name in ("record_id", "index", "sample", "passed") if name in line}
    for decision in msgspec.convert(line.get("panel", ()), tuple[PanelDecision, ...]):
        votes = [score for score in line["evaluator_scores"] if score["criterion"] == decision.criterion]
        if decision.spread:
            yield {**same, **msgspec.structs.asdict(decision), "votes": votes}


def _named(lines: Iterator[JsonObject], name: str, sample: int | None) -> JsonObject | None:
    """The line with that record id, of that sample where one is given; where there is none, the one with that index."""
    at_index: JsonObject | None = None
    for line in lines:
        if line["record_id"] == name and sample in (None, line.get("sample", 0)):
            return line
        if str(line["index"]) == name and sample in (None, line.get("sample", 0)):
            at_index = line
    return at_index


def _told(finished: FinishedRecord, evidence: RecordArtifacts, redactor: Redactor) -> tuple[JsonObject, JsonObject]:
    """The prediction of a record and what was asked; of one that broke its contract, its failure."""
    case = finished.record.case
    if case is None:
        return msgspec.to_builtins(evidence.failure()), {}
    prediction = evidence.prediction(evidence.redacted(_dataset(finished)))
    return msgspec.to_builtins(prediction), redactor.structure(msgspec.json.decode(case), CASE)


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


def _placed(line: bytes) -> tuple[float, int, bytes] | None:
    """Score, position and the line itself; None unless it was graded and did not pass."""
    try:
        found = _standing(line)
    except ValueError as problem:
        raise _damaged(problem) from problem
    return (found.score, found.index, line) if found.passed is False and found.score is not None else None
