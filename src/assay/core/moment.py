"""Moments as every artifact writes them."""

from datetime import UTC, datetime
from functools import lru_cache


@lru_cache(maxsize=1024)
def iso(seconds: float) -> str:
    """A moment in UTC, with milliseconds and a Z."""
    milliseconds = int(seconds * 1000)
    return f"{_second(milliseconds // 1000)}.{milliseconds % 1000:03d}Z"


@lru_cache(maxsize=64)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:-6]
