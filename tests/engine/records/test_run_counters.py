"""Counters of a run in progress: calls that were made, and nothing else."""

import msgspec
import numpy as np
import pytest

from assay.core.model_call import Reply
from assay.core.outcome import Attempt
from assay.engine.records.run_counters import RunCounters
from assay.metrics.summary import latency_figures


def attempt(*flags: str, cost: float | None = None, error: str = "") -> Attempt:
    reply = None if error else Reply(text="4", flags=flags)
    return Attempt(
        stage="judge",
        call_id="judge",
        round=1,
        started_at=0.0,
        latency_ms=20.0,
        model="m",
        reply=reply,
        cost=cost,
        error_code=error,
    )


@pytest.mark.parametrize("flag", ["cached", "prefilled"])
def test_a_reply_that_nobody_was_asked_for_is_no_call(flag: str) -> None:
    counters = RunCounters(1, {}, started=0.0)
    counters.add_attempt(attempt(flag))
    snapshot = counters.snapshot("running", 1.0)
    assert (snapshot.calls, snapshot.unknown_costs, snapshot.p50_ms) == (0, 0, None)


def test_the_pace_of_a_run_that_goes_on_counts_what_is_done_since() -> None:
    counters = RunCounters(1_000, {"evaluated": 900}, started=0.0, done_before=900)
    assert counters.snapshot("running", 5.0).rate is None
    counters.by_status["evaluated"] += 20
    assert counters.snapshot("running", 10.0).rate == pytest.approx(2.0)


def test_calls_of_unknown_price_are_counted_beside_the_cost() -> None:
    counters = RunCounters(3, {}, started=0.0)
    for one in (attempt(cost=0.5), attempt(), attempt(error="timeout")):
        counters.add_attempt(one)
    snapshot = counters.snapshot("running", 1.0)
    assert (snapshot.calls, snapshot.cost, snapshot.unknown_costs, snapshot.errors) == (3, 0.5, 1, {"timeout": 1})


def test_times_under_way_are_those_of_the_end() -> None:
    counters = RunCounters(4, {}, started=0.0)
    for milliseconds in (40.0, 10.0, 20.0, 30.0):
        counters.add_attempt(msgspec.structs.replace(attempt(), latency_ms=milliseconds))
    found, end = counters.snapshot("running", 1.0), latency_figures(np.array([10.0, 20.0, 30.0, 40.0]))
    assert (found.p50_ms, found.p95_ms) == (end.p50, end.p95) == (25.0, 38.5)
