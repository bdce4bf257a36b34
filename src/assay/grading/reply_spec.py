"""Reply specifications: what reading back a judge's reply needs to know about the question."""

import msgspec

from assay.core.mark import CriterionResult
from assay.grading.verdict import ReplySchema


class ReplySpec(msgspec.Struct, frozen=True, kw_only=True):
    """One question to every judge."""

    name: str
    """Part of the call's id."""
    shape: ReplySchema
    marks: tuple[CriterionResult, ...]
    """Results of the criteria that a reply decides, without values."""
    is_list: bool = False
    """The reply is a list with one verdict per criterion."""
    is_swapped: bool = False
    """The two answers were swapped, so that a verdict for the first is one for the second."""


def criterion_spec(criterion: str, shape: ReplySchema, *, weight: float = 1.0) -> ReplySpec:
    """Build the specification of a question about one criterion, after which it is named."""
    return ReplySpec(name=criterion, shape=shape, marks=(empty_result(criterion, shape, weight=weight),))


def empty_result(criterion: str, shape: ReplySchema, *, weight: float) -> CriterionResult:
    """Build a result that has no value yet."""
    return CriterionResult(criterion=criterion, value=None, scale=shape.scale, weight=weight)
