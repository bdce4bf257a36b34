"""Runs where an event loop is running already."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import assay
from assay import api
from tests.engine.run_settings import write_golden


def test_a_run_works_where_an_event_loop_is_running(tmp_path: Path) -> None:
    dataset = write_golden(tmp_path / "golden.json")
    seen: list[int] = []

    async def cell() -> assay.Run:
        options = {"model": "scripted/echo", "judge": "scripted/judge-5", "runs_dir": str(tmp_path / "runs")}
        return assay.run(dataset, watch=lambda now: seen.append(now.done), **options)[0]

    assert asyncio.run(cell()).state == "completed"
    assert seen[-1] == 5


@pytest.mark.parametrize("call", [asyncio.run, lambda cell: cell.send(None)], ids=["in a loop", "without one"])
def test_a_watch_that_raises_ends_the_run_which_can_go_on(tmp_path: Path, call: Callable[[Any], None]) -> None:
    dataset, runs_dir = write_golden(tmp_path / "golden.json"), tmp_path / "runs"

    def watch(now: api.Snapshot) -> None:
        raise LookupError(f"{now.done} done")

    async def cell() -> None:
        options = {"model": "scripted/slow-200", "judge": "scripted/judge-5", "concurrency": 1, "run_id": "unseen"}
        assay.run(dataset, watch=watch, runs_dir=str(runs_dir), **options)

    before = set(threading.enumerate())
    with pytest.raises(LookupError, match="0 done"):
        call(cell())
    # Nothing that could go on with the run is left, and until then it may still be on its way out.
    begun = set(threading.enumerate()) - before
    for thread in begun:
        thread.join(60)
    assert not any(thread.is_alive() for thread in begun)
    left = assay.open_run("unseen", runs_dir=runs_dir)
    assert (left.state, left.counts.evaluated_records < 5) == ("running", True)
    assert left.resume().counts.evaluated_records == 5
