"""What is learned of a provider's limit: all calls are made, few are rejected, and little time is lost, whatever the limit is."""

import math
import random
from collections.abc import Callable

import pytest

from assay.core.provider_limit import FoundLimit
from assay.engine.execution.learned_limit import LearnedLimit
from assay.models.limited_stub import CallsInFlight, FixedWindow, LimitState, SlidingWindow, StubLimit, TokenBucket, Unit
from tests.simulation.limited import LimitedCase, LimitedRun, play, shortest


def latency(mean: float, *, spread: float = 0.0) -> Callable[[random.Random], float]:
    return lambda chance: mean * math.exp(chance.gauss(-spread * spread / 2, spread)) if spread else mean


def check(case: LimitedCase, *, share: float = 0.05, factor: float = 1.15) -> LimitedRun:
    run, best = play(case, LearnedLimit()), shortest(case)
    assert run.done == case.calls
    assert run.beyond_first_burst <= share * case.calls
    assert run.seconds <= factor * best + 0.25
    return run


@pytest.mark.parametrize(
    ("rate", "burst", "calls", "seconds"),
    [
        (1, 1, 200, 0.1),
        (2, 10, 200, 0.5),
        (5, 60, 400, 0.3),
        (10, 10, 200, 0.2),
        (20, 5, 600, 1.0),
        (50, 10, 2000, 0.05),
        (100, 100, 2000, 0.1),
        (500, 50, 2000, 0.05),
    ],
)
@pytest.mark.parametrize("concurrency", [32, 128])
def test_a_rate_is_found(rate: float, burst: float, calls: int, seconds: float, concurrency: int) -> None:
    check(
        LimitedCase(limit=lambda: TokenBucket(rate, burst), calls=calls, latency=latency(seconds), concurrency=concurrency),
        share=0.06,
    )


@pytest.mark.parametrize(("limit", "seconds", "calls"), [(10, 1, 400), (20, 2, 400), (50, 5, 400), (100, 1, 2000)])
@pytest.mark.parametrize("kind", ["fixed", "late", "sliding"])
def test_a_window_is_found(limit: float, seconds: float, calls: int, kind: str) -> None:
    kinds: dict[str, Callable[[], StubLimit]] = {
        "fixed": lambda: FixedWindow(limit, seconds),
        "late": lambda: FixedWindow(limit, seconds, phase=0.37 * seconds),
        "sliding": lambda: SlidingWindow(limit, seconds),
    }
    check(LimitedCase(limit=kinds[kind], calls=calls, concurrency=128 if calls > 1000 else 32))


@pytest.mark.parametrize(("limit", "mean"), [(2, 0.3), (4, 2.0), (8, 0.1), (16, 0.5), (20, 0.05)])
@pytest.mark.parametrize("spread", [0.0, 0.5])
def test_a_limit_on_the_calls_in_flight_is_found(limit: int, mean: float, spread: float) -> None:
    case = LimitedCase(limit=lambda: CallsInFlight(limit), latency=latency(mean, spread=spread), calls=400)
    check(case)
    learned = LearnedLimit()
    play(case, learned)
    assert learned.found() == FoundLimit(kind="calls_in_flight", limit=limit)


@pytest.mark.parametrize(
    ("first", "then", "at"),
    [
        (TokenBucket(10, 10), TokenBucket(20, 20), 10.0),
        (TokenBucket(20, 20), TokenBucket(10, 10), 5.0),
        (FixedWindow(20, 1, phase=0.2), FixedWindow(10, 1, phase=0.2), 5.0),
        (CallsInFlight(16), CallsInFlight(6), 5.0),
    ],
)
def test_a_limit_that_changes_is_followed(first: StubLimit, then: StubLimit, at: float) -> None:
    check(LimitedCase(limit=lambda: first, changes=((at, lambda: then),), calls=400), share=0.08, factor=1.25)


def test_the_wait_that_a_provider_states_is_kept() -> None:
    learned = LearnedLimit()
    start = learned.start(10.0)
    learned.rejected(start, 10.001, 7.0)
    assert learned.wait(10.001) == pytest.approx(7.0)
    assert learned.wait(16.0) == pytest.approx(1.001)


@pytest.mark.parametrize(
    ("rate", "burst", "stated", "concurrency"), [(10, 10, 1.0, 32), (20, 20, 1.0, 64), (5, 5, 2.0, 128), (50, 50, 1.0, 32)]
)
def test_a_stated_wait_that_is_longer_than_needed_costs_little(rate: float, burst: float, stated: float, concurrency: int) -> None:
    case = LimitedCase(
        limit=lambda: TokenBucket(rate, burst), stated_wait=lambda _: stated, calls=40 * int(rate), concurrency=concurrency
    )
    check(case, factor=1.4)


def test_a_rate_is_found_although_rejections_are_as_slow_as_answers() -> None:
    check(LimitedCase(limit=lambda: TokenBucket(10, 10), latency=latency(0.5), rejection=None, calls=400), share=0.06)


@pytest.mark.parametrize("unit", ["requests", "tokens"])
def test_a_rate_in_tokens_is_found_with_answers_of_different_lengths(unit: Unit) -> None:
    sizes = LimitedCase(
        limit=lambda: TokenBucket(2000, 2000, unit=unit), units=lambda chance: chance.choice((50, 100, 200, 400)), calls=400
    )
    check(sizes, share=0.07)


class Overloaded:
    """Rejects a share of all calls, however many there are."""

    unit: Unit = "requests"

    def __init__(self, share: float) -> None:
        self._share, self._chance = share, random.Random(1)

    def take(self, now: float, units: float, in_flight: int) -> LimitState:  # noqa: ARG002  # as in the protocol
        is_accepted = self._chance.random() >= self._share
        return LimitState(is_accepted=is_accepted, limit=0, remaining=0, reset=0)


@pytest.mark.parametrize("share", [0.01, 0.1, 0.3])
def test_calls_that_are_rejected_at_random_do_not_slow_down_the_others(share: float) -> None:
    case = LimitedCase(limit=lambda: Overloaded(share), calls=2000)
    run = play(case, LearnedLimit())
    assert run.done == 2000
    assert run.seconds < 2.5 * 2000 / (32 / 0.1)


def test_without_rejections_nothing_waits() -> None:
    learned = LearnedLimit()
    run = play(LimitedCase(limit=lambda: TokenBucket(1e9, 1e9), calls=2000), learned)
    assert (run.rejections, learned.is_limiting, learned.found()) == (0, False, None)
    assert run.seconds == pytest.approx(2000 / 32 * 0.1, rel=0.02)


def test_a_limit_that_was_found_before_is_kept_from_the_start() -> None:
    learned = LearnedLimit()
    learned.adopt(FoundLimit(kind="rate", limit=10.0), 0.0)
    run = play(LimitedCase(limit=lambda: TokenBucket(10, 10), calls=200), learned)
    assert run.rejections <= 10
    assert run.seconds < 21


def test_a_call_that_was_not_made_is_not_counted() -> None:
    learned = LearnedLimit()
    start = learned.start(1.0)
    learned.withdraw(start, 1.0)
    assert (learned.units, learned.calls, learned.in_flight) == (0.0, 0, 0)


def test_the_rejections_of_one_burst_teach_once() -> None:
    learned = LearnedLimit()
    starts = [learned.start(1.0) for _ in range(8)]
    for start in starts[2:]:
        learned.rejected(start, 1.001)
    assert (learned.rejections, learned.units, learned.in_flight) == (1, 2.0, 2)
