"""Strengths of several candidates from comparisons of two at a time: Bradley and Terry's model with robust intervals."""

from collections.abc import Sequence
from math import exp, sqrt

import msgspec
import numpy as np
from numpy.typing import NDArray

from assay.core.summary import LEVEL, Interval
from assay.metrics.distributions import student_quantile
from assay.metrics.intervals import Estimate, Floats

_MAX_STEPS = 100
_SHARE = (1 + LEVEL) / 2

Codes = NDArray[np.int64]


class RankedCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """One candidate of a ranking."""

    name: str
    strength: Estimate
    """Log-odds of winning against the average candidate, which has 0."""
    win_chance: Estimate
    """The same as a probability."""
    ahead_of_next: Estimate
    """Strength above the next candidate; it is surely ahead when the interval is above 0. Undefined for the last."""
    wins: float
    """Ties count half."""
    comparisons: int


class Ranking(msgspec.Struct, frozen=True, kw_only=True):
    """Candidates, the strongest first; none when the comparisons cannot order them, and `reason` says why."""

    candidates: tuple[RankedCandidate, ...] = ()
    n: int
    """Comparisons."""
    is_bounded: bool = True
    """False when some candidate won, or lost, everything: then half a win each way is added to every pair that met."""
    reason: str = ""


class ComparisonCounts(msgspec.Struct, frozen=True):
    """Who met whom, and how it ended."""

    first: Codes
    """Places in the list of names."""
    second: Codes
    outcome: Floats
    """1 when the first won, 0 when the second did, 0.5 for a tie."""


def rank(names: Sequence[str], comparisons: ComparisonCounts, *, clusters: NDArray[np.int64] | None = None) -> Ranking:
    """Bradley and Terry's strengths; comparisons of one cluster (one record, say) need not be independent of each other."""
    n, count = len(comparisons.outcome), len(names)
    if n == 0 or count < 2:
        return Ranking(n=n, reason="there are no comparisons of two candidates")
    groups = _groups(comparisons, count=count)
    if len(groups) > 1:
        words = "; ".join(", ".join(names[place] for place in group) for group in groups)
        return Ranking(n=n, reason=f"these groups of candidates never met, so nothing orders them: {words}")
    wins = _wins(comparisons, count=count)
    is_bounded = _reaches_all(wins > 0) and _reaches_all(wins.T > 0)
    prior = np.where(wins + wins.T > 0, 0.0 if is_bounded else 0.5, 0.0)
    strengths = _fit(wins + prior)
    spread = _covariance(comparisons, strengths=strengths, met=wins + wins.T + 2 * prior, clusters=clusters)
    units = n if clusters is None else len(np.unique(clusters))
    order = np.argsort(-strengths, kind="stable").tolist()
    ranked = [
        _ranked(names, [place, *following], strengths=strengths, spread=spread, wins=wins, units=units)
        for place, *following in (order[start : start + 2] for start in range(count))
    ]
    words = "" if is_bounded else "some candidates won or lost everything: half a win each way was added to every pair that met"
    return Ranking(candidates=tuple(ranked), n=n, is_bounded=is_bounded, reason=words)


def _wins(comparisons: ComparisonCounts, *, count: int) -> Floats:
    """How often the candidate of the row beat that of the column."""
    wins = np.zeros((count, count))
    np.add.at(wins, (comparisons.first, comparisons.second), comparisons.outcome)
    np.add.at(wins, (comparisons.second, comparisons.first), 1 - comparisons.outcome)
    return wins


def _groups(comparisons: ComparisonCounts, *, count: int) -> list[list[int]]:
    """Candidates that are linked by comparisons, group by group."""
    met = np.zeros((count, count), dtype=bool)
    met[comparisons.first, comparisons.second] = met[comparisons.second, comparisons.first] = True
    left, groups = set(range(count)), []
    while left:
        reached = _reached(met, min(left))
        groups.append(sorted(reached))
        left -= reached
    return groups


def _reaches_all(beats: NDArray[np.bool_]) -> bool:
    return len(_reached(beats, 0)) == len(beats)


