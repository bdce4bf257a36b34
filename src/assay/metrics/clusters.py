"""Intervals of estimates whose rows hang together, as answers to one record do: wider by what the clusters show."""

from math import sqrt

import msgspec
import numpy as np
from numpy.typing import NDArray

from assay.core.summary import LEVEL, Interval
from assay.metrics.distributions import student_quantile
from assay.metrics.intervals import Ends, Estimate, Floats, cluster_interval, standard_error

ONE_CLUSTER = "one cluster has no spread to make an interval of"

Codes = NDArray[np.int64]
"""The cluster of each row, as a number."""


def clustered_rate(plain: Estimate, values: Floats, clusters: Codes) -> Estimate:
    """A rate with the score interval that counts clusters."""
    if plain.value is None:
        return plain
    return _with_interval(plain, cluster_interval(values, clusters), error=standard_error(values, clusters))


def clustered_mean(plain: Estimate, values: Floats, clusters: Codes, *, ends: Ends) -> Estimate:
    """A mean with the score interval that counts clusters; what has none by rows has none."""
    if plain.interval is None:
        return plain
    return _with_interval(plain, cluster_interval(values, clusters, ends=ends), error=standard_error(values, clusters))


def _with_interval(plain: Estimate, interval: Interval | None, *, error: float | None = None) -> Estimate:
    return msgspec.structs.replace(plain, interval=interval, error=error, reason="" if interval else ONE_CLUSTER)


def clustered(plain: Estimate, clusters: Codes, *, influence: Floats, bounds: Ends) -> Estimate:
    """Any estimate with its interval as wide as the clusters ask for, within the bounds.

    `influence` is how much each row moves the estimate, up to a factor that all rows share.
    """
    count, n = len(np.unique(clusters)), len(clusters)
    if plain.value is None or plain.interval is None or count == n:
        return plain
    if count < 2:
        return _with_interval(plain, None)
    freedom = student_quantile((1 + LEVEL) / 2, count - 1) / student_quantile((1 + LEVEL) / 2, n - 1)
    widening = sqrt(design_effect(clusters, influence))
    factor = freedom * widening
    low = max(bounds[0], plain.value - (plain.value - plain.interval.low) * factor)
    high = min(bounds[1], plain.value + (plain.interval.high - plain.value) * factor)
    interval = Interval(low=low, high=high, method=f"{plain.interval.method}_cluster", n=count)
    return msgspec.structs.replace(plain, interval=interval, error=None if plain.error is None else plain.error * widening)


def design_effect(clusters: Codes, influence: Floats) -> float:
    """How many times the variance is what independent rows would have; at least 1.

    Where no row has any influence they cannot tell, so that each cluster counts as one row.
    """
    _, index = np.unique(clusters, return_inverse=True)
    count = int(index.max()) + 1
    together, alone = np.bincount(index, weights=influence), float(influence @ influence)
    if alone <= 0:
        return len(index) / count
    return max(1.0, float(together @ together) / alone * count / (count - 1))
