"""Labels that people give to a run's answers on its pages: stored one by one, and read back for calibration."""

from collections.abc import Iterable, Sequence

import msgspec

from assay.core.errors import UsageProblem
from assay.core.redact_rule import RedactRule
from assay.engine.judge_quality.label_matching import SCALES
from assay.engine.judge_quality.labels import HumanLabel, digest_of
from assay.engine.planning.request import PlanProblems
from assay.store.label_book import append_label, damaged_label, read_label_lines
from assay.store.published_run import PublishedRun
from assay.store.redact import Redactor

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
        found += [KeptLabel(dataset=line.dataset, **shared) for line in about[:1]]
    if problems:
        raise PlanProblems(problems)
    return tuple(found)


def _is_about(label: HumanLabel, line: AnswerLine) -> bool:
    is_same = not label.answer_sha256 or label.answer_sha256 == digest_of(line.response_sha256)
    return is_same and label.dataset in ("", line.dataset)
