"""Money that workers share."""

import asyncio
from collections.abc import Iterator

import pytest

from assay.engine.records.run_counters import RunCounters
from assay.integrations.postgres import PostgresLedger
from tests.engine.execution.test_shared_scheduler import paid, plan_of, until, workers
from tests.store.databases import Database, run_in


@pytest.fixture
def run(database: Database) -> Iterator[PostgresLedger]:
    with run_in(database) as ledger:
        yield ledger


def test_money_that_one_worker_spends_is_gone_for_the_others(run: PostgresLedger) -> None:
    async def known_costs() -> list[float]:
        tallies = [RunCounters(9, {}, started=0.0) for _ in range(3)]
        async with workers(run, plan_of(), count=3) as limits:
            for each, counters in zip(limits, tallies, strict=True):
                each.limit_cost(counters, 10.0)
            for counters, cost in zip(tallies, (1.0, 2.0, 4.0), strict=True):
                counters.add_attempt(paid(cost))
            await until(lambda: all(counters.cost >= 7.0 for counters in tallies))
        return [counters.cost for counters in tallies]

    assert asyncio.run(known_costs()) == [7.0, 7.0, 7.0]


def test_money_that_a_worker_knows_of_from_the_ledger_is_not_counted_twice(run: PostgresLedger) -> None:
    async def known_costs() -> list[float]:
        spender, reader = RunCounters(9, {}, started=0.0), RunCounters(9, {}, started=0.0, cost=1.0)
        async with workers(run, plan_of(), count=2) as limits:
            limits[1].limit_cost(reader, 10.0)
            reader.add_attempt(paid(2.0))
            limits[0].limit_cost(spender, 10.0)
            await until(lambda: spender.cost >= 2.0)
            spender.add_attempt(paid(1.0))
            await until(lambda: reader.cost >= 3.0 and spender.cost >= 3.0)
        return [spender.cost, reader.cost]

    assert asyncio.run(known_costs()) == [3.0, 3.0]
