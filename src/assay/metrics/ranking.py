"""Strengths of several candidates from comparisons of two at a time: Bradley and Terry's model with robust intervals."""

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from math import exp, sqrt
from typing import Any, Literal
from warnings import warn

import msgspec
import numpy as np
from numpy.typing import NDArray

from assay.core.summary import LEVEL, CandidateSummary, Interval, PairSummary, PositionBias, RankingSummary
from assay.metrics.distributions import student_quantile
from assay.metrics.intervals import Estimate, Floats, cluster_interval, mean_interval, standard_error

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
    """Candidates, the strongest first; none when the comparisons cannot order them, and `reason` explains why."""

    candidates: tuple[RankedCandidate, ...] = ()
    n: int
    """Comparisons."""
    is_bounded: bool = True
    """False when some candidate won, or lost, everything: then half a win each way is added to every pair that met."""
    reason: str = ""


class ComparisonCounts(msgspec.Struct, frozen=True):
    """Comparisons by pair of candidates, with their results."""

    first: Codes
    """Places in the list of names."""
    second: Codes
    outcome: Floats
    """1 when the first won, 0 when the second did, 0.5 for a tie."""


def rank(names: Sequence[str], comparisons: ComparisonCounts, *, clusters: NDArray[np.int64] | None = None) -> Ranking:
    """Compute Bradley and Terry's strengths; comparisons of one cluster (one record, say) may depend on each other."""
    n, count = len(comparisons.outcome), len(names)
    if n == 0 or count < 2:
        return Ranking(n=n, reason="there are no comparisons of two candidates")
    # Strengths of candidates that never met, not even by way of others, have no common zero.
    groups = _groups(comparisons, count=count)
    if len(groups) > 1:
        words = "; ".join(", ".join(names[place] for place in group) for group in groups)
        return Ranking(n=n, reason=f"these groups of candidates never met, so nothing orders them: {words}")
    wins = _wins(comparisons, count=count)
    # The likelihood has a maximum only if wins link every candidate to every other one in both directions (Ford 1957).
    is_bounded = _reaches_all(wins > 0) and _reaches_all(wins.T > 0)
    # Without it the strength of a candidate that won everything would be infinite; it is added only where that happens.
    prior = np.where(wins + wins.T > 0, 0.0 if is_bounded else 0.5, 0.0)
    strengths = _fit(wins + prior)
    spread = _covariance(comparisons, strengths=strengths, met=wins + wins.T + 2 * prior, clusters=clusters)
    units = n if clusters is None else len(np.unique(clusters))
    # Stable: equal candidates stay in the order in which the run names them.
    order = np.argsort(-strengths, kind="stable").tolist()
    ranked = [
        _rank_candidate(names, [place, *following], strengths=strengths, spread=spread, wins=wins, units=units)
        for place, *following in (order[start : start + 2] for start in range(count))
    ]
    words = "" if is_bounded else "some candidates won or lost everything: half a win each way was added to every pair that met"
    return Ranking(candidates=tuple(ranked), n=n, is_bounded=is_bounded, reason=words)


def _wins(comparisons: ComparisonCounts, *, count: int) -> Floats:
    """Count the wins of the candidate of the row over that of the column."""
    wins = np.zeros((count, count))
    np.add.at(wins, (comparisons.first, comparisons.second), comparisons.outcome)
    np.add.at(wins, (comparisons.second, comparisons.first), 1 - comparisons.outcome)
    return wins


def _groups(comparisons: ComparisonCounts, *, count: int) -> list[list[int]]:
    """List the candidates that are linked by comparisons, group by group."""
    met = np.zeros((count, count), dtype=bool)
    met[comparisons.first, comparisons.second] = met[comparisons.second, comparisons.first] = True
    left, groups = set(range(count)), []
    while left:
        reached = _reachable(met, min(left))
        groups.append(sorted(reached))
        left -= reached
    return groups


def _reaches_all(beats: NDArray[np.bool_]) -> bool:
    return len(_reachable(beats, 0)) == len(beats)


def _reachable(links: NDArray[np.bool_], start: int) -> set[int]:
    reached, waiting = {start}, [start]
    while waiting:
        fresh = set(np.flatnonzero(links[waiting.pop()]).tolist()) - reached
        reached |= fresh
        waiting.extend(fresh)
    return reached


