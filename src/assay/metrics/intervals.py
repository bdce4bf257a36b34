"""Score interval of a mean: all means from which the observed one is no further away than chance explains.

Of passes and failures it is Wilson's (1927), of differences between two of them Tango's (1998); other scores go the same way. How
far chance reaches is asked of every supposed mean for itself, not of the mean that was seen, so that equal scores are not certain.
"""

from collections.abc import Callable
from math import sqrt
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from assay.core.summary import LEVEL, Interval, MetricValue, percentile
from assay.metrics.distributions import student_quantile

# To the last digit of a double, because the interval of differences must leave out 0 exactly where McNemar's p is below 0.05.
Z = 1.959963984540054
"""Standard errors on either side that hold 95 %."""
# Sums of decimals such as 0.1 leave such remainders, which are not spread.
_NOTHING = 1e-15
"""Share of a scale that is rounding."""
_PRECISION = 1e-13
_MAX_STEPS = 100

Floats = NDArray[np.float64]
Clusters = NDArray[np.int32] | NDArray[np.int64]
Ends = tuple[float, float]
"""Of a scale."""


def score_bounds(values: Floats, ends: Ends, *, clusters: Clusters | None = None) -> Ends:
    """Return both ends of the interval of the mean of at least one value, all within the ends of their scale.

    With clusters, chance reaches as much further as values of one cluster stray together from the supposed mean.
    """
    lowest, highest = ends
    # Numbered from 0, since bincount makes an array as long as the largest number.
    _, index = (None, None) if clusters is None else np.unique(clusters, return_inverse=True)
    # The upper end is the lower end of the mirrored scale: one formula, and no difference between praise and blame.
    return lowest + _lower(values - lowest, index), highest - _lower(highest - values, index)


class ClusterSums(msgspec.Struct, frozen=True):
    """Sums of squares around any mean: of clusters, and of values without a cluster."""

    together: tuple[float, float, float]
    """Factors of 1, mean and its square."""
    alone: tuple[float, float, float]

    @classmethod
    def of(cls, values: Floats, index: NDArray[np.intp]) -> "ClusterSums":
        """Return the sums of values of which each belongs to a cluster, numbered from 0."""
        sums, sizes = np.bincount(index, weights=values), np.bincount(index).astype(np.float64)
        return cls(
            (float(sums @ sums), -2 * float(sums @ sizes), float(sizes @ sizes)),
            (float(values @ values), -2 * float(values.sum()), float(len(values))),
        )

    def effect(self, mean: float) -> float:
        """Return how many times the variance around a mean is what it were if every value stood for itself; at least 1."""
        powers = (1.0, mean, mean * mean)
        # Sums of squares around a mean are a polynomial of it: three numbers replace a pass over all values for each supposed mean.
        together = sum(factor * power for factor, power in zip(self.together, powers, strict=True))
        alone = sum(factor * power for factor, power in zip(self.alone, powers, strict=True))
        if alone <= _NOTHING * self.alone[2]:
            # Nothing strays: each cluster is taken for one value.
            return max(1.0, self.together[2] / self.alone[2])
        return max(1.0, together / alone)


def _lower(values: Floats, index: NDArray[np.intp] | None) -> float:
    """Return the lowest mean that can be, of values from 0 up.

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
    effect: Callable[[float], float] = (lambda _: 1.0) if index is None else ClusterSums.of(values, index).effect

    def inverse(further: float) -> float:
        return float(shares @ (1 / (levels + further)))

    def excess(further: float) -> float:
        found = inverse(further)
        return found * (mean + further) - 1 - reach * effect(1 / found - further)

    # No record had the lowest score. Some may have it all the same, and those take the rest of the weight.
    if levels[0] > 0 and excess(0.0) <= 0:
        return _root(lambda supposed: mean - supposed - reach * effect(supposed) * supposed, low=0.0, high=1 / inverse(0.0))
    further = _root(excess, **_bracket(excess))
    return max(0.0, 1 / inverse(further) - further)


def _bracket(excess: Callable[[float], float]) -> dict[str, float]:
    """Return two places with the zero of a falling function between them."""
    low = high = 1.0
    # The function falls towards 0, and its zero may be many times the scale away when scores hardly differ.
    while excess(high) > 0:
        low, high = high, 4 * high
    while excess(low) <= 0:
        low, high = low / 4, low
    return {"low": low, "high": high}


def _root(excess: Callable[[float], float], *, low: float, high: float) -> float:
    """Find the zero of a falling function by false position; the side that stays has its value halved (Illinois)."""
    at_low, at_high, place = excess(low), excess(high), low
    for _ in range(_MAX_STEPS):
        # Rounding has moved the zero beyond the upper end, where it can only be by less than the precision.
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


RESAMPLES = 10_000
MAX_LEVELS = 101
"""Distinct scores up to which a resample is drawn as counts of each; above, Student's t is used."""
# Simulated: a bootstrap of fewer records held the truth in 85 % instead of 95 % when most scores were perfect.
FEW = 100
"""Records below which the score interval is used: too few to be drawn from again and again."""
_SHARE = (1 + LEVEL) / 2
"""Of a scale."""


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """A number with its interval; an undefined one is None, and `reason` explains why."""

    value: float | None = None
    interval: Interval | None = None
    error: float | None = None
    """Standard error; cluster-robust where rows belong to clusters."""
    n: int
    """Records, units or comparisons that it rests on."""
    reason: str = ""
    """Reason why there is no value, or no interval."""

    @property
    def metric(self) -> MetricValue:
        """Estimate as summaries hold it."""
        reason = self.reason or msgspec.UNSET
        return MetricValue(value=self.value, interval=self.interval, standard_error=self.error, n=self.n, reason=reason)

    def to_json(self) -> dict[str, object]:
        """Return the estimate as artifacts hold it."""
        found: dict[str, object] = msgspec.to_builtins(self.metric)
        return found


