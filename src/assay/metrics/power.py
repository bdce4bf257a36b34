"""What a comparison could have shown: the smallest difference of pass rates, and the records that the one seen would take."""

from collections.abc import Callable
from math import ceil, lgamma, sqrt

import numpy as np

from assay.metrics.distributions import normal_cdf
from assay.metrics.paired import FlipCounts
from assay.metrics.score import Z

POWER = 0.8
"""Chance of showing a difference that minimum detectable effects and required numbers are stated for."""
_MANY_FLIPS = 300
"""Expected flips above which a normal distribution stands for counting them out; by then both agree within half a point."""
_REACH = 7
"""Standard deviations around the expected number of flips that are counted out."""
_LEAST = 1e-12


def chance_to_show(gain: float, loss: float, *, n: int) -> float:
    """The chance that the interval of a difference of pass rates leaves out 0, on the right side.

    `gain` is the larger share of records that flip, `loss` the share that flips the other way; n are independent records. The
    interval is above 0 when the surplus of gains is above what the number of flips asks for.
    """
    share = min(1 - _LEAST, gain + loss)
    expected, spread = n * share, sqrt(n * share * (1 - share))
    if expected > _MANY_FLIPS:
        surplus = n * (gain - loss)
        return normal_cdf((surplus - Z * sqrt(expected)) / sqrt(max(_LEAST, n * (share - (gain - loss) ** 2))))
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
    """The smallest true difference of pass rates that such a comparison shows with this power; None where it shows none.

    As many records are taken to flip as did, and one more each way; a difference larger than that takes all flips one way.
    """
    n, share = round(flips.n), sum(flips.shares)

    def suffices(effect: float) -> bool:
        every = max(share, effect)
        return chance_to_show((every + effect) / 2, (every - effect) / 2, n=n) >= power

    if n == 0 or not suffices(1.0):
        return None
    low, high = 0.0, 1.0
    for _ in range(24):
        middle = (low + high) / 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high


def required_records(flips: FlipCounts, *, power: float = POWER) -> int | None:
    """Records, or clusters, that would show the difference seen here with this power, if it is the true one; None for none."""
    effect, share = abs(flips.better - flips.worse) / flips.n if flips.n else 0.0, sum(flips.shares)
    if effect == 0:
        return None
    worth = flips.units / flips.n
    gain, loss = (share + effect) / 2, (share - effect) / 2
    return ceil(worth * _fewest(lambda n: chance_to_show(gain, loss, n=n) >= power))


def _fewest(suffices: Callable[[int], bool]) -> int:
    low, high = 1, 2
    while not suffices(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high
