"""Rates, scores and differences for people: the same text in every report, page, chart and message."""

from decimal import ROUND_HALF_UP, Decimal
from typing import Protocol

RATE_PLACES = 1
"""Decimals of a percentage."""
SCORE_PLACES = 2
POINTS = "pp"
"""Percentage points."""
_NOISE_PLACES = 12
"""Decimals beyond which digits come from binary arithmetic, not from counts or scores."""
_WHOLE = 1e15
"""Numbers from here on have no fraction to round, and more digits than a decimal context."""


class ChangeText(Protocol):
    """A function that formats a difference of two rates or two scores."""

    def __call__(self, change: float, /, *, before: float | None = None, after: float | None = None) -> str: ...


def rate_text(rate: float, places: int = RATE_PLACES) -> str:
    """Format a rate: `47.5 %`."""
    return f"{_fixed(_rounded(rate, places, shift=2), places)} %"


def rate_change_text(change: float, *, before: float | None = None, after: float | None = None, sign: bool = True) -> str:
    """Format a change, `+2.5 pp`; given both rates, the difference of the rounded ones, so that the three numbers add up."""
    rounded_change = _change(change, before, after, places=RATE_PLACES, shift=2)
    return f"{_fixed(rounded_change, RATE_PLACES, has_sign=sign)} {POINTS}"


def score_text(score: float, places: int = SCORE_PLACES) -> str:
    """Format a score: `4.33`."""
    return _fixed(_rounded(score, places), places)


def score_change_text(change: float, *, before: float | None = None, after: float | None = None) -> str:
    """Format a change, `+0.25`; given both scores, the difference of the rounded ones."""
    return _fixed(_change(change, before, after, places=SCORE_PLACES), SCORE_PLACES, has_sign=True)


def _change(change: float, before: float | None, after: float | None, *, places: int, shift: int = 0) -> Decimal:
    rounded = _rounded(change, places, shift=shift)
    if before is None or after is None:
        return rounded
    rounded_change = _rounded(after, places, shift=shift) - _rounded(before, places, shift=shift)
    # The two means may cover other records than the change; then the measured change counts.
    return rounded_change if abs(rounded_change - rounded) <= Decimal(1).scaleb(-places) else rounded


def _rounded(value: float, places: int, *, shift: int = 0) -> Decimal:
    """Scale by a power of ten and round half away from zero.

    The shortest text of a float is the intended decimal: 0.475, whose binary value is a little less. Binary
    noise at the end of a mean is removed first, since it would otherwise decide halves.
    """
    exact = Decimal(repr(float(value))).scaleb(shift)
    if not exact.is_finite() or abs(exact) >= _WHOLE:
        return exact
    # Half up, not to even as format() does it: people compare percentages with their own calculation.
    return exact.quantize(Decimal(1).scaleb(-_NOISE_PLACES), ROUND_HALF_UP).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)


def _fixed(value: Decimal, places: int, *, has_sign: bool = False) -> str:
    if value.is_zero():
        return f"{0:.{places}f}"
    return f"{value:+.{places}f}" if has_sign else f"{value:.{places}f}"


def plain_number(value: float) -> int | float:
    """Return a number as canonical JSON writes it: 4, not 4.0."""
    # Callers pass finite numbers only: int() raises for NaN and infinity, which no artifact holds.
    return int(value) if value == int(value) else value