def wilson(successes: int, n: int) -> Interval | None:
    """Return the interval of a rate; None without trials."""
    if n == 0:
        return None
    rate = successes / n
    squared = Z * Z
    middle = (rate + squared / (2 * n)) / (1 + squared / n)
    half = Z * sqrt(rate * (1 - rate) / n + squared / (4 * n * n)) / (1 + squared / n)
    # Exactly 0 and 1 at the ends, where rounding would leave 1e-17 that reports show as an interval.
    low = 0.0 if successes == 0 else max(0.0, middle - half)
    high = 1.0 if successes == n else min(1.0, middle + half)
    return Interval(low=low, high=high, method="wilson", n=n)


def mean_interval(values: Floats, *, seed: tuple[int, ...], resamples: int = RESAMPLES, ends: Ends = (0.0, 1.0)) -> Interval | None:
    """Return the interval of a mean score; None for fewer than two values. The same values and seed give the same interval.

    Scores at the ends of their scale alone are a rate, and get the interval of one. Fewer than 100 others get the score interval.
    Where more are drawn again, half a record at each end of the scale is added: equal ones do not show how bad or good others may
    be. Values outside of the ends, as penalties make them, move the ends.
    """
    n = len(values)
    if n < 2:
        return None
    levels, counts = np.unique(values, return_counts=True)
    # Passes and failures are a rate, however they are called: both must have the same interval.
    if set(levels.tolist()) <= set(ends):
        return _stretch_interval(wilson(int((values == ends[1]).sum()), n), ends)
    ends = min(ends[0], float(levels[0])), max(ends[1], float(levels[-1]))
    if n < FEW:
        low, high = score_bounds(values, ends)
        return Interval(low=low, high=high, method="score", n=n)
    if len(levels) > MAX_LEVELS:
        return _student(values, ends=ends)
    # Resampling records is drawing the counts of their score levels from a multinomial distribution.
    # Half a record at each end: resampling alone knows no scores but those that it has seen.
    weights = np.concatenate([counts, [0.5, 0.5]]) / (n + 1)
    # Seeded, because a report that changes from one reading to the next cannot be verified.
    drawn = np.random.default_rng(seed).multinomial(n + 1, weights, size=resamples)
    means = np.sort(drawn @ np.concatenate([levels, ends]) / (n + 1))
    low, high = percentile(means, 1 - _SHARE), percentile(means, _SHARE)
    return Interval(low=low, high=high, method="bootstrap", n=n, resamples=resamples)


def _stretch_interval(rate: Interval | None, ends: Ends) -> Interval | None:
    span = ends[1] - ends[0]
    return rate and msgspec.structs.replace(rate, low=ends[0] + span * rate.low, high=ends[0] + span * rate.high)


def _student(values: Floats, *, ends: tuple[float, float]) -> Interval:
    n = len(values)
    # The same half record at each end as for the bootstrap, so that both give nearly the same.
    middle = (float(values.sum()) + sum(ends) / 2) / (n + 1)
    squares = float(np.square(values - middle).sum()) + sum((end - middle) ** 2 for end in ends) / 2
    half = student_quantile(_SHARE, n - 1) * sqrt(squares) / (n + 1)
    return Interval(low=max(ends[0], middle - half), high=min(ends[1], middle + half), method="t", n=n)


