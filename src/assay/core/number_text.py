"""How rates, scores and differences are written for people: the same in every report, page, chart and message."""

from decimal import ROUND_HALF_UP, Decimal
from typing import Protocol

RATE_PLACES = 1
"""Decimals of a percentage."""
SCORE_PLACES = 2
POINTS = "pp"
"""Percentage points."""
_NOISE_PLACES = 12
"""Decimals beyond which digits come from binary arithmetic and not from counts or scores."""
_WHOLE = 1e15
"""Numbers from here on have no fraction to round, and more digits than a decimal context has."""


class ChangeText(Protocol):
    """A function that writes a difference of two rates or two scores."""

    def __call__(self, change: float, /, *, before: float | None = None, after: float | None = None) -> str: ...


def rate_text(rate: float, places: int = RATE_PLACES) -> str:
    """`47.5 %`."""
    return f"{_fixed(_rounded(rate, places, shift=2), places)} %"


def rate_change_text(change: float, *, before: float | None = None, after: float | None = None, sign: bool = True) -> str:
    """`+2.5 pp`; where both rates are shown, the difference of what is shown, so that the three numbers add up."""
    shown = _change(change, before, after, places=RATE_PLACES, shift=2)
    return f"{_fixed(shown, RATE_PLACES, has_sign=sign)} {POINTS}"


def score_text(score: float, places: int = SCORE_PLACES) -> str:
    """`4.33`."""
    return _fixed(_rounded(score, places), places)


def score_change_text(change: float, *, before: float | None = None, after: float | None = None) -> str:
    """`+0.25`; where both scores are shown, the difference of what is shown."""
    return _fixed(_change(change, before, after, places=SCORE_PLACES), SCORE_PLACES, has_sign=True)


def _change(change: float, before: float | None, after: float | None, *, places: int, shift: int = 0) -> Decimal:
    rounded = _rounded(change, places, shift=shift)
    if before is None or after is None:
        return rounded
    shown = _rounded(after, places, shift=shift) - _rounded(before, places, shift=shift)
    # Two means over other records than the change differ by more than their rounding: the change is what was measured.
    return shown if abs(shown - rounded) <= Decimal(1).scaleb(-places) else rounded


def _rounded(value: float, places: int, *, shift: int = 0) -> Decimal:
    """The number times a power of ten, halves rounded away from zero.

    The shortest text of a float is the decimal that was meant: 0.475, where its binary value is a little less. Binary
    noise at the end of a mean is removed first, or it would decide about a half.
    """
    exact = Decimal(repr(float(value))).scaleb(shift)
    if not exact.is_finite() or abs(exact) >= _WHOLE:
        return exact
    return exact.quantize(Decimal(1).scaleb(-_NOISE_PLACES), ROUND_HALF_UP).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)


def _fixed(value: Decimal, places: int, *, has_sign: bool = False) -> str:
    if value.is_zero():
        return f"{0:.{places}f}"
    return f"{value:+.{places}f}" if has_sign else f"{value:.{places}f}"
