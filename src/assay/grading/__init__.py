"""Cases into asks and grades: generators that do no I/O and give the same grade for the same replies."""

from collections.abc import Mapping

from assay.core.case import Case
from assay.core.outcome import Flow, GradingFailure
from assay.grading.assignment import NO_ATTACHMENTS, GradedBy, Kind, kind_for, kind_of
from assay.grading.heard import UnknownCall, marks_heard, marks_of
from assay.grading.judge_call import AGAIN
from assay.grading.panel import DISAGREE, NO_QUORUM
from assay.grading.policies import PAIRWISE_ID, POLICIES, UNKNOWN, UNSUITABLE, Policy, resolved
from assay.grading.settings import OF_A_GRADE, GradingSettings, settings_of
from assay.grading.templates import TEMPLATE_IDS, load_template
from assay.grading.ways import WAYS, assign, is_judged, needs_judge
from assay.grading.ways.pairwise import INCONSISTENT, by_judge
from assay.grading.ways.rubric import WITHOUT_POINTS

__all__ = [
    "AGAIN",
    "DISAGREE",
    "INCONSISTENT",
    "NO_QUORUM",
    "OF_A_GRADE",
    "PAIRWISE_ID",
    "POLICIES",
    "UNKNOWN",
    "UNSUITABLE",
    "WAYS",
    "WITHOUT_POINTS",
    "GradedBy",
    "GradingSettings",
    "Kind",
    "Policy",
    "UnknownCall",
    "by_judge",
    "graded_by",
    "is_judged",
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
]


def start(case: Case, settings: GradingSettings, *, attachments: Mapping[str, str] = NO_ATTACHMENTS) -> Flow:
    """The flow that grades a case: its first ask is the candidate's, the others are for judges.

    `attachments` holds the text of each of the case's attachments by path. The flow raises GradingFailure where it
    cannot come to a grade.
    """
    try:
        assignment = assign(case, settings, attachments=attachments)
    except GradingFailure as failure:
        return _refused(failure)
    return assignment.way.flow(assignment)


def graded_by(case: Case, settings: GradingSettings) -> GradedBy | None:
    """How a case is to be graded, as its prediction names it; None where it cannot be."""
    try:
        return assign(case, settings).graded_by
    except GradingFailure:
        return None


def policies() -> Mapping[str, str]:
    """Every policy, with its SHA-256, which covers the texts that it names."""
    return {policy.id: policy.sha256 for policy in POLICIES.values()}


def templates() -> Mapping[str, str]:
    """Every template that grading may use, with its SHA-256."""
    return {template_id: load_template(template_id).sha256 for template_id in TEMPLATE_IDS}


def _refused(failure: GradingFailure) -> Flow:
    raise failure
    yield ()  # makes this a generator, so that it fails where every flow fails: when it is driven
