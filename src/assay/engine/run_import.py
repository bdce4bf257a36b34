"""Import of another tool's evaluations as finished runs, from its files alone: no model is called, nothing is graded again."""

import re
import shutil
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from assay.core.errors import EmptyResult, RunSealed, UsageProblem
from assay.core.model_call import Reply
from assay.core.outcome import Attempt, FailedOutcome, Grade, GradedOutcome, Outcome, Score, SkippedOutcome, record_status
from assay.core.plan import ImportedFile, ImportPlan, ModelPlan, Plan, plan_sha256
from assay.core.retention import RetentionPolicy
from assay.core.runs import count_records, final_state
from assay.core.settings import ModelParameters
from assay.datasets.imports import LEFT, AnswerOffsets, DatasetRows, ImportedItem, ImportedScore, ImportResult
from assay.engine.finalization.finalize import finalize
from assay.engine.planning.dataset_inputs import DatasetInput, dataset_plan, read_dataset
from assay.engine.planning.plans import named_runs, suite_of
from assay.engine.planning.responses import storable
from assay.engine.planning.selection import prepared_records
from assay.engine.storage.run_paths import RunPaths, check_target_free, folders_of, new_run_id
from assay.store.failures import disk_errors
from assay.store.ledger import FinishedRecord, RecordRow, RunRow

IMPORTED = "imported"
NOT_SCORED = "not_scored"
NOT_THERE = "not_in_source"
_SCALE = re.compile(r"(?P<low>-?[0-9]+(?:\.[0-9]+)?)(?:-|/)(?P<high>-?[0-9]+(?:\.[0-9]+)?)", re.ASCII)
_STANDARD = frozenset({"0/1", "0-1"})


class ImportRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Options of imported runs."""

    scorer: str | None = None
    """Whose scores are the grades; None takes the first one."""
    scale: str | None = None
    """`LOW-HIGH` of the scorer; None where its values are from 0 to 1."""
    pass_threshold: float = 0.7
    """Share of the scale from which an answer passes, where the tool gives no verdict of its own."""
    candidate: str | None = None
    """Candidate to import, of several."""


class ScorerScale(msgspec.Struct, frozen=True):
    """Scale of a scorer."""

    name: str
    low: float
    high: float

    def share(self, value: float) -> float:
        """Return a value as 0..1."""
        return (value - self.low) / (self.high - self.low)


def import_plans(
    imported: ImportResult,
    dataset: DatasetInput,
    *,
    wanted: ImportRequest,
    run_id: str,
    now: float,
    retention: RetentionPolicy,
) -> tuple[Plan, ...]:
    """Return one plan for each candidate; raises UsageProblem when scorer, scale or candidate do not exist."""
    candidates = _candidates(imported, wanted)
    scorer, scale = _scorer(imported, wanted)
    models = [_model(imported, name) for name in candidates]
    run_ids, group = named_runs(run_id, models, new_run_id=new_run_id)
    others = {name: spread for name, spread in imported.intake.scorers.items() if name != scorer and spread.scored}
    unknown = {
        f"scores of {name}, whose scale is not known": spread.scored for name, spread in others.items() if not spread.is_share
    }
    source = ImportPlan(
        tool=imported.reading.tool,
        version=imported.reading.version,
        scorer=scorer,
        scale=scale.name,
        other_scorers=tuple(name for name, spread in others.items() if spread.is_share),
        files=tuple(ImportedFile(name=file.name, sha256=file.sha256) for file in imported.files()),
        evaluated_at=imported.reading.created_at,
        left_out={**unknown, **imported.refused(), **imported.reading.left_out},
        incomplete=tuple(imported.reading.incomplete),
    )
    return tuple(
        Plan(
            run_id=run_id,
            datasets=(dataset.plan,),
            candidate=model,
            response_source="prefilled",
            pass_threshold=wanted.pass_threshold,
            repeat=imported.intake.candidates[model.name].repeat,
            suite=suite_of(models, now),
            group=group or msgspec.UNSET,
            imported=source,
            retention=retention,
        )
        for run_id, model in zip(run_ids, models, strict=True)
    )


def _candidates(imported: ImportResult, wanted: ImportRequest) -> tuple[str, ...]:
    names = tuple(imported.intake.candidates)
    if not names:
        raise UsageProblem("these files hold questions, but no answers", hint="write the dataset instead: -o DATASET")
    if wanted.candidate is None:
        return names
    if wanted.candidate not in names:
        raise UsageProblem(f"there are no answers of '{wanted.candidate}'", hint=f"there are answers of: {', '.join(names)}")
    return (wanted.candidate,)


def _model(imported: ImportResult, name: str) -> ModelPlan:
    """Return the candidate with the parameters that the other tool names; all others are unknown."""
    given = imported.reading.parameters_of(name)
    try:
        parameters = msgspec.convert({"temperature": None, **given}, ModelParameters)
    except msgspec.ValidationError:
        # Parameters that are not ours are kept as they are rather than dropped.
        parameters = ModelParameters(temperature=None, extra_body=given)
    return ModelPlan(name=name, provider="", model=name, parameters=parameters)


def _scorer(imported: ImportResult, wanted: ImportRequest) -> tuple[str, ScorerScale]:
    spreads = imported.intake.scorers
    if wanted.scorer is not None and wanted.scorer not in spreads:
        known = ", ".join(spreads) or "none"
        raise UsageProblem(f"there are no scores of '{wanted.scorer}'", hint=f"scorers in these files: {known}")
    if not spreads:
        return "", ScorerScale("0-1", 0.0, 1.0)
    name = wanted.scorer or next((name for name, spread in spreads.items() if spread.scored), next(iter(spreads)))
    spread = spreads[name]
    if wanted.scale is not None:
        return name, _given_scale(wanted.scale, name, low=spread.low, high=spread.high)
    if spread.scored and not spread.is_share:
        raise UsageProblem(
            f"the values of '{name}' go from {spread.low:g} to {spread.high:g}, on an unknown scale",
            hint="give its scale, such as --scale 1-10, or choose another --scorer",
        )
    return name, ScorerScale("0/1" if spread.is_binary else "0-1", 0.0, 1.0)


def _given_scale(text: str, scorer: str, *, low: float, high: float) -> ScorerScale:
    match = _SCALE.fullmatch(text)
    scale = ScorerScale(text, float(match["low"]), float(match["high"])) if match else None
    if scale is None or scale.low >= scale.high:
        raise UsageProblem(f"'{text}' is not a scale", hint="write the lowest and the highest value, such as 1-10")
    if low < scale.low or high > scale.high:
        raise UsageProblem(
            f"the values of '{scorer}' go from {low:g} to {high:g}, which is not on the scale {text}", hint="correct --scale"
        )
    return scale


def dataset_of(path: Path, rows: DatasetRows, *, shown: Path) -> DatasetInput:
    """Validate the dataset that was written for an import; `shown` is its path for users."""
    if not rows.count:
        raise EmptyResult("nothing could be imported", hint="the report says why: leave --run out, or print it with --json")
    source, report = read_dataset(path, rows.contract)
    assert report.outcome != "rejected", "every row was checked before it was written"
    plan = dataset_plan(source, report, name=rows.name)
    return DatasetInput(msgspec.structs.replace(plan, path=str(shown), file=shown.name), source, report)


def check_new(plans: Sequence[Plan], runs_dir: Path) -> None:
    """Raise RunSealed when a run of one of these ids exists, before any of them is made."""
    for plan in plans:
        if folders_of(runs_dir, plan.run_id).exists:
            raise RunSealed(f"run '{plan.run_id}' exists already", hint="choose another --id")


def publish(imported: ImportResult, rows: DatasetRows, *, plan: Plan, dataset: DatasetInput, runs_dir: Path, at: float) -> RunPaths:
    """Seal a run with the answers and the grades of another tool; raises RunSealed where there is a run of that id."""
    check_new([plan], runs_dir)
    target = folders_of(runs_dir, plan.run_id)
    check_target_free(target)
    with disk_errors(target.active, is_new=True):
        target.active.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        finalize(_ImportedRecords(imported, rows, plan=plan, dataset=dataset, at=at), target)
    finally:
        shutil.rmtree(target.active, ignore_errors=True)
    return target


class _ImportedRecords:
    """Records of one candidate, in the form that finalization reads."""

    def __init__(self, imported: ImportResult, rows: DatasetRows, *, plan: Plan, dataset: DatasetInput, at: float) -> None:
        assert plan.imported is not None, "the plan of an imported run"
        self._intake = imported.intake
        self._answers: AnswerOffsets = imported.intake.candidates[plan.candidate.name]
        self._records = array("q", (record for record, row in enumerate(rows.numbers) if row != LEFT))
        self._plan = plan
        self._dataset = dataset
        self._grading = _OutcomeBuilder(plan, plan.imported)
        self._at = at
        self._statuses: dict[str, int] = {}

    def run(self) -> RunRow:
        """Return the run's row; its state is that of the records so far."""
        notes = {"final_state": final_state(count_records(self._statuses)), "completed_at": repr(self._at)}
        states = (("finalizing", self._at),)
        return RunRow(msgspec.json.encode(self._plan), plan_sha256(self._plan), "finalizing", states, False, notes)  # type: ignore[arg-type]  # a literal in a tuple

    def finished(self) -> Iterator[FinishedRecord]:
        """Yield all records in order."""
        for row in prepared_records(self._plan, (self._dataset,)):
            found = self._finished(row)
            status = record_status(found.outcome) if found.outcome is not None else "skipped"
            self._statuses[status] = self._statuses.get(status, 0) + 1
            yield found

    def _finished(self, row: RecordRow) -> FinishedRecord:
        number, sample = divmod(row.position, self._plan.repeat)
        place = self._answers.place(self._records[number], sample)
        if place is None:
            return FinishedRecord(row, (), SkippedOutcome(code=NOT_THERE, message="the files hold no answer to this record"))
        item = self._grading.seen(self._intake.item(place))
        return FinishedRecord(row, (self._attempt(item),), self._grading.outcome(item))

    def _attempt(self, item: ImportedItem) -> Attempt:
        """Return the one known attempt: the answer, or the error."""
        attempt = Attempt(
            stage="candidate",
            call_id="candidate",
            round=1,
            started_at=self._at if item.started_at is None else item.started_at,
            latency_ms=item.latency_ms or 0.0,
            model=item.candidate,
        )
        answer = item.answer
        if answer is None:
            return msgspec.structs.replace(attempt, error_code=item.error_code or "no_answer", error_message=item.error)
        # An unmeasured time is unknown, not 0: given answers have none.
        text = storable(answer.text)
        marks = {"prefilled": item.latency_ms is None, "replaced_characters": text != answer.text}
        flags = (IMPORTED, *(name for name, is_so in marks.items() if is_so))
        reply = Reply(
            text=text,
            finish_reason=answer.finish_reason,
            usage=answer.usage,
            model=answer.model,
            request_id=answer.request_id,
            flags=flags,
        )
        return msgspec.structs.replace(attempt, reply=reply, request_id=answer.request_id, cost=answer.cost)


