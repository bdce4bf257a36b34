"""Judges of a panel: verdicts, cost and latency of each, their agreement, and the calls that were saved."""

from array import array
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import groupby
from math import fsum

import msgspec
import numpy as np

from assay.core.outcome import PanelDecision, Score
from assay.core.settings import PanelSection
from assay.core.summary import JudgeSummary, MetricValue, PanelSummary
from assay.metrics.intervals import cluster_interval, standard_error
from assay.metrics.summary import amount_figures, latency_figures

_UNKNOWN = float("nan")


class JudgeAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """One call to a judge, as far as figures need it; None is unknown, never 0."""

    judge: str
    question: str
    """Call's id, the same when it is tried again or asked again."""
    is_again: bool
    is_failed: bool
    is_free: bool
    """Reply is from a cache: no model was called for it."""
    latency_ms: float | None
    tokens: int | None
    cost: float | None


class _JudgeTotals:
    """Figures of one judge while they come together."""

    def __init__(self) -> None:
        self.votes = array("d")
        self.agreed = array("d")
        # The record of each agreement: votes on criteria of one record depend on each other, so the interval goes by records.
        self.agreed_in = array("q")
        self.latencies, self.tokens, self.costs = array("d"), array("d"), array("d")
        self.questions = self.calls = self.failed = self.asked_again = self.salvaged = self.lost = 0

    def summary(self, name: str) -> JudgeSummary:
        costs = np.array(self.costs)
        return JudgeSummary(
            judge=name,
            n_votes=len(self.votes),
            score_mean=fsum(self.votes) / len(self.votes) if self.votes else None,
            agreement=self._agreement(),
            n_questions=self.questions,
            n_calls=self.calls,
            n_failed_calls=self.failed,
            n_asked_again=self.asked_again,
            n_salvaged=self.salvaged,
            n_lost=self.lost,
            latency_ms=latency_figures(np.array(self.latencies)),
            tokens=amount_figures(np.array(self.tokens), is_whole=True),
            cost_usd=amount_figures(costs, is_whole=False),
        )

    def _agreement(self) -> MetricValue:
        """Return the rate at which the judge agrees with the panel, where others voted too; the interval is by records."""
        values = np.array(self.agreed)
        records = np.array(self.agreed_in, dtype=np.int64)
        interval = cluster_interval(values, records)
        value = float(values.mean()) if len(values) else None
        return MetricValue(value=value, interval=interval, standard_error=standard_error(values, records), n=len(values))


class PanelMetrics:
    """`panel` and `judges` of a summary, record by record."""

    def __init__(self, judges: Sequence[str], settings: PanelSection) -> None:
        self._judges = {judge: _JudgeTotals() for judge in judges}
        self._settings = settings
        self._records = 0
        self._counts = dict.fromkeys(("n_decisions", "n_disagree", "n_tied", "n_escalated", "n_vote_lost"), 0)

    def add(
        self, record: str, scores: Iterable[Score], *, decisions: Iterable[PanelDecision], attempts: Iterable[JudgeAttempt]
    ) -> None:
        """Add one answer to a record, evaluated or failed: its votes, how they were decided, and the calls to its judges."""
        votes = [score for score in scores if score.judge in self._judges]
        # Keep a hash instead of the id, so that memory does not grow with the length of ids.
        self._add_votes(votes, record=int.from_bytes(blake2b(record.encode(), digest_size=7).digest()))
        self._add_decisions(tuple(decisions))
        self._add_attempts(tuple(attempts))
        self._records += bool(votes)

    def _add_votes(self, votes: Sequence[Score], *, record: int) -> None:
        splits = 0
        for _, group in groupby(votes, key=lambda vote: vote.criterion):
            cast = tuple(group)
            self._counts["n_decisions"] += 1
            splits += len({vote.score for vote in cast}) > 1
            # The lower median, as the panel decides; a judge alone on a question agrees with itself, which says nothing.
            middle = sorted(vote.score for vote in cast)[(len(cast) - 1) // 2]
            for vote in cast:
                self._add_vote(vote, panel=middle, record=None if len(cast) == 1 else record)
        self._counts["n_disagree"] += splits > 0

    def _add_vote(self, vote: Score, *, panel: float, record: int | None) -> None:
        """Add a vote; `record` is None where no other judge voted."""
        judge = self._judges[vote.judge]
        judge.votes.append(vote.normalized)
        judge.salvaged += "salvaged" in vote.flags
        if record is not None:
            judge.agreed.append(vote.score == panel)
            judge.agreed_in.append(record)

    def _add_decisions(self, decisions: Sequence[PanelDecision]) -> None:
        counts = self._counts
        counts["n_tied"] += any(decision.is_tied for decision in decisions)
        counts["n_escalated"] += any(decision.is_escalated for decision in decisions)
        counts["n_vote_lost"] += any(decision.missing for decision in decisions)
        for name in (name for decision in decisions for name in decision.missing if name in self._judges):
            self._judges[name].lost += 1

    def _add_attempts(self, attempts: Sequence[JudgeAttempt]) -> None:
        for name, _ in {(attempt.judge, attempt.question) for attempt in attempts}:
            self._judges[name].questions += 1
        for attempt in attempts:
            judge = self._judges[attempt.judge]
            # A second request that failed brought no reply, and is among the failed calls already.
            judge.asked_again += attempt.is_again and not attempt.is_failed
            if attempt.is_free:
                continue
            judge.calls += 1
            judge.failed += attempt.is_failed
            if not attempt.is_failed:
                judge.latencies.append(_known(attempt.latency_ms))
                judge.tokens.append(_known(attempt.tokens))
                judge.costs.append(_known(attempt.cost))

    def judges(self) -> tuple[JudgeSummary, ...]:
        """Return the metrics of each judge, in the order of the plan."""
        return tuple(judge.summary(name) for name, judge in self._judges.items())

    def panel(self, judges: Sequence[JudgeSummary]) -> PanelSummary:
        """Return the metrics of all judges together."""
        first, *others = judges
        # At each judge's own mean cost, since the judges of a panel may differ widely in price.
        saved = [(first.n_questions - other.n_questions, other.cost_usd.mean) for other in others]
        is_known = all(mean is not None for calls, mean in saved if calls)
        escalates = self._settings.escalate
        return PanelSummary(
            quorum=self._settings.quorum or len(self._judges),
            escalate=escalates,
            n_records=self._records,
            **self._counts,
            # Questions that the first judge was asked and the others were not, and what their answers would have cost.
            n_calls_saved=sum(calls for calls, _ in saved) if escalates else None,
            cost_saved_usd=fsum(calls * (mean or 0.0) for calls, mean in saved) if escalates and is_known else None,
        )


def _known(value: float | None) -> float:
    return _UNKNOWN if value is None else value
