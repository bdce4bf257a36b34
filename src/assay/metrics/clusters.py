"""Intervals of estimates whose rows hang together, as answers to one record do: wider by what the clusters show."""

from collections.abc import Callable
from math import sqrt

import msgspec
import numpy as np
from numpy.typing import NDArray

from assay.metrics.distributions import student_quantile
from assay.metrics.intervals import LEVEL, Ends, Estimate, Floats, Interval, cluster_interval

PARTS = 200
"""Parts of the rows that are left out in turn; more would take longer and say the same."""
ONE_CLUSTER = "one cluster has no spread to make an interval of"

Codes = NDArray[np.int64]
"""The cluster of each row, as a number."""
Rows = NDArray[np.bool_]
Statistic = Callable[[Rows], float | None]
"""A figure of the rows that are kept; None where they have none."""


def clustered_rate(plain: Estimate, values: Floats, clusters: Codes) -> Estimate:
    """A rate with the score interval that counts clusters."""
    return _with_interval(plain, cluster_interval(values, clusters)) if plain.value is not None else plain


def clustered_mean(plain: Estimate, values: Floats, clusters: Codes, *, ends: Ends) -> Estimate:
    """A mean with the score interval that counts clusters; what has none by rows has none."""
    return plain if plain.interval is None else _with_interval(plain, cluster_interval(values, clusters, ends=ends))


def _with_interval(plain: Estimate, interval: Interval | None) -> Estimate:
    return msgspec.structs.replace(plain, interval=interval, reason="" if interval else ONE_CLUSTER)


def clustered(plain: Estimate, clusters: Codes, *, statistic: Statistic, bounds: tuple[float, float]) -> Estimate:
    """Any estimate with its interval as wide as the clusters ask for, within the bounds.

    How much wider is the ratio of two jackknives, of clusters and of rows. Where nothing varies they cannot tell, so that each
    cluster counts as one row.
    """
    count, n = len(np.unique(clusters)), len(clusters)
    if plain.value is None or plain.interval is None or count == n:
        return plain
    if count < 2:
        return _with_interval(plain, None)
    freedom = student_quantile((1 + LEVEL) / 2, count - 1) / student_quantile((1 + LEVEL) / 2, n - 1)
    factor = freedom * sqrt(design_effect(clusters, statistic))
    low = max(bounds[0], plain.value - (plain.value - plain.interval.low) * factor)
    high = min(bounds[1], plain.value + (plain.interval.high - plain.value) * factor)
    interval = Interval(low=low, high=high, method=f"{plain.interval.method}_cluster", n=count)
    return msgspec.structs.replace(plain, interval=interval)


def design_effect(clusters: Codes, statistic: Statistic) -> float:
    """How many times the variance is what independent rows would have; at least 1."""
    _, index = np.unique(clusters, return_inverse=True)
    together = _jackknife(index.astype(np.int64), statistic)
    alone = _jackknife(np.arange(len(index)), statistic)
    if not together or not alone:
        return len(index) / (int(index.max()) + 1)
    return max(1.0, together / alone)


def _jackknife(units: Codes, statistic: Statistic) -> float | None:
    """The variance of a figure by leaving out its units in turn; None where some of them cannot be left out."""
    count = int(units.max()) + 1
    parts = np.random.default_rng(0).permutation(count) % PARTS
    of_row = parts[units]
    values = [statistic(of_row != part) for part in range(min(count, PARTS))]
    known = np.array([value for value in values if value is not None])
    return float(known.var()) * (len(known) - 1) if len(known) == len(values) else None
