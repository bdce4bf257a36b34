"""Numbers to positions: linear scales, ticks at round numbers, and how those are written."""

from collections.abc import Iterable, Sequence
from math import ceil, floor, log10
from sys import float_info

import msgspec

from assay.presentation.charts import is_drawable

_ROUND_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
MINUS = "\u2212"
_LARGE = 1e6
_WIDENINGS = 8
_SMALLEST_SPAN = 1e-9
"""Relative to the values; what is closer together is drawn as one value."""


class LinearScale(msgspec.Struct, frozen=True):
    """A range of values on a range of pixels; the end of the pixels may be before their start."""

    low: float
    high: float
    start: float
    end: float
    is_rate: bool = False
    """Its values are shares, and its ticks percentages."""

    def __call__(self, value: float) -> float:
        """The pixel of a value; what is outside stands at the edge."""
        share = (value - self.low) / (self.high - self.low)
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)

    def ticks(self, count: int) -> list[float]:
        """About `count` round numbers of the range, at least one."""
        step = round_step(self.high - self.low, count)
        first, last = _above(self.low / step), _below(self.high / step)
        found = [multiple * step for multiple in range(first, last + 1)]
        return found or [self.low]

    def tick_labels(self, ticks: Sequence[float]) -> list[str]:
        """All with the same number of decimals."""
        step = ticks[1] - ticks[0] if len(ticks) > 1 else abs(ticks[0]) or 1.0
        return [f"{tick_text(100 * tick, 100 * step)} %" if self.is_rate else tick_text(tick, step) for tick in ticks]


def _below(steps: float) -> int:
    """The next whole number below, or the one that was meant."""
    return floor(steps + _slack(steps))


def _above(steps: float) -> int:
    return ceil(steps - _slack(steps))


def _slack(steps: float) -> float:
    # Far from 0 neighbouring numbers are further from each other than near it.
    return max(1e-9, 2 * float_info.epsilon * abs(steps))


def round_step(span: float, count: int) -> float:
    """The round number nearest above a `count`-th of the span."""
    rough = span / max(count, 1)
    power = 10.0 ** floor(log10(rough))
    return next(factor * power for factor in _ROUND_STEPS if factor * power >= rough * (1 - 1e-9))


def is_large(value: float) -> bool:
    """True for a number that is written with an exponent."""
    return abs(value) >= _LARGE


def tick_text(value: float, step: float) -> str:
    """`0.25`, `0.50`, `1,000`, `2e+06`."""
    if is_large(value) or (value and abs(step) < 1e-4):
        return f"{value:.3g}".replace("-", MINUS)
    places = next((places for places in range(5) if abs(step * 10**places - round(step * 10**places)) < 1e-6), 4)
    return f"{value + 0.0:,.{places}f}".replace("-", MINUS)


def whole_range(values: Iterable[float | None], *, at_least: tuple[float, float] | None = None) -> tuple[float, float]:
    """The range that holds all values that can be drawn, and `at_least`; never empty."""
    known = [value for value in (*values, *(at_least or ())) if value is not None and is_drawable(value)]
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    if high - low > _SMALLEST_SPAN * max(abs(low), abs(high), 1e-3):
        return low, high
    room = max(abs(low) * 0.1, 0.1)
    return low - room, high + room


def rounded_range(values: Iterable[float | None], *, count: int) -> tuple[float, float]:
    """The range of the values, widened so that it begins and ends with one of about `count` ticks."""
    low, high = whole_range(values)
    # Widening may make the step between ticks larger, which widens again.
    for _ in range(_WIDENINGS):
        step = round_step(high - low, count)
        low, high = _below(low / step) * step, _above(high / step) * step
    return low, high
