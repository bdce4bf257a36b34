"""Labels and answers: samples to label, labels given on pages, and labels matched with the graded answers."""

import csv
import io
import random
from collections.abc import Iterable, Iterator, Sequence
from statistics import median

import msgspec
import numpy as np

from assay.core.artifact_lines import PredictionLine
from assay.core.canonical import JsonObject
from assay.core.case import Case
from assay.core.errors import RunNotFound, UsageProblem
from assay.core.plan import Plan
from assay.core.secrets import RedactRule
from assay.engine.comparison.alignment import PredictionSummary
from assay.engine.judge_quality.labels import HumanLabel, digest_of, guarded
from assay.engine.planning.request import PlanProblems
from assay.engine.records.groups import RecordGroups
from assay.grading import GRADING_METHODS
from assay.grading.candidate import context_text, grading_text, reference_text, task_text
from assay.metrics.intervals import Codes
from assay.store.files import append_label, damaged_label, read_label_lines
from assay.store.published_run import PublishedRun
from assay.store.redact import Redactor

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
    # By id and sample first; dataset and answer are compared where the label names them.
    by_answer: dict[tuple[str, int], list[HumanLabel]] = {}
    for label in labels:
        by_answer.setdefault((label.record_id, label.sample), []).append(label)
    labelled: list[LabelledAnswer] = []
    others: list[HashedPrediction] = []
    other_answers: list[HumanLabel] = []
    used: set[int] = set()
    programmatic: set[int] = set()
    problems: list[str] = []
    # One pass over the predictions, which may be 50,000.
    for prediction in filter(lambda one: one.is_scored, run.typed_lines("predictions.jsonl", HashedPrediction)):
        candidates = [
            label
            for label in by_answer.get((prediction.record_id, prediction.sample), ())
            if label.dataset in ("", prediction.dataset)
        ]
        # By identity: two labels may be equal in all members.
        used.update(map(id, candidates))
        if not prediction.is_judged:
            programmatic.update(map(id, candidates))
            continue
        # A label says which answer it is about by the beginning of its hash; another answer would be judged by
        # it.
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
        # Two labels of one rater on an answer are a mistake in the file, and which one counts is not ours to
        # choose.
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
            key = (entry.record_id, entry.record_sha256)
            cluster_names[key] = groups.cluster(run.case_of(entry), plan.cluster_key)
    except RunNotFound as missing:
        problem = f"{missing.message}: no clusters"
    codes: dict[tuple[str, ...], int] = {}
    numbers = [codes.setdefault(_cluster_key(one, cluster_names), len(codes)) for one in predictions]
    # As many clusters as answers means that each stands for itself.
    if len(codes) == len(predictions):
        return None, problem
    rows = np.array(numbers, dtype=np.int64)
    # Where no answer has the key, samples of records are the clusters.
    name = plan.cluster_key if any(cluster_names.values()) else "record"
    return Clusters(name=name, labelled=rows[: len(matched.labelled)], others=rows[len(matched.labelled) :]), problem


def _cluster_key(prediction: PredictionSummary, cluster_names: dict[tuple[str, str], str]) -> tuple[str, ...]:
    """Return a record's cluster; a record without one forms its own, with all answers to it."""
    cluster_name = cluster_names.get((prediction.record_id, prediction.record_sha256), "")
    return (cluster_name,) if cluster_name else (prediction.dataset, prediction.record_id)


COLUMNS = (
    "record_id", "dataset", "sample", "answer_sha256", "task", "context", "choices", "reference", "grading", "criteria",
    "answer", "judge_passed", "judge_score", "judge_reason", "rater", "passed", "score", "note",
)  # fmt: skip
"""Columns of the file; the last four are for the rater to fill in."""


class LabelSample(msgspec.Struct, frozen=True, kw_only=True):
    """A sample of answers."""

    rows: tuple[JsonObject, ...]
    strata: dict[str, tuple[int, int]]
    """By stratum, the records in the run and those drawn."""


def draw_sample(run: PublishedRun, count: int, *, seed: int = 0, shows_judge: bool = False) -> LabelSample:
    """Draw a random sample of the answers that a judge graded, with the run's share of each dataset; raises UsageProblem for none.

    Equal shares keep every estimate that rests on the labels unbiased without weights; shares of the judge's verdicts would not,
    because how often it is wrong about good answers must not depend on what it said. What the judge said is left out unless asked
    for: who has read it tends to agree.
    """
    strata: dict[str, list[int]] = {}
    for number, prediction in enumerate(run.typed_lines("predictions.jsonl", HashedPrediction)):
        if prediction.is_judged:
            strata.setdefault(prediction.dataset, []).append(number)
    total = sum(map(len, strata.values()))
    if not total:
        raise UsageProblem(
            f"no judge graded an answer of run '{run.manifest.run_id}', so that there is nothing to label",
            hint="multiple choice and tool calls are graded by a rule; labels say how good a judge is",
        )
    # Drawn with the seed, so that the same command gives the same sample.
    chance = random.Random(seed)
    taken = _allotted({name: len(lines) for name, lines in strata.items()}, min(count, total))
    drawn = [line for name in sorted(strata) for line in chance.sample(strata[name], taken[name])]
    # Mixed, so that raters do not see one dataset after the other.
    chance.shuffle(drawn)
    rows = _rows(run, drawn, shows_judge=shows_judge)
    return LabelSample(rows=tuple(rows), strata={name: (len(strata[name]), taken[name]) for name in sorted(strata)})


