"""One run on this machine: begun, interrupted, and gone on with."""

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from assay import api
from assay.core.errors import UsageProblem
from assay.engine.execution.run_context import RunEnvironment
from assay.engine.runs import start
from tests.crash.job import Job, steady, write_job
from tests.crash.provider import CountingProvider
from tests.engine.execution.test_run_ownership import clock_that_stops_at
from tests.engine.test_runs import interrupt, run


@pytest.fixture
def provider() -> Iterator[CountingProvider]:
    with CountingProvider(steady, latency=0.02) as opened:
        yield opened


@pytest.fixture
def job(tmp_path: Path, provider: CountingProvider) -> Job:
    return write_job(tmp_path, provider.base_url, records=40)


def test_a_finished_run_repeated_with_the_same_settings_is_the_same_run(job: Job, provider: CountingProvider) -> None:
    first = run(job, "x")
    calls = provider.calls.total()
    assert run(job, "x") == first
    assert run(job, "x", concurrency=2) == first
    assert provider.calls.total() == calls


def test_originals_that_a_crash_left_behind_are_cleared_when_the_run_is_repeated(job: Job, provider: CountingProvider) -> None:
    interrupt(job, provider, "x")
    kept = job.folder / "kept"
    shutil.copytree(job.runs / ".active" / "x", kept)
    run(job, "x")
    shutil.copytree(kept, job.runs / ".active" / "x")
    run(job, "x")
    assert (list((job.runs / ".active").iterdir()), (job.runs / "x").is_dir()) == ([], True)


def test_a_resumed_run_may_have_another_concurrency(job: Job, provider: CountingProvider) -> None:
    interrupt(job, provider, "x")
    before = provider.calls.total()
    provider.hold()
    with ThreadPoolExecutor(1) as pool:
        resumed = pool.submit(run, job, "x", concurrency=9)
        # Nobody is answered, so that all of them are in flight together.
        provider.wait_for(before + 9)
        provider.let_go()
        assert resumed.result().is_finished


def test_a_run_whose_place_was_taken_meanwhile_makes_no_further_call(job: Job, provider: CountingProvider) -> None:
    interrupt(job, provider, "x")
    calls = provider.calls.total()
    (job.runs / "x").touch()
    with pytest.raises(UsageProblem, match="is not a run"):
        api.resume("x", runs_dir=job.runs)
    assert provider.calls.total() == calls


@pytest.mark.parametrize(("look", "state"), [(2, "queued"), (3, "validating")])
def test_a_signal_before_the_first_call_leaves_a_run_that_can_be_resumed(job: Job, look: int, state: str) -> None:
    (plan,) = api.plan_runs(api.RunRequest(run_file=str(job.folder / "run.json"), run_id="x")).plans
    stopped = start(plan, job.runs, RunEnvironment(environ={}, clock=clock_that_stops_at(look), takes_signals=True))
    assert (stopped.state, stopped.is_finished) == (state, False)
    assert api.resume("x", runs_dir=job.runs).is_finished
