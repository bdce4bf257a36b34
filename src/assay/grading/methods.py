"""Grading methods: one module and one row each. The parts they share are in the parent folder."""

from collections.abc import Mapping

from assay.core.call_rules import CallRules
from assay.core.case import Case
from assay.core.checks import RECORD_CHECKS
from assay.core.open_fields import grading_fields
from assay.core.outcome import GradingFailure
from assay.core.plan import PluginPlan
from assay.grading import check_grader, five_point, judge_prompt, mcq, pairwise, plugin_grader, reference, rubric, trajectory
from assay.grading.assignment import NO_ATTACHMENTS, GradingAssignment, GradingMethod, GradingSettings, MethodKind, kind_of
from assay.grading.policies import custom_policy_of, resolve_policy

GRADING_METHODS: dict[MethodKind, GradingMethod] = {
    "five_point": five_point.METHOD,
    "rubric": rubric.METHOD,
    "reference": reference.METHOD,
    "mcq": mcq.METHOD,
    "turn": trajectory.TURN_TEXT,
    "tool_call": trajectory.TURN_TOOL_CALL,
    "judged_tool_call": trajectory.JUDGED_TOOL_CALL,
    "pairwise": pairwise.METHOD,
    "plugin": plugin_grader.METHOD,
    "checks": check_grader.METHOD,
    "prompt": judge_prompt.METHOD,
}


def assign(case: Case, settings: GradingSettings, *, attachments: Mapping[str, str] = NO_ATTACHMENTS) -> GradingAssignment:
    """Assign a case its grading method and its policy; raises GradingFailure for a task that cannot be graded."""
    # A custom grader takes every record, also of tasks that no built-in method can grade.
    kind = kind_in_run(case, settings)
    if kind is None:
        raise GradingFailure("unsupported_task", f"cases of task {case.task!r} cannot be graded")
    # The run's own policy overrides those that records name, as the settings say.
    custom = settings.policy or settings.record_policies.get(case.policy_id)
    policy, flags = (custom_policy_of(custom.name), ()) if custom else resolve_policy(case.policy_id, case.task)
    return GradingAssignment(case, settings, policy, GRADING_METHODS[kind], flags, attachments, custom)


def kind_in_run(case: Case, settings: GradingSettings) -> MethodKind | None:
    """Return the method for a case in a run: its own one, the run's custom grader, or checks where no judge decides."""
    if settings.method is not None:
        return settings.method
    if settings.grader is not None:
        return "plugin"
    kind = kind_with_rules(kind_of(case), settings.tool_calls)
    if not check_grader.has_checks(case, settings):
        return kind
    # A record with checks of its own and nothing that a judge could compare an answer with costs no call to a judge.
    is_checked_only = bool(case.metadata.get(RECORD_CHECKS)) and not settings.criteria and not has_basis(case)
    return kind_with_checks(kind, has_judges=bool(settings.judges), is_checked_only=is_checked_only)


def kind_with_rules(kind: MethodKind | None, rules: CallRules) -> MethodKind | None:
    """Return the method for a case in a run with these rules of comparing calls."""
    return "judged_tool_call" if kind == "tool_call" and rules.asks_judges else kind


def kind_with_checks(kind: MethodKind | None, *, has_judges: bool, is_checked_only: bool) -> MethodKind | None:
    """Return the method for a case that has checks: they grade alone where a judge would be needed and none is to be asked."""
    if kind is not None and (not GRADING_METHODS[kind].needs_judge or (has_judges and not is_checked_only)):
        return kind
    return "checks"


def has_basis(case: Case) -> bool:
    """Return whether a case has something that a judge can compare an answer with."""
    return bool(case.criteria or case.references or grading_fields(case))


def needs_judge(case: Case, settings: GradingSettings) -> bool:
    """Return whether the case may need a judge."""
    if settings.graders:
        return any(grader.judge for grader in settings.graders)
    return is_judged(kind_in_run(case, settings), grader=settings.grader)


def is_judged(kind: MethodKind | None, *, grader: PluginPlan | None) -> bool:
    """Return whether a record of this kind may need a judge; a run's custom grader decides for all of them."""
    if grader is not None:
        return grader.asks_judges
    return kind is not None and GRADING_METHODS[kind].needs_judge