def cluster_interval(values: Floats, clusters: Clusters, *, ends: Ends = (0.0, 1.0)) -> Interval | None:
    """Return the score interval of a mean of dependent records in clusters; None for fewer than two clusters.

    Values outside of the ends, as penalties make them, move the ends.
    """
    count = len(np.unique(clusters))
    if count < 2:
        return None
    lowest, highest = min(ends[0], float(values.min())), max(ends[1], float(values.max()))
    low, high = score_bounds(values, (lowest, highest), clusters=clusters)
    # Only the name of the method depends on it: for rates this score interval is Wilson's.
    is_rate = bool(np.isin(values, ends).all())
    return Interval(low=low, high=high, method="wilson_cluster" if is_rate else "score_cluster", n=count)


class ClusteredError(NamedTuple):
    """Standard error of a mean, and how many clusters show it."""

    value: float
    clusters: int


def clustered_error(values: Floats, clusters: Clusters) -> ClusteredError:
    """Return the error of a mean of values that depend on each other within clusters; 0 for a single cluster."""
    _, index = np.unique(clusters, return_inverse=True)
    count = int(index.max()) + 1
    # Deviations are summed within clusters first: what strays together counts as one.
    sums = np.bincount(index, weights=values - float(values.mean()))
    return ClusteredError(sqrt(float(np.square(sums).sum()) * count / max(1, count - 1)) / len(values), count)


def standard_error(values: Floats, clusters: Clusters | None = None) -> float | None:
    """Return the standard error of a mean, cluster-robust with clusters; None for fewer than two values or clusters."""
    if len(values) < 2:
        return None
    if clusters is None:
        return float(values.std(ddof=1)) / sqrt(len(values))
    found = clustered_error(values, clusters)
    return found.value if found.clusters > 1 else None


def rule_of_three(n: int) -> float:
    """Return the share of other values that n equal ones leave open, for an interval with two sides."""
    return float(1 - (1 - _SHARE) ** (1 / n))


ONE_CLUSTER = "one cluster has no spread to make an interval of"

Codes = NDArray[np.int64]
"""Cluster of each row, as a number."""


def clustered_rate(plain: Estimate, values: Floats, clusters: Codes) -> Estimate:
    """Return a rate with the score interval that counts clusters."""
    if plain.value is None:
        return plain
    return _with_interval(plain, cluster_interval(values, clusters), error=standard_error(values, clusters))


def clustered_mean(plain: Estimate, values: Floats, clusters: Codes, *, ends: Ends) -> Estimate:
    """Return a mean with the score interval that counts clusters; what has none by rows has none."""
    if plain.interval is None:
        return plain
    return _with_interval(plain, cluster_interval(values, clusters, ends=ends), error=standard_error(values, clusters))


def _with_interval(plain: Estimate, interval: Interval | None, *, error: float | None = None) -> Estimate:
    return msgspec.structs.replace(plain, interval=interval, error=error, reason="" if interval else ONE_CLUSTER)


def clustered(plain: Estimate, clusters: Codes, *, influence: Floats, bounds: Ends) -> Estimate:
    """Return any estimate with an interval as wide as the clusters require, within the bounds.

    `influence` is how much each row moves the estimate, up to a factor that all rows share.
    """
    count, n = len(np.unique(clusters)), len(clusters)
    if plain.value is None or plain.interval is None or count == n:
        return plain
    if count < 2:
        return _with_interval(plain, None)
    # Few clusters know their spread badly, which t with their number of degrees of freedom allows for.
    freedom = student_quantile((1 + LEVEL) / 2, count - 1) / student_quantile((1 + LEVEL) / 2, n - 1)
    widening = sqrt(design_effect(clusters, influence))
    factor = freedom * widening
    low = max(bounds[0], plain.value - (plain.value - plain.interval.low) * factor)
    high = min(bounds[1], plain.value + (plain.interval.high - plain.value) * factor)
    interval = Interval(low=low, high=high, method=f"{plain.interval.method}_cluster", n=count)
    return msgspec.structs.replace(plain, interval=interval, error=None if plain.error is None else plain.error * widening)


def design_effect(clusters: Codes, influence: Floats) -> float:
    """Return how many times the variance is what independent rows would have; at least 1.

    Where no row has any influence they cannot tell, so that each cluster counts as one row.
    """
    _, index = np.unique(clusters, return_inverse=True)
    count = int(index.max()) + 1
    together, alone = np.bincount(index, weights=influence), float(influence @ influence)
    if alone <= 0:
        return len(index) / count
    # At least 1: negative dependence may be chance, and a narrower interval would rest on it.
    return max(1.0, float(together @ together) / alone * count / (count - 1))
