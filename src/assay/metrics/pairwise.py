"""Comparisons of two answers at a time into a ranking: who beat whom, how strong each is, and how far a judge goes by places."""

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from typing import Literal

import msgspec
import numpy as np

from assay.core.summary import CandidateSummary, PairSummary, PositionBias, RankingSummary
from assay.metrics.intervals import Estimate, Floats, cluster_interval, mean_interval, standard_error
from assay.metrics.ranking import ComparisonCounts, RankedCandidate, Ranking, rank

Result = Literal["first", "second", "tie", "inconsistent"]
_OUTCOMES: dict[Result, float] = {"first": 1.0, "second": 0.0, "tie": 0.5, "inconsistent": 0.5}
"""What a comparison counts in the model. A win in one order only is half a win for each: leaving it out would leave out the close
comparisons, and make every candidate seem further from the others than it is."""


class PairwiseVote(msgspec.Struct, frozen=True):
    """What one judge said in both orders: 1 for the first answer, 0 for the second, 0.5 for a tie."""

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
        """Cluster and result of each comparison that has one, by who met whom."""
        self._unscored: Counter[tuple[int, int]] = Counter()
        self._votes: dict[str, list[tuple[int, PairwiseVote]]] = {}

    def add(self, meeting: PairwiseComparison) -> None:
        """One comparison, with a result or without one."""
        if meeting.result is None:
            self._unscored[meeting.first, meeting.second] += 1
            return
        cluster = self._clusters.setdefault(meeting.cluster, len(self._clusters))
        self._met.setdefault((meeting.first, meeting.second), []).append((cluster, meeting.result))
        for vote in meeting.votes:
            self._votes.setdefault(vote.judge, []).append((cluster, vote))

    def summary(self) -> RankingSummary:
        """All figures as the summary of a run holds them."""
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
        flat = [(*pair, cluster, _OUTCOMES[result]) for pair, met in self._met.items() for cluster, result in met]
        first, second, clusters, outcomes = np.array(flat).T
        if bool((outcomes == 0.5).all()):
            # Every comparison is the same half, and nothing would show how much chance there is in that.
            return Ranking(n=len(flat), reason="nobody won a comparison in both orders, so nothing orders the candidates")
        places = first.astype(np.int64), second.astype(np.int64)
        return rank(self._names, ComparisonCounts(*places, outcomes), clusters=clusters.astype(np.int64))

    def _pair(self, first: int, second: int) -> PairSummary:
        met = self._met.get((first, second), [])
        counts = Counter(result for _, result in met)
        values = np.array([_OUTCOMES[result] for _, result in met])
        share = _estimate(values, [cluster for cluster, _ in met], seed=(self._seed, first, second))
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
    """One candidate's comparisons by how they ended, and its strength where there is one."""
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
    """How often a judge says something else when the answers change places, and which place it then prefers."""
    differs = np.array([float(vote.in_order != vote.swapped) for _, vote in votes])
    return PositionBias(
        judge=judge,
        n=len(votes),
        n_inconsistent=int(differs.sum()),
        n_first_place=sum(vote.in_order > vote.swapped for _, vote in votes),
        n_second_place=sum(vote.in_order < vote.swapped for _, vote in votes),
        rate=_estimate(differs, [cluster for cluster, _ in votes], seed=()).metric,
    )


def _estimate(values: Floats, clusters: Sequence[int], *, seed: tuple[int, ...]) -> Estimate:
    """The mean of values from 0 to 1, with an interval that counts clusters."""
    if not len(values):
        return Estimate(n=0, reason="there is no comparison")
    if len(set(clusters)) == len(clusters):
        interval = mean_interval(values, seed=seed)
    else:
        interval = cluster_interval(values, np.array(clusters))
    reason = "" if interval else "one record has no spread to make an interval of"
    error = standard_error(values, np.array(clusters))
    return Estimate(value=float(values.mean()), interval=interval, error=error, n=len(values), reason=reason)
