"""What a worker has of the runs that it evaluates: opened once, and let go of when their shards are done."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import msgspec
import pytest

from assay import api
from assay.core.errors import AssayError, RunDamaged, StoreUnavailable
from assay.core.runs import RunBackend, TemporalServer
from assay.engine.execution.run import open_or_create, prepare, seal
from assay.engine.execution.run_context import RunEnvironment
from assay.engine.planning.request import RunRequest
from assay.engine.readers.run_list import PROBLEM, TEMPORAL
from assay.engine.storage.run_paths import RunPaths
from assay.integrations.temporal.activities import OpenRuns, StopEvent
from assay.store.lock import RunLock
from tests.integrations.temporal.machines import PATIENCE
from tests.store.databases import Database

pytest.importorskip("temporalio")
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from assay.integrations.temporal.activities import Activities

pytestmark = pytest.mark.xdist_group("temporal")
RECORDS = 3


@pytest.fixture
def prepared(tmp_path: Path, database: Database) -> RunPaths:
    """A run over given answers that is ready for workers."""
    answers = [{"example_id": f"r-{n}", "candidate_name": "c", "response_text": "yes"} for n in range(RECORDS)]
    (tmp_path / "answers.jsonl").write_text("\n".join(map(json.dumps, answers)), encoding="utf-8")
    head = {"schema_version": "1.0", "dataset_id": "d", "dataset_version": "1", "created_at": "2026-01-01T00:00:00Z"}
    expected = {"required_criteria": ["overall"]}
    records = [{"record_id": f"r-{n}", "input": {"prompt": "x"}, "expected": expected, "tags": []} for n in range(RECORDS)]
    (tmp_path / "records.json").write_text(json.dumps({**head, "records": records}), encoding="utf-8")
    files = {"datasets": (str(tmp_path / "records.json"),), "responses": str(tmp_path / "answers.jsonl")}
    (plan,) = api.plan_runs(RunRequest(**files, judges=("scripted/judge-5",), run_id=f"open-{uuid4().hex}")).plans
    folders = RunPaths(tmp_path / "runs", plan.run_id)
    open_or_create(plan, folders, at=1.0, ledger=database.address)
    prepare(folders, environment(database))
    return folders


def environment(database: Database) -> RunEnvironment:
    return RunEnvironment(environ={}, placement=RunBackend(ledger=database.address))


def handles() -> list[str]:
    """The files that this process has open."""
    return [str(entry.readlink()) for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()]


def open_answers() -> int:
    return sum(name.endswith("answers.jsonl") for name in handles())


async def answers_open_while_evaluated(runs: OpenRuns, run_id: str) -> int:
    async with runs.open_run(run_id) as run:
        await run.evaluate(0, StopEvent())
        return open_answers()


def test_a_worker_lets_go_of_a_run_that_it_has_no_shards_of(prepared: RunPaths, database: Database) -> None:
    async def seen() -> int:
        runs = OpenRuns(database.address, environment(database), owner="test")
        before = await answers_open_while_evaluated(runs, prepared.run_id)
        async with asyncio.timeout(PATIENCE):
            while open_answers():  # noqa: ASYNC110  # what is waited for has no event
                await asyncio.sleep(0.05)
        await runs.close()
        return before

    assert asyncio.run(seen()) == 1


def test_a_trouble_that_has_passed_is_told_no_more(prepared: RunPaths, database: Database) -> None:
    async def evaluated() -> None:
        runs = OpenRuns(database.address, environment(database), owner="test")
        await answers_open_while_evaluated(runs, prepared.run_id)
        await runs.close()

    ledger = prepared.open_ledger()
    ledger.set_note(PROBLEM, "the disk is full")
    asyncio.run(evaluated())
    assert ledger.run().notes[PROBLEM] == ""
    ledger.close()


def failed(run: RunPaths, database: Database, problem: AssayError) -> ApplicationError:
    """What becomes of a problem that sealing has, on its way to Temporal."""

    def broken(_: str) -> str:
        raise problem

    async def sealed() -> None:
        activities = Activities(OpenRuns(database.address, environment(database), owner="me"), broken)
        await ActivityEnvironment().run(activities.seal, run.run_id)

    with pytest.raises(ApplicationError) as raised:
        asyncio.run(sealed())
    return raised.value


def test_a_name_that_is_no_text_is_told_as_far_as_it_is(prepared: RunPaths, database: Database) -> None:
    told = failed(prepared, database, StoreUnavailable("no \ud800 here", hint="see \ud800"))
    assert (told.message, told.details) == ("no ? here (worker me)", ("see ?",))
    assert not told.non_retryable


def test_what_is_damaged_is_not_tried_again(prepared: RunPaths, database: Database) -> None:
    assert failed(prepared, database, RunDamaged("changed")).non_retryable


def test_a_run_that_somebody_keeps_to_himself_is_not_waited_for_without_end(prepared: RunPaths, database: Database) -> None:
    with RunLock(prepared.active), pytest.raises(StoreUnavailable, match=rf"another worker has run .* \(process {os.getpid()}\)"):
        seal(prepared, environment(database), patience=0.2)


def test_to_cancel_a_run_that_somebody_prepares_takes_no_time(prepared: RunPaths) -> None:
    ledger = prepared.open_ledger()
    ledger.set_note(TEMPORAL, msgspec.json.encode(TemporalServer(address="127.0.0.1:1")).decode())
    command = [sys.executable, "-m", "assay", "cancel", prepared.run_id, "--runs-dir", str(prepared.runs_dir)]
    with RunLock(prepared.active):
        ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ledger.run().is_cancel_requested
    ledger.close()