class _OutcomeBuilder:
    """Marks of another tool into outcomes."""

    def __init__(self, plan: Plan, source: ImportPlan) -> None:
        self._threshold = plan.pass_threshold
        self._source = source
        match = _SCALE.fullmatch(source.scale)
        assert match is not None, "the scale was read when the plan was made"
        self._scale = ScorerScale(source.scale, float(match["low"]), float(match["high"]))

    def seen(self, item: ImportedItem) -> ImportedItem:
        """Return the item with the answer that the chosen scorer graded."""
        mark = self._mark(item)
        if item.answer is None or mark is None or mark.answer is None:
            return item
        return msgspec.structs.replace(item, answer=msgspec.structs.replace(item.answer, text=mark.answer))

    def _mark(self, item: ImportedItem) -> ImportedScore | None:
        return next((mark for mark in item.marks if mark.scorer == self._source.scorer), None)

    def outcome(self, item: ImportedItem) -> Outcome:
        """Return a graded outcome when the chosen scorer has a value and nothing failed; otherwise a failure without a score."""
        text = item.answer.text if item.answer is not None else None
        if item.error_code or text is None:
            code = item.error_code or "no_answer"
            return FailedOutcome(code=code, message=item.error or "the files hold no answer to this record", answer=text)
        mark = self._mark(item)
        if mark is None or mark.value is None:
            reason = mark.reason if mark is not None else f"there is no score of '{self._source.scorer}'"
            return FailedOutcome(code=NOT_SCORED, message=reason or "the scorer gave no value", stage="judge", answer=text)
        return GradedOutcome(grade=self._grade(item, mark, value=mark.value, answer=text))

    def _grade(self, item: ImportedItem, mark: ImportedScore, *, value: float, answer: str) -> Grade:
        share = self._scale.share(value)
        passed = mark.passed if mark.passed is not None else share >= (1.0 if self._scale.name == "0/1" else self._threshold)
        kept = self._source.other_scorers
        others = (_score(other, scale=None) for other in item.marks if other.scorer in kept and other.value is not None)
        return Grade(
            score=share,
            passed=passed,
            answer=answer,
            raw_score=value,
            scale=self._scale.name,
            scores=(_score(mark, scale=self._scale), *others),
            justification=mark.explanation,
            evaluator=f"{self._source.tool}:{mark.scorer}",
            selected_choice_ids=_selected(item, mark),
        )


def _score(mark: ImportedScore, *, scale: ScorerScale | None) -> Score:
    """Return the chosen scorer's score with the full weight, another one's unchanged with none."""
    value = mark.value or 0.0
    share = value if scale is None else scale.share(value)
    is_standard = scale is None or scale.name in _STANDARD
    return Score(
        criterion=mark.scorer,
        score=value if is_standard else share,
        scale=scale.name if scale is not None and is_standard else "0-1",
        normalized=share,
        weight=0.0 if scale is None else 1.0,
        justification=mark.explanation,
        judge=mark.judge,
    )


def _selected(item: ImportedItem, mark: ImportedScore) -> tuple[str, ...]:
    chosen = [one.strip() for one in mark.selected.split(",")]
    known = {choice["id"] for choice in item.question.choices}
    return tuple(chosen) if known and known.issuperset(chosen) else ()
