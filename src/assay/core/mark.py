"""Results of single criteria after all votes, possibly without a value."""

import msgspec


class CriterionResult(msgspec.Struct, frozen=True, kw_only=True):
    """One criterion of a record; unlike a score it may have no value."""

    criterion: str
    value: float | None
    """On its own scale; None without a verdict."""
    scale: str
    """`1-5`, `0-1` or `0/1`."""
    weight: float = 1.0
