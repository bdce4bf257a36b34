"""Runs that are interrupted, resumed, repeated, cancelled, or driven by two processes at once."""

import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from assay import api
from assay.core.errors import RunSealed, UsageProblem
from assay.core.run_result import RunResult
from tests.crash.check import problems_of, stable_artifacts
from tests.crash.job import Job, steady, write_job
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


def wait_for_calls(provider: CountingProvider, count: int) -> None:
    while provider.calls.total() < count:
        time.sleep(0.005)


def interrupt(job: Job, provider: CountingProvider, run_id: str, *, number: int = signal.SIGINT) -> "subprocess.Popen[str]":
    """Start a run, let it make some calls, and stop it with one signal."""
    running = job.start(run_id)
    wait_for_calls(provider, provider.calls.total() + 8)
    running.send_signal(number)
    running.communicate()
    return running


def test_a_finished_run_repeated_with_the_same_settings_is_the_same_run(job: Job, provider: CountingProvider) -> None:
    first = run(job, "x")
    calls = provider.calls.total()
    assert run(job, "x") == first
    assert run(job, "x", concurrency=2) == first
    assert provider.calls.total() == calls


def test_a_finished_run_is_not_repeated_with_other_settings(job: Job) -> None:
    run(job, "x")
    with pytest.raises(RunSealed, match="other settings"):
        run(job, "x", limit=3)


def test_an_unfinished_run_is_not_resumed_with_other_settings(job: Job, provider: CountingProvider) -> None:
    interrupt(job, provider, "x")
    with pytest.raises(UsageProblem, match=r"other settings \(limit\)"):
        run(job, "x", limit=3)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_signal_drains_the_run_and_loses_no_call(job: Job, provider: CountingProvider, number: int) -> None:
    expected = peaceful(job, provider)
    calls = provider.calls.total()
    stopped = interrupt(job, provider, "x", number=number)
    assert stopped.returncode == 130
    assert not api.open_run("x", runs_dir=job.runs).result.is_finished
    assert run(job, "x").state == "completed_with_failures"
    assert problems_of(job, "x", expected) == []
    assert provider.calls.total() == 2 * calls


def peaceful(job: Job, _: CountingProvider) -> dict[str, object]:
    run(job, "peaceful")
    return stable_artifacts(job.runs / "peaceful")


def test_a_second_signal_stops_the_run_at_once(tmp_path: Path) -> None:
    with CountingProvider(steady, latency=600) as provider:
        job = write_job(tmp_path, provider.base_url, records=12, providers=[{"name": "stub", "base_url": provider.base_url}])
        running = job.start("x")
        wait_for_calls(provider, job.concurrency)
        running.send_signal(signal.SIGINT)
        time.sleep(0.2)
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate()
        provider.latency = 0.0
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


def test_a_cancel_from_another_process_ends_a_run_under_way(tmp_path: Path, provider: CountingProvider) -> None:
    job = write_job(tmp_path, provider.base_url, records=400)
    running = job.start("x")
    wait_for_calls(provider, 20)
    api.cancel("x", runs_dir=job.runs)
    calls = provider.calls.total()
    running.communicate()
    result = api.open_run("x", runs_dir=job.runs).result
    assert (running.returncode, result.state) == (130, "cancelled")
    assert provider.calls.total() - calls <= 2 * job.concurrency
    assert result.counts.cancelled_records > 300
    assert api.verify("x", runs_dir=job.runs) == []


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


def test_originals_that_a_crash_left_behind_are_cleared_when_the_run_is_repeated(job: Job, provider: CountingProvider) -> None:
    interrupt(job, provider, "x")
    kept = job.folder / "kept"
    shutil.copytree(job.runs / ".active" / "x", kept)
    run(job, "x")
    shutil.copytree(kept, job.runs / ".active" / "x")
    run(job, "x")
    assert [path.name for path in job.runs.iterdir()] == ["x"]


def test_a_resumed_run_may_have_another_concurrency(job: Job, provider: CountingProvider) -> None:
    interrupt(job, provider, "x")
    provider.most_in_flight = 0
    assert run(job, "x", concurrency=9).is_finished
    assert provider.most_in_flight > job.concurrency


def test_a_folder_that_is_no_run_is_refused_before_any_call(job: Job, provider: CountingProvider) -> None:
    (job.runs / "x").mkdir(parents=True)
    (job.runs / "x" / "notes.txt").write_text("mine")
    with pytest.raises(UsageProblem, match="is no run"):
        run(job, "x")
    assert provider.calls.total() == 0


def test_a_retry_asks_only_for_what_failed(job: Job, provider: CountingProvider) -> None:
    first = run(job, "x")
    calls = provider.calls.total()
    second = api.retry("x", runs_dir=job.runs, run_id="y")
    assert second.counts.total_records == first.counts.failed_records - first.counts.invalid_records
    assert provider.calls.total() - calls < calls / 2
    assert msgspec.to_builtins(api.open_run("y", runs_dir=job.runs).manifest["plan"])["parent_run_id"] == "x"
