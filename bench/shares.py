"""How well workers keep limits that they share: `python bench/shares.py postgresql://... [--seconds N] [--workers N]`.

Each worker is a process with as many calls at hand as the whole run may have in flight; a call is a wait of 0.3 s.
Nothing is asserted.
"""

import argparse
import asyncio
import multiprocessing
import time
from itertools import accumulate
from threading import Barrier
from typing import NamedTuple
from uuid import uuid4

from assay.core.model_call import Usage
from assay.core.plan import DatasetPlan, ModelPlan, Plan, ProviderPlan
from assay.engine.execution.shared_scheduler import SharedCallScheduler
from assay.integrations.postgres import PostgresLedgers
from assay.store.leases import LeaseGrant, LeaseRequest, LeaseStore, RunLimits

LATENCY = 0.3
TOKENS = 100
"""Tokens of one call."""


class Case(NamedTuple):
    """Limits to keep."""

    name: str
    concurrency: int
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None

    @property
    def calls_per_second(self) -> float:
        """The most calls that the limits allow in the long run."""
        rates = (self.requests_per_minute or float("inf"), (self.tokens_per_minute or float("inf")) / TOKENS)
        return min(min(rates) / 60, self.concurrency / LATENCY)


CASES = (
    Case("600 requests per minute", 32, requests_per_minute=600),
    Case("30,000 requests per minute", 400, requests_per_minute=30_000),
    Case("60,000 tokens per minute", 32, tokens_per_minute=60_000),
    Case("32 calls in flight", 32),
)


class Work(NamedTuple):
    """What one worker did."""

    calls: list[tuple[float, float]]
    questions: int


class Counting:
    """Leases that count the questions."""

    def __init__(self, leases: LeaseStore) -> None:
        self._leases = leases
        self.questions = 0

    def ask(self, need: LeaseRequest, terms: RunLimits) -> LeaseGrant:
        """See Leases."""
        self.questions += 1
        return self._leases.ask(need, terms)

    def leave(self, worker: str) -> None:
        """See Leases."""
        self._leases.leave(worker)

    def close(self) -> None:
        """See Leases."""
        self._leases.close()


def main() -> None:
    """Measure all cases and print a table."""
    parser = argparse.ArgumentParser(description="Measure limits that workers share.")
    parser.add_argument("ledger", help="a database for the runs: postgresql://...")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--workers", type=int, default=4)
    options = parser.parse_args()
    print("| limit | calls | of what is allowed | in the fullest 10 s | most in flight | by worker | questions per second |")
    print("|---|---|---|---|---|---|---|")
    for case in CASES:
        print(
            row(case, measured(options.ledger, case, seconds=options.seconds, workers=options.workers), options.seconds), flush=True
        )


def measured(ledger: str, case: Case, *, seconds: float, workers: int) -> list[Work]:
    """What workers do that begin at the same time."""
    runs, run_id = PostgresLedgers(ledger), uuid4().hex
    runs.create(run_id, plan=b"{}", plan_sha256="", at=0.0).close()
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager, context.Pool(workers) as pool:
        works = pool.starmap(worked, [(ledger, run_id, case, manager.Barrier(workers), seconds)] * workers)
    runs.remove(run_id)
    runs.close()
    return works


def worked(ledger: str, run_id: str, case: Case, start: Barrier, seconds: float) -> Work:
    """What one worker does in so many seconds, when all are ready."""
    runs = PostgresLedgers(ledger)
    run = runs.open(run_id)
    leases = Counting(run.leases())
    start.wait()
    calls = asyncio.run(called(leases, case, time.time() + seconds))
    run.close()
    runs.close()
    return Work(calls, leases.questions)


async def called(leases: LeaseStore, case: Case, end: float) -> list[tuple[float, float]]:
    """Begin and end of all calls that were made."""
    stop, calls = asyncio.Event(), list[tuple[float, float]]()
    limits = SharedCallScheduler(plan_of(case), leases, clock=time.time, stop=stop)
    gate = limits.gate("provider", "candidate")

    async def call_on() -> None:
        while not stop.is_set():
            await limits.acquire(gate)
            begun = time.time()
            if not stop.is_set():
                await asyncio.sleep(LATENCY)
                calls.append((begun, time.time()))
                gate.lane.succeeded(Usage(total_tokens=TOKENS), begun)
            limits.release(gate)

    asyncio.get_running_loop().call_later(end - time.time(), stop.set)
    await asyncio.gather(*(call_on() for _ in range(case.concurrency)))
    await limits.close()
    return calls


def plan_of(case: Case) -> Plan:
    """A plan with nothing but limits."""
    provider = ProviderPlan(
        name="provider",
        kind="openai",
        requests_per_minute=case.requests_per_minute,
        tokens_per_minute=case.tokens_per_minute,
    )
    return Plan(
        run_id="shares",
        datasets=(DatasetPlan(path="", contract="batch_v1", dataset_id="", dataset_version="", schema_version="", sha256=""),),
        candidate=ModelPlan(name="model", provider="provider", model="model"),
        concurrency=case.concurrency,
        providers=(provider,),
    )


def row(case: Case, works: list[Work], seconds: float) -> str:
    """One line of the table."""
    begun = sorted(begin for work in works for begin, _ in work.calls)
    steps = sorted(
        [(begin, 1) for work in works for begin, _ in work.calls] + [(end, -1) for work in works for _, end in work.calls]
    )
    window = 10.0
    fullest = max(sum(first <= begin < first + window for begin in begun) for first in begun[:: max(1, len(begun) // 300)])
    return (
        f"| {case.name} | {len(begun):,} | {len(begun) / (case.calls_per_second * seconds):.1%}"
        f" | {fullest / (case.calls_per_second * window):.1%} | {max(accumulate(step for _, step in steps))}"
        f" | {', '.join(str(len(work.calls)) for work in works)} | {sum(work.questions for work in works) / seconds:.1f} |"
    )


if __name__ == "__main__":
    main()