def _reached(links: NDArray[np.bool_], start: int) -> set[int]:
    reached, waiting = {start}, [start]
    while waiting:
        fresh = set(np.flatnonzero(links[waiting.pop()]).tolist()) - reached
        reached |= fresh
        waiting.extend(fresh)
    return reached


def _fit(wins: Floats) -> Floats:
    """Newton's method on the log-likelihood, damped so that a step never leaves where the curve is known."""
    met = wins + wins.T
    strengths: Floats = np.zeros(len(wins))
    for _ in range(_MAX_STEPS):
        chances = 1 / (1 + np.exp(strengths[None, :] - strengths[:, None]))
        gradient = (wins - met * chances).sum(axis=1)
        step = np.linalg.pinv(_information(met, chances)) @ gradient
        strengths = strengths + step * min(1.0, 2 / max(float(np.abs(step).max()), 1e-300))
        if float(np.abs(step).max()) < 1e-13:
            break
    centred: Floats = strengths - strengths.mean()
    return centred


def _information(met: Floats, chances: Floats) -> Floats:
    weights = met * chances * (1 - chances)
    np.fill_diagonal(weights, 0.0)
    found: Floats = np.diag(weights.sum(axis=1)) - weights
    return found


def _covariance(comparisons: ComparisonCounts, *, strengths: Floats, met: Floats, clusters: NDArray[np.int64] | None) -> Floats:
    """The sandwich: right for ties and for comparisons that hang together, where the model's own error is not."""
    count, first, second = len(strengths), comparisons.first, comparisons.second
    chances = 1 / (1 + np.exp(strengths[None, :] - strengths[:, None]))
    surprise = comparisons.outcome - chances[first, second]
    units = np.arange(len(first)) if clusters is None else np.unique(clusters, return_inverse=True)[1]
    total = int(units.max()) + 1
    scores = np.zeros((total, count))
    np.add.at(scores, (units, first), surprise)
    np.add.at(scores, (units, second), -surprise)
    bread = np.linalg.pinv(_information(met, chances))
    found: Floats = bread @ (scores.T @ scores) @ bread * (total / max(1, total - 1))
    return found


def _ranked(
    names: Sequence[str], places: list[int], *, strengths: Floats, spread: Floats, wins: Floats, units: int
) -> RankedCandidate:
    place = places[0]
    strength = _estimate(float(strengths[place]), variance=float(spread[place, place]), units=units)
    ahead = Estimate(n=units, reason="there is no candidate below")
    if len(places) == 2:
        below = places[1]
        variance = float(spread[place, place] + spread[below, below] - 2 * spread[place, below])
        ahead = _estimate(float(strengths[place] - strengths[below]), variance=variance, units=units)
    return RankedCandidate(
        name=names[place],
        strength=strength,
        win_chance=_as_chance(strength),
        ahead_of_next=ahead,
        wins=float(wins[place].sum()),
        comparisons=round(float(wins[place].sum() + wins[:, place].sum())),
    )


def _estimate(value: float, *, variance: float, units: int) -> Estimate:
    if units < 2:
        return Estimate(value=value, n=units, reason="one comparison has no spread to make an interval of")
    error = sqrt(max(0.0, variance))
    half = student_quantile(_SHARE, units - 1) * error
    interval = Interval(low=value - half, high=value + half, method="sandwich", n=units)
    return Estimate(value=value, interval=interval, error=error, n=units)


def _as_chance(strength: Estimate) -> Estimate:
    interval = strength.interval
    if interval is not None:
        interval = msgspec.structs.replace(interval, low=_chance(interval.low), high=_chance(interval.high))
    assert strength.value is not None
    chance = _chance(strength.value)
    # The delta method: the chance changes by chance * (1 - chance) for each unit of strength.
    error = None if strength.error is None else strength.error * chance * (1 - chance)
    return msgspec.structs.replace(strength, value=chance, interval=interval, error=error)


def _chance(strength: float) -> float:
    return 1 / (1 + exp(-strength))
