"""Marks: what the judges of a record say to one criterion after all votes are in, or that they said nothing."""

import msgspec


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """One criterion of a record; unlike a score it may be empty."""

    criterion: str
    value: float | None
    """On its own scale; None where there is no verdict."""
    scale: str
    """`1-5`, `0-1` or `0/1`."""
    weight: float = 1.0
