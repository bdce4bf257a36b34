"""One record under evaluation: its rounds, also after an interruption, and what its calls do to the rest of the run."""

import asyncio
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay import api
from assay.core.errors import StoreUnavailable
from assay.core.model_call import Reply
from assay.core.outcome import Attempt
from assay.core.plan import Plan
from assay.engine.execution.case import RunStopped, gather_attempts, run_case
from assay.engine.execution.run import open_or_create, prepare, run_to_completion
from assay.engine.execution.run_context import RunEnvironment, open_run_context
from assay.engine.planning.request import RunRequest
from assay.engine.storage.run_paths import RunPaths
from assay.store.ledger import ClaimLost, CommitEntry, Ledger
from tests.crash.job import write_job
from tests.crash.provider import CountingProvider
from tests.engine.execution.test_faults import BAD_KEY, DOWN, finished, good, states
from tests.engine.run_settings import planned, write_golden
from tests.simulation.loop import VirtualLoop
from tests.simulation.world import World

HOUR = 3600.0
LOST, OTHER = "scripted/fail-timeout", "scripted/judge-5"


def begun(folder: Path, *attempts: Attempt) -> RunPaths:
    """A run with a panel of two, of whose first record somebody has made these attempts."""
    write_golden(folder / "golden.json")
    request = RunRequest(datasets=(str(folder / "golden.json"),), models=("scripted/echo",), judges=(LOST, OTHER), quorum=1)
    (plan,) = planned(request).plans
    folders = RunPaths(folder / "runs", plan.run_id)
    open_or_create(plan, folders, at=0.0)
    prepare(folders, RunEnvironment(environ={}))
    ledger = folders.open_ledger()
    ledger.append(ledger.claim(0, owner="another"), [CommitEntry(0, attempts)])
    ledger.close()
    return folders


def attempt(call_id: str, **members: Any) -> Attempt:
    values: dict[str, Any] = {"stage": "judge", "round": 3, "started_at": 0.0, "latency_ms": 1.0, "model": "m"}
    return Attempt(**{**values, "call_id": call_id, **members})


def test_a_judge_that_is_lost_for_good_takes_no_round_from_the_others(tmp_path: Path) -> None:
    said = attempt("candidate", stage="candidate", reply=Reply(text="Something."))
    folders = begun(tmp_path, said, attempt(f"judge:rubric@{LOST}", model=LOST, error_code="timeout"))
    run_to_completion(folders, RunEnvironment(environ={}, loop=lambda: VirtualLoop(World(0))))
    lines = [json.loads(line) for line in (folders.sealed / "attempt_logs.jsonl").read_text().splitlines()]
    found = [(line["call_id"], line["record_attempt"]) for line in lines if line["index"] == 0]
    assert found == [("candidate", 3), (f"judge:rubric@{LOST}", 3), (f"judge:rubric@{OTHER}", 3)]


def test_a_clock_that_was_set_back_makes_no_wait_longer(tmp_path: Path) -> None:
    world = World(0)
    folders = begun(tmp_path, attempt("candidate", stage="candidate", round=1, started_at=HOUR, error_code="timeout", wait_s=2.0))
    run_to_completion(
        folders, RunEnvironment(environ={}, clock=world.clock.time, stopwatch=world.clock.time, loop=lambda: VirtualLoop(world))
    )
    assert world.clock.now < 60


def test_what_could_not_be_written_is_told_before_a_stop() -> None:
    async def failing(problem: Exception) -> None:
        raise problem

    async def side_by_side() -> None:
        await gather_attempts([failing(RunStopped()), failing(StoreUnavailable("the disk is full", hint="free some"))])

    with pytest.raises(StoreUnavailable):
        asyncio.run(side_by_side())


def test_a_record_of_a_shard_that_was_taken_over_makes_no_further_call(tmp_path: Path) -> None:
    folders = begun(tmp_path)

    async def evaluated(ledger: Ledger) -> None:
        claim = ledger.claim(0, owner="this worker")
        (opened, *_) = ledger.open_records(0)
        ledger.claim(0, owner="another")
        plan = msgspec.json.decode(ledger.run().plan, type=Plan)
        async with open_run_context(ledger, plan, RunEnvironment(environ={}), stop=asyncio.Event()) as context:
            await context.in_flight.reserve()
            context.in_flight.add_shard([len(opened.case)])
            # As after an append that the ledger refused, which another record of the shard has made.
            context.ledger_writer.fenced.add(claim)
            with pytest.raises(ClaimLost):
                await run_case(opened, claim, context)
            assert context.counters.calls == 0

    with closing(folders.open_ledger()) as ledger:
        asyncio.run(evaluated(ledger))


class HoldingProvider(CountingProvider):
    """A provider that answers the first call about the case `1` only after its release."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._released = asyncio.Event()

    def release(self) -> None:
        """Answer from now on."""
        self._loop.call_soon_threadsafe(self._released.set)

    async def _reply(self, body: bytes) -> bytes:
        if b"[case 1]" in body:
            await self._released.wait()
        return await super()._reply(body)


def test_a_record_with_three_rounds_does_not_speak_for_another_that_has_its_first(tmp_path: Path) -> None:
    def release(event: api.RecordEvent) -> None:
        if event.record_id == "r-0":
            provider.release()

    with HoldingProvider(lambda model, case, time: DOWN if case == "0" and time < 3 else good(model, case, time)) as provider:
        job = write_job(tmp_path, provider.base_url, records=2)
        (result,) = api.run(job.folder / "run.json", run_id="x", runs_dir=str(job.runs), observe=release)
    assert provider.calls["candidate", "0"] == 3
    assert states(result) == ["queued", "validating", "running", "finalizing", "completed_with_failures"]


def test_a_rejected_judge_ends_the_calls_to_a_candidate_elsewhere(tmp_path: Path) -> None:
    with CountingProvider(good) as answering, CountingProvider(lambda *_: BAD_KEY) as judging:
        providers = [{"name": "stub", "base_url": answering.base_url}, {"name": "other", "base_url": judging.base_url}]
        judges = [{"model": "other/judge"}]
        result = finished(write_job(tmp_path, answering.base_url, records=60, providers=providers, judges=judges))
    assert (result.state, result.counts.evaluated_records) == ("failed", 0)
    assert "'other' rejects the calls to 'other/judge'" in result.problem
    assert answering.calls_to("candidate") < 20
