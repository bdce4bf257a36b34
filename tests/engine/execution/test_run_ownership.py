"""Who owns a run: one process at a time, and the signals that end its work."""

import os
import pty
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from assay import api
from assay.engine.execution.run_context import RunEnvironment
from assay.engine.runs import start
from tests.crash.check import problems_of, stable_artifacts
from tests.crash.job import Job, steady, wait_until_heard, write_job
from tests.crash.provider import CountingProvider
from tests.engine.test_runs import interrupt, run


@pytest.fixture
def provider() -> Iterator[CountingProvider]:
    with CountingProvider(steady, latency=0.02) as opened:
        yield opened


@pytest.fixture
def job(tmp_path: Path, provider: CountingProvider) -> Job:
    return write_job(tmp_path, provider.base_url, records=40)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_one_signal_drains_the_run_and_loses_no_call(job: Job, provider: CountingProvider, number: int) -> None:
    expected = peaceful(job, provider)
    calls = provider.calls.total()
    stopped = interrupt(job, provider, "x", number=number)
    assert stopped.returncode == 130
    assert not api.open_run("x", runs_dir=job.runs).result.is_finished
    assert run(job, "x").state == "completed_with_failures"
    assert problems_of(job, "x", expected) == []
    assert provider.calls.total() == 2 * calls


def test_a_hangup_prints_how_to_resume(job: Job, provider: CountingProvider) -> None:
    provider.hold(after=8)
    running = job.start("x")
    provider.wait_for(9, while_alive=running)
    running.send_signal(signal.SIGHUP)
    wait_until_heard(running, signal.SIGHUP)
    provider.let_go()
    _, errors = running.communicate()
    assert (running.returncode, "assay: interrupted\nhint: resume with: assay resume x" in errors) == (130, True)


def test_a_hangup_that_is_ignored_ends_no_run(job: Job, provider: CountingProvider) -> None:
    provider.hold(after=8)
    running = job.start("x", before=("nohup",))
    provider.wait_for(9, while_alive=running)
    running.send_signal(signal.SIGHUP)
    provider.let_go()
    running.communicate()
    assert running.returncode == 0
    assert api.open_run("x", runs_dir=job.runs).result.is_finished


def test_a_run_whose_terminal_is_closed_drains_and_can_be_resumed(job: Job, provider: CountingProvider) -> None:
    expected = peaceful(job, provider)
    calls = provider.calls.total()
    provider.hold(after=8)
    terminal, side = pty.openpty()
    running = job.start_in_terminal("x", side)
    os.close(side)
    provider.wait_for(calls + 9, while_alive=running)
    os.close(terminal)
    wait_until_heard(running, signal.SIGHUP)
    provider.let_go()
    assert running.wait(60) == 130
    assert run(job, "x").state == "completed_with_failures"
    assert problems_of(job, "x", expected) == []
    assert provider.calls.total() == 2 * calls


def peaceful(job: Job, _: CountingProvider) -> dict[str, object]:
    run(job, "peaceful")
    return stable_artifacts(job.runs / "peaceful")


def test_a_second_signal_stops_the_run_at_once(tmp_path: Path) -> None:
    with CountingProvider(steady) as provider:
        provider.hold()
        job = write_job(tmp_path, provider.base_url, records=12, providers=[{"name": "stub", "base_url": provider.base_url}])
        running = job.start("x")
        provider.wait_for(job.concurrency, while_alive=running)
        running.send_signal(signal.SIGINT)
        wait_until_heard(running, signal.SIGINT)
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate()
        provider.let_go()
        assert (running.returncode, "Traceback" in errors, "never" in errors) == (130, False, False)
        assert run(job, "x").counts.total_records == 14


def test_two_processes_with_one_run_make_one_result(job: Job, provider: CountingProvider) -> None:
    expected = peaceful(job, provider)
    calls = provider.calls.total()
    both = [job.start("x") for _ in range(2)]
    said = [process.communicate()[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert said[0] == said[1]
    assert problems_of(job, "x", expected) == []
    assert provider.calls.total() == 2 * calls


def clock_that_stops_at(count: int) -> Callable[[], float]:
    """A clock during whose so-and-so-many-th look somebody presses Ctrl-C."""
    looks = iter(range(1, 100))

    def clock() -> float:
        look = next(looks)
        if look == count:
            raise KeyboardInterrupt
        return 1_700_000_000.0 - look

    return clock


def test_a_signal_is_the_caller_s_where_it_takes_signals_itself(job: Job) -> None:
    (plan,) = api.plan_runs(api.RunRequest(run_file=str(job.folder / "run.json"), run_id="x")).plans
    with pytest.raises(KeyboardInterrupt):
        start(plan, job.runs, RunEnvironment(environ={}, clock=clock_that_stops_at(2)))
