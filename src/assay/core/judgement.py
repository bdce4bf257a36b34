"""Judgements: what a grader of one's own says of an answer, in any of the forms that a plain function may return."""

import math
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from assay.core.outcome import FailureLabel, Grade, GradingFailure

NO_RESULT = "grader_no_result"
"""Code of a record whose grader returned nothing."""
INVALID_RESULT = "grader_invalid_result"
"""Code of a record whose grader returned something that is no score."""
GRADER_ERROR = "grader_error"
"""Code of a record whose grader raised an exception."""


class Judgement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a grader says of an answer, where a number alone does not say it all."""

    score: float
    """From 0 to 1."""
    passed: bool | None = None
    """None leaves it to the run: a score from its `pass_threshold` on passes."""
    justification: str = ""
    label: FailureLabel = ""
    """Why the answer did not pass."""
    scores: dict[str, float] = {}
    """Scores from 0 to 1 of single criteria, by name; the score above is what counts."""
    scale: Literal["0-1", "0/1"] = "0-1"
    """Any number between the two, or nothing but them; the same for `scores`."""
    flags: tuple[str, ...] = ()


def judgement_of(said: Any) -> Judgement:
    """The judgement in what a grader returned; raises GradingFailure where there is none."""
    if said is None:
        raise GradingFailure(NO_RESULT, "the grader returned None: it gave no grade")
    said = said.item() if hasattr(said, "item") and not isinstance(said, Mapping) else said
    if isinstance(said, bool):
        return Judgement(score=float(said), passed=said, scale="0/1")
    if isinstance(said, int | float):
        return _checked({"score": said})
    if isinstance(said, Grade):
        scores = {score.criterion: score.normalized for score in said.scores}
        return _checked(
            {name: getattr(said, name) for name in ("score", "passed", "justification", "label", "flags")} | {"scores": scores}
        )
    if isinstance(said, Judgement):
        return _checked(msgspec.structs.asdict(said))
    if isinstance(said, Mapping):
        return _checked(dict(said))
    raise _invalid(f"it returned {type(said).__name__}, not a bool, a number from 0 to 1 or a Judgement")


def _checked(members: dict[str, Any]) -> Judgement:
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


def _invalid(why: str) -> GradingFailure:
    return GradingFailure(INVALID_RESULT, f"what the grader returned is no grade: {why}")
