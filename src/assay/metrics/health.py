"""Slips of a judge into a verdict on it: exact tests that accuse a sound judge in at most one probe of twenty."""

from collections.abc import Callable, Sequence
from itertools import count

import msgspec

from assay.core.judge_card import Soundness
from assay.metrics.distributions import binomial_cdf
from assay.metrics.paired import holm

LEVEL = 0.05
"""Probability with which a probe may accuse a sound judge."""
GROSS = 0.75
"""Rate of slips that a probe must be able to notice, or it says nothing."""
POWER = 0.8
"""Probability with which it must notice that rate."""
FEWEST = 8
"""Answers below which nothing is decided: without any slip their interval would still reach beyond a third."""


class ProbeDecision(msgspec.Struct, frozen=True):
    """A verdict and the probability that it rests on."""

    verdict: Soundness
    p_value: float | None
    needed: int | None = None
    """Number of answers that would be enough, where there are too few."""


def excess_p_value(slips: int, n: int, *, tolerance: float) -> float:
    """Return the probability of so many slips, or more, of a judge whose rate is the tolerance (exact binomial)."""
    return binomial_cdf(n - slips, n, share=1 - tolerance)


def rise_p_value(rises: int, falls: int) -> float:
    """Return the probability of so many rises or more among the changes, when up and down are equally likely (exact sign test)."""
    return excess_p_value(rises, rises + falls, tolerance=0.5)


def decide_slips(slips: int, n: int, *, tolerance: float) -> ProbeDecision:
    """Fail when the slips cannot be explained by a rate within the tolerance; warn when there are more, by chance or not."""
    # Too few answers would pass almost any judge; "not enough evidence" is the honest verdict.
    if not _is_enough(n, lambda size: excess_power(size, tolerance=tolerance)):
        return ProbeDecision("not_enough_evidence", None, _answers_needed(lambda size: excess_power(size, tolerance=tolerance)))
    p_value = excess_p_value(slips, n, tolerance=tolerance)
    # One-sided: only a judge that slips more than it may is accused.
    verdict: Soundness = "fail" if p_value <= LEVEL else "warn" if slips > tolerance * n else "pass"
    return ProbeDecision(verdict, p_value)


def decide_rises(changes: Sequence[tuple[int, int]], *, n: int) -> ProbeDecision:
    """Fail when rises outnumber falls by more than chance explains, in any of several series (Holm); warn when it is close.

    `changes` has the rises and the falls of each series, `n` the pairs of the shortest one that had room to rise.
    """
    if not changes or not _is_enough(n, lambda size: rise_power(size, series=len(changes))):
        return ProbeDecision(
            "not_enough_evidence", None, _answers_needed(lambda size: rise_power(size, series=max(1, len(changes))))
        )
    # Several series are several chances for a false alarm, which Holm's rule takes back.
    adjusted = holm([rise_p_value(rises, falls) for rises, falls in changes])
    p_value = min(value for value in adjusted if value is not None)
    return ProbeDecision("fail" if p_value <= LEVEL else "warn" if p_value <= 2 * LEVEL else "pass", p_value)


def _is_enough(n: int, power: Callable[[int], float]) -> bool:
    return n >= FEWEST and power(n) >= POWER


def _answers_needed(power: Callable[[int], float]) -> int:
    """Return the fewest answers that are enough; more may again be too few by one, as counts are whole numbers."""
    return next(n for n in count(FEWEST) if _is_enough(n, power))


def excess_power(n: int, *, tolerance: float) -> float:
    """Return the probability that a judge which slips grossly is accused."""
    return _detection_power(n, [excess_p_value(slips, n, tolerance=tolerance) for slips in range(n + 1)], level=LEVEL)


def rise_power(n: int, *, series: int = 1) -> float:
    """Return the probability that a judge is accused which is raised grossly, in one of several series, and never lowered."""
    return _detection_power(n, [rise_p_value(rises, 0) for rises in range(n + 1)], level=LEVEL / series)


def _detection_power(n: int, p_values: Sequence[float], *, level: float) -> float:
    """Return the probability that a gross rate gives a count, the index of `p_values`, that accuses."""
    needed = next((count for count, p_value in enumerate(p_values) if p_value <= level), None)
    return 0.0 if needed is None else binomial_cdf(n - needed, n, share=1 - GROSS)
