"""Topics: what a judge is asked about a record, as far as reading its replies needs it."""

import msgspec

from assay.core.mark import CriterionResult
from assay.grading.verdict import ReplySchema


class ReplySpec(msgspec.Struct, frozen=True, kw_only=True):
    """One question to every judge."""

    name: str
    """Names the call."""
    shape: ReplySchema
    marks: tuple[CriterionResult, ...]
    """The criteria that a reply decides on, without a value."""
    is_list: bool = False
    """The reply is a list with a verdict on each."""
    is_turned: bool = False
    """Two answers were shown in the other order, so that a verdict for the first is one for the second."""


def topic_on(criterion: str, shape: ReplySchema, *, weight: float = 1.0) -> ReplySpec:
    """A question about one criterion, after which it is named."""
    return ReplySpec(name=criterion, shape=shape, marks=(empty_mark(criterion, shape, weight=weight),))


def empty_mark(criterion: str, shape: ReplySchema, *, weight: float) -> CriterionResult:
    """A mark that nobody has given yet."""
    return CriterionResult(criterion=criterion, value=None, scale=shape.scale, weight=weight)
