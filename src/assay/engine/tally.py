"""The tally of a run under way: what a progress display shows."""

from array import array
from collections import Counter
from collections.abc import Callable

import msgspec

from assay.core.metrics_summary import percentile
from assay.core.outcome import Attempt, Outcome, record_status

FREE = frozenset({"cached", "prefilled"})
"""Flags of replies that nobody was asked for."""
_LATENCIES = 4096
"""Enough for a p95 that does not jump; the newest replace the oldest."""


UNTIMED = FREE | {"batched"}
"""Flags of replies of which nobody knows how long they took."""


class BatchProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How the batches of a run stand."""

    batches: int
    merged: int
    """Batches whose results are here."""
    requests: int
    done: int
    """Requests that have an answer or an error, as the provider says."""
    problem: str = ""
    """Why the last look at them brought nothing."""
    is_stopping: bool = False


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The tally at one moment."""

    state: str
    total: int
    done: int
    by_status: dict[str, int]
    errors: dict[str, int]
    """Failed attempts by code."""
    calls: int
    in_flight: int
    waiting: int
    """Records between two rounds."""
    cost: float
    unknown_costs: int
    """Calls whose price is not known."""
    p50_ms: float | None
    p95_ms: float | None
    elapsed_s: float
    done_before: int = 0
    """Of those done, the ones that were when the time began to count: of a run that goes on, all that was done earlier."""
    is_stopping: bool = False
    """No new record is begun; calls in flight are waited for."""
    batch: BatchProgress | None = None
    """While the run waits for its batches, how they stand."""
    knows_calls: bool = True
    """False of a run elsewhere, of which only the records are told."""
    problem: str = ""
    """What keeps workers elsewhere from going on, in a sentence."""

    @property
    def rate(self) -> float | None:
        """Records a second since the time began to count; None until one is done."""
        done = self.done - self.done_before
        return done / self.elapsed_s if done > 0 and self.elapsed_s > 0 else None


class Tally:
    """Counts as they change; cheap to update, read a few times a second."""

    def __init__(self, total: int, by_status: dict[str, int], *, started: float, cost: float = 0.0, done_before: int = 0) -> None:
        self.total = total
        self._done_before = done_before
        self.by_status = Counter(by_status)
        self.errors: Counter[str] = Counter()
        self.calls = self.in_flight = self.unknown_costs = 0
        self.cost = cost
        """US dollars that the run has cost, as far as it is known here."""
        self.paid = 0.0
        """US dollars of the calls of this process."""
        self.on_paid: Callable[[], None] | None = None
        """Told of each call that has cost something."""
        self._started = started
        self._latencies = array("d")

    @property
    def done(self) -> int:
        """Records with an outcome."""
        return self.by_status.total()

    def add_attempt(self, attempt: Attempt) -> None:
        """One call has come back; a reply that nobody was asked for is no call."""
        if attempt.reply is not None and not FREE.isdisjoint(attempt.reply.flags):
            return
        self.calls += 1
        if attempt.error_code:
            self.errors[attempt.error_code] += 1
            return
        if attempt.cost is not None:
            self._pay(attempt.cost)
        else:
            self.unknown_costs += 1
        if len(self._latencies) < _LATENCIES:
            self._latencies.append(attempt.latency_ms)
        else:
            self._latencies[self.calls % _LATENCIES] = attempt.latency_ms

    def _pay(self, cost: float) -> None:
        self.cost += cost
        self.paid += cost
        if cost and self.on_paid is not None:
            self.on_paid()

    def add_outcome(self, outcome: Outcome) -> None:
        """One record has come to its end."""
        self.by_status[record_status(outcome)] += 1

    def snapshot(
        self, state: str, now: float, *, waiting: int = 0, is_stopping: bool = False, knows_calls: bool = True
    ) -> Snapshot:
        """The tally at this moment."""
        latencies = sorted(self._latencies)
        return Snapshot(
            state=state,
            total=self.total,
            done=self.done,
            by_status=dict(self.by_status),
            errors=dict(self.errors),
            calls=self.calls,
            in_flight=self.in_flight,
            waiting=waiting,
            cost=self.cost,
            unknown_costs=self.unknown_costs,
            p50_ms=percentile(latencies, 0.50) if latencies else None,
            p95_ms=percentile(latencies, 0.95) if latencies else None,
            elapsed_s=now - self._started,
            done_before=self._done_before,
            is_stopping=is_stopping,
            knows_calls=knows_calls,
        )
