"""Grading methods: one module and one row each. The parts they share are in the parent folder."""

from collections.abc import Mapping

from assay.core.case import Case
from assay.core.outcome import GradingFailure
from assay.core.plan import PluginPlan
from assay.grading import five_point, mcq, pairwise, plugin_grader, reference, rubric, trajectory
from assay.grading.assignment import NO_ATTACHMENTS, GradingAssignment, GradingMethod, GradingSettings, MethodKind, kind_of
from assay.grading.policies import custom_policy_of, resolve_policy

GRADING_METHODS: dict[MethodKind, GradingMethod] = {
    "five_point": five_point.METHOD,
    "rubric": rubric.METHOD,
    "reference": reference.METHOD,
    "mcq": mcq.METHOD,
    "turn": trajectory.TURN_TEXT,
    "tool_call": trajectory.TURN_TOOL_CALL,
    "pairwise": pairwise.METHOD,
    "plugin": plugin_grader.METHOD,
}


def assign(case: Case, settings: GradingSettings, *, attachments: Mapping[str, str] = NO_ATTACHMENTS) -> GradingAssignment:
    """Assign a case its grading method and its policy; raises GradingFailure for a task that cannot be graded."""
    # A custom grader takes every record, also of tasks that no built-in method can grade.
    kind = "plugin" if settings.grader else kind_of(case)
    if kind is None:
        raise GradingFailure("unsupported_task", f"cases of task {case.task!r} cannot be graded")
    # The run's own policy overrides those that records name, as the settings say.
    custom = settings.policy or settings.record_policies.get(case.policy_id)
    policy, flags = (custom_policy_of(custom.name), ()) if custom else resolve_policy(case.policy_id, case.task)
    return GradingAssignment(case, settings, policy, GRADING_METHODS[kind], flags, attachments, custom)


def needs_judge(case: Case, settings: GradingSettings) -> bool:
    """Return whether the case may need a judge."""
    return is_judged(kind_of(case), grader=settings.grader)


def is_judged(kind: MethodKind | None, *, grader: PluginPlan | None) -> bool:
    """Return whether a record of this kind may need a judge; a run's custom grader decides for all of them."""
    if grader is not None:
        return grader.asks_judges
    return kind is not None and GRADING_METHODS[kind].needs_judge
