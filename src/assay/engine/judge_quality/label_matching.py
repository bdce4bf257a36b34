"""Matching of labels with a run's graded answers, and the clusters of answers that are not independent."""

from collections.abc import Iterable, Sequence
from statistics import median

import msgspec
import numpy as np

from assay.core.case import Case
from assay.core.errors import RunNotFound, UsageProblem
from assay.core.plan import Plan
from assay.engine.comparison.alignment import PredictionSummary
from assay.engine.groups import RecordGroups
from assay.engine.judge_quality.labels import HumanLabel, digest_of
from assay.engine.planning.request import PlanProblems
from assay.grading import GRADING_METHODS
from assay.metrics.clusters import Codes
from assay.store.published_run import PublishedRun

SCALES = {"1-5": (1.0, 5.0), "0-1": (0.0, 1.0), "0/1": (0.0, 1.0)}
"""The lowest and the highest score of each scale."""


PROGRAMMATIC_EVALUATORS = frozenset(
    evaluator for method in GRADING_METHODS.values() if not method.needs_judge for evaluator in method.evaluators
)
"""Evaluators that need no judge: multiple choice and tool calls. A label on such an answer tells nothing about the judge."""


class HashedPrediction(PredictionSummary, frozen=True):
    """A prediction with the hash of its answer and its evaluator."""

    response_sha256: str | None = None
    evaluator: str | None = None

    @property
    def is_judged(self) -> bool:
        """True when a judge graded the answer."""
        return self.is_scored and self.evaluator not in PROGRAMMATIC_EVALUATORS


class LabelledAnswer(msgspec.Struct, frozen=True):
    """One graded answer with its labels."""

    prediction: HashedPrediction
    labels: tuple[HumanLabel, ...]

    @property
    def passed(self) -> bool | None:
        """The majority of the labels; None for a tie or without labels."""
        votes = [label.passed for label in self.labels if label.passed is not None]
        passes = sum(votes)
        return None if 2 * passes == len(votes) else 2 * passes > len(votes)

    @property
    def score(self) -> float | None:
        """The median of the labels' scores."""
        scores = [label.score for label in self.labels if label.score is not None]
        return median(scores) if scores else None

    @property
    def has_pass_or_fail(self) -> bool:
        """True when a label says pass or fail."""
        return any(label.passed is not None for label in self.labels)


class LabelMatches(msgspec.Struct, frozen=True, kw_only=True):
    """The answers of a run that a judge graded, with and without labels."""

    labelled: tuple[LabelledAnswer, ...]
    others: tuple[HashedPrediction, ...]
    unmatched: tuple[str, ...]
    """Labelled records that the run does not have or has not graded."""
    other_answers: tuple[HumanLabel, ...]
    """Labels of other answers than this run's."""
    programmatic: int = 0
    """Labels on answers that no judge graded."""

    @property
    def predictions(self) -> tuple[HashedPrediction, ...]:
        """All graded answers, labelled ones first."""
        return (*(one.prediction for one in self.labelled), *self.others)


def match_labels(run: PublishedRun, labels: Sequence[HumanLabel], plan: Plan) -> LabelMatches:
    """Match labels with answers; raises PlanProblems for scores off the scale and for two labels of one rater on one answer."""
    by_answer: dict[tuple[str, int], list[HumanLabel]] = {}
    for label in labels:
        by_answer.setdefault((label.record_id, label.sample), []).append(label)
    labelled: list[LabelledAnswer] = []
    others: list[HashedPrediction] = []
    other_answers: list[HumanLabel] = []
    used: set[int] = set()
    programmatic: set[int] = set()
    problems: list[str] = []
    for prediction in filter(lambda one: one.is_scored, run.typed_lines("predictions.jsonl", HashedPrediction)):
        candidates = [
            label
            for label in by_answer.get((prediction.record_id, prediction.sample), ())
            if label.dataset in ("", prediction.dataset)
        ]
        used.update(map(id, candidates))
        if not prediction.is_judged:
            programmatic.update(map(id, candidates))
            continue
        matching = [label for label in candidates if label.answer_sha256 in ("", digest_of(prediction.response_sha256))]
        other_answers += [label for label in candidates if label not in matching]
        problems += _problems(matching, prediction)
        if matching:
            labelled.append(LabelledAnswer(prediction, tuple(_with_verdict(label, prediction, plan) for label in matching)))
        else:
            others.append(prediction)
    if problems:
        raise PlanProblems(problems)
    unmatched = dict.fromkeys(label.record_id for label in labels if id(label) not in used)
    return LabelMatches(
        labelled=tuple(labelled),
        others=tuple(others),
        unmatched=tuple(unmatched),
        other_answers=tuple(other_answers),
        programmatic=len(programmatic),
    )


