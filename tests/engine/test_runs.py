"""Runs that are interrupted, resumed, repeated, cancelled, or driven by two processes at once."""

import json
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from assay import api
from assay.core.errors import RunSealed
from assay.core.run_result import RunResult
from tests.crash.job import Job, steady, wait_until_heard, write_job
from tests.crash.provider import CountingProvider


@pytest.fixture
def provider() -> Iterator[CountingProvider]:
    with CountingProvider(steady, latency=0.02) as opened:
        yield opened


@pytest.fixture
def job(tmp_path: Path, provider: CountingProvider) -> Job:
    return write_job(tmp_path, provider.base_url, records=40)


def run(job: Job, run_id: str, **options: object) -> RunResult:
    """The result of the job's only run, in this process."""
    (result,) = api.run(job.folder / "run.json", run_id=run_id, runs_dir=str(job.runs), **options)
    return result


def interrupt(job: Job, provider: CountingProvider, run_id: str, *, number: int = signal.SIGINT) -> "subprocess.Popen[str]":
    """Start a run, let it make some calls, and stop it with one signal."""
    before = provider.calls.total()
    provider.hold(after=8)
    running = job.start(run_id)
    provider.wait_for(before + 9, while_alive=running)
    running.send_signal(number)
    wait_until_heard(running, number)
    provider.let_go()
    running.communicate()
    return running


def test_a_cancel_seals_a_run_that_nobody_works_on_without_a_call(job: Job, provider: CountingProvider) -> None:
    interrupt(job, provider, "x")
    calls = provider.calls.total()
    cancelled = api.cancel("x", runs_dir=job.runs)
    assert (cancelled.state, provider.calls.total()) == ("cancelled", calls)
    assert cancelled.counts.evaluated_records > 0
    assert api.cancel("x", runs_dir=job.runs) == cancelled
    assert api.verify("x", runs_dir=job.runs) == []


def test_a_finished_run_cannot_be_cancelled(job: Job) -> None:
    run(job, "x")
    with pytest.raises(RunSealed, match="completed_with_failures"):
        api.cancel("x", runs_dir=job.runs)


# Plans of an earlier version


def without_member(plan: str, name: str) -> str:
    """A plan as it was before it gained a member."""
    members = json.loads(plan)
    del members[name]
    return json.dumps(members)


def test_an_unfinished_run_of_a_version_with_fewer_settings_goes_on(job: Job, provider: CountingProvider) -> None:
    interrupt(job, provider, "x")
    with closing(sqlite3.connect(job.runs / ".active" / "x" / "ledger.sqlite", isolation_level=None)) as database:
        (plan,) = database.execute("SELECT plan FROM run").fetchone()
        database.execute("UPDATE run SET plan = ?, plan_sha256 = 'of then'", (without_member(plan, "mcq_mode").encode(),))
    assert run(job, "x").is_finished


def test_a_finished_run_of_a_version_with_fewer_settings_is_the_same_run(job: Job, provider: CountingProvider) -> None:
    first = run(job, "x")
    calls = provider.calls.total()
    path = job.runs / "x" / "run_manifest.json"
    manifest = json.loads(path.read_text())
    plan = json.loads(without_member(json.dumps(manifest["plan"]), "mcq_mode"))
    path.chmod(0o644)
    path.write_text(json.dumps({**manifest, "plan": plan, "plan_sha256": "of then"}))
    assert (run(job, "x"), provider.calls.total()) == (first, calls)


# Places that are taken


# Signals and times outside the calls
