"""Grading settings of a run, the same for all its cases."""

from collections.abc import Mapping
from typing import Any

from assay.core.plan import Plan, PluginPlan
from assay.core.settings import GradingRules, PanelSection, ProfileId


class GradingSettings(GradingRules, frozen=True, kw_only=True):
    """Candidate, judges, and what is enough to pass."""

    candidate: str
    """Name of the plan's model that answers."""
    judges: tuple[str, ...] = ()
    """Names of the plan's models that judge; several form a panel."""
    system_prompt: str = ""
    """Sent to the candidate under the default policy, if the case has no system message."""
    panel: PanelSection = PanelSection()
    """How several judges decide together."""
    has_answers: bool = False
    """The candidate's answers are given, so that it is not called."""
    profile: ProfileId | None = None
    """The run's profile, which may score a rubric that has no score of its own."""
    grader: PluginPlan | None = None
    """The run's custom grader, which grades every case."""
    grader_code: Any = None
    """The generator function of a grader that asks judges."""
    policy: PluginPlan | None = None
    """The run's custom policy, which builds the candidate's messages in every case."""
    policy_code: Any = None
    """The function of that policy."""
    record_policies: Mapping[str, PluginPlan] = {}
    """Custom policies of the cases that name them."""
    record_policy_code: Mapping[str, Any] = {}
    """The function of each of these policies."""


def settings_of(plan: Plan) -> GradingSettings:
    """Extract the grading settings of a plan."""
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
        **{name: getattr(plan, name) for name in GradingRules.__struct_fields__},
    )
