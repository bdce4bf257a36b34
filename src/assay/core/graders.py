"""Graders of a run that has several: what each grades by, and on which scale."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from assay.core.checks import Check, PassRule
from assay.core.exposure import described

GraderKind = Literal["checks", "plugin", "judge"]
MAX_GRADERS = 20
"""Graders of a run; each is a metric."""
MAX_PROMPT = 100_000
"""Characters of a judge's prompt."""
NOT_ASSESSED = "cannot_assess"
"""Word of a judge, on every scale, for an answer that it cannot assess."""


class CategoryScale(msgspec.Struct, frozen=True, kw_only=True):
    """A scale of named categories."""

    categories: Annotated[
        dict[str, Annotated[float, Meta(ge=0, le=1)]],
        described("Each category with its value from 0 to 1, such as `{good: 1, poor: 0.3}`."),
    ]


NumberScale = Literal["pass_fail", "1-5", "0-1"]
Scale = NumberScale | CategoryScale
"""Scale of a judge with a prompt of the user."""


class JudgePrompt(msgspec.Struct, frozen=True, kw_only=True):
    """The user's prompt of a judge, as it was when the run was planned."""

    name: str
    """Name of the file."""
    sha256: str
    text: str

    @property
    def id(self) -> str:
        """Return name and version, as predictions name it: `own.txt/3f2a9c0b1d4e`."""
        return f"{self.name}/{self.sha256[:12]}"


class GraderPlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One grader of a run that has several."""

    name: str
    kind: GraderKind
    is_primary: bool = False
    """It decides score and result of a record; the others are reported."""
    checks: tuple[Check, ...] = ()
    pass_rule: PassRule = "all"
    plugin: str = ""
    """Name of one of the plan's plugins."""
    judge: str = ""
    """Name of one of the plan's judges; empty for checks, and for a plugin that asks none."""
    prompt: JudgePrompt | None = None
    """None for a judge with the built-in prompt of a record's grading method."""
    scale: Scale = "pass_fail"
    """Scale of a judge with a prompt of its own."""
    at_least: float | None = None
    """Score on that scale from which an answer passes; None takes the run's."""
