"""Labels beside the graded answers of a run that they belong to, and which of those hang together."""

from collections.abc import Iterable, Sequence
from statistics import median

import msgspec
import numpy as np

from assay.core.case import Case
from assay.core.errors import RunNotFound, UsageProblem
from assay.core.plan import Plan
from assay.engine.comparing.alignment import Standing
from assay.engine.groups import RecordGroups
from assay.engine.judging.labels import HumanLabel, digest_of
from assay.engine.planning.request import PlanProblems
from assay.grading import WAYS
from assay.metrics.clusters import Codes
from assay.store.folder import RunFolder

SCALES = {"1-5": (1.0, 5.0), "0-1": (0.0, 1.0), "0/1": (0.0, 1.0)}
"""The lowest and the highest score of each scale."""


PROGRAMMATIC = frozenset(evaluator for way in WAYS.values() if not way.needs_judge for evaluator in way.evaluators)
"""Evaluators that ask no judge: multiple choice and tool calls. A label on such an answer says nothing about the judge."""


class Answered(Standing, frozen=True):
    """A prediction with the hash of its answer and what graded it."""

    response_sha256: str | None = None
    evaluator: str | None = None

    @property
    def is_judged(self) -> bool:
        """True when the answer has a grade that was not computed by a rule."""
        return self.is_scored and self.evaluator not in PROGRAMMATIC


_decode = msgspec.json.Decoder(Answered).decode


class Labelled(msgspec.Struct, frozen=True):
    """One graded answer with its labels."""

    standing: Answered
    labels: tuple[HumanLabel, ...]

    @property
    def passed(self) -> bool | None:
        """What most people say; None where they are split evenly or nobody says."""
        said = [label.passed for label in self.labels if label.passed is not None]
        passes = sum(said)
        return None if 2 * passes == len(said) else 2 * passes > len(said)

    @property
    def score(self) -> float | None:
        """The middle of what people say."""
        scores = [label.score for label in self.labels if label.score is not None]
        return median(scores) if scores else None

    @property
    def has_verdict(self) -> bool:
        """True when somebody says pass or fail."""
        return any(label.passed is not None for label in self.labels)


class Matched(msgspec.Struct, frozen=True, kw_only=True):
    """The answers of a run that a judge graded, with and without labels."""

    labelled: tuple[Labelled, ...]
    others: tuple[Answered, ...]
    unmatched: tuple[str, ...]
    """Labelled records that the run does not have, or has no grade for."""
    strangers: tuple[HumanLabel, ...]
    """Labels that were given to other answers than this run's."""
    programmatic: int = 0
    """Labels on answers that no judge graded."""

    @property
    def standings(self) -> tuple[Answered, ...]:
        """All graded answers, those with labels first."""
        return (*(one.standing for one in self.labelled), *self.others)


def match_labels(run: RunFolder, labels: Sequence[HumanLabel], plan: Plan) -> Matched:
    """Each label with its answer; raises PlanProblems for scores off the scale and for a rater who labelled an answer twice."""
    waiting: dict[tuple[str, int], list[HumanLabel]] = {}
    for label in labels:
        waiting.setdefault((label.record_id, label.sample), []).append(label)
    labelled: list[Labelled] = []
    others: list[Answered] = []
    strangers: list[HumanLabel] = []
    used: set[int] = set()
    programmatic: set[int] = set()
    problems: list[str] = []
    for standing in filter(lambda one: one.is_scored, map(_decode, run.raw_lines("predictions.jsonl"))):
        found = [
            label for label in waiting.get((standing.record_id, standing.sample), ()) if label.dataset in ("", standing.dataset)
        ]
        used.update(map(id, found))
        if not standing.is_judged:
            programmatic.update(map(id, found))
            continue
        mine = [label for label in found if label.answer_sha256 in ("", digest_of(standing.response_sha256))]
        strangers += [label for label in found if label not in mine]
        problems += _problems(mine, standing)
        if mine:
            labelled.append(Labelled(standing, tuple(_with_verdict(label, standing, plan) for label in mine)))
        else:
            others.append(standing)
    if problems:
        raise PlanProblems(problems)
    left = dict.fromkeys(label.record_id for label in labels if id(label) not in used)
    return Matched(
        labelled=tuple(labelled),
        others=tuple(others),
        unmatched=tuple(left),
        strangers=tuple(strangers),
        programmatic=len(programmatic),
    )


def _problems(labels: Sequence[HumanLabel], standing: Standing) -> Iterable[str]:
    low, high = SCALES.get(standing.scale or "", (float("-inf"), float("inf")))
    raters: dict[str, int] = {}
    for label in labels:
        if label.score is not None and not low <= label.score <= high:
            yield f"line {label.line}: score is {label.score:g}, which is not on the run's scale {standing.scale}"
        first = raters.setdefault(label.rater, label.line)
        if first != label.line:
            who = f" of '{label.rater}'" if label.rater else ""
            yield f"line {label.line}: a second label{who} for '{label.record_id}'; the first is on line {first}"


def _with_verdict(label: HumanLabel, standing: Standing, plan: Plan) -> HumanLabel:
    """A label that has only a score passes by the run's own threshold."""
    if label.passed is not None or label.score is None:
        return label
    limit = plan.case_pass_score if standing.scale == "1-5" else plan.pass_threshold
    return msgspec.structs.replace(label, passed=label.score >= limit)


def check_any(matched: Matched, labels: Sequence[HumanLabel], run_id: str) -> None:
    """Raise UsageProblem when no label belongs to a graded answer of the run."""
    if matched.labelled:
        return
    if matched.strangers:
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
    """Which answers hang together: those to one record, and those to the records of one cluster."""

    name: str
    """`record`, or the plan's key."""
    labelled: Codes
    others: Codes

    @property
    def all(self) -> Codes:
        """Of all graded answers, those with labels first."""
        return np.concatenate([self.labelled, self.others])


def clusters_of(run: RunFolder, plan: Plan, matched: Matched) -> tuple[Clusters | None, str]:
    """The clusters, None where every answer stands for itself; and what kept them from being read."""
    standings = matched.standings
    problem = ""
    words: dict[tuple[str, str], str] = {}
    groups = RecordGroups(plan.datasets)
    try:
        for entry in run.records() if plan.cluster_key else ():
            key = (entry["record_id"], entry["record_sha256"])
            words[key] = groups.cluster(msgspec.convert(entry["record"], Case), plan.cluster_key)
    except RunNotFound as missing:
        problem = f"{missing.message}: no clusters"
    codes: dict[tuple[str, ...], int] = {}
    found = [codes.setdefault(_cluster(one, words), len(codes)) for one in standings]
    if len(codes) == len(standings):
        return None, problem
    rows = np.array(found, dtype=np.int64)
    name = plan.cluster_key if any(words.values()) else "record"
    return Clusters(name=name, labelled=rows[: len(matched.labelled)], others=rows[len(matched.labelled) :]), problem


def _cluster(standing: Standing, words: dict[tuple[str, str], str]) -> tuple[str, ...]:
    """A record without a cluster stands for itself, with all answers to it."""
    word = words.get((standing.record_id, standing.record_sha256), "")
    return (word,) if word else (standing.dataset, standing.record_id)
