"""Who gets a slot first, what a provider's limits let through, and waits that end early."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from assay.core.model_call import ModelFailure, Reply
from assay.core.plan import DatasetPlan, ModelPlan, Plan, ProviderPlan
from assay.engine.execution.limits import PATIENCE, CallQueue, CallScheduler, CallSlot, RateLimiter
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
                slot = await limits.acquire(queue)
                begun.append(f"{name} {queue.limiter.provider.name}")
                await asyncio.sleep(0)
                limits.release(slot)

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
        slots = [await limits.acquire(queue) for _ in range(2)]
        waiting = asyncio.create_task(limits.acquire(queue))
        await asyncio.sleep(0)
        for slot in slots:
            limits.release(slot)
        # The slot is handed out in the next round of the loop, before the call goes on.
        return await has_its_slots(limits, waiting)

    assert played(is_given_back())


def test_a_wait_leaves_no_tasks_behind() -> None:
    async def tasks_left() -> int:
        limits = limits_of(asyncio.Event())
        await limits.pause(0.0, [limits.new_queue("a", "candidate")])
        await asyncio.sleep(0)
        return len(asyncio.all_tasks()) - 1

    assert played(tasks_left()) == 0


def test_a_slot_that_is_released_is_free_once() -> None:
    async def entered_after_release() -> tuple[int, int, int]:
        limits = limits_of(asyncio.Event(), concurrency=2)
        queue = limits.new_queue("a", "candidate")
        first, _ = await limits.acquire(queue), await limits.acquire(queue)
        limits.release(first)
        # Calls of another provider and stage, whose own limits leave room for both.
        other = limits.new_queue("b", "judge")
        calls = [asyncio.create_task(limits.acquire(other)) for _ in range(2)]
        for _ in range(5):
            await asyncio.sleep(0)
        entered = sum(call.done() for call in calls)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        return entered, queue.stage.in_flight, other.stage.in_flight

    assert played(entered_after_release()) == (1, 1, 1)


BUSY = ModelFailure("rate_limited", "slower", http_status=429)
ANSWER = Reply(text="4")


def end(limits: CallScheduler, slot: CallSlot, result: Reply | ModelFailure) -> None:
    limits.end_call(slot, result)
    limits.release(slot)


def test_after_a_rejection_the_provider_s_calls_are_made_one_at_a_time_and_no_other_s() -> None:
    async def started() -> tuple[int, int]:
        limits = limits_of(asyncio.Event())
        queue, other = limits.new_queue("a", "candidate"), limits.new_queue("b", "candidate")
        end(limits, await limits.acquire(queue), BUSY)
        calls = [[asyncio.create_task(limits.acquire(each)) for _ in range(3)] for each in (queue, other)]
        await asyncio.sleep(0.01)
        counts = tuple(sum(call.done() for call in each) for each in calls)
        for call in (*calls[0], *calls[1]):
            call.cancel()
        return counts[0], counts[1]

    assert played(started()) == (0, 3)


def test_a_call_that_was_rejected_is_made_before_others_once_the_provider_lets_calls_through() -> None:
    async def order() -> list[str]:
        limits, begun = limits_of(asyncio.Event(), concurrency=1), []
        queue = limits.new_queue("a", "candidate")
        for result in (BUSY, ANSWER, ANSWER, BUSY):
            end(limits, await limits.acquire(queue), result)

        async def note(name: str, slot: "asyncio.Future[CallSlot]") -> None:
            end(limits, await slot, ANSWER)
            begun.append(name)

        new = asyncio.create_task(note("new", asyncio.ensure_future(limits.acquire(queue))))
        await asyncio.sleep(0)
        again = asyncio.create_task(note("again", asyncio.ensure_future(limits.acquire(queue, kind="rejected"))))
        await asyncio.gather(new, again)
        return begun

    assert played(order()) == ["again", "new"]


def test_no_limit_holds_up_calls_to_a_model_to_which_nothing_gets_through() -> None:
    async def waited() -> tuple[float, float]:
        limits = limits_of(asyncio.Event())
        queue = limits.new_queue("a", "candidate")
        end(limits, await limits.acquire(queue), BUSY)
        before = queue.wait(virtual_clock(), "new")
        queue.go_out()
        return before, queue.wait(virtual_clock(), "new")

    before, after = played(waited())
    assert before > 0
    assert after == 0


def test_an_answer_ends_an_outage_and_lets_through_for_a_while() -> None:
    async def seen() -> list[bool]:
        limits = limits_of(asyncio.Event())
        queue = limits.new_queue("a", "candidate")
        queue.go_out()
        lets_through = [queue.lets_through(virtual_clock(), patience=PATIENCE)]
        end(limits, await limits.acquire(queue), ANSWER)
        lets_through += [queue.is_out, queue.lets_through(virtual_clock(), patience=PATIENCE)]
        await asyncio.sleep(PATIENCE + 1)
        return [*lets_through, queue.lets_through(virtual_clock(), patience=PATIENCE)]

    assert played(seen()) == [False, False, True, False]


def test_a_stop_gives_a_slot_to_each_call_that_waits_for_a_limit() -> None:
    async def ended() -> int:
        stop = asyncio.Event()
        limits = limits_of(stop, rate=0.1)
        queue = limits.new_queue("a", "candidate")
        queue.limiter.requests.charge(virtual_clock(), 6.0)
        calls = [asyncio.create_task(limits.acquire(queue)) for _ in range(4)]
        await asyncio.sleep(1.0)
        stop.set()
        done, _ = await asyncio.wait(calls, timeout=MINUTE)
        await limits.close()
        return len(done)

    assert played(ended()) == 4


def test_a_rate_that_is_lowered_keeps_what_was_used_and_one_of_nothing_lets_nothing_through() -> None:
    rate = RateLimiter(60.0)
    rate.charge(100.0, 3.0)
    assert rate.wait(100.0) == 2.0
    rate.set(30.0, 100.0)
    assert rate.wait(100.0) == 5.0
    rate.set(0.0, 100.0)
    assert rate.wait(1e9) == float("inf")
    rate.set(60.0, 200.0, debt=2.0)
    assert rate.wait(200.0) == 2.0
    assert (rate.take_used(), rate.take_used()) == (3.0, 0.0)
