"""Who gets a slot first, and waits that end early: for a stop, and when a provider takes no more calls."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from assay.core.model_call import ModelFailure, ModelRequest, Usage
from assay.core.plan import DatasetPlan, ModelPlan, Plan, ProviderPlan
from assay.engine.execution.limits import CallQueue, CallScheduler, ModelAdmission
from assay.engine.records.run_counters import RunCounters
from tests.simulation.loop import VirtualLoop
from tests.simulation.world import EPOCH, World

QUOTA = ModelFailure("quota_exceeded", "no more", is_exhausted=True)
LONG = 600.0
MINUTE = 60.0

T = TypeVar("T")


def played(work: Coroutine[Any, Any, T]) -> T:
    """What comes of it in virtual time: what still waits after a minute of it waits for more than a slow machine."""
    with asyncio.Runner(loop_factory=partial(VirtualLoop, World(0))) as runner:
        return runner.run(work)


def virtual_clock() -> float:
    return EPOCH + asyncio.get_running_loop().time()


def limits_of(stop: asyncio.Event, *, concurrency: int = 8, rate: float | None = None) -> CallScheduler:
    """Limits with two providers, `a`, which may have a rate a minute, and `b`."""
    plan = Plan(
        run_id="x",
        datasets=(DatasetPlan(path="", contract="batch_v1", dataset_id="", dataset_version="", schema_version="", sha256=""),),
        candidate=ModelPlan(name="m", provider="a", model="m"),
        concurrency=concurrency,
        providers=(ProviderPlan(name="a", kind="openai", requests_per_minute=rate), ProviderPlan(name="b", kind="openai")),
    )
    return CallScheduler(plan, clock=virtual_clock, stop=stop)


async def ended_by(event: Callable[[CallScheduler, asyncio.Event], None]) -> bool:
    """Whether something ends the wait of a record for provider `a` within a minute."""
    stop = asyncio.Event()
    limits = limits_of(stop)
    waiting = asyncio.create_task(limits.pause(LONG, [limits.new_queue("a", "candidate")]))
    await asyncio.sleep(0)
    event(limits, stop)
    done, _ = await asyncio.wait([waiting], timeout=MINUTE)
    waiting.cancel()
    return [task.exception() for task in done] == [None]


def test_a_record_between_two_rounds_hears_when_its_provider_takes_no_more_calls() -> None:
    assert played(ended_by(lambda limits, _: limits.new_queue("a", "judge").limiter.give_up(QUOTA)))


def test_a_record_between_two_rounds_does_not_care_for_another_provider() -> None:
    assert not played(ended_by(lambda limits, _: limits.new_queue("b", "judge").limiter.give_up(QUOTA)))


def test_a_stop_ends_the_wait_between_two_rounds() -> None:
    assert played(ended_by(lambda _, stop: stop.set()))


def test_a_wait_that_is_over_ends_by_itself() -> None:
    async def is_over() -> bool:
        limits = limits_of(asyncio.Event())
        pause = asyncio.ensure_future(limits.pause(-1.0, [limits.new_queue("a", "candidate")]))
        done, _ = await asyncio.wait([pause], timeout=60)
        return pause in done and pause.exception() is None

    assert played(is_over())


def test_a_record_with_its_answer_is_judged_before_another_is_begun() -> None:
    async def order() -> list[str]:
        limits, begun = limits_of(asyncio.Event(), concurrency=1), []
        candidate, judge = limits.new_queue("a", "candidate"), limits.new_queue("b", "judge")

        async def evaluate(name: str) -> None:
            for queue in (candidate, judge):
                await limits.acquire(queue)
                begun.append(f"{name} {queue.limiter.provider.name}")
                await asyncio.sleep(0)
                limits.release(queue)

        await asyncio.gather(evaluate("first"), evaluate("second"))
        return begun

    assert played(order()) == ["first a", "first b", "second a", "second b"]


async def entered(refuse: Callable[[CallScheduler, CallQueue], None]) -> int:
    """How many of four calls that wait for a queue, which lets one through in ten minutes, do so when something refuses them."""
    limits = limits_of(asyncio.Event(), rate=0.1)
    queue = limits.new_queue("a", "candidate")
    # Uses up the rate for an hour.
    queue.limiter.requests.charge(virtual_clock(), 6.0)
    calls = [asyncio.create_task(limits.acquire(queue)) for _ in range(4)]
    await asyncio.sleep(1.0)
    refuse(limits, queue)
    done, waiting = await asyncio.wait(calls, timeout=MINUTE)
    for call in waiting:
        call.cancel()
    return len(done)


def test_calls_wait_for_no_rate_when_the_budget_is_spent() -> None:
    spent = RunCounters(4, {}, started=0.0, cost=10.0)
    assert played(entered(lambda limits, _: limits.limit_cost(spent, 10.0))) == 4


def test_calls_wait_for_no_rate_of_a_provider_that_takes_no_more() -> None:
    assert played(entered(lambda _, queue: queue.limiter.give_up(QUOTA))) == 4


def test_calls_within_the_budget_wait_for_their_rate() -> None:
    begun = RunCounters(4, {}, started=0.0, cost=9.0)
    assert played(entered(lambda limits, _: limits.limit_cost(begun, 10.0))) == 0


async def has_its_slots(limits: CallScheduler, cancelled: "asyncio.Task[None]") -> bool:
    """Whether two slots can be had, one after the other, when a call that waits is cancelled."""
    await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.gather(cancelled, return_exceptions=True)
    other = limits.new_queue("b", "candidate")
    calls = [asyncio.create_task(limits.acquire(other)) for _ in range(2)]
    done, waiting = await asyncio.wait(calls, timeout=MINUTE)
    for call in waiting:
        call.cancel()
    return len(done) == 2


def test_a_call_that_is_cancelled_while_it_waits_for_a_rate_gives_its_slot_back() -> None:
    async def is_given_back() -> bool:
        limits = limits_of(asyncio.Event(), concurrency=2, rate=0.1)
        queue = limits.new_queue("a", "candidate")
        queue.limiter.requests.charge(virtual_clock(), 6.0)
        return await has_its_slots(limits, asyncio.create_task(limits.acquire(queue)))

    assert played(is_given_back())


def test_a_call_that_is_cancelled_behind_another_one_gives_its_slot_back() -> None:
    async def is_given_back() -> bool:
        limits = limits_of(asyncio.Event(), concurrency=3, rate=0.1)
        queue = limits.new_queue("a", "candidate")
        queue.limiter.requests.charge(virtual_clock(), 6.0)
        first = asyncio.create_task(limits.acquire(queue))
        await asyncio.sleep(0)
        try:
            return await has_its_slots(limits, asyncio.create_task(limits.acquire(queue)))
        finally:
            first.cancel()

    assert played(is_given_back())


def test_a_call_that_is_cancelled_in_the_moment_in_which_it_gets_its_slot_gives_it_back() -> None:
    async def is_given_back() -> bool:
        limits = limits_of(asyncio.Event(), concurrency=2)
        queue = limits.new_queue("a", "candidate")
        for _ in range(2):
            await limits.acquire(queue)
        waiting = asyncio.create_task(limits.acquire(queue))
        await asyncio.sleep(0)
        limits.release(queue)
        limits.release(queue)
        # The slot is handed out in the next round of the loop, before the call goes on.
        return await has_its_slots(limits, waiting)

    assert played(is_given_back())


def test_a_full_round_of_successes_after_a_429_makes_room_for_one_more_call() -> None:
    limiter = limits_of(asyncio.Event(), concurrency=8).new_queue("a", "candidate").limiter
    limiter.failed(ModelFailure("rate_limited", "slower"), 10.0)
    assert limiter.limit == 4.0
    for _ in range(4):
        limiter.succeeded(Usage(), 11.0)
    assert 4.8 < limiter.limit < 5.0


def test_a_wait_leaves_no_tasks_behind() -> None:
    async def tasks_left() -> int:
        limits = limits_of(asyncio.Event())
        await limits.pause(0.0, [limits.new_queue("a", "candidate")])
        await asyncio.sleep(0)
        return len(asyncio.all_tasks()) - 1

    assert played(tasks_left()) == 0


def test_a_call_that_succeeds_in_the_moment_of_a_rejection_shows_that_it_is_about_one_record() -> None:
    request = ModelRequest(stage="candidate", call_id="candidate", model="m", messages=())

    async def is_answered(_: ModelRequest) -> bool:
        return False

    async def found() -> bool | None:
        admission = ModelAdmission()
        admission.in_flight = 1
        rejected = asyncio.create_task(admission.is_records_own(1.0, check=is_answered, now=lambda: 2.0, stop=asyncio.Event()))
        await asyncio.sleep(0)
        admission.succeeded(request, started=1.0)
        return await asyncio.wait_for(rejected, 60)

    assert played(found()) is True


def test_a_slot_that_is_released_is_free_once() -> None:
    async def entered_after_release() -> tuple[int, int, int]:
        limits = limits_of(asyncio.Event(), concurrency=2)
        queue = limits.new_queue("a", "candidate")
        await limits.acquire(queue)
        await limits.acquire(queue)
        limits.release(queue)
        # Calls of another provider and stage, whose own limits leave room for both.
        other = limits.new_queue("b", "judge")
        calls = [asyncio.create_task(limits.acquire(other)) for _ in range(2)]
        for _ in range(5):
            await asyncio.sleep(0)
        entered = sum(call.done() for call in calls)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        return entered, queue.limiter.in_flight, other.limiter.in_flight

    assert played(entered_after_release()) == (1, 1, 1)
