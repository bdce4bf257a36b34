"""Values of other tools taken for what they should be, or for nothing: a member of the wrong shape costs itself, not the file."""

from datetime import datetime
from math import isfinite
from typing import Any

from assay.datasets.imports.items import Row

_LAST_SECOND = 253_402_300_799
"""Of the year 9999, after which no calendar goes on."""


def mapping(value: Any) -> Row:
    """The object, or an empty one."""
    return value if isinstance(value, dict) else {}


def sequence(value: Any) -> list[Any]:
    """The list, or an empty one."""
    return value if isinstance(value, list) else []


def mappings(value: Any) -> list[Row]:
    """The objects in a list."""
    return [one for one in sequence(value) if isinstance(one, dict)]


def number(value: Any) -> float | None:
    """The finite number; None for anything else, a boolean and a whole number beyond all fractions included."""
    try:
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) else None
    except OverflowError:
        return None


def amount(value: Any) -> float | None:
    """A number that is not negative."""
    found = number(value)
    return found if found is not None and found >= 0 else None


def tokens(value: Any) -> int | None:
    """A count of tokens."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53 else None


def seconds(value: Any) -> float | None:
    """A time, since 1970 in UTC: a number, or text with its offset."""
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return None
        return max(moment.timestamp(), 0.0) if moment.tzinfo is not None else None
    found = amount(value)
    return found if found is not None and found <= _LAST_SECOND else None