def _allotted(sizes: dict[str, int], count: int) -> dict[str, int]:
    """Divide `count` in proportion to the sizes, by the largest-remainder method."""
    total = sum(sizes.values())
    shares = {name: divmod(size * count, total) for name, size in sizes.items()}
    taken = {name: whole for name, (whole, _) in shares.items()}
    # Ties of the remainder are broken by name, to stay the same on every machine.
    by_remainder = sorted(shares, key=lambda name: (-shares[name][1], name))
    for name in by_remainder[: count - sum(taken.values())]:
        taken[name] += 1
    return taken


def _rows(run: PublishedRun, lines: list[int], *, shows_judge: bool) -> Iterator[JsonObject]:
    wanted = set(lines)
    # Only drawn lines are kept: the texts of all would be the whole run.
    found = {number: line for number, line in enumerate(run.typed_lines("predictions.jsonl", PredictionLine)) if number in wanted}
    inputs = _inputs(run, {(line.record_id, line.record_sha256) for line in found.values()})
    for number in lines:
        line = found[number]
        case = inputs.get((line.record_id, line.record_sha256))
        yield {**_asked(case), **_answered(line, shows_judge=shows_judge)}


def _inputs(run: PublishedRun, wanted: set[tuple[str, str]]) -> dict[tuple[str, str], Case]:
    keyed = (((entry.record_id, entry.record_sha256), entry) for entry in run.records())
    return {key: run.case_of(entry) for key, entry in keyed if key in wanted}


def _asked(case: Case | None) -> dict[str, object]:
    if case is None:
        return {}
    criteria = "\n".join(f"{criterion.weight:+g} {criterion.title}" for criterion in case.criteria)
    choices = "\n".join(f"{choice.id}) {choice.text}" for choice in case.choices)
    reference = ", ".join(case.correct_choice_ids) or reference_text(case)
    shown = {
        "context": context_text(case),
        "choices": choices,
        "reference": reference,
        "grading": grading_text(case),
        "criteria": criteria,
    }
    return {"task": task_text(case), **{name: text for name, text in shown.items() if text}}


def _answered(line: PredictionLine, *, shows_judge: bool) -> dict[str, object]:
    judge = {"judge_passed": line.passed, "judge_score": line.raw_score, "judge_reason": line.justification}
    return {
        "record_id": line.record_id,
        "dataset": line.dataset,
        "sample": line.sample or 0,
        "answer_sha256": digest_of(line.response_sha256),
        "answer": line.model_response or "",
        # Left out unless asked for: a rater who has read the judge's verdict tends to agree.
        **(judge if shows_judge else {}),
        "rater": "",
        "passed": None,
        "score": None,
        "note": "",
    }


def sample_lines(sample: LabelSample) -> Iterator[str]:
    """Return the sample as JSON lines."""
    for row in sample.rows:
        ordered = {name: row[name] for name in COLUMNS if name in row}
        yield msgspec.json.encode(ordered).decode() + "\n"


def sample_table(sample: LabelSample) -> Iterator[str]:
    """Return the sample as CSV for a spreadsheet; no cell is a formula."""
    names = [name for name in COLUMNS if any(name in row for row in sample.rows)]
    for row in ({name: name for name in names}, *sample.rows):
        # Row by row: the writer of csv wants a file.
        out = io.StringIO(newline="")
        # Answers of models may begin like a formula.
        csv.writer(out).writerow([guarded(_text(row.get(name))) for name in names])
        yield out.getvalue()


def _text(value: object) -> str:
    return "" if value is None else str(value)


MAX_NOTE = 4_000
MAX_RATER = 100


class KeptLabel(msgspec.Struct, frozen=True, kw_only=True):
    """One person's label on one answer, with the member names of a file of labels."""

    record_id: str
    dataset: str
    sample: int
    answer_sha256: str
    rater: str
    passed: bool | None = None
    score: float | None = None
    note: str = ""
    at: str = ""

    @property
    def answer(self) -> tuple[str, str, int]:
        """Dataset, record id and sample of the labelled answer."""
        return self.dataset, self.record_id, self.sample


