"""A clock on the wall that somebody sets: rates, waits and states go by what it cannot change."""

import asyncio
import json
from collections.abc import Callable
from datetime import datetime
from functools import partial
from itertools import count
from pathlib import Path

import msgspec
import pytest

from assay.core.plan import DatasetPlan, ModelPlan, Plan, ProviderPlan
from assay.core.run_result import RunResult
from assay.engine.execution.limits import CallScheduler
from assay.engine.execution.run_context import RunEnvironment
from assay.engine.planning.request import RunRequest
from assay.engine.runs import start
from tests.engine.run_settings import mcq_row, write_rows
from tests.engine.run_settings import planned as plans_of
from tests.simulation.loop import VirtualLoop
from tests.simulation.world import EPOCH, World

HOUR = 3600.0


def run_in(
    world: World, folder: Path, clock: Callable[[], float], *, model: str = "scripted/echo", rate: int | None = 60
) -> RunResult:
    """A run of six records with a rate, in virtual time and by that clock."""
    write_rows(folder / "law.jsonl", *(mcq_row(f"q-{n}") for n in range(6)))
    settings = {
        "datasets": ["law.jsonl"],
        "candidates": [model],
        "providers": [{"name": "scripted", "requests_per_minute": rate}],
        "run": {"concurrency": 1},
    }
    (folder / "run.json").write_text(json.dumps(settings))
    (plan,) = plans_of(RunRequest(run_file=str(folder / "run.json"))).plans
    around = RunEnvironment(environ={}, clock=clock, stopwatch=world.clock.time, loop=partial(VirtualLoop, world))
    return start(plan, folder / "runs", around)


def test_a_clock_that_is_set_forward_lets_nobody_exceed_a_rate(tmp_path: Path) -> None:
    world = World(0)
    run_in(world, tmp_path, lambda: world.clock.now * HOUR)
    assert world.clock.now > 3.9


def test_a_clock_that_is_set_back_keeps_nobody_waiting_for_a_rate(tmp_path: Path) -> None:
    world = World(0)
    run_in(world, tmp_path, lambda: 1e9 + world.clock.now - (world.clock.now > 0.5) * 100)
    assert world.clock.now < 10


def test_no_state_is_entered_before_the_last_one(tmp_path: Path) -> None:
    world, hours = World(0), count()
    result = run_in(world, tmp_path, lambda: 1e9 - next(hours) * HOUR, model="scripted/flaky-1", rate=None)
    states = json.loads((Path(result.run_dir) / "run_manifest.json").read_text())["states"]
    assert "retrying" in [state["state"] for state in states]
    assert [state["entered_at"] for state in states] == sorted(state["entered_at"] for state in states)


def test_calls_that_waited_for_one_rate_do_not_exceed_another() -> None:
    world = World(0)
    plan = Plan(
        run_id="x",
        datasets=(DatasetPlan(path="", contract="batch_v1", dataset_id="", dataset_version="", schema_version="", sha256=""),),
        candidate=ModelPlan(name="m", provider="a", model="m"),
        providers=(ProviderPlan(name="a", kind="openai", requests_per_minute=60, tokens_per_minute=1000),),
    )

    async def moments() -> list[int]:
        limits, begun = CallScheduler(plan, clock=world.clock.time, stop=asyncio.Event()), []
        queue = limits.new_queue("a", "candidate")
        queue.limiter.tokens.charge(0.0, 1000)

        async def call() -> None:
            await limits.acquire(queue)
            begun.append(round(world.clock.now))

        await asyncio.gather(*(call() for _ in range(5)))
        return begun

    with asyncio.Runner(loop_factory=partial(VirtualLoop, world)) as runner:
        assert runner.run(moments()) == [59, 59, 60, 61, 62]


@pytest.mark.parametrize("away", [0.0, 3.0, 3600.0])
def test_a_resumed_record_waits_for_what_is_left_of_its_delay(tmp_path: Path, away: float) -> None:
    world = World(0)
    rows = write_rows(tmp_path / "law.jsonl", mcq_row("q-0"))
    (plan,) = plans_of(RunRequest(datasets=(str(rows),), models=("scripted/fail-service_unavailable",))).plans
    around = RunEnvironment(
        environ={},
        clock=world.clock.wall,
        stopwatch=world.clock.time,
        chance=lambda: 0.5,
        loop=partial(VirtualLoop, world),
        is_stopping=lambda: world.clock.now > 3,
    )
    # Attempts are made after 0, 2 and 8 seconds; the run is stopped before the last one.
    assert not start(plan, tmp_path / "runs", around).is_finished
    stopped = world.clock.now
    world.clock.now += away
    result = start(plan, tmp_path / "runs", msgspec.structs.replace(around, is_stopping=None))
    log = [json.loads(line) for line in (Path(result.run_dir) / "attempt_logs.jsonl").read_text().splitlines()]
    begun = [datetime.fromisoformat(attempt["at"]).timestamp() - EPOCH for attempt in log]
    assert stopped < 4
    assert begun == pytest.approx([0.0, 2.0, max(8.0, stopped + away)], abs=0.1)
