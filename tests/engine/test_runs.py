"""Runs that are interrupted, resumed, repeated, cancelled, or driven by two processes at once."""

import json
import os
import pty
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from assay import api
from assay.core.artifact_lines import CaseLine
from assay.core.errors import RunSealed, UsageProblem
from assay.core.run_result import RunResult
from assay.engine.execution.run_context import RunEnvironment
from assay.engine.runs import start
from assay.store.published_run import open_run_folder
from tests.crash.check import problems_of, stable_artifacts
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


def test_a_finished_run_repeated_with_the_same_settings_is_the_same_run(job: Job, provider: CountingProvider) -> None:
    first = run(job, "x")
    calls = provider.calls.total()
    assert run(job, "x") == first
    assert run(job, "x", concurrency=2) == first
    assert provider.calls.total() == calls


def test_a_finished_run_is_not_repeated_with_other_settings(job: Job) -> None:
    run(job, "x")
    with pytest.raises(RunSealed, match=r"other settings \(limit\)"):
        run(job, "x", limit=3)


def test_an_unfinished_run_is_not_resumed_with_other_settings(job: Job, provider: CountingProvider) -> None:
    interrupt(job, provider, "x")
    with pytest.raises(UsageProblem, match=r"other settings \(limit\)"):
        run(job, "x", limit=3)


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


def test_a_cancel_from_another_process_ends_a_run_under_way(tmp_path: Path, provider: CountingProvider) -> None:
    job = write_job(tmp_path, provider.base_url, records=400)
    provider.hold(after=20)
    running = job.start("x")
    provider.wait_for(21, while_alive=running)
    api.cancel("x", runs_dir=job.runs)
    calls = provider.calls.total()
    provider.let_go()
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


def test_a_folder_that_is_no_run_is_refused_before_any_call(job: Job, provider: CountingProvider) -> None:
    (job.runs / "x").mkdir(parents=True)
    (job.runs / "x" / "notes.txt").write_text("mine")
    with pytest.raises(UsageProblem, match="is not a run"):
        run(job, "x")
    assert provider.calls.total() == 0


def test_a_retry_asks_only_for_what_failed(job: Job, provider: CountingProvider) -> None:
    first = run(job, "x")
    calls = provider.calls.total()
    second = api.retry("x", runs_dir=job.runs, run_id="y")
    assert second.counts.total_records == first.counts.failed_records - first.counts.invalid_records
    assert provider.calls.total() - calls < calls / 2
    assert api.open_run("y", runs_dir=job.runs).run_manifest.settings.parent_run_id == "x"


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


@pytest.mark.parametrize("run_id", ["audit.jsonl", "latest", "LATEST"])
def test_a_name_that_means_something_else_is_refused_before_any_call(job: Job, provider: CountingProvider, run_id: str) -> None:
    with pytest.raises(UsageProblem, match="cannot be a run id"):
        run(job, run_id)
    assert provider.calls.total() == 0


@pytest.mark.parametrize("make", [Path.touch, lambda path: path.symlink_to("nowhere")])
def test_a_file_in_the_place_of_a_run_is_refused_before_any_call(
    job: Job, provider: CountingProvider, make: Callable[[Path], None]
) -> None:
    job.runs.mkdir()
    make(job.runs / "x")
    with pytest.raises(UsageProblem, match="is not a run"):
        run(job, "x")
    assert provider.calls.total() == 0


def test_a_run_whose_place_was_taken_meanwhile_makes_no_further_call(job: Job, provider: CountingProvider) -> None:
    interrupt(job, provider, "x")
    calls = provider.calls.total()
    (job.runs / "x").touch()
    with pytest.raises(UsageProblem, match="is not a run"):
        api.resume("x", runs_dir=job.runs)
    assert provider.calls.total() == calls


def test_an_empty_run_id_is_refused(job: Job) -> None:
    with pytest.raises(UsageProblem, match="empty"):
        run(job, "")
    run(job, "x")
    with pytest.raises(UsageProblem, match="cannot be a run id"):
        api.retry("x", runs_dir=job.runs, run_id="")


# Signals and times outside the calls


def clock_that_stops_at(count: int) -> Callable[[], float]:
    """A clock during whose so-and-so-many-th look somebody presses Ctrl-C."""
    looks = iter(range(1, 100))

    def clock() -> float:
        look = next(looks)
        if look == count:
            raise KeyboardInterrupt
        return 1_700_000_000.0 - look

    return clock


@pytest.mark.parametrize(("look", "state"), [(2, "queued"), (3, "validating")])
def test_a_signal_before_the_first_call_leaves_a_run_that_can_be_resumed(job: Job, look: int, state: str) -> None:
    (plan,) = api.plan_runs(api.RunRequest(run_file=str(job.folder / "run.json"), run_id="x")).plans
    stopped = start(plan, job.runs, RunEnvironment(environ={}, clock=clock_that_stops_at(look), takes_signals=True))
    assert (stopped.state, stopped.is_finished) == (state, False)
    assert api.resume("x", runs_dir=job.runs).is_finished


def test_a_signal_is_the_caller_s_where_it_takes_signals_itself(job: Job) -> None:
    (plan,) = api.plan_runs(api.RunRequest(run_file=str(job.folder / "run.json"), run_id="x")).plans
    with pytest.raises(KeyboardInterrupt):
        start(plan, job.runs, RunEnvironment(environ={}, clock=clock_that_stops_at(2)))


def test_no_state_is_entered_before_the_one_it_follows(job: Job) -> None:
    (plan,) = api.plan_runs(api.RunRequest(run_file=str(job.folder / "run.json"), run_id="x", limit=1)).plans
    backwards = count(1_700_000_000, -1)
    start(plan, job.runs, RunEnvironment(environ={}, clock=lambda: float(next(backwards))))
    manifest = api.open_run("x", runs_dir=job.runs).run_manifest
    entered = [state.entered_at for state in manifest.states]
    assert entered == sorted(entered)
    assert manifest.completed_at == entered[-1] == entered[-2]


def test_the_newest_run_is_the_one_that_was_created_last(job: Job) -> None:
    for run_id in ("b", "a", "c"):
        run(job, run_id, limit=1)
    (job.runs / "b" / "note.txt").touch()
    assert [listed.run_id for listed in api.list_runs(job.runs)] == ["c", "a", "b"]
    assert api.open_run("latest", runs_dir=job.runs).folders.run_id == "c"


def test_cases_are_read_one_at_a_time_as_they_are_in_their_file(job: Job) -> None:
    run(job, "x")
    folder = open_run_folder(job.runs / "x")
    assert list(folder.records()) == list(folder.typed_lines("cases.jsonl", CaseLine))