def _fit(wins: Floats) -> Floats:
    """Maximize the log-likelihood by Newton's method, damped so that a step stays where the curve is known."""
    met = wins + wins.T
    strengths: Floats = np.zeros(len(wins))
    for _ in range(_MAX_STEPS):
        chances = 1 / (1 + np.exp(strengths[None, :] - strengths[:, None]))
        gradient = (wins - met * chances).sum(axis=1)
        # The pseudo-inverse, because the same constant added to all strengths changes no chance: the matrix is singular.
        step = np.linalg.pinv(_information(met, chances)) @ gradient
        # Long steps overshoot where nearly all comparisons went one way, and may then never come back.
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
    """Return the sandwich estimate, which is right for ties and dependent comparisons, where the model's own error is not."""
    count, first, second = len(strengths), comparisons.first, comparisons.second
    chances = 1 / (1 + np.exp(strengths[None, :] - strengths[:, None]))
    surprise = comparisons.outcome - chances[first, second]
    units = np.arange(len(first)) if clusters is None else np.unique(clusters, return_inverse=True)[1]
    total = int(units.max()) + 1
    scores = np.zeros((total, count))
    np.add.at(scores, (units, first), surprise)
    np.add.at(scores, (units, second), -surprise)
    bread = np.linalg.pinv(_information(met, chances))
    # The last factor corrects the estimate for few clusters.
    found: Floats = bread @ (scores.T @ scores) @ bread * (total / max(1, total - 1))
    return found


