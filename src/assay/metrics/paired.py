"""Two runs over the same records: the difference with its interval, McNemar's test, Holm, power, and what is decided."""

from collections.abc import Sequence
from math import ceil, sqrt
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from assay.metrics.distributions import normal_quantile, sign_test, student_quantile, student_two_sided, t_test_power
from assay.metrics.intervals import LEVEL, Estimate, Floats, Interval, cluster_interval

POWER = 0.8
"""Chance of noticing a difference that minimum detectable effects and required numbers are stated for."""
_SHARE = (1 + LEVEL) / 2
_Z = normal_quantile(_SHARE)

Decision = Literal["improved", "not_worse", "worse", "undecided"]
Clusters = NDArray[np.int32]


def paired_difference(before: Floats, after: Floats, *, clusters: Clusters | None = None, span: float = 1.0) -> Estimate:
    """The mean of after - before over records that both runs scored, in the same order.

    Passes and failures (0 and 1) get Bonett and Price's interval, other scores Student's t, clusters a cluster-robust t.
    `span` is the largest difference that the scale allows: it bounds what equal differences leave open.
    """
    n = len(before)
    if n == 0:
        return Estimate(n=0, reason="no record was scored in both runs")
    differences = after - before
    value = float(differences.mean())
    if clusters is not None:
        interval = cluster_interval(differences, clusters)
        return Estimate(value=value, interval=interval, n=n, reason="" if interval else "one cluster has no spread")
    if np.isin(before, (0.0, 1.0)).all() and np.isin(after, (0.0, 1.0)).all():
        return Estimate(value=value, interval=_binary(int((differences > 0).sum()), int((differences < 0).sum()), n=n), n=n)
    if n == 1:
        return Estimate(value=value, n=1, reason="one record has no spread to make an interval of")
    return Estimate(value=value, interval=_mean_interval(differences, span=span), n=n)


def _binary(better: int, worse: int, *, n: int) -> Interval:
    """Bonett and Price (2012): one pseudo-record in each discordant cell, so that no flips are not taken for certainty."""
    gain, loss = (better + 1) / (n + 2), (worse + 1) / (n + 2)
    half = _Z * sqrt((gain + loss - (gain - loss) ** 2) / (n + 2))
    return Interval(low=max(-1.0, gain - loss - half), high=min(1.0, gain - loss + half), method="bonett_price", n=n)


def _mean_interval(differences: Floats, *, span: float) -> Interval:
    n, middle = len(differences), float(differences.mean())
    spread = float(differences.std(ddof=1))
    if spread == 0:
        # Equal values bound how common others are (the rule of three), and these may be anything that the scale allows.
        half = span * (1 - (1 - _SHARE) ** (1 / n))
        return Interval(low=max(-span, middle - half), high=min(span, middle + half), method="rule_of_three", n=n)
    half = student_quantile(_SHARE, n - 1) * spread / sqrt(n)
    return Interval(low=max(-span, middle - half), high=min(span, middle + half), method="paired_t", n=n)


def difference_p_value(differences: Floats, *, clusters: Clusters | None = None) -> float | None:
    """How likely so large a mean difference is if there is none, by the same t as its interval; None where that has no spread."""
    n = len(differences)
    if n and not differences.any():
        return 1.0
    freedom, error = (n - 1, float(differences.std(ddof=1)) / sqrt(n)) if n > 1 else (0, 0.0)
    if clusters is not None:
        interval = cluster_interval(differences, clusters)
        freedom = interval.n - 1 if interval else 0
        error = (interval.high - interval.low) / 2 / student_quantile(_SHARE, freedom) if interval else 0.0
    return student_two_sided(float(differences.mean()) / error, freedom) if error > 0 else None


def spread_of_passes(better: int, worse: int, *, n: int) -> float:
    """Standard deviation of the differences of passes, with a pseudo-record in each discordant cell as in their interval."""
    gain, loss = (better + 1) / (n + 2), (worse + 1) / (n + 2)
    return sqrt(gain + loss - (gain - loss) ** 2)


def unpaired_difference(before: Floats, after: Floats) -> Estimate:
    """The difference of the means of two runs over different records, with Welch's interval."""
    n, count = len(before), len(after)
    if n < 2 or count < 2:
        return Estimate(n=min(n, count), reason="each run needs two scored records")
    value = float(after.mean() - before.mean())
    first, second = float(before.var(ddof=1)) / n, float(after.var(ddof=1)) / count
    if first + second == 0:
        return Estimate(value=value, n=min(n, count), reason="all scores of each run are equal: no spread to judge by")
    freedom = (first + second) ** 2 / (first**2 / (n - 1) + second**2 / (count - 1))
    half = student_quantile(_SHARE, freedom) * sqrt(first + second)
    return Estimate(value=value, interval=Interval(low=value - half, high=value + half, method="welch_t", n=n + count), n=n + count)


class McNemar(msgspec.Struct, frozen=True, kw_only=True):
    """Flips between two runs, and how likely so uneven a split of them is if neither run is better."""

    better: int
    """Failed before, passed after."""
    worse: int
    """Passed before, failed after."""
    n: int
    """Records with a verdict in both runs."""
    p_value: float
    """Exact and two-sided; 1 without any flip."""
    mid_p: float
    """The less cautious variant, which holds its 5 % better with few flips."""


def mcnemar(before: NDArray[np.bool_], after: NDArray[np.bool_]) -> McNemar:
    """The exact test of passes and failures of the same records, in the same order."""
    better, worse = int((after & ~before).sum()), int((before & ~after).sum())
    flips = better + worse
    return McNemar(
        better=better, worse=worse, n=len(before), p_value=sign_test(worse, flips), mid_p=sign_test(worse, flips, mid_p=True)
    )


def holm(p_values: Sequence[float | None]) -> tuple[float | None, ...]:
    """Probabilities raised so that any false alarm among them all stays as rare as one test allows; None stays None."""
    known = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for rank, (p, place) in enumerate(known):
        highest = max(highest, min(1.0, p * (len(known) - rank)))
        adjusted[place] = highest
    return tuple(adjusted)


def detectable_effect(spread: float, n: int, *, power: float = POWER) -> float | None:
    """The smallest true mean difference that a paired t test of n records would notice with this power; None below two records.

    `spread` is the standard deviation of the differences; with clusters, pass the spread of cluster means and their number.
    """
    if n < 2:
        return None
    low, high = 0.0, 1.0
    while t_test_power(high, n) < power:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if t_test_power(middle, n) >= power else (middle, high)
    return spread * high


def required_records(effect: float, spread: float, *, power: float = POWER) -> int | None:
    """Records that a paired t test needs to notice a true mean difference with this power; None for no difference or no spread."""
    if effect == 0 or spread == 0:
        return None
    size = abs(effect) / spread
    # What would be enough if the spread were known is never too many.
    n = max(2, ceil(((_Z + normal_quantile(power)) / size) ** 2))
    while t_test_power(size, n) < power:
        n += 1
    return n


def decide(interval: Interval | None, *, margin: float = 0.0) -> Decision:
    """What an interval of a difference (after - before) supports, when a loss of up to `margin` is acceptable.

    Superiority asks for "improved"; non-inferiority is content with "not_worse" too.
    """
    if interval is None:
        return "undecided"
    if interval.low > 0:
        return "improved"
    if interval.high < -margin:
        return "worse"
    return "not_worse" if margin > 0 and interval.low > -margin else "undecided"
