"""Topics: what a judge is asked about a record, as far as reading its replies needs it."""

import msgspec

from assay.core.mark import Mark
from assay.grading.verdict import Shape


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """One question to every judge."""

    name: str
    """Names the call."""
    shape: Shape
    marks: tuple[Mark, ...]
    """The criteria that a reply decides on, without a value."""
    is_list: bool = False
    """The reply is a list with a verdict on each."""
    is_turned: bool = False
    """Two answers were shown in the other order, so that a verdict for the first is one for the second."""


def topic_on(criterion: str, shape: Shape, *, weight: float = 1.0) -> Topic:
    """A question about one criterion, after which it is named."""
    return Topic(name=criterion, shape=shape, marks=(empty_mark(criterion, shape, weight=weight),))


def empty_mark(criterion: str, shape: Shape, *, weight: float) -> Mark:
    """A mark that nobody has given yet."""
    return Mark(criterion=criterion, value=None, scale=shape.scale, weight=weight)