def _rank_candidate(
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


Result = Literal["first", "second", "tie", "inconsistent"]
_OUTCOMES: dict[Result, float] = {"first": 1.0, "second": 0.0, "tie": 0.5, "inconsistent": 0.5}
"""What a comparison counts in the model. A win in one order only is half a win for each: leaving it out would leave out the close
comparisons, and make every candidate seem further from the others than it is."""


class PairwiseVote(msgspec.Struct, frozen=True):
    """Verdict of one judge in both orders: 1 for the first answer, 0 for the second, 0.5 for a tie."""

    judge: str
    in_order: float
    swapped: float


class PairwiseComparison(msgspec.Struct, frozen=True, kw_only=True):
    """One comparison of the answers of two candidates."""

    first: int
    """Places in the list of names."""
    second: int
    cluster: str
    """Comparisons of one cluster need not be independent of each other; a record at least."""
    result: Result | None
    """None where there is no grade."""
    votes: tuple[PairwiseVote, ...] = ()


class PairwiseFigures:
    """The `ranking` of a summary, comparison by comparison."""

    def __init__(self, names: Sequence[str], notes: Sequence[str] = (), *, seed: int = 0) -> None:
        self._names = names
        self._notes = notes
        self._seed = seed
        self._clusters: dict[str, int] = {}
        self._met: dict[tuple[int, int], list[tuple[int, Result]]] = {}
        """Cluster and result of each comparison that has one, by pair of candidates."""
        self._unscored: Counter[tuple[int, int]] = Counter()
        self._votes: dict[str, list[tuple[int, PairwiseVote]]] = {}

    def add(self, meeting: PairwiseComparison) -> None:
        """Add one comparison, with a result or without one."""
        if meeting.result is None:
            self._unscored[meeting.first, meeting.second] += 1
            return
        cluster = self._clusters.setdefault(meeting.cluster, len(self._clusters))
        self._met.setdefault((meeting.first, meeting.second), []).append((cluster, meeting.result))
        for vote in meeting.votes:
            self._votes.setdefault(vote.judge, []).append((cluster, vote))

    def summary(self) -> RankingSummary:
        """Return all metrics as the summary of a run holds them."""
        ranking = self._ranking()
        ranked = {candidate.name: candidate for candidate in ranking.candidates}
        order = [*ranked] or list(self._names)
        pairs = tuple(self._pair(first, second) for first, second in combinations(range(len(self._names)), 2))
        return RankingSummary(
            n_comparisons=ranking.n,
            n_unscored=self._unscored.total(),
            n_clusters=len(self._clusters),
            candidates=tuple(_candidate(name, ranked.get(name), pairs) for name in order),
            is_bounded=ranking.is_bounded,
            reason=ranking.reason,
            pairs=pairs,
            position_bias=tuple(_bias(judge, votes) for judge, votes in self._votes.items()),
            notes=tuple(self._notes),
        )

    def _ranking(self) -> Ranking:
        if not self._met:
            return Ranking(n=0, reason="no comparison came to a result")
        # Comparisons of one record depend on each other: the same prompt favours the same candidate, so clusters go along.
        flat = [(*pair, cluster, _OUTCOMES[result]) for pair, met in self._met.items() for cluster, result in met]
        first, second, clusters, outcomes = np.array(flat).T
        if bool((outcomes == 0.5).all()):
            # Every comparison is the same half, and nothing would show how much chance there is in that.
            return Ranking(n=len(flat), reason="no candidate won a comparison in both orders, so nothing orders the candidates")
        places = first.astype(np.int64), second.astype(np.int64)
        return rank(self._names, ComparisonCounts(*places, outcomes), clusters=clusters.astype(np.int64))

    def _pair(self, first: int, second: int) -> PairSummary:
        met = self._met.get((first, second), [])
        counts = Counter(result for _, result in met)
        values = np.array([_OUTCOMES[result] for _, result in met])
        share = _pairwise_estimate(values, [cluster for cluster, _ in met], seed=(self._seed, first, second))
        return PairSummary(
            first=self._names[first],
            second=self._names[second],
            n=len(met),
            first_wins=counts["first"],
            second_wins=counts["second"],
            ties=counts["tie"],
            inconsistent=counts["inconsistent"],
            unscored=self._unscored[first, second],
            first_share=share.metric,
        )


def _candidate(name: str, ranked: RankedCandidate | None, pairs: Sequence[PairSummary]) -> CandidateSummary:
    """Return one candidate's comparisons by their results, and its strength where there is one."""
    as_first = [pair for pair in pairs if pair.first == name]
    as_second = [pair for pair in pairs if pair.second == name]
    met = as_first + as_second
    return CandidateSummary(
        name=name,
        wins=sum(pair.first_wins for pair in as_first) + sum(pair.second_wins for pair in as_second),
        losses=sum(pair.second_wins for pair in as_first) + sum(pair.first_wins for pair in as_second),
        ties=sum(pair.ties for pair in met),
        inconsistent=sum(pair.inconsistent for pair in met),
        unscored=sum(pair.unscored for pair in met),
        strength=None if ranked is None else ranked.strength.metric,
        win_chance=None if ranked is None else ranked.win_chance.metric,
        ahead_of_next=None if ranked is None else ranked.ahead_of_next.metric,
    )


def _bias(judge: str, votes: Sequence[tuple[int, PairwiseVote]]) -> PositionBias:
    """Return the rate at which a judge changes its verdict with the order of the answers, and the place that it then prefers."""
    differs = np.array([float(vote.in_order != vote.swapped) for _, vote in votes])
    return PositionBias(
        judge=judge,
        n=len(votes),
        n_inconsistent=int(differs.sum()),
        n_first_place=sum(vote.in_order > vote.swapped for _, vote in votes),
        n_second_place=sum(vote.in_order < vote.swapped for _, vote in votes),
        rate=_pairwise_estimate(differs, [cluster for cluster, _ in votes], seed=()).metric,
    )


def _pairwise_estimate(values: Floats, clusters: Sequence[int], *, seed: tuple[int, ...]) -> Estimate:
    """Return the mean of values from 0 to 1, with an interval that counts clusters."""
    if not len(values):
        return Estimate(n=0, reason="there is no comparison")
    if len(set(clusters)) == len(clusters):
        interval = mean_interval(values, seed=seed)
    else:
        interval = cluster_interval(values, np.array(clusters))
    reason = "" if interval else "one record has no spread to make an interval of"
    error = standard_error(values, np.array(clusters))
    return Estimate(value=float(values.mean()), interval=interval, error=error, n=len(values), reason=reason)


def __getattr__(name: str) -> Any:
    """Load the former name of the comparisons, kept for one release because a page of the documentation showed it."""
    if name != "Comparisons":
        raise AttributeError(f"module 'assay.metrics.ranking' has no attribute {name!r}")
    warn("assay.metrics.ranking.Comparisons is now ComparisonCounts", DeprecationWarning, stacklevel=2)
    return ComparisonCounts
