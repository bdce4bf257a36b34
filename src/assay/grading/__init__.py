"""Cases into asks and grades: generators that do no I/O and give the same grade for the same replies."""

from collections.abc import Callable, Mapping

from assay.core.case import Case
from assay.core.outcome import Flow, GradingFailure
from assay.grading.assignment import Assignment, Kind, Way, assign, kind_for, kind_of
from assay.grading.five_point import grade_five_point
from assay.grading.heard import UnknownCall, marks_heard, marks_of
from assay.grading.judge_call import AGAIN
from assay.grading.mcq import grade_mcq
from assay.grading.pairwise import INCONSISTENT, by_judge, grade_pairwise
from assay.grading.panel import DISAGREE, NO_QUORUM
from assay.grading.plugin_grader import grade_by_plugin
from assay.grading.policies import PAIRWISE_ID, POLICIES, UNKNOWN, UNSUITABLE, Policy, resolved
from assay.grading.reference import grade_reference
from assay.grading.rubric import WITHOUT_POINTS, grade_rubric
from assay.grading.settings import GradingSettings, settings_of
from assay.grading.templates import TEMPLATE_IDS, load_template
from assay.grading.tool_call import is_tool_turn
from assay.grading.turn import grade_turn

__all__ = [
    "AGAIN",
    "DISAGREE",
    "INCONSISTENT",
    "NO_QUORUM",
    "PAIRWISE_ID",
    "POLICIES",
    "UNKNOWN",
    "UNSUITABLE",
    "WITHOUT_POINTS",
    "GradingSettings",
    "Policy",
    "UnknownCall",
    "Way",
    "by_judge",
    "kind_for",
    "kind_of",
    "marks_heard",
    "marks_of",
    "needs_judge",
    "policies",
    "resolved",
    "settings_of",
    "start",
    "templates",
    "way_of",
]

_FLOWS: dict[Kind, Callable[[Assignment], Flow]] = {
    "mcq": grade_mcq,
    "five_point": grade_five_point,
    "rubric": grade_rubric,
    "reference": grade_reference,
    "turn": grade_turn,
    "pairwise": grade_pairwise,
    "plugin": grade_by_plugin,
}
_NO_ATTACHMENTS: Mapping[str, str] = {}


def start(case: Case, settings: GradingSettings, *, attachments: Mapping[str, str] = _NO_ATTACHMENTS) -> Flow:
    """The flow that grades a case: its first ask is the candidate's, the others are for judges.

    `attachments` holds the text of each of the case's attachments by path. The flow raises GradingFailure where it
    cannot come to a grade.
    """
    try:
        assignment = assign(case, settings, attachments=attachments)
    except GradingFailure as failure:
        return _refused(failure)
    return _FLOWS[assignment.kind](assignment)


def way_of(case: Case, settings: GradingSettings) -> Way | None:
    """How a case is to be graded; None where it cannot be."""
    try:
        return assign(case, settings).way
    except GradingFailure:
        return None


def needs_judge(case: Case) -> bool:
    """True unless the case is graded by comparison alone."""
    return case.task != "mcq" and not is_tool_turn(case)


def policies() -> Mapping[str, str]:
    """Every policy, with its SHA-256, which covers the texts that it names."""
    return {policy.id: policy.sha256 for policy in POLICIES.values()}


def templates() -> Mapping[str, str]:
    """Every template that grading may use, with its SHA-256."""
    return {template_id: load_template(template_id).sha256 for template_id in TEMPLATE_IDS}


def _refused(failure: GradingFailure) -> Flow:
    raise failure
    yield ()  # makes this a generator, so that it fails where every flow fails: when it is driven
