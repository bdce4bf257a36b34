"""Two runs over the same records: the difference with its interval, McNemar's test, Holm, and what is decided."""

from collections.abc import Callable, Sequence
from math import ceil, lgamma, sqrt
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from assay.core.summary import LEVEL, Interval
from assay.metrics.distributions import normal_cdf, sign_test, student_quantile, student_two_sided
from assay.metrics.intervals import Clusters, ClusterSums, Estimate, Floats, Z, clustered_error, rule_of_three, score_bounds

_SHARE = (1 + LEVEL) / 2
# Equal differences such as 0.3 - 0.1 and 0.4 - 0.2 are not equal in binary.
_ROUNDING = 1e-12
"""Spread, as a share of the scale, that equal differences have because decimals are rounded."""

ChangeDecision = Literal["improved", "not_worse", "worse", "undecided"]
PassArray = NDArray[np.bool_]


class FlipCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Verdicts that differ between two runs, among as many independent records as those compared are worth."""

    better: float
    worse: float
    n: float
    """Records themselves, or fewer where they depend on each other in clusters."""
    units: int
    """Records, or clusters, that were compared."""

    @property
    def shares(self) -> tuple[float, float]:
        """Gains and losses with one further record in each, so that no flips are not taken for certainty."""
        # Used for planning only: the interval itself needs no such correction.
        return (self.better + 1) / (self.n + 2), (self.worse + 1) / (self.n + 2)


def flips_of(before: PassArray, after: PassArray, *, clusters: Clusters | None = None) -> FlipCounts:
    """Return the flips of records that both runs judged, in the same order.

    Clusters are worth as many independent records as would err as much as they do if neither run is better: all records where their
    flips have nothing to do with each other, one for each cluster where it flips as a whole, or where nothing flips.
    """
    n = len(before)
    better, worse = int((after & ~before).sum()), int((before & ~after).sum())
    if clusters is None or n == 0:
        return FlipCounts(better=better, worse=worse, n=n, units=n)
    found, index = np.unique(clusters, return_inverse=True)
    # Around 0, which is the difference if neither run is better: the test asks how far chance reaches then.
    inflation = ClusterSums.of(after.astype(np.float64) - before, index).effect(0.0)
    return FlipCounts(better=better / inflation, worse=worse / inflation, n=n / inflation, units=len(found))


def paired_difference(before: Floats, after: Floats, *, clusters: Clusters | None = None, span: float = 1.0) -> Estimate:
    """Return the mean of after - before over records that both runs scored, in the same order.

    Passes and failures (0 and 1) get Tango's score interval, other scores Student's t, by clusters where there are some.
    `span` is the largest difference that the scale allows: it bounds the interval, and what equal differences leave open.
    """
    n = len(before)
    if n == 0:
        return Estimate(n=0, reason="no record was graded in both runs")
    value = float((after - before).mean())
    if clusters is not None and len(np.unique(clusters)) == 1:
        return Estimate(value=value, n=n, reason="one cluster has no spread")
    if _are_verdicts(before, after):
        return Estimate(value=value, interval=_tango(after - before, clusters=clusters), n=n)
    if n == 1:
        return Estimate(value=value, n=1, reason="one record has no spread to make an interval of")
    return Estimate(value=value, interval=_mean_interval(after - before, clusters=clusters, span=span), n=n)


def _are_verdicts(before: Floats, after: Floats) -> bool:
    return bool(np.isin(before, (0.0, 1.0)).all() and np.isin(after, (0.0, 1.0)).all())


def _tango(differences: Floats, *, clusters: Clusters | None) -> Interval:
    """Return Tango's interval (1998) of differences that are -1, 0 or 1; it excludes 0 where McNemar's test finds a difference."""
    low, high = score_bounds(differences, (-1.0, 1.0), clusters=clusters)
    if clusters is None:
        return Interval(low=low, high=high, method="tango", n=len(differences))
    return Interval(low=low, high=high, method="tango_cluster", n=len(np.unique(clusters)))


def _mean_interval(differences: Floats, *, clusters: Clusters | None, span: float) -> Interval:
    error, units = clustered_error(differences, np.arange(len(differences)) if clusters is None else clusters)
    middle = float(differences.mean())
    if error <= _ROUNDING * span:
        half, method = span * rule_of_three(units), "rule_of_three"
    else:
        half, method = student_quantile(_SHARE, units - 1) * error, "paired_t" if clusters is None else "cluster_t"
    return Interval(low=max(-span, middle - half), high=min(span, middle + half), method=method, n=units)


def difference_p_value(before: Floats, after: Floats, *, clusters: Clusters | None = None, span: float = 1.0) -> float | None:
    """Return the probability of so large a mean difference if there is none; None where there is no interval either.

    It is below 0.05 where the interval leaves out 0: of passes and failures McNemar's (1947), by clusters Obuchowski's (1998).
    """
    if paired_difference(before, after, clusters=clusters, span=span).interval is None:
        return None
    if _are_verdicts(before, after):
        flips = flips_of(before == 1, after == 1, clusters=clusters)
        every = flips.better + flips.worse
        # McNemar's own test and not the exact one, so that p is below 0.05 exactly where the interval leaves out 0.
        return 2 * normal_cdf(-abs(flips.better - flips.worse) / sqrt(every)) if every else 1.0
    differences = after - before
    error, units = clustered_error(differences, np.arange(len(differences)) if clusters is None else clusters)
    middle = float(differences.mean())
    if error <= _ROUNDING * span:
        return float(min(1.0, 2 * max(0.0, 1 - abs(middle) / span) ** units))
    return student_two_sided(middle / error, units - 1)


class McNemar(msgspec.Struct, frozen=True, kw_only=True):
    """Flips between two runs, and how likely so uneven a split of them is if neither run is better."""

    better: int
    """Failed before, passed after."""
    worse: int
    """Passed before, failed after."""
    n: int
    """Records with a verdict in both runs."""
    p_value: float
    """Exact and two-sided; 1 without any flip. More cautious than the test that decides, because few flips split in few ways."""
    mid_p: float
    """Less cautious variant, which holds its 5 % better with few flips."""


def mcnemar(before: PassArray, after: PassArray) -> McNemar:
    """Return the exact test of passes and failures of the same records, in the same order."""
    better, worse = int((after & ~before).sum()), int((before & ~after).sum())
    flips = better + worse
    return McNemar(
        better=better, worse=worse, n=len(before), p_value=sign_test(worse, flips), mid_p=sign_test(worse, flips, mid_p=True)
    )


def holm(p_values: Sequence[float | None]) -> tuple[float | None, ...]:
    """Raise probabilities so that any false alarm among them all stays as rare as one test allows; None stays None."""
    known = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for rank, (p, place) in enumerate(known):
        # Never below an earlier one: a larger p must not become the more significant of the two.
        highest = max(highest, min(1.0, p * (len(known) - rank)))
        adjusted[place] = highest
    return tuple(adjusted)


def decide(interval: Interval | None, *, margin: float = 0.0) -> ChangeDecision:
    """Name what an interval of a difference (after - before) supports, when a loss of up to `margin` is acceptable.

    Superiority asks for "improved"; non-inferiority is content with "not_worse" too.
    """
    # Without an interval there is no decision: a gate must not pass for lack of data.
    if interval is None:
        return "undecided"
    if interval.low > 0:
        return "improved"
    if interval.high < -margin:
        return "worse"
    return "not_worse" if margin > 0 and interval.low > -margin else "undecided"


POWER = 0.8
"""Chance of showing a difference that minimum detectable effects and required numbers are stated for."""
_MANY_FLIPS = 300
"""Expected flips above which a normal distribution replaces exact counting; by then both agree within half a point."""
_REACH = 7
"""Standard deviations around the expected number of flips that are counted out."""
_LEAST = 1e-12


def chance_to_show(gain: float, loss: float, *, n: int) -> float:
    """Return the chance that the interval of a difference of pass rates leaves out 0, on the right side.

    `gain` is the larger share of records that flip, `loss` the share that flips the other way; n are independent records. The
    interval is above 0 when the surplus of gains is above what the number of flips asks for.
    """
    share = min(1 - _LEAST, gain + loss)
    expected, spread = n * share, sqrt(n * share * (1 - share))
    if expected > _MANY_FLIPS:
        surplus = n * (gain - loss)
        return normal_cdf((surplus - Z * sqrt(expected)) / sqrt(max(_LEAST, n * (share - (gain - loss) ** 2))))
    # Sum over the number of flips and the gains among them; in logarithms, because the factorials exceed a float.
    flips = np.arange(max(0, int(expected - _REACH * spread)), min(n, ceil(expected + _REACH * spread)) + 1)
    ways = np.array([lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) for k in flips.tolist()])
    chances = np.exp(ways + flips * np.log(share) + (n - flips) * np.log1p(-share))
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, flips[-1] + 1)))])
    better, every = np.arange(flips[-1] + 1)[None, :], flips[:, None]
    worse = np.maximum(0, every - better)
    among = logs[every] - logs[better] - logs[worse]
    among += better * np.log(max(_LEAST, gain) / share) + worse * np.log(max(_LEAST, loss) / share)
    is_shown = (better <= every) & (2 * better - every > Z * np.sqrt(every))
    return float(chances @ np.where(is_shown, np.exp(among), 0.0).sum(axis=1))


def detectable_effect(flips: FlipCounts, *, power: float = POWER) -> float | None:
    """Return the smallest true difference of pass rates that such a comparison shows with this power; None where it shows none.

    As many records are taken to flip as did, and one more each way; a difference larger than that takes all flips one way.
    """
    n, share = round(flips.n), sum(flips.shares)

    def suffices(effect: float) -> bool:
        every = max(share, effect)
        return chance_to_show((every + effect) / 2, (every - effect) / 2, n=n) >= power

    if n == 0 or not suffices(1.0):
        return None
    low, high = 0.0, 1.0
    # 24 halvings leave less than a ten-millionth, far below what is shown.
    for _ in range(24):
        middle = (low + high) / 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high


def required_records(flips: FlipCounts, *, power: float = POWER) -> int | None:
    """Return the number of records, or clusters, that would show the difference seen here with this power; None for none."""
    effect, share = abs(flips.better - flips.worse) / flips.n if flips.n else 0.0, sum(flips.shares)
    if effect == 0:
        return None
    worth = flips.units / flips.n
    gain, loss = (share + effect) / 2, (share - effect) / 2
    return ceil(worth * _fewest(lambda n: chance_to_show(gain, loss, n=n) >= power))


def _fewest(suffices: Callable[[int], bool]) -> int:
    low, high = 1, 2
    # Doubling first: power grows with the number of records, apart from the jumps that whole counts make.
    while not suffices(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high
