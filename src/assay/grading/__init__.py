"""Grading: turns cases into requests and grades, as generators without I/O that give the same grade for the same replies."""

from collections.abc import Mapping
from functools import partial

from assay.core.case import Case
from assay.core.outcome import Flow, GradingFailure
from assay.grading.assignment import (
    NO_ATTACHMENTS,
    GradingProvenance,
    GradingSettings,
    MethodKind,
    kind_for,
    kind_of,
    kind_of_calls,
    settings_of,
)
from assay.grading.check_grader import has_checks, with_checks
from assay.grading.graders import grade_by_all, primary_of, settings_for
from assay.grading.judge_call import AGAIN
from assay.grading.judge_log import UnknownCall, marks_of, results_from_log
from assay.grading.methods import GRADING_METHODS, assign, has_basis, is_judged, needs_judge
from assay.grading.pairwise import INCONSISTENT, by_judge
from assay.grading.panel import DISAGREE, NO_QUORUM
from assay.grading.policies import PAIRWISE_ID, POLICIES, UNKNOWN, UNSUITABLE, Policy, resolve_policy
from assay.grading.rubric import WITHOUT_POINTS
from assay.grading.templates import TEMPLATE_IDS, load_template

__all__ = [
    "AGAIN",
    "DISAGREE",
    "GRADING_METHODS",
    "INCONSISTENT",
    "NO_QUORUM",
    "PAIRWISE_ID",
    "POLICIES",
    "UNKNOWN",
    "UNSUITABLE",
    "WITHOUT_POINTS",
    "GradingProvenance",
    "GradingSettings",
    "MethodKind",
    "Policy",
    "UnknownCall",
    "by_judge",
    "graded_by",
    "has_basis",
    "is_checked",
    "is_judged",
    "kind_for",
    "kind_of",
    "kind_of_calls",
    "marks_of",
    "needs_judge",
    "policies",
    "resolve_policy",
    "results_from_log",
    "settings_of",
    "start",
    "templates",
]


def start(case: Case, settings: GradingSettings, *, attachments: Mapping[str, str] = NO_ATTACHMENTS) -> Flow:
    """Return the flow that grades a case: its first request is the candidate's, the others are for judges.

    `attachments` holds the text of each of the case's attachments by path. The flow raises GradingFailure when it cannot
    determine a grade.
    """
    if settings.graders and case.task != "pairwise":
        return grade_by_all(case, settings, start=partial(start, attachments=attachments))
    try:
        assignment = assign(case, settings, attachments=attachments)
    # Returned as a flow that fails when it is driven, so that the engine has one place where a grading failure arrives.
    except GradingFailure as failure:
        return _refused(failure)
    flow = assignment.method.flow(assignment)
    is_checked = assignment.method is not GRADING_METHODS["checks"] and has_checks(case, settings)
    return with_checks(assignment, flow) if is_checked else flow


def graded_by(case: Case, settings: GradingSettings) -> GradingProvenance | None:
    """Return how a case would be graded, as its prediction names it; None when it cannot be."""
    if settings.graders and case.task != "pairwise":
        settings = settings_for(primary_of(settings), settings)
    try:
        return assign(case, settings).graded_by
    except GradingFailure:
        return None


def policies() -> Mapping[str, str]:
    """Map every policy to its SHA-256, which covers the texts that it names."""
    return {policy.id: policy.sha256 for policy in POLICIES.values()}


def is_checked(case: Case, settings: GradingSettings) -> bool:
    """Return whether the answer to a case is checked, by the run's checks or graders or by checks of its own."""
    return has_checks(case, settings) or any(grader.checks for grader in settings.graders)


def templates() -> Mapping[str, str]:
    """Map every template that grading may use to its SHA-256."""
    return {template_id: load_template(template_id).sha256 for template_id in TEMPLATE_IDS}


def _refused(failure: GradingFailure) -> Flow:
    raise failure
    yield ()  # makes this a generator, so that it fails where every flow fails: when it is driven
