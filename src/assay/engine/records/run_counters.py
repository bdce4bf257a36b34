"""Counters of a run, and the garbage collector's thresholds while it works: searches for cycles would cost a tenth of the time."""

import gc
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock

import msgspec

from assay.core.outcome import Attempt, Outcome, record_status
from assay.core.summary import percentile

RARELY = (50_000, 20, 50)
"""Thresholds of the collector: allocations between two collections of the youngest generation, and so on for the older ones."""

_lock = Lock()
_usual: list[tuple[int, int, int]] = []
"""Thresholds to restore, once for each run in this process."""


@contextmanager
def rare_collection() -> Iterator[None]:
    """Search for cycles rarely inside the block; a collector that is configured to do even less stays as it is."""
    with _lock:
        # Runs of one process may overlap; the last one that ends restores what the first one found.
        _usual.append(_usual[0] if _usual else gc.get_threshold())
        if 0 < _usual[0][0] < RARELY[0]:
            gc.set_threshold(*RARELY)
    try:
        yield
    finally:
        with _lock:
            usual = _usual.pop()
            if not _usual:
                gc.set_threshold(*usual)


FREE = frozenset({"cached", "prefilled"})
"""Flags of replies that needed no call to a model."""
_LATENCIES = 4096
"""Latencies that are stored, enough for a stable p95; the newest replace the oldest."""


UNTIMED = FREE | {"batched"}
"""Flags of replies whose latency is unknown."""


class BatchProgress(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of a run's provider batches."""

    batches: int
    merged: int
    """Batches whose results have been collected."""
    requests: int
    done: int
    """Requests that have an answer or an error, as the provider reports."""
    problem: str = ""
    """Reason why the last poll failed."""
    is_stopping: bool = False


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A run's counters at one moment."""

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
    """Calls whose price is unknown."""
    p50_ms: float | None
    p95_ms: float | None
    elapsed_s: float
    done_before: int = 0
    """Records that were done when `elapsed_s` began to count: for a resumed run, all that earlier processes finished."""
    is_stopping: bool = False
    """True while the run drains: it starts no record and waits for the calls in flight."""
    batch: BatchProgress | None = None
    """Progress of the batches while the run waits for them."""
    knows_calls: bool = True
    """False for a run on other machines, which report only their records."""
    problem: str = ""
    """Problem that keeps workers on other machines from continuing, as a sentence."""

    @property
    def rate(self) -> float | None:
        """Records per second during `elapsed_s`; None until one is done."""
        done = self.done - self.done_before
        return done / self.elapsed_s if done > 0 and self.elapsed_s > 0 else None


class RunCounters:
    """Live counters of a run; cheap to update, read a few times a second."""

    def __init__(self, total: int, by_status: dict[str, int], *, started: float, cost: float = 0.0, done_before: int = 0) -> None:
        self.total = total
        self._done_before = done_before
        self.by_status = Counter(by_status)
        self.errors: Counter[str] = Counter()
        self.calls = self.in_flight = self.unknown_costs = 0
        self.cost = cost
        """US dollars that the run has cost, as far as this process knows."""
        self.paid = 0.0
        """US dollars paid for calls of this process."""
        self.on_paid: Callable[[], None] | None = None
        """Called after each call that has a cost."""
        self._started = started
        self._latencies = array("d")

    @property
    def done(self) -> int:
        """Records with an outcome."""
        return self.by_status.total()

    def add_attempt(self, attempt: Attempt) -> None:
        """Count a finished call; a cached or supplied reply is not a call."""
        if attempt.reply is not None and not FREE.isdisjoint(attempt.reply.flags):
            return
        self.calls += 1
        if attempt.error_code:
            # Without its latency: a refused call takes a millisecond, a timeout a minute, and neither is the model's.
            self.errors[attempt.error_code] += 1
            return
        if attempt.cost is not None:
            self._pay(attempt.cost)
        else:
            self.unknown_costs += 1
        if len(self._latencies) < _LATENCIES:
            self._latencies.append(attempt.latency_ms)
        else:
            # Calls with an error leave gaps in the ring, which only delays when a value is replaced.
            self._latencies[self.calls % _LATENCIES] = attempt.latency_ms

    def _pay(self, cost: float) -> None:
        self.cost += cost
        self.paid += cost
        if cost and self.on_paid is not None:
            self.on_paid()

    def add_outcome(self, outcome: Outcome) -> None:
        """Count a finished record."""
        self.by_status[record_status(outcome)] += 1

    def snapshot(
        self, state: str, now: float, *, waiting: int = 0, is_stopping: bool = False, knows_calls: bool = True
    ) -> Snapshot:
        """Return the counters at this moment."""
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
