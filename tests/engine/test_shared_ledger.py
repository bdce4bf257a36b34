"""Runs whose ledger is in PostgreSQL: the same commands, the same results, and a server that may go away meanwhile."""

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import msgspec
import psycopg
import pytest

from assay import api
from assay.core.errors import LedgerUnavailable, UsageProblem
from assay.core.run_result import RunResult
from assay.engine.execution.run import seal
from assay.engine.execution.run_context import RunEnvironment
from assay.engine.storage.run_failure import failure_from, record_failure
from assay.engine.storage.run_paths import RunPaths
from assay.store.ledgers import adopt
from tests.crash.check import problems_of, stable_artifacts
from tests.crash.job import Job, steady, wait_until_heard, write_job
from tests.crash.provider import CountingProvider
from tests.store.databases import Database

SECRET = "only-in-the-environment"
KEY = "sk-proj-aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW"


@pytest.fixture
def provider() -> Iterator[CountingProvider]:
    with CountingProvider(steady, latency=0.02) as opened:
        yield opened


@pytest.fixture
def job(tmp_path: Path, provider: CountingProvider, database: Database) -> Job:
    """A job whose runs are kept in the database."""
    return kept(write_job(tmp_path, provider.base_url, records=40), database)


def kept(job: Job, database: Database) -> Job:
    return msgspec.structs.replace(job, options=("--ledger", database.address))


def run(job: Job, run_id: str, **options: object) -> RunResult:
    (result,) = api.run(job.folder / "run.json", run_id=run_id, runs_dir=str(job.runs), **options)
    return result


def peaceful(job: Job) -> dict[str, object]:
    """What a run with a ledger of its own leaves."""
    run(job, "peaceful")
    return stable_artifacts(job.runs / "peaceful")


def name_of(job: Job) -> str:
    """An id that no other test has in the same database."""
    return f"run-{job.folder.name}"[:60].rstrip("-_")


def start_and_hold(job: Job, run_id: str, provider: CountingProvider, calls: int) -> "subprocess.Popen[str]":
    """A run that was given so many answers, and gets no more until the provider lets go."""
    before = provider.calls.total()
    provider.hold(after=calls)
    running = job.start(run_id)
    provider.wait_for(before + calls + 1, while_alive=running)
    return running


def start_and_kill(job: Job, run_id: str, provider: CountingProvider) -> None:
    """A run that somebody has to go on with."""
    running = start_and_hold(job, run_id, provider, 8)
    running.kill()
    running.communicate()
    provider.let_go()


def rows_of(database: Database, run_id: str) -> tuple[int, str]:
    with psycopg.connect(database.address) as connection:
        (found,) = connection.execute(
            "SELECT count(record.position), max(run.state) FROM run LEFT JOIN record USING (run) WHERE run_id = %s", (run_id,)
        ).fetchall()
    return int(found[0]), str(found[1])


def test_a_run_kept_in_postgresql_leaves_what_any_other_leaves(job: Job, database: Database) -> None:
    expected = peaceful(job)
    result = run(job, name_of(job), ledger=database.address)
    assert result.state == "completed_with_failures"
    assert problems_of(job, name_of(job), expected) == []


def test_of_a_run_that_has_ended_the_database_keeps_the_state_and_no_record(job: Job, database: Database) -> None:
    run(job, name_of(job), ledger=database.address)
    assert rows_of(database, name_of(job)) == (0, "completed_with_failures")


def test_of_a_run_that_has_ended_the_database_keeps_no_secret_of_its_plan(job: Job, database: Database) -> None:
    told = {**json.loads((job.folder / "run.json").read_bytes()), "run": {"system_prompt": f"The key is {KEY}."}}
    (job.folder / "run.json").write_text(json.dumps(told), encoding="utf-8")
    run(job, name_of(job), ledger=database.address)
    with psycopg.connect(database.address) as connection:
        (plan,) = connection.execute("SELECT plan FROM run WHERE run_id = %s", (name_of(job),)).fetchone() or (b"",)
    assert b"The key is [REDACTED" in plan
    assert KEY.encode() not in plan


def test_whoever_may_only_use_the_tables_can_keep_a_run_in_them(job: Job, database: Database) -> None:
    run(job, "first", ledger=database.address)
    role = f"user_{name_of(job)}".replace("-", "_")
    with psycopg.connect(database.address, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN")
        connection.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}")
    assert run(job, name_of(job), ledger=database.address.replace("assay@", f"{role}@")).is_finished


def seal_elsewhere(run_id: str, runs: Path, database: Database) -> None:
    """Another machine seals a run whose driver has not been heard of for so long that its lease is over."""
    adopt(runs / ".active" / run_id, database.address)
    with psycopg.connect(database.address) as connection:
        connection.execute("DELETE FROM driver USING run WHERE driver.run = run.run AND run_id = %s", (run_id,))
    seal(RunPaths(runs, run_id), RunEnvironment(environ={}, placement=api.RunBackend(ledger=database.address)))


