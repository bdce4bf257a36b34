"""What a run decides about grading, the same for all its cases."""

from collections.abc import Mapping
from typing import Any

import msgspec

from assay.core.plan import CriterionName, McqMode, PanelPlan, Plan, PluginPlan, ProfileId, RubricMode

OF_A_GRADE = ("pass_threshold", "case_pass_score", "rubric_mode", "mcq_mode", "criteria")
"""What decides about a grade, whoever gives it; plans have it under the same names."""


class GradingSettings(msgspec.Struct, frozen=True):
    """Who answers, who judges, and what is enough to pass."""

    candidate: str
    """Name of the plan's model that answers."""
    judges: tuple[str, ...] = ()
    """Names of the plan's models that judge; several of them are a panel."""
    system_prompt: str = ""
    """Sent to the candidate under the default policy, where the case has none of its own."""
    pass_threshold: float = 0.7
    """A score of 0..1 from which a case passes."""
    case_pass_score: int = 4
    """A score of 1..5 from which a case passes."""
    rubric_mode: RubricMode = "per_criterion"
    """One judge call for each criterion of a rubric, or one call for all of them."""
    mcq_mode: McqMode = "exact"
    """All correct choices and none besides, or any of them."""
    criteria: tuple[CriterionName, ...] = ()
    """What an open task is judged by that names no criteria itself."""
    panel: PanelPlan = PanelPlan()
    """How several judges decide together."""
    has_answers: bool = False
    """The candidate's answers are given, so that it is not asked."""
    profile: ProfileId | None = None
    """The run's profile, which may score a rubric that has no score of its own."""
    grader: PluginPlan | None = None
    """A grader of the run's own, which grades every case."""
    grader_code: Any = None
    """The grader itself, where it is driven from ask to ask."""
    policy: PluginPlan | None = None
    """A policy of the run's own, which says what the candidate is asked in every case."""
    policy_code: Any = None
    """What makes messages of a case under it."""
    record_policies: Mapping[str, PluginPlan] = {}
    """Custom policies of the cases that name them."""
    record_policy_code: Mapping[str, Any] = {}
    """What makes messages of a case under each of them."""


def settings_of(plan: Plan) -> GradingSettings:
    """What a plan says about grading."""
    return GradingSettings(
        candidate=plan.candidate.name,
        judges=tuple(judge.name for judge in plan.judges),
        system_prompt=plan.system_prompt,
        panel=plan.panel,
        has_answers=plan.response_source != "sampled",
        profile=plan.profile,
        grader=plan.grader(),
        policy=plan.policy(),
        record_policies=plan.record_policies(),
        **{name: getattr(plan, name) for name in OF_A_GRADE},
    )
