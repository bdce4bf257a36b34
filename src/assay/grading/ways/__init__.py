"""The ways of grading: one module and one row each. What they are made of stands beside this folder."""

from collections.abc import Mapping

from assay.core.case import Case
from assay.core.outcome import GradingFailure
from assay.core.plan import PluginPlan
from assay.grading.assignment import NO_ATTACHMENTS, Assignment, Kind, Way, kind_of
from assay.grading.policies import own_policy, resolved
from assay.grading.settings import GradingSettings
from assay.grading.ways import five_point, mcq, pairwise, plugin_grader, reference, rubric, turn

WAYS: dict[Kind, Way] = {
    "five_point": five_point.WAY,
    "rubric": rubric.WAY,
    "reference": reference.WAY,
    "mcq": mcq.WAY,
    "turn": turn.OF_WORDS,
    "tool_call": turn.OF_A_CALL,
    "pairwise": pairwise.WAY,
    "plugin": plugin_grader.WAY,
}


def assign(case: Case, settings: GradingSettings, *, attachments: Mapping[str, str] = NO_ATTACHMENTS) -> Assignment:
    """The case with its way of grading and its policy; raises GradingFailure for a task that cannot be graded."""
    kind = "plugin" if settings.grader else kind_of(case)
    if kind is None:
        raise GradingFailure("unsupported_task", f"cases of task {case.task!r} cannot be graded")
    custom = settings.policy or settings.record_policies.get(case.policy_id)
    policy, flags = (own_policy(custom.name), ()) if custom else resolved(case.policy_id, case.task)
    return Assignment(case, settings, policy, WAYS[kind], flags, attachments, custom)


def needs_judge(case: Case, settings: GradingSettings) -> bool:
    """True when the case may come to no grade without a judge."""
    return is_judged(kind_of(case), grader=settings.grader)


def is_judged(kind: Kind | None, *, grader: PluginPlan | None) -> bool:
    """The same of a record of which no more is known than its kind; a grader of the run's own decides for all of them."""
    if grader is not None:
        return grader.asks_judges
    return kind is not None and WAYS[kind].needs_judge
