"""Cases into asks and grades: generators that do no I/O and give the same grade for the same replies."""

from collections.abc import Callable, Mapping

from assay.core.case import Case
from assay.core.outcome import Flow, GradingFailure
from assay.grading.five_point import grade_five_point
from assay.grading.mcq import grade_mcq
from assay.grading.reference import grade_reference
from assay.grading.rubric import grade_rubric
from assay.grading.settings import GradingSettings
from assay.grading.templates import TEMPLATE_IDS, load_template

__all__ = ["GradingSettings", "needs_judge", "start", "templates"]

_FLOWS: dict[str, Callable[..., Flow]] = {
    "mcq": grade_mcq,
    "open": grade_five_point,
    "rubric": grade_rubric,
    "reference": grade_reference,
}
_NO_ATTACHMENTS: Mapping[str, str] = {}


def start(case: Case, settings: GradingSettings, *, attachments: Mapping[str, str] = _NO_ATTACHMENTS) -> Flow:
    """The flow that grades a case: its first ask is the candidate's, the others are for judges.

    `attachments` holds the text of each of the case's attachments by path. The flow raises GradingFailure where it
    cannot come to a grade.
    """
    if case.contract == "golden_v1":
        return grade_five_point(case, settings, attachments=attachments)
    if case.task not in _FLOWS:
        return _refused(case.task)
    return _FLOWS[case.task](case, settings, attachments=attachments)


def needs_judge(case: Case) -> bool:
    """True unless the case is graded by comparison alone."""
    return case.task != "mcq"


def templates() -> Mapping[str, str]:
    """Every template that grading may use, with its SHA-256."""
    return {template_id: load_template(template_id).sha256 for template_id in TEMPLATE_IDS}


def _refused(task: str) -> Flow:
    raise GradingFailure("unsupported_task", f"cases of task {task!r} cannot be graded")
    yield ()  # makes this a generator, so that it fails where every flow fails: when it is driven
