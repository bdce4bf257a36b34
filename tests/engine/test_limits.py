"""Who gets a slot first, and waits that end early: for a stop, and when a provider takes no more calls."""

import asyncio
import time
from collections.abc import Callable

from assay.core.ask import ModelFailure
from assay.core.plan import DatasetPlan, ModelPlan, Plan, ProviderPlan
from assay.engine.running.limits import Gate, Limits
from assay.engine.tally import Tally

QUOTA = ModelFailure("quota_exceeded", "no more", is_exhausted=True)
LONG = 600.0


def limits_of(stop: asyncio.Event, *, concurrency: int = 8, rate: float | None = None) -> Limits:
    """Limits with two providers, `a`, which may have a rate a minute, and `b`."""
    plan = Plan(
        run_id="x",
        datasets=(DatasetPlan(path="", contract="batch_v1", dataset_id="", dataset_version="", schema_version="", sha256=""),),
        candidate=ModelPlan(name="m", provider="a", model="m"),
        concurrency=concurrency,
        providers=(ProviderPlan(name="a", kind="openai", requests_per_minute=rate), ProviderPlan(name="b", kind="openai")),
    )
    return Limits(plan, clock=time.time, stop=stop)


async def ended_by(event: Callable[[Limits, asyncio.Event], None], *, seconds: float = 60) -> bool:
    """Whether something ends the wait of a record for provider `a` within so many seconds."""
    stop = asyncio.Event()
    limits = limits_of(stop)
    waiting = asyncio.create_task(limits.pause(LONG, [limits.gate("a", "candidate")]))
    await asyncio.sleep(0)
    event(limits, stop)
    done, _ = await asyncio.wait([waiting], timeout=seconds)
    waiting.cancel()
    return [task.exception() for task in done] == [None]


def test_a_record_between_two_rounds_hears_when_its_provider_takes_no_more_calls() -> None:
    assert asyncio.run(ended_by(lambda limits, _: limits.gate("a", "judge").lane.give_up(QUOTA)))


def test_a_record_between_two_rounds_does_not_care_for_another_provider() -> None:
    assert not asyncio.run(ended_by(lambda limits, _: limits.gate("b", "judge").lane.give_up(QUOTA), seconds=0.1))


def test_a_stop_ends_the_wait_between_two_rounds() -> None:
    assert asyncio.run(ended_by(lambda _, stop: stop.set()))


def test_a_wait_that_is_over_ends_by_itself() -> None:
    async def is_over() -> bool:
        limits = limits_of(asyncio.Event())
        pause = asyncio.ensure_future(limits.pause(-1.0, [limits.gate("a", "candidate")]))
        done, _ = await asyncio.wait([pause], timeout=60)
        return pause in done and pause.exception() is None

    assert asyncio.run(is_over())


def test_a_record_with_its_answer_is_judged_before_another_is_begun() -> None:
    async def order() -> list[str]:
        limits, begun = limits_of(asyncio.Event(), concurrency=1), []
        candidate, judge = limits.gate("a", "candidate"), limits.gate("b", "judge")

        async def evaluate(name: str) -> None:
            for gate in (candidate, judge):
                await limits.enter(gate)
                begun.append(f"{name} {gate.lane.provider.name}")
                await asyncio.sleep(0)
                limits.leave(gate)

        await asyncio.gather(evaluate("first"), evaluate("second"))
        return begun

    assert asyncio.run(order()) == ["first a", "first b", "second a", "second b"]


async def entered(refuse: Callable[[Limits, Gate], None], *, seconds: float = 60) -> int:
    """How many of four calls that wait for a gate, which lets one through in ten minutes, do so when something refuses them."""
    limits = limits_of(asyncio.Event(), rate=0.1)
    gate = limits.gate("a", "candidate")
    # Uses up the rate for an hour.
    gate.lane.requests.charge(time.time(), 6.0)
    calls = [asyncio.create_task(limits.enter(gate)) for _ in range(4)]
    await asyncio.sleep(0.05)
    refuse(limits, gate)
    done, waiting = await asyncio.wait(calls, timeout=seconds)
    for call in waiting:
        call.cancel()
    return len(done)


def test_calls_wait_for_no_rate_when_the_budget_is_spent() -> None:
    spent = Tally(4, {}, started=0.0, cost=10.0)
    assert asyncio.run(entered(lambda limits, _: limits.share_cost(spent, 10.0))) == 4


def test_calls_wait_for_no_rate_of_a_provider_that_takes_no_more() -> None:
    assert asyncio.run(entered(lambda _, gate: gate.lane.give_up(QUOTA))) == 4


def test_calls_within_the_budget_wait_for_their_rate() -> None:
    begun = Tally(4, {}, started=0.0, cost=9.0)
    assert asyncio.run(entered(lambda limits, _: limits.share_cost(begun, 10.0), seconds=0.1)) == 0