class AnswerLine(msgspec.Struct, frozen=True):
    """The members of a prediction that a label is about; of a record that broke its contract, of its failure."""

    record_id: str | None
    dataset: str = ""
    sample: int = 0
    response_sha256: str | None = None
    """Of the answer as it came, before redaction."""
    passed: bool | None = None
    scale: str | None = None


class LabelInput(msgspec.Struct, frozen=True, kw_only=True):
    """A label as a person submits it; with neither verdict nor score it withdraws the person's earlier label."""

    rater: str
    passed: bool | None = None
    score: float | None = None
    note: str = ""


def keep_label(run: PublishedRun, prediction: AnswerLine, opinion: LabelInput, *, at: str) -> KeptLabel:
    """Store a person's label on the answer of a prediction; raises UsageProblem for a label that no calibration could use."""
    _check(prediction, opinion)
    # Labels are stored with the run and shown on pages, so they are redacted like its artifacts.
    redactor = Redactor(custom=_custom_rules(run))
    label = KeptLabel(
        record_id=prediction.record_id or "",
        dataset=prediction.dataset,
        sample=prediction.sample,
        answer_sha256=digest_of(prediction.response_sha256),
        rater=redactor.text(opinion.rater.strip()),
        passed=opinion.passed,
        score=opinion.score,
        note=redactor.text(opinion.note.strip()),
        at=at,
    )
    # Appended, since a sealed run is never changed: the latest line of a person counts.
    append_label(run.path, msgspec.to_builtins(label))
    return label


def _custom_rules(run: PublishedRun) -> tuple[RedactRule, ...]:
    return run.manifest.settings.redact


def _check(prediction: AnswerLine, opinion: LabelInput) -> None:
    if prediction.passed is None:
        raise UsageProblem("this record has no grade that a label could be compared with", hint="label one that was evaluated")
    low, high = SCALES.get(prediction.scale or "", (float("-inf"), float("inf")))
    if opinion.score is not None and not low <= opinion.score <= high:
        raise UsageProblem(
            f"the score {opinion.score:g} is not on the run's scale {prediction.scale}", hint="leave it out, or correct it"
        )
    for name, text, most in (("note", opinion.note, MAX_NOTE), ("name", opinion.rater, MAX_RATER)):
        if len(text) > most:
            raise UsageProblem(f"the {name} has {len(text):,} characters, and may have {most:,}", hint="make it shorter")


def kept_labels(run: PublishedRun) -> tuple[KeptLabel, ...]:
    """Return the labels on a run's answers: each person's latest per answer, without withdrawn ones."""
    found: dict[tuple[str, str, int, str], KeptLabel] = {}
    for number, line in enumerate(read_label_lines(run.path), 1):
        try:
            label = msgspec.json.decode(line, type=KeptLabel)
        except ValueError as problem:
            raise damaged_label(run.path, number, problem) from problem
        # Remove first, so that the newest label comes last in the order.
        found.pop((*label.answer, label.rater), None)
        found[*label.answer, label.rater] = label
    # A label without verdict and score takes the earlier one back.
    return tuple(label for label in found.values() if label.passed is not None or label.score is not None)


def human_labels(labels: tuple[KeptLabel, ...]) -> tuple[HumanLabel, ...]:
    """Convert stored labels for calibration, which reports problems by line."""
    names = [name for name in HumanLabel.__struct_fields__ if name != "line"]
    return tuple(
        HumanLabel(**{name: getattr(label, name) for name in names}, line=number) for number, label in enumerate(labels, 1)
    )


def labels_of(predictions: Iterable[AnswerLine], labels: Sequence[HumanLabel], *, path: str) -> tuple[KeptLabel, ...]:
    """Match the labels of a file with answers; raises PlanProblems with all labels that match none."""
    answers: dict[tuple[str | None, int], list[AnswerLine]] = {}
    for line in predictions:
        answers.setdefault((line.record_id, line.sample), []).append(line)
    found: list[KeptLabel] = []
    problems: list[str] = []
    for label in labels:
        about = [line for line in answers.get((label.record_id, label.sample), ()) if _is_about(label, line)]
        if not about:
            problems.append(f"{path}:{label.line}: the run has no such answer to '{label.record_id}'")
        shared = {name: getattr(label, name) for name in ("record_id", "sample", "rater", "passed", "score", "answer_sha256")}
        # One answer at most: without a hash the first that fits is meant.
        found += [KeptLabel(dataset=line.dataset, **shared) for line in about[:1]]
    if problems:
        raise PlanProblems(problems)
    return tuple(found)


def _is_about(label: HumanLabel, line: AnswerLine) -> bool:
    is_same = not label.answer_sha256 or label.answer_sha256 == digest_of(line.response_sha256)
    return is_same and label.dataset in ("", line.dataset)
