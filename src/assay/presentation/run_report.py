"""A run's artifacts into what a report shows of them: the failures in groups, and the records to list one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import cached_property, partial
from heapq import nsmallest
from itertools import islice

import msgspec

from assay import api
from assay.core.artifact_lines import FailureLine, PredictionLine
from assay.core.errors import RunNotFound, StoreUnavailable
from assay.core.manifest import Manifest
from assay.core.outcome import Score
from assay.core.plan import Plan
from assay.core.run_result import RunResult
from assay.core.summary import RunKind, SliceSummary, Summary

FIRST_IDS = 3
"""Record ids that a group of failures names."""
MAX_CASES = 50
"""Records listed one by one unless all are asked for."""
MAX_WORST = 10
"""Answers with the lowest scores that a report has at hand."""


class FailureGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Records that failed in the same way."""

    word: str
    """An error code, or the taxonomy label of answers that did not pass."""
    is_error: bool
    count: int
    record_ids: tuple[str, ...]
    message: str = ""
    """What was said of the first error."""


class WorstRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An answer that was graded and did not pass."""

    prediction: PredictionLine
    label: str
    """What kind of failure it is."""
    why: str


class SliceValue(msgspec.Struct, frozen=True, kw_only=True):
    """Records that share a value of a slice."""

    name: str
    value: str | None
    """None for the records that have none."""
    figures: SliceSummary
    """Their metrics."""


# A frozen struct has no `__dict__` unless it asks for one, and `cached_property` needs it.
class RunReport(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Everything that a report on one run needs."""

    result: RunResult
    manifest: Manifest
    failures: tuple[FailureGroup, ...] = ()
    cases: tuple[PredictionLine, ...] = ()
    """Predictions to list one by one."""
    omitted_cases: int = 0
    worst: tuple[WorstRecord, ...] = ()
    """Lowest scores first."""
    slices: tuple[SliceValue, ...] = ()
    """Of the slices with more than one value; those with the fewest first, in each the largest first."""
    omitted_slice_values: int = 0
    errors: dict[str, int] = {}
    """Records that ended in an error, by its code; of invalid records the code of the issue."""
    reasons: dict[str, int] = {}
    """Answers that did not pass, by what is wrong with them."""
    missing: tuple[str, ...] = ()
    """Why some of this could not be read."""

    # Reading it decodes the metrics each time, and a report asks for them dozens of times.
    @cached_property
    def summary(self) -> Summary | None:
        """Metrics; None where there are none."""
        return self.result.summary

    @property
    def is_ranking(self) -> bool:
        """True where the metrics are about comparisons of candidates, not about answers."""
        return self.result.kind is RunKind.RANKING

    @property
    def name(self) -> str:
        """Candidate; the run's id where there is none."""
        return self.result.candidate or self.result.run_id

    @property
    def plan(self) -> Plan:
        """Plan, redacted."""
        return self.manifest.plan

    @property
    def seconds(self) -> float | None:
        """From the first call to the end."""
        begin, end = self.manifest.started_at, self.manifest.completed_at
        return (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds() if begin and end else None


def view_of(run: api.RunReader, *, is_verbose: bool = False, is_worst_first: bool = True) -> RunReport:
    """Return the report data of a run; golden datasets list their cases, other contracts only in a verbose report."""
    view = RunReport(result=run.result, manifest=run.run_manifest)
    # The artifacts of a run that is away are on another machine: its state and counts are all there is to show.
    if not view.result.is_finished or view.result.is_away:
        return view
    is_ranking = view.is_ranking
    # What a slice passes is about answers; of comparisons it would only say how many were decided.
    for fill in (_with_failures,) if is_ranking else (_with_slices, _with_failures):
        view = _kept(fill, run, view)
    if is_verbose or (run.run_manifest.contract == "golden_v1" and not is_ranking):
        # Cases are listed whole for golden_v1, where there are at most 20; any other run may have 50,000.
        listed = _with_worst_first if is_worst_first else _with_cases
        view = _kept(partial(listed, limit=None if is_verbose else MAX_CASES), run, view)
    return view


def sketch_of(run: api.RunReader) -> RunReport:
    """Return the report data of a run from its metrics alone, without reading records, however many there are."""
    view = RunReport(result=run.result, manifest=run.run_manifest)
    if not view.result.is_finished or view.result.is_away or view.is_ranking:
        return view
    # No prediction is read: the page of a run opens as fast for 50,000 records as for 20
    # (docs/decisions/013-pages.md).
    return _kept(_with_slices, run, _kept(_with_counts, run, view))


def _kept(fill: Callable[[api.RunReader, RunReport], RunReport], run: api.RunReader, view: RunReport) -> RunReport:
    """Return the report data with one more part; an artifact that is gone or damaged is listed as missing."""
    try:
        return fill(run, view)
    # Retention removes artifacts one by one. What is left still makes a report, which names what is missing.
    except (RunNotFound, StoreUnavailable) as problem:
        return msgspec.structs.replace(view, missing=tuple(dict.fromkeys((*view.missing, str(problem)))))


def _with_slices(run: api.RunReader, view: RunReport) -> RunReport:
    named = [(name, found) for name, found in run.slice_metrics().items() if found.n_values > 1]
    # Datasets first: they are what a run of several is about. A slice with hundreds of values must not hide the small ones.
    named.sort(key=lambda item: (item[0] != "dataset", item[1].n_values, item[0]))
    values = tuple(SliceValue(name=name, value=figures.value, figures=figures) for name, found in named for figures in found.values)
    return msgspec.structs.replace(view, slices=values, omitted_slice_values=sum(found.n_values_omitted for _, found in named))


def _with_counts(run: api.RunReader, view: RunReport) -> RunReport:
    """Return errors by code and answers that did not pass by reason: the summary counts the labels of both together."""
    summary = view.summary
    labels = Counter({} if summary is None else summary.labels)
    if summary is None or not summary.errors:
        return msgspec.structs.replace(view, reasons=dict(labels))
    errors: Counter[str] = Counter()
    for (code, label), count in run.error_counts().items():
        errors[code] += count
        # The summary counts labels of errors and of answers together; what is left without the errors' share are
        # answers.
        labels[label] -= count
    # A unary plus drops the labels that only errors had.
    return msgspec.structs.replace(view, errors=dict(errors), reasons=dict(+labels))


def _with_failures(run: api.RunReader, view: RunReport) -> RunReport:
    """Read all failures once, for their groups and for the reasons of the worst answers."""
    # The failures are read once, for the groups and for the reasons of the worst: they may be most of the run.
    predictions = run.worst(MAX_WORST)
    failures: dict[int, FailureLine | None] = {prediction.index: None for prediction in predictions}
    groups = grouped(_noted(run.failures(), failures))
    worst = tuple(worst_record(prediction, failures[prediction.index]) for prediction in predictions)
    return msgspec.structs.replace(view, failures=groups, worst=worst)


def _noted(failures: Iterable[FailureLine], noted: dict[int, FailureLine | None]) -> Iterator[FailureLine]:
    for failure in failures:
        if failure.index in noted:
            noted[failure.index] = failure
        yield failure


def worst_record(prediction: PredictionLine, failure: FailureLine | None) -> WorstRecord:
    """Return an answer that did not pass, from its prediction and its failure."""
    return WorstRecord(
        prediction=prediction,
        label=(failure and failure.taxonomy_label) or prediction.label or "",
        why=_what_cost_points(prediction) or (failure and failure.message) or prediction.justification or "",
    )


def _what_cost_points(prediction: PredictionLine) -> str:
    """Return the criteria that cost points, the dearest first, where one judge decided on several; otherwise empty.

    Where there are words about all of them and none about each, as a grader of one's own may give, those stay whole.
    """
    scores = prediction.evaluator_scores
    judges = {score.judge for score in scores}
    # Points lost on one criterion explain a score only where one judge decided on each; a panel's reasons are
    # about its decision.
    if len(scores) < 2 or len(judges) > 1 or prediction.status != "evaluated":
        return ""
    # An answer that a judge passed and checks did not is explained by its checks, as one that checks alone grade.
    if any(check.passed is False for check in prediction.checks or ()):
        return ""
    if prediction.justification and not any(score.justification for score in scores):
        return ""
    lost = [(_lost(score), score) for score in scores]
    dearest = sorted((entry for entry in lost if entry[0] > 0), key=lambda entry: -entry[0])
    return " ".join(f"{score.criterion}: {score.score:g}. {score.justification}" for _, score in dearest)


def _lost(score: Score) -> float:
    """Return points that a verdict cost: not to meet a rewarded criterion, or to meet a punished one."""
    return score.weight * (1 - score.normalized) if score.weight > 0 else -score.weight * score.normalized


def _with_cases(run: api.RunReader, view: RunReport, *, limit: int | None) -> RunReport:
    return _listed(view, tuple(islice(run.predictions(), limit)))


def _with_worst_first(run: api.RunReader, view: RunReport, *, limit: int | None) -> RunReport:
    predictions = run.predictions()
    # `nsmallest` reads a run of any size with no more than `limit` predictions in memory.
    return _listed(view, tuple(sorted(predictions, key=badness) if limit is None else nsmallest(limit, predictions, key=badness)))


def _listed(view: RunReport, cases: tuple[PredictionLine, ...]) -> RunReport:
    return msgspec.structs.replace(view, cases=cases, omitted_cases=view.result.counts.valid_records - len(cases))


# Without a score a record is worse than any that passed: something has to be done about it.
def badness(case: PredictionLine) -> tuple[int, float]:
    """Return a sort key: what did not pass first, the lowest score first; then what has no score; then what passed."""
    if case.score is None:
        return (1, 0.0)
    return (2 if case.passed else 0, case.score)


def grouped(failures: Iterable[FailureLine]) -> tuple[FailureGroup, ...]:
    """Failures by what went wrong: errors first, then answers that did not pass, the largest groups first."""
    counts: Counter[tuple[bool, str]] = Counter()
    firsts: dict[tuple[bool, str], list[str]] = {}
    messages: dict[tuple[bool, str], str] = {}
    for failure in failures:
        is_error = failure.kind == "error"
        group = (is_error, failure_reason(failure))
        counts[group] += 1
        # Errors of one code have one cause, so the first message stands for all; the reasons of answers differ.
        messages.setdefault(group, failure.message if is_error else "")
        ids = firsts.setdefault(group, [])
        # Several answers to one record may fail in the same way.
        if len(ids) < FIRST_IDS and _named(failure) not in ids:
            ids.append(_named(failure))
    ordered = sorted(counts.items(), key=lambda item: (not item[0][0], -item[1], item[0][1]))
    return tuple(
        FailureGroup(
            word=word, is_error=is_error, count=count, record_ids=tuple(firsts[is_error, word]), message=messages[is_error, word]
        )
        for (is_error, word), count in ordered
    )


def failure_reason(failure: FailureLine) -> str:
    """Return the code of an error, or what is wrong with an answer that did not pass."""
    # A comparison without a winner is not an answer with something wrong in it.
    return failure.code if failure.kind == "error" or failure.code == "inconsistent" else failure.taxonomy_label


def _named(failure: FailureLine) -> str:
    """Return the name of a record; one that broke its contract may have no id."""
    return f"record {failure.index}" if failure.record_id is None else failure.record_id
