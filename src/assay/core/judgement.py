"""Judgements of custom graders, in any form that a plain function may return."""

import math
from collections.abc import Mapping
from typing import Literal

import msgspec

from assay.core.outcome import FailureLabel, Grade, GradingFailure

NO_RESULT = "grader_no_result"
"""Code of a record whose grader returned nothing."""
INVALID_RESULT = "grader_invalid_result"
"""Code of a record whose grader returned something that is not a score."""
GRADER_ERROR = "grader_error"
"""Code of a record whose grader raised an exception."""


class Judgement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A grader's result for an answer, when a number alone is not enough."""

    score: float
    """From 0 to 1."""
    passed: bool | None = None
    """None compares the score with the run's `pass_threshold`."""
    justification: str = ""
    label: FailureLabel = ""
    """Why the answer did not pass."""
    scores: dict[str, float] = {}
    """Scores from 0 to 1 of single criteria, by name; only the score above counts."""
    scale: Literal["0-1", "0/1"] = "0-1"
    """Any number between the two, or only the two; applies to `scores` too."""
    flags: tuple[str, ...] = ()


def judgement_of(returned: object) -> Judgement:
    """Convert what a grader returned; raises GradingFailure when it is not a judgement."""
    if returned is None:
        raise GradingFailure(NO_RESULT, "the grader returned None: it gave no grade")
    returned = returned.item() if hasattr(returned, "item") and not isinstance(returned, Mapping) else returned
    if isinstance(returned, bool):
        return Judgement(score=float(returned), passed=returned, scale="0/1")
    if isinstance(returned, int | float):
        return _validated({"score": returned})
    if isinstance(returned, Grade):
        scores = {score.criterion: score.normalized for score in returned.scores}
        return _validated(
            {name: getattr(returned, name) for name in ("score", "passed", "justification", "label", "flags")} | {"scores": scores}
        )
    if isinstance(returned, Judgement):
        return _validated(msgspec.structs.asdict(returned))
    if isinstance(returned, Mapping):
        return _validated(dict(returned))
    raise _invalid(f"it returned {type(returned).__name__}, not a bool, a number from 0 to 1 or a Judgement")


def _validated(members: Mapping[str, object]) -> Judgement:
    try:
        judgement = msgspec.convert(members, Judgement)
    except msgspec.ValidationError as problem:
        raise _invalid(str(problem)) from None
    for name, score in (("score", judgement.score), *judgement.scores.items()):
        if not math.isfinite(score) or not 0 <= score <= 1:
            raise _invalid(f"{name} is {score!r}, which is not from 0 to 1")
        if judgement.scale == "0/1" and score not in (0, 1):
            raise _invalid(f"{name} is {score!r}, which is neither 0 nor 1, as the scale '0/1' says")
    return judgement


def _invalid(reason: str) -> GradingFailure:
    return GradingFailure(INVALID_RESULT, f"what the grader returned is no grade: {reason}")