def _problems(labels: Sequence[HumanLabel], prediction: PredictionSummary) -> Iterable[str]:
    low, high = SCALES.get(prediction.scale or "", (float("-inf"), float("inf")))
    raters: dict[str, int] = {}
    for label in labels:
        if label.score is not None and not low <= label.score <= high:
            yield f"line {label.line}: score is {label.score:g}, which is not on the run's scale {prediction.scale}"
        first = raters.setdefault(label.rater, label.line)
        if first != label.line:
            rater = f" of '{label.rater}'" if label.rater else ""
            yield f"line {label.line}: a second label{rater} for '{label.record_id}'; the first is on line {first}"


def _with_verdict(label: HumanLabel, prediction: PredictionSummary, plan: Plan) -> HumanLabel:
    """Derive pass or fail from a label's score by the run's threshold, so that it is comparable with the judge."""
    if label.passed is not None or label.score is None:
        return label
    limit = plan.case_pass_score if prediction.scale == "1-5" else plan.pass_threshold
    return msgspec.structs.replace(label, passed=label.score >= limit)


def check_any(matched: LabelMatches, labels: Sequence[HumanLabel], run_id: str) -> None:
    """Raise UsageProblem when no label belongs to a graded answer of the run."""
    if matched.labelled:
        return
    if matched.other_answers:
        raise UsageProblem(
            f"the labels were given to other answers than those of run '{run_id}'",
            hint="calibrate the run that they were drawn from: `answer_sha256` in the file is of its answers",
        )
    if matched.programmatic:
        raise UsageProblem(
            f"no judge graded the labelled answers of run '{run_id}': multiple choice and tool calls are graded by a rule",
            hint="label answers that a judge graded; `assay label RUN` draws only such answers",
        )
    raise UsageProblem(
        f"none of the {len(labels):,} labels belongs to a graded record of run '{run_id}'",
        hint="record_id must be as in predictions.jsonl; `assay label RUN` writes a file to fill in",
    )


class Clusters(msgspec.Struct, frozen=True, kw_only=True):
    """Clusters of answers that are not independent: those to one record, or to the records of one cluster of the plan."""

    name: str
    """`record`, or the plan's key."""
    labelled: Codes
    others: Codes

    @property
    def all(self) -> Codes:
        """Codes of all graded answers, labelled ones first."""
        return np.concatenate([self.labelled, self.others])


def clusters_of(run: PublishedRun, plan: Plan, matched: LabelMatches) -> tuple[Clusters | None, str]:
    """Return the clusters, None when all answers are independent, and the problem that prevented reading them, if any."""
    predictions = matched.predictions
    problem = ""
    cluster_names: dict[tuple[str, str], str] = {}
    groups = RecordGroups(plan.datasets)
    try:
        for entry in run.records() if plan.cluster_key else ():
            key = (entry["record_id"], entry["record_sha256"])
            cluster_names[key] = groups.cluster(msgspec.convert(entry["record"], Case), plan.cluster_key)
    except RunNotFound as missing:
        problem = f"{missing.message}: no clusters"
    codes: dict[tuple[str, ...], int] = {}
    numbers = [codes.setdefault(_cluster_key(one, cluster_names), len(codes)) for one in predictions]
    if len(codes) == len(predictions):
        return None, problem
    rows = np.array(numbers, dtype=np.int64)
    name = plan.cluster_key if any(cluster_names.values()) else "record"
    return Clusters(name=name, labelled=rows[: len(matched.labelled)], others=rows[len(matched.labelled) :]), problem


def _cluster_key(prediction: PredictionSummary, cluster_names: dict[tuple[str, str], str]) -> tuple[str, ...]:
    """Return a record's cluster; a record without one forms its own, with all answers to it."""
    cluster_name = cluster_names.get((prediction.record_id, prediction.record_sha256), "")
    return (cluster_name,) if cluster_name else (prediction.dataset, prediction.record_id)
