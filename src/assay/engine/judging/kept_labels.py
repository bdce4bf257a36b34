"""Labels that people give to the answers of a run while they look at them: kept one by one, and read back for calibration."""

from collections.abc import Iterable, Sequence

import msgspec

from assay.core.errors import UsageProblem
from assay.core.redact_rule import RedactRule
from assay.engine.judging.labelled import SCALES
from assay.engine.judging.labels import HumanLabel, digest_of
from assay.engine.looking.opened import Line
from assay.engine.planning.request import PlanProblems
from assay.store.folder import RunFolder
from assay.store.label_book import append_label, damaged_label, read_label_lines
from assay.store.redact import Redactor

MAX_NOTE = 4_000
MAX_RATER = 100


class KeptLabel(msgspec.Struct, frozen=True, kw_only=True):
    """What one person said of one answer, with the names that a file of labels has."""

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
        """Which answer of the run it is about."""
        return self.dataset, self.record_id, self.sample


class Opinion(msgspec.Struct, frozen=True, kw_only=True):
    """What a person wants to say of an answer; with neither verdict nor score they take back what they said."""

    rater: str
    passed: bool | None = None
    score: float | None = None
    note: str = ""


def keep_label(run: RunFolder, prediction: Line, opinion: Opinion, *, at: str) -> KeptLabel:
    """Keep what a person says of the answer of a prediction; raises UsageProblem for what no calibration could use."""
    _check(prediction, opinion)
    redactor = Redactor(custom=_custom_rules(run))
    label = KeptLabel(
        record_id=prediction["record_id"],
        dataset=prediction["dataset"],
        sample=prediction.get("sample") or 0,
        answer_sha256=digest_of(prediction["response_sha256"]),
        rater=redactor.text(opinion.rater.strip()),
        passed=opinion.passed,
        score=opinion.score,
        note=redactor.text(opinion.note.strip()),
        at=at,
    )
    append_label(run.path, msgspec.to_builtins(label))
    return label


def _custom_rules(run: RunFolder) -> tuple[RedactRule, ...]:
    return msgspec.convert((run.manifest.get("plan") or {}).get("redact", ()), tuple[RedactRule, ...])


def _check(prediction: Line, opinion: Opinion) -> None:
    if prediction.get("passed") is None:
        raise UsageProblem("this record has no grade that a label could be compared with", hint="label one that was evaluated")
    low, high = SCALES.get(prediction["scale"] or "", (float("-inf"), float("inf")))
    if opinion.score is not None and not low <= opinion.score <= high:
        raise UsageProblem(
            f"the score {opinion.score:g} is not on the run's scale {prediction['scale']}", hint="leave it out, or correct it"
        )
    for name, text, most in (("note", opinion.note, MAX_NOTE), ("name", opinion.rater, MAX_RATER)):
        if len(text) > most:
            raise UsageProblem(f"the {name} has {len(text):,} characters, and may have {most:,}", hint="make it shorter")


def kept_labels(run: RunFolder) -> tuple[KeptLabel, ...]:
    """What people say of the answers of a run: of each person the last word on each answer, unless they took it back."""
    found: dict[tuple[str, str, int, str], KeptLabel] = {}
    for number, line in enumerate(read_label_lines(run.path), 1):
        try:
            label = msgspec.json.decode(line, type=KeptLabel)
        except ValueError as problem:
            raise damaged_label(run.path, number, problem) from problem
        # To the end of the order: it is the newest.
        found.pop((*label.answer, label.rater), None)
        found[*label.answer, label.rater] = label
    return tuple(label for label in found.values() if label.passed is not None or label.score is not None)


def human_labels(labels: tuple[KeptLabel, ...]) -> tuple[HumanLabel, ...]:
    """The same for calibration, which names labels by their lines."""
    names = [name for name in HumanLabel.__struct_fields__ if name != "line"]
    return tuple(
        HumanLabel(**{name: getattr(label, name) for name in names}, line=number) for number, label in enumerate(labels, 1)
    )


def labels_of(predictions: Iterable[Line], labels: Sequence[HumanLabel], *, path: str) -> tuple[KeptLabel, ...]:
    """The labels of a file by the answers that they are about; raises PlanProblems with all that are about none."""
    answers: dict[tuple[str, int], list[Line]] = {}
    for line in predictions:
        answers.setdefault((line["record_id"], line.get("sample") or 0), []).append(line)
    found: list[KeptLabel] = []
    problems: list[str] = []
    for label in labels:
        about = [line for line in answers.get((label.record_id, label.sample), ()) if _is_about(label, line)]
        if not about:
            problems.append(f"{path}:{label.line}: the run has no such answer to '{label.record_id}'")
        shared = {name: getattr(label, name) for name in ("record_id", "sample", "rater", "passed", "score", "answer_sha256")}
        found += [KeptLabel(dataset=line["dataset"], **shared) for line in about[:1]]
    if problems:
        raise PlanProblems(problems)
    return tuple(found)


def _is_about(label: HumanLabel, line: Line) -> bool:
    is_same = not label.answer_sha256 or label.answer_sha256 == digest_of(line["response_sha256"])
    return is_same and label.dataset in ("", line["dataset"])
