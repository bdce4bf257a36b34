"""Timestamps as every artifact writes them."""

from datetime import UTC, datetime
from functools import lru_cache


def iso(seconds: float) -> str:
    """Format a time in UTC, with milliseconds and a Z."""
    second, millisecond = divmod(int(seconds * 1000), 1000)
    return _second(second) + _fraction(millisecond)


@lru_cache(maxsize=64)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:-6]


@lru_cache(maxsize=1000)
def _fraction(milliseconds: int) -> str:
    return f".{milliseconds:03d}Z"
