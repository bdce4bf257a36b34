"""Workers that share limits: rates, slots and refusals hold over all of them, through freezes and a lost database."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path

import psycopg
import pytest

from assay.core.model_call import ModelFailure, Reply, Stage, Usage
from assay.core.outcome import Attempt
from assay.core.plan import DatasetPlan, ModelPlan, Plan, ProviderPlan
from assay.core.provider_limit import FoundLimit
from assay.core.settings import StageSection
from assay.engine.execution.limits import CallQueue, CallScheduler, CallSlot
from assay.engine.execution.shared_scheduler import SharedCallScheduler, open_scheduler, shared_limits
from assay.engine.records.run_counters import RunCounters
from assay.integrations.postgres import PostgresLedger
from assay.store.leases import ALL, LeaseGrant, LeaseRequest, LeaseStore, RunLimits
from tests.store.databases import Database, run_in, running_database
from tests.store.samples import new_ledger

QUOTA = ModelFailure("quota_exceeded", "no more", is_exhausted=True)
NO_KEY = ModelFailure("unauthorized", "no such key")
SHORT = 1.5
"""Seconds of a lease that is to end while a test waits; all others outlive every pause of a busy machine."""
PATIENCE = 60.0


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    """A PostgreSQL that may be stopped."""
    with running_database() as database:
        yield database


@pytest.fixture
def run(database: Database) -> Iterator[PostgresLedger]:
    with run_in(database) as ledger:
        yield ledger


def plan_of(*, concurrency: int = 4, judges: int | None = None, **provider: float) -> Plan:
    return Plan(
        run_id="x",
        datasets=(DatasetPlan(path="", contract="batch_v1", dataset_id="", dataset_version="", schema_version="", sha256=""),),
        candidate=ModelPlan(name="m", provider="a", model="m"),
        concurrency=concurrency,
        judging=StageSection(concurrency=judges),
        providers=(ProviderPlan(name="a", kind="openai", **provider),),
    )


class CountedLeases:
    """Leases of a worker that count how often it has begun to ask for them."""

    def __init__(self, leases: LeaseStore) -> None:
        self._leases = leases
        self.begun = 0

    def ask(self, request: LeaseRequest, limits: RunLimits) -> LeaseGrant:
        self.begun += 1
        return self._leases.ask(request, limits)

    def leave(self, worker: str) -> None:
        self._leases.leave(worker)

    def close(self) -> None:
        self._leases.close()


class Worker(SharedCallScheduler):
    """A worker of which a test knows when it has asked again."""

    def __init__(self, plan: Plan, leases: LeaseStore, *, stop: asyncio.Event, life: float = PATIENCE) -> None:
        self.leases = CountedLeases(leases)
        super().__init__(plan, self.leases, clock=time.time, stop=stop, life=life)

    async def has_asked(self) -> None:
        """Wait for the end of a question that begins from now on: when the next one begins, its answer is in use."""
        after = self.leases.begun + 2
        await until(lambda: self.leases.begun >= after)


@asynccontextmanager
async def workers(run: PostgresLedger, plan: Plan, *, count: int, life: float = PATIENCE) -> AsyncIterator[list[Worker]]:
    """Several workers of one run, each with its own connection."""
    async with AsyncExitStack() as stack:
        limits = [Worker(plan, run.leases(), stop=asyncio.Event(), life=life) for _ in range(count)]
        for each in limits:
            stack.push_async_callback(each.close)
        yield limits


async def call(limits: CallScheduler, queue: CallQueue, *, times: int, act: Callable[[], Awaitable[None]]) -> None:
    for _ in range(times):
        slot = await limits.acquire(queue)
        await act()
        limits.release(slot)


async def until(is_so: Callable[[], bool]) -> None:
    """Wait for something that comes in the end."""
    async with asyncio.timeout(PATIENCE):
        while not is_so():  # noqa: ASYNC110  # what is waited for has no event
            await asyncio.sleep(0.01)


async def is_waiting(task: "asyncio.Task[CallSlot]", *asking: Worker) -> bool:
    """Whether a call still waits when these workers have asked once more."""
    await asyncio.gather(*(worker.has_asked() for worker in asking))
    return not task.done()


def clock_of(database: Database) -> float:
    with psycopg.connect(database.address) as looking:
        found = looking.execute("SELECT extract(epoch FROM clock_timestamp())").fetchone()
    assert found is not None
    return float(found[0])


def test_a_ledger_in_a_file_has_limits_for_itself(tmp_path: Path) -> None:
    async def kind() -> type[CallScheduler]:
        with closing(new_ledger(tmp_path)) as ledger:
            async with open_scheduler(ledger, plan_of(), clock=time.time, stop=asyncio.Event()) as limits:
                return type(limits)

    assert asyncio.run(kind()) is CallScheduler


def test_four_workers_keep_one_rate(database: Database, run: PostgresLedger) -> None:
    async def calls() -> None:
        async with workers(run, plan_of(concurrency=16, requests_per_minute=2_400), count=4) as limits:
            queues = [(each, each.new_queue("a", "candidate")) for each in limits]
            await asyncio.gather(*(call(each, queue, times=5, act=lambda: asyncio.sleep(0)) for each, queue in queues * 4))

    begun = clock_of(database)
    asyncio.run(calls())
    # 80 calls at 40 per second, of which one second's worth may come at once.
    assert clock_of(database) - begun >= 80 / 40 - 1 - 1 / 40


@pytest.mark.parametrize(("stage", "cap"), [("candidate", 4), ("judge", 2)])
def test_calls_in_flight_over_all_workers_are_never_more_than_the_cap(run: PostgresLedger, stage: Stage, cap: int) -> None:
    flying, seen = 0, []

    async def fly() -> None:
        nonlocal flying
        flying += 1
        seen.append(flying)
        # However slow the machine is, the first calls are in flight together, or this never ends.
        await until(lambda: max(seen) >= cap)
        await asyncio.sleep(0.005)
        flying -= 1

    async def calls() -> None:
        async with workers(run, plan_of(concurrency=4, judges=2), count=4) as limits:
            queues = [(each, each.new_queue("a", stage)) for each in limits]
            await asyncio.gather(*(call(each, queue, times=5, act=fly) for each, queue in queues * 3))

    asyncio.run(calls())
    assert (len(seen), max(seen)) == (60, cap)


def test_slots_in_use_are_handed_over_when_their_calls_are_over(run: PostgresLedger) -> None:
    async def was_waiting() -> bool:
        async with workers(run, plan_of(), count=2) as (one, other):
            ours = one.new_queue("a", "candidate")
            slots = [await one.acquire(ours) for _ in range(4)]
            waiting = asyncio.create_task(other.acquire(other.new_queue("a", "candidate")))
            was_waiting = await is_waiting(waiting, one, other)  # one has asked since, and was given a smaller part
            one.release(slots[0])
            await asyncio.wait_for(waiting, PATIENCE)
            return was_waiting

    assert asyncio.run(was_waiting())


def test_a_worker_that_was_frozen_does_not_use_what_others_have_by_now(run: PostgresLedger) -> None:
    async def was_waiting() -> bool:
        async with workers(run, plan_of(), count=1, life=SHORT) as (frozen,):
            queue, others = frozen.new_queue("a", "candidate"), run.leases()
            frozen.release(await frozen.acquire(queue))
            time.sleep(SHORT + 0.5)  # noqa: ASYNC251  # the whole process stands still, and a question that was under way grew old
            others.ask(LeaseRequest(worker="b", number=1, wanted={ALL: 4}), shared_limits(plan_of()))
            thawed = asyncio.create_task(frozen.acquire(queue))
            was_waiting = await is_waiting(thawed, frozen)
            others.leave("b")
            others.close()
            await asyncio.wait_for(thawed, PATIENCE)
            return was_waiting

    assert asyncio.run(was_waiting())


def test_while_the_database_is_away_no_call_is_made_beyond_the_lease_and_then_they_go_on(
    database: Database, run: PostgresLedger
) -> None:
    async def was_waiting() -> bool:
        async with workers(run, plan_of(), count=1, life=SHORT) as (limits,):
            queue = limits.new_queue("a", "candidate")
            await limits.acquire(queue)
            database.stop()
            await asyncio.sleep(SHORT)
            late = asyncio.create_task(limits.acquire(queue))
            was_waiting = await is_waiting(late, limits)
            await asyncio.to_thread(database.start)
            await asyncio.wait_for(late, PATIENCE)
            return was_waiting

    assert asyncio.run(was_waiting())


def test_a_stop_ends_the_wait_for_slots_that_others_have(run: PostgresLedger) -> None:
    async def ended() -> None:
        others, stop = run.leases(), asyncio.Event()
        others.ask(LeaseRequest(worker="b", number=1, wanted={ALL: 4}), shared_limits(plan_of()))
        limits = Worker(plan_of(), run.leases(), stop=stop)
        waiting = asyncio.create_task(limits.acquire(limits.new_queue("a", "candidate")))
        assert await is_waiting(waiting, limits)
        stop.set()
        await asyncio.wait_for(waiting, PATIENCE)
        await limits.close()
        others.close()

    asyncio.run(ended())


def test_a_stop_of_some_ends_their_waits_and_nobody_elses(run: PostgresLedger) -> None:
    async def others_were_waiting() -> bool:
        async with workers(run, plan_of(concurrency=1), count=1) as (limits,):
            queue, stop = limits.new_queue("a", "candidate"), asyncio.Event()
            first = await limits.acquire(queue)
            stopped, other = asyncio.create_task(limits.acquire(queue, stop)), asyncio.create_task(limits.acquire(queue))
            await asyncio.sleep(0)
            stop.set()
            limits.wake_stopped()
            limits.release(await asyncio.wait_for(stopped, PATIENCE))
            were_waiting = await is_waiting(other, limits)
            limits.release(first)
            await asyncio.wait_for(other, PATIENCE)
            return were_waiting

    assert asyncio.run(others_were_waiting())


def test_a_provider_that_takes_no_more_calls_stops_all_workers(run: PostgresLedger) -> None:
    async def why() -> str | None:
        async with workers(run, plan_of(requests_per_minute=0.001), count=2) as (one, other):
            ours, theirs = one.new_queue("a", "candidate"), other.new_queue("a", "judge")
            slot = await one.acquire(ours)
            waiting = asyncio.create_task(other.acquire(theirs))
            ours.limiter.give_up(QUOTA)
            one.release(slot)
            await asyncio.wait_for(waiting, PATIENCE)
            return theirs.limiter.broken and theirs.limiter.broken.message

    assert asyncio.run(why()) == "no more"


def test_a_worker_with_a_wrong_key_does_not_stop_those_whose_calls_succeed(run: PostgresLedger) -> None:
    async def broken() -> tuple[bool, bool, bool]:
        async with workers(run, plan_of(), count=3) as limits:
            wrong, right, new = (each.new_queue("a", "candidate") for each in limits)
            right.limiter.end(None, Reply(text="4"), 0.0)
            wrong.limiter.give_up(NO_KEY)
            await until(lambda: new.limiter.broken is not None)
            await asyncio.gather(*(each.has_asked() for each in limits))
            return wrong.limiter.broken is not None, right.limiter.broken is not None, new.limiter.broken is not None

    assert asyncio.run(broken()) == (True, False, True)


def test_tokens_that_one_worker_has_used_hold_up_the_others(database: Database, run: PostgresLedger) -> None:
    plan = plan_of(tokens_per_minute=60_000)

    async def calls() -> None:
        async with workers(run, plan, count=1) as (one,):
            queue = one.new_queue("a", "candidate")
            slot = await one.acquire(queue)
            usage = Usage(input_tokens=2_000, output_tokens=1_000, total_tokens=3_000)
            one.end_call(slot, Reply(text="4", usage=usage))
            one.release(slot)
        async with workers(run, plan, count=1) as (other,):
            await other.acquire(other.new_queue("a", "judge"))

    begun = clock_of(database)
    asyncio.run(calls())
    assert clock_of(database) - begun >= 3_000 / 1_000 - 1


def paid(cost: float) -> Attempt:
    reply = Reply(text="4")
    return Attempt(stage="judge", call_id="j", round=1, started_at=0.0, latency_ms=1.0, model="m", reply=reply, cost=cost)


def test_calls_wait_for_no_rate_when_the_budget_is_spent(run: PostgresLedger) -> None:
    async def entered() -> int:
        counters = RunCounters(9, {}, started=0.0)
        async with workers(run, plan_of(requests_per_minute=1), count=1) as (limits,):
            limits.limit_cost(counters, 10.0)
            queue = limits.new_queue("a", "candidate")
            calls = [asyncio.create_task(limits.acquire(queue)) for _ in range(4)]
            await until(lambda: any(call.done() for call in calls))
            counters.add_attempt(paid(10.0))
            done, _ = await asyncio.wait(calls, timeout=PATIENCE / 2)
        return len(done)

    assert asyncio.run(entered()) == 4


BUSY = ModelFailure("rate_limited", "slower", http_status=429, retry_after=30.0)


def test_a_wait_that_a_provider_stated_to_one_worker_holds_up_the_others(run: PostgresLedger) -> None:
    async def was_waiting() -> bool:
        async with workers(run, plan_of(), count=2) as (one, other):
            ours, theirs = one.new_queue("a", "candidate"), other.new_queue("a", "judge")
            slot = await one.acquire(ours)
            one.end_call(slot, BUSY)
            one.release(slot)
            await until(lambda: theirs.limiter.learned.paused_until > 0)
            waiting = asyncio.create_task(other.acquire(theirs))
            was_waiting = await is_waiting(waiting, one, other)
            other.stop.set()
            await asyncio.wait_for(waiting, PATIENCE)
            return was_waiting

    assert asyncio.run(was_waiting())


def test_a_limit_that_one_worker_has_found_is_divided_among_all(run: PostgresLedger) -> None:
    async def limits_found() -> list[float]:
        async with workers(run, plan_of(), count=3) as limits:
            learned = [each.new_queue("a", "candidate").limiter.learned for each in limits]
            learned[0].adopt(FoundLimit(kind="rate", limit=12.0), time.time())
            await until(lambda: all(each.found() is not None for each in learned))
            await asyncio.gather(*(each.has_asked() for each in limits))
            return [found.limit for each in learned if (found := each.found()) is not None]

    assert asyncio.run(limits_found()) == pytest.approx([4.0, 4.0, 4.0])
