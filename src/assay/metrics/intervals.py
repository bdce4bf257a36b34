"""95 % intervals: Wilson for rates, seeded bootstrap or Student's t for means, cluster-robust where records hang together."""

from math import sqrt
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

LEVEL = 0.95
RESAMPLES = 10_000
MAX_LEVELS = 101
"""Distinct scores up to which a resample is drawn as counts of each; above, Student's t is used."""
_Z = 1.959963984540054
_T_SMALL = (12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004, 2.262157, 2.228139)
"""Two-sided 95 % quantiles of Student's t for 1 to 10 degrees of freedom, where the expansion below is too coarse."""

Floats = NDArray[np.float64]


class Interval(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where the true value plausibly lies."""

    low: float
    high: float
    method: str
    n: int
    """Records, or clusters, that it rests on."""
    level: float = LEVEL
    resamples: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The interval as artifacts hold it."""
        found = {"low": self.low, "high": self.high, "level": self.level, "method": self.method, "n": self.n}
        return found if self.resamples is None else {**found, "resamples": self.resamples}


def wilson(successes: int, n: int) -> Interval | None:
    """The interval of a rate; None without trials."""
    if n == 0:
        return None
    rate = successes / n
    squared = _Z * _Z
    middle = (rate + squared / (2 * n)) / (1 + squared / n)
    half = _Z * sqrt(rate * (1 - rate) / n + squared / (4 * n * n)) / (1 + squared / n)
    low = 0.0 if successes == 0 else max(0.0, middle - half)
    high = 1.0 if successes == n else min(1.0, middle + half)
    return Interval(low=low, high=high, method="wilson", n=n)


def mean_interval(values: Floats, *, seed: tuple[int, ...], resamples: int = RESAMPLES) -> Interval | None:
    """The interval of a mean; None for fewer than two values. The same values and seed give the same interval."""
    if len(values) < 2:
        return None
    levels, counts = np.unique(values, return_counts=True)
    if len(levels) > MAX_LEVELS:
        return _student(values)
    return _bootstrap(levels, counts, seed=seed, resamples=resamples)


def _bootstrap(levels: Floats, counts: NDArray[np.int64], *, seed: tuple[int, ...], resamples: int) -> Interval:
    """Resampling n records is drawing the counts of their score levels from a multinomial distribution."""
    n = int(counts.sum())
    if len(levels) == 1:
        only = float(levels[0])
        return Interval(low=only, high=only, method="bootstrap", n=n, resamples=resamples)
    drawn = np.random.default_rng(seed).multinomial(n, counts / n, size=resamples)
    means = np.sort(drawn @ levels / n)
    return Interval(
        low=percentile(means, (1 - LEVEL) / 2),
        high=percentile(means, (1 + LEVEL) / 2),
        method="bootstrap",
        n=n,
        resamples=resamples,
    )


def _student(values: Floats) -> Interval:
    n = len(values)
    half = student_quantile(n - 1) * float(values.std(ddof=1)) / sqrt(n)
    middle = float(values.mean())
    return Interval(low=middle - half, high=middle + half, method="t", n=n)


def cluster_interval(values: Floats, clusters: NDArray[np.int32]) -> Interval | None:
    """The interval of a mean when records of one cluster hang together; None for fewer than two clusters."""
    _, index = np.unique(clusters, return_inverse=True)
    count = int(index.max()) + 1 if len(index) else 0
    if count < 2:
        return None
    middle = float(values.mean())
    sums = np.bincount(index, weights=values - middle)
    error = sqrt(float(np.square(sums).sum()) * count / (count - 1)) / len(values)
    half = student_quantile(count - 1) * error
    return Interval(low=middle - half, high=middle + half, method="cluster_t", n=count)


def student_quantile(freedom: int) -> float:
    """Two-sided 95 % quantile of Student's t, by table and then by Fisher and Cornish's expansion."""
    if freedom <= len(_T_SMALL):
        return _T_SMALL[freedom - 1]
    z = _Z
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / float(freedom) ** power for power, term in enumerate(terms, 1))


def percentile(ordered: Floats, share: float) -> float:
    """The value below which a share of sorted values lies, interpolated linearly."""
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    low, high = float(ordered[below]), float(ordered[above])
    return low + (high - low) * (place - below)
