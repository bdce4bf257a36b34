"""The score interval of a mean: all means from which what was seen is no further away than chance explains.

Of passes and failures it is Wilson's (1927), of differences between two of them Tango's (1998); other scores go the same way. How
far chance reaches is asked of every supposed mean for itself, not of the mean that was seen, so that equal scores are no certainty.
"""

from collections.abc import Callable

import msgspec
import numpy as np
from numpy.typing import NDArray

Z = 1.959963984540054
"""Standard errors on either side that hold 95 %."""
_NOTHING = 1e-15
"""Share of a scale that is rounding."""
_PRECISION = 1e-13
_MAX_STEPS = 100

Floats = NDArray[np.float64]
Clusters = NDArray[np.int32] | NDArray[np.int64]
Ends = tuple[float, float]
"""Of a scale."""


def score_bounds(values: Floats, ends: Ends, *, clusters: Clusters | None = None) -> Ends:
    """Both ends of the interval of the mean of at least one value, none of which lies outside of the ends of its scale.

    With clusters, chance reaches as much further as values of one cluster stray together from the supposed mean.
    """
    lowest, highest = ends
    _, index = (None, None) if clusters is None else np.unique(clusters, return_inverse=True)
    return lowest + _lower(values - lowest, index), highest - _lower(highest - values, index)


class Design(msgspec.Struct, frozen=True):
    """Sums of squares around any mean: of clusters, and of values that stand for themselves."""

    together: tuple[float, float, float]
    """Factors of 1, mean and its square."""
    alone: tuple[float, float, float]

    @classmethod
    def of(cls, values: Floats, index: NDArray[np.intp]) -> "Design":
        """The sums of values of which each belongs to a cluster, numbered from 0."""
        sums, sizes = np.bincount(index, weights=values), np.bincount(index).astype(np.float64)
        return cls(
            (float(sums @ sums), -2 * float(sums @ sizes), float(sizes @ sizes)),
            (float(values @ values), -2 * float(values.sum()), float(len(values))),
        )

    def effect(self, mean: float) -> float:
        """How many times the variance around a mean is what it were if every value stood for itself; at least 1."""
        powers = (1.0, mean, mean * mean)
        together = sum(factor * power for factor, power in zip(self.together, powers, strict=True))
        alone = sum(factor * power for factor, power in zip(self.alone, powers, strict=True))
        if alone <= _NOTHING * self.alone[2]:
            # Nothing strays: each cluster is taken for one value.
            return max(1.0, self.together[2] / self.alone[2])
        return max(1.0, together / alone)


def _lower(values: Floats, index: NDArray[np.intp] | None) -> float:
    """The lowest mean that can be, of values from 0 up.

    The likeliest distribution with a lower mean m weighs every value x that was seen by 1 / (x + u): the larger u, the closer it is
    to what was seen (empirical likelihood, Owen 1988). Its variance is (mean - m)(m + u), so that the score test's equation
    n (mean - m)^2 = z^2 variance asks that the arithmetic mean of x + u be 1 + z^2 / n times the harmonic one. Where no value is 0,
    and no u is small enough, unseen zeros take the rest, and u is 0.
    """
    mean, reach = float(values.mean()), Z * Z / len(values)
    if mean <= _NOTHING:
        return 0.0
    levels, counts = np.unique(values, return_counts=True)
    shares = counts / len(values)
    effect: Callable[[float], float] = (lambda _: 1.0) if index is None else Design.of(values, index).effect

    def inverse(further: float) -> float:
        return float(shares @ (1 / (levels + further)))

    def excess(further: float) -> float:
        found = inverse(further)
        return found * (mean + further) - 1 - reach * effect(1 / found - further)

    if levels[0] > 0 and excess(0.0) <= 0:
        return _root(lambda supposed: mean - supposed - reach * effect(supposed) * supposed, low=0.0, high=1 / inverse(0.0))
    further = _root(excess, **_bracket(excess))
    return max(0.0, 1 / inverse(further) - further)


def _bracket(excess: Callable[[float], float]) -> dict[str, float]:
    """Two places around the one where a falling function is 0."""
    low = high = 1.0
    while excess(high) > 0:
        low, high = high, 4 * high
    while excess(low) <= 0:
        low, high = low / 4, low
    return {"low": low, "high": high}


def _root(excess: Callable[[float], float], *, low: float, high: float) -> float:
    """Where a falling function is 0, by false position; the side that stays has its value halved (Illinois)."""
    at_low, at_high, place = excess(low), excess(high), low
    for _ in range(_MAX_STEPS):
        if at_high >= 0:
            return high
        before, place = place, (low * at_high - high * at_low) / (at_high - at_low)
        at = excess(place)
        if at == 0 or abs(place - before) <= _PRECISION * place:
            break
        if at > 0:
            low, at_high = place, at_high / 2 if before == low else at_high
            at_low = at
        else:
            high, at_low = place, at_low / 2 if before == high else at_low
            at_high = at
    return place
