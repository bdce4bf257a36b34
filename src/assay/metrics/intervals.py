"""95 % intervals: Wilson for rates, score, seeded bootstrap or Student's t for means, score where records hang together."""

from math import sqrt
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from assay.core.canonical import JsonObject
from assay.core.summary import LEVEL, Interval, Metric, percentile
from assay.metrics.distributions import student_quantile
from assay.metrics.score import Z, score_bounds

RESAMPLES = 10_000
MAX_LEVELS = 101
"""Distinct scores up to which a resample is drawn as counts of each; above, Student's t is used."""
FEW = 100
"""Records below which the score interval is used: too few to be drawn from again and again."""
_SHARE = (1 + LEVEL) / 2

Floats = NDArray[np.float64]
Ends = tuple[float, float]
"""Of a scale."""
Clusters = NDArray[np.int32] | NDArray[np.int64]


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """A number with its interval; what is undefined is None, and `reason` says why."""

    value: float | None = None
    interval: Interval | None = None
    error: float | None = None
    """Standard error; cluster-robust where rows belong to clusters."""
    n: int
    """Records, units or comparisons that it rests on."""
    reason: str = ""
    """Why there is no value, or no interval."""

    @property
    def metric(self) -> Metric:
        """The estimate as summaries hold it."""
        reason = self.reason or msgspec.UNSET
        return Metric(value=self.value, interval=self.interval, standard_error=self.error, n=self.n, reason=reason)

    def to_json(self) -> JsonObject:
        """The estimate as artifacts hold it."""
        found: JsonObject = msgspec.to_builtins(self.metric)
        return found


def wilson(successes: int, n: int) -> Interval | None:
    """The interval of a rate; None without trials."""
    if n == 0:
        return None
    rate = successes / n
    squared = Z * Z
    middle = (rate + squared / (2 * n)) / (1 + squared / n)
    half = Z * sqrt(rate * (1 - rate) / n + squared / (4 * n * n)) / (1 + squared / n)
    low = 0.0 if successes == 0 else max(0.0, middle - half)
    high = 1.0 if successes == n else min(1.0, middle + half)
    return Interval(low=low, high=high, method="wilson", n=n)


def mean_interval(values: Floats, *, seed: tuple[int, ...], resamples: int = RESAMPLES, ends: Ends = (0.0, 1.0)) -> Interval | None:
    """The interval of a mean score; None for fewer than two values. The same values and seed give the same interval.

    Scores at the ends of their scale alone are a rate, and get the interval of one. Fewer than 100 others get the score interval.
    Where more are drawn again, half a record at each end of the scale is added: equal ones do not show how bad or good others may
    be. Values outside of the ends, as penalties make them, move the ends.
    """
    n = len(values)
    if n < 2:
        return None
    levels, counts = np.unique(values, return_counts=True)
    if set(levels.tolist()) <= set(ends):
        return _stretched(wilson(int((values == ends[1]).sum()), n), ends)
    ends = min(ends[0], float(levels[0])), max(ends[1], float(levels[-1]))
    if n < FEW:
        low, high = score_bounds(values, ends)
        return Interval(low=low, high=high, method="score", n=n)
    if len(levels) > MAX_LEVELS:
        return _student(values, ends=ends)
    # Resampling records is drawing the counts of their score levels from a multinomial distribution.
    weights = np.concatenate([counts, [0.5, 0.5]]) / (n + 1)
    drawn = np.random.default_rng(seed).multinomial(n + 1, weights, size=resamples)
    means = np.sort(drawn @ np.concatenate([levels, ends]) / (n + 1))
    low, high = percentile(means, 1 - _SHARE), percentile(means, _SHARE)
    return Interval(low=low, high=high, method="bootstrap", n=n, resamples=resamples)


def _stretched(rate: Interval | None, ends: Ends) -> Interval | None:
    span = ends[1] - ends[0]
    return rate and msgspec.structs.replace(rate, low=ends[0] + span * rate.low, high=ends[0] + span * rate.high)


def _student(values: Floats, *, ends: tuple[float, float]) -> Interval:
    n = len(values)
    middle = (float(values.sum()) + sum(ends) / 2) / (n + 1)
    squares = float(np.square(values - middle).sum()) + sum((end - middle) ** 2 for end in ends) / 2
    half = student_quantile(_SHARE, n - 1) * sqrt(squares) / (n + 1)
    return Interval(low=max(ends[0], middle - half), high=min(ends[1], middle + half), method="t", n=n)


def cluster_interval(values: Floats, clusters: Clusters, *, ends: Ends = (0.0, 1.0)) -> Interval | None:
    """The score interval of a mean when records of one cluster hang together; None for fewer than two clusters.

    Values outside of the ends, as penalties make them, move the ends.
    """
    count = len(np.unique(clusters))
    if count < 2:
        return None
    lowest, highest = min(ends[0], float(values.min())), max(ends[1], float(values.max()))
    low, high = score_bounds(values, (lowest, highest), clusters=clusters)
    is_rate = bool(np.isin(values, ends).all())
    return Interval(low=low, high=high, method="wilson_cluster" if is_rate else "score_cluster", n=count)


class ClusteredError(NamedTuple):
    """Standard error of a mean, and how many clusters show it."""

    value: float
    clusters: int


def clustered_error(values: Floats, clusters: Clusters) -> ClusteredError:
    """The error of a mean of values whose clusters hang together; 0 for a single cluster, which shows none."""
    _, index = np.unique(clusters, return_inverse=True)
    count = int(index.max()) + 1
    sums = np.bincount(index, weights=values - float(values.mean()))
    return ClusteredError(sqrt(float(np.square(sums).sum()) * count / max(1, count - 1)) / len(values), count)


def standard_error(values: Floats, clusters: Clusters | None = None) -> float | None:
    """The standard error of a mean, cluster-robust with clusters; None for fewer than two values or clusters."""
    if len(values) < 2:
        return None
    if clusters is None:
        return float(values.std(ddof=1)) / sqrt(len(values))
    found = clustered_error(values, clusters)
    return found.value if found.clusters > 1 else None


def rule_of_three(n: int) -> float:
    """The share of other values that n equal ones leave open, for an interval with two sides."""
    return float(1 - (1 - _SHARE) ** (1 / n))