def test_whoever_stood_still_while_it_sealed_and_lost_the_run_publishes_nothing(tmp_path: Path, database: Database) -> None:
    scripted = {"candidates": ["scripted/say-4"], "judges": ["scripted/judge-5"], "providers": []}
    job = kept(write_job(tmp_path, "", records=1_000, **scripted), database)
    run_id, running = stopped_while_it_sealed(job)
    seal_elsewhere(run_id, job.folder / "elsewhere", database)
    running.send_signal(signal.SIGCONT)
    _, errors = running.communicate(timeout=60)
    assert not (job.runs / run_id).exists()
    assert (running.returncode, "has ended on another machine" in errors) == (2, True)
    assert api.verify(str(job.folder / "elsewhere" / run_id)) == []


def stopped_while_it_sealed(job: Job) -> tuple[str, "subprocess.Popen[str]"]:
    """The first of some runs that is seen, and stands still, between its last call and its publication: a short while."""
    for number in count():
        run_id = f"{name_of(job)}-{number}"
        running = job.start(run_id)
        while running.poll() is None and not is_sealing(job, run_id):
            time.sleep(0.002)
        running.send_signal(signal.SIGSTOP)
        while running.poll() is None and not is_standing_still(running):
            time.sleep(0.002)
        if running.poll() is None and is_sealing(job, run_id):
            break
        running.send_signal(signal.SIGCONT)
        running.communicate()
    return run_id, running


def is_standing_still(running: "subprocess.Popen[str]") -> bool:
    """Whether a process has come to the stop that it was told: what it was about in the kernel it does before."""
    return Path(f"/proc/{running.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "T"


def is_sealing(job: Job, run_id: str) -> bool:
    """Whether a run writes its artifacts, and is not about to publish them: the manifest is the last of them."""
    staged = list((job.runs / ".active" / run_id).glob("staging-*"))
    return bool(staged) and not any((folder / "run_manifest.json").exists() for folder in staged)


def test_a_cancel_reaches_a_run_through_the_database(tmp_path: Path, provider: CountingProvider, database: Database) -> None:
    job = kept(write_job(tmp_path, provider.base_url, records=400), database)
    running = start_and_hold(job, name_of(job), provider, 20)
    api.cancel(name_of(job), runs_dir=job.runs)
    provider.let_go()
    running.communicate()
    assert (running.returncode, api.open_run(name_of(job), runs_dir=job.runs).result.state) == (130, "cancelled")


def test_a_run_outlives_restarts_of_the_database(tmp_path: Path, provider: CountingProvider, database: Database) -> None:
    job = kept(write_job(tmp_path, provider.base_url, records=60), database)
    expected = peaceful(job)
    running, calls = start_and_hold(job, name_of(job), provider, 8), provider.calls.total()
    for restart in range(1, 4):
        database.restart_at_once()
        # Some of the next answers are written before the next restart, if the ledger takes them again.
        provider.let(20)
        provider.wait_for(calls + 20 * restart, while_alive=running)
    provider.let_go()
    _, errors = running.communicate(timeout=120)
    assert running.returncode == 0, errors
    assert problems_of(job, name_of(job), expected) == []


def test_a_signal_drains_a_run_kept_in_the_database(job: Job, provider: CountingProvider) -> None:
    expected = peaceful(job)
    calls = provider.calls.total()
    running = start_and_hold(job, name_of(job), provider, 8)
    running.send_signal(signal.SIGINT)
    wait_until_heard(running, signal.SIGINT)
    provider.let_go()
    running.communicate()
    assert running.returncode == 130
    api.resume(name_of(job), runs_dir=job.runs)
    assert problems_of(job, name_of(job), expected) == []
    assert provider.calls.total() == 2 * calls


def test_the_same_id_with_other_settings_is_refused_in_the_database_too(
    job: Job, provider: CountingProvider, database: Database, tmp_path: Path
) -> None:
    start_and_kill(job, name_of(job), provider)
    with pytest.raises(UsageProblem, match=r"other settings \(limit\)"):
        api.run(job.folder / "run.json", run_id=name_of(job), runs_dir=str(tmp_path / "other"), ledger=database.address, limit=3)
    # What was refused leaves nothing that leads to the other's run.
    assert list(api.list_runs(tmp_path / "other")) == []


def test_a_password_is_taken_from_the_environment_and_kept_nowhere(
    job: Job, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = database.address.replace("assay@", f"assay:{SECRET}@")
    with pytest.raises(UsageProblem, match="holds a password"):
        run(job, name_of(job), ledger=address)
    monkeypatch.setenv("ASSAY_LEDGER", address)
    run(job, name_of(job), ledger=address)
    written = b"".join(path.read_bytes() for path in job.runs.rglob("*") if path.is_file())
    assert SECRET.encode() not in written


def test_a_run_whose_database_was_lost_is_failed_when_it_is_back_and_can_be_resumed(
    job: Job, provider: CountingProvider, database: Database
) -> None:
    expected, run_id = peaceful(job), name_of(job)
    running = start_and_hold(job, run_id, provider, 8)
    running.send_signal(signal.SIGINT)
    wait_until_heard(running, signal.SIGINT)
    provider.let_go()
    running.communicate()
    database.stop()
    try:
        lost = LedgerUnavailable("the database does not answer")
        assert record_failure(RunPaths(job.runs, run_id), failure_from(lost, at=time.time()))
    finally:
        database.start()
    failed = api.open_run(run_id, runs_dir=job.runs).result
    assert (failed.state, failed.is_resumable, failed.problem) == ("failed", True, "the database does not answer")
    assert api.resume(run_id, runs_dir=job.runs).is_finished
    assert problems_of(job, run_id, expected) == []
