"""Whether a sequence of runs goes up or down: Mann and Kendall's exact test, and Theil and Sen's slope."""

from functools import lru_cache
from math import factorial
from typing import Literal

import msgspec
import numpy as np

from assay.core.summary import LEVEL, Interval
from assay.metrics.intervals import Estimate, Floats

MAX_RUNS = 60
"""Latest runs that a trend covers; its exact test grows with their cube."""
MIN_RUNS = 5
"""Four runs in perfect order happen by chance in one of twelve cases."""

Direction = Literal["up", "down", "none"]


class TrendEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """Direction that a test supports at 5 %, and the slope."""

    direction: Direction
    p_value: float | None
    """Two-sided probability of an order at least as clear if there is no trend; None for too few runs."""
    slope: Estimate
    """Change per run: the median of the slopes between all pairs of runs."""
    n: int


def trend(values: Floats) -> TrendEstimate:
    """Return the trend of one number per run, oldest first; only the latest 60 count."""
    values = values[-MAX_RUNS:]
    n = len(values)
    if n < MIN_RUNS:
        reason = f"there {'is 1 run' if n == 1 else f'are {n} runs'}, and a direction needs {MIN_RUNS}"
        slope = float(np.median(_slopes(values))) if n > 1 else None
        return TrendEstimate(direction="none", p_value=None, slope=Estimate(value=slope, n=n, reason=reason), n=n)
    score = int(np.sign(values[None, :] - values[:, None])[np.triu_indices(n, 1)].sum())
    # Equal pass rates are common among few records, and the distribution has to know of them.
    p_value = _probability(score, ties=tuple(np.unique(values, return_counts=True)[1].tolist()))
    direction: Direction = "none" if p_value > 1 - LEVEL else "up" if score > 0 else "down"
    return TrendEstimate(direction=direction, p_value=p_value, slope=_slope(values), n=n)


def _slopes(values: Floats) -> Floats:
    """Return the change per run between every pair of runs, in ascending order."""
    earlier, later = np.triu_indices(len(values), 1)
    found: Floats = np.sort((values[later] - values[earlier]) / (later - earlier))
    return found


def _slope(values: Floats) -> Estimate:
    """Return Sen's interval: as many of the lowest and highest slopes are cut off as the exact test allows."""
    n, slopes = len(values), _slopes(values)
    # Counted out for runs without ties: few runs are the usual case, and a normal approximation fails there.
    counts = _inversions((1,) * n)
    total, allowed = factorial(n), (1 - LEVEL) / 2
    below, cut = 0, 0
    while (below + counts[cut]) / total <= allowed:
        below += counts[cut]
        cut += 1
    interval = Interval(low=float(slopes[cut - 1]), high=float(slopes[-cut]), method="theil_sen", n=n)
    return Estimate(value=float(np.median(slopes)), interval=interval, n=n)


def _probability(score: int, *, ties: tuple[int, ...]) -> float:
    """Return the exact share of all orders of these values that are at least as far from even."""
    counts = _inversions(ties)
    pairs = len(counts) - 1
    if score == 0 or pairs == 0:
        return 1.0
    # A pair in falling order is an inversion: score = pairs - 2 * inversions.
    extreme = sum(counts[: (pairs - abs(score)) // 2 + 1])
    return min(1.0, float(2 * extreme / sum(counts)))


@lru_cache(maxsize=64)
def _inversions(ties: tuple[int, ...]) -> tuple[int, ...]:
    """Return how many orders of values, equal in groups of these sizes, have 0, 1, 2, ... pairs in falling order.

    It is Gauss's multinomial coefficient: whole numbers without rounding, one group of equal values after the other.
    """
    counts, placed = [1], 0
    for size in ties:
        for step in range(1, size + 1):
            counts = _divide(_multiply(counts, placed + step), step)
        placed += size
    return tuple(counts)


def _multiply(counts: list[int], length: int) -> list[int]:
    """Multiply a polynomial by 1 + q + ... + q^(length - 1)."""
    longer = [*counts, *[0] * (length - 1)]
    total, found = 0, []
    for place, count in enumerate(longer):
        total += count - (longer[place - length] if place >= length else 0)
        found.append(total)
    return found


def _divide(counts: list[int], length: int) -> list[int]:
    """Divide a polynomial by 1 + q + ... + q^(length - 1), without remainder."""
    found: list[int] = []
    for place in range(len(counts) - length + 1):
        # Whole numbers throughout: factorials of 60 exceed a double by far.
        recent = sum(found[max(0, place - length + 1) : place])
        found.append(counts[place] - recent)
    return found
