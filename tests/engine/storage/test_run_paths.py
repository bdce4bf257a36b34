"""Runs with a home in an object store: published before they count as ended, and fetched by machines that did not seal them."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import psycopg
import pytest
from click.testing import CliRunner

from assay import api
from assay.core.errors import RunDamaged, RunNotFound, RunSealed, StoreRefused, StoreUnavailable, UsageProblem
from assay.core.run_result import RunResult
from assay.engine.execution.run import seal
from assay.engine.execution.run_context import RunEnvironment
from assay.engine.storage.run_paths import RunPaths
from assay.store.ledgers import point_to
from assay.surfaces.cli.program import program
from tests.crash.check import problems_of, stable_artifacts
from tests.crash.job import Job, steady, write_job
from tests.crash.provider import CountingProvider
from tests.store.buckets import Bucket, running_bucket
from tests.store.databases import Database
from tests.store.gateways import Gateway, gateway_to

STORE = "s3://runs/homes"
FILES = 10
"""Artifacts of these runs, the manifest among them."""


@pytest.fixture(scope="module")
def server() -> Iterator[Bucket]:
    with running_bucket() as bucket:
        yield bucket


@pytest.fixture
def bucket(server: Bucket, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    """The bucket behind a door, and the variables with which it is found."""
    with gateway_to(server) as gateway:
        for name, value in gateway.environ.items():
            monkeypatch.setenv(name, value)
        yield gateway


@pytest.fixture
def provider() -> Iterator[CountingProvider]:
    with CountingProvider(steady) as opened:
        yield opened


@pytest.fixture
def job(tmp_path: Path, provider: CountingProvider) -> Job:
    job = write_job(tmp_path, provider.base_url, records=12)
    return msgspec.structs.replace(job, options=("--store", STORE))


def name_of(job: Job) -> str:
    """An id that no other test has in the same bucket and database."""
    return f"run-{job.folder.name}"[:60].rstrip("-_")


def run(job: Job, **options: object) -> RunResult:
    given = {"run_id": name_of(job), "runs_dir": str(job.runs), "store": STORE, **options}
    (result,) = api.run(job.folder / "run.json", **given)
    return result


def kept(bucket: Bucket, run_id: str) -> dict[str, bytes]:
    """The objects of a run by name."""
    listed = ElementTree.fromstring(bucket.ask("GET", f"/runs?list-type=2&prefix=homes/{run_id}/")[1])
    keys = [str(key.text) for key in listed.iter("{http://s3.amazonaws.com/doc/2006-03-01/}Key")]
    return {key.rpartition("/")[2]: bucket.ask("GET", f"/runs/{key}")[1] for key in keys}


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def elsewhere(job: Job, database: Database) -> Path:
    """The runs folder of another machine, which knows of the run by its shared ledger alone."""
    runs = job.folder / "elsewhere"
    active = runs / ".active" / name_of(job)
    active.mkdir(parents=True)
    point_to(active, database.address)
    return runs


def sealed_meanwhile(other: RunPaths, database: Database) -> None:
    """Another machine seals a run whose driver has not been heard of for so long that its lease is over."""
    with psycopg.connect(database.address) as connection:
        connection.execute("DELETE FROM driver USING run WHERE driver.run = run.run AND run_id = %s", (other.run_id,))
    seal(other, RunEnvironment(environ={}, placement=api.RunBackend(ledger=database.address, store=STORE)))


def test_a_run_is_in_its_store_byte_for_byte_when_it_has_ended(job: Job, bucket: Gateway) -> None:
    result = run(job)
    assert result.store == f"{STORE}/{name_of(job)}"
    assert len(kept(bucket, name_of(job))) == FILES
    assert kept(bucket, name_of(job)) == files(job.runs / name_of(job))
    assert api.verify(result.store) == []


def test_the_store_changes_no_artifact_and_is_told_by_none(job: Job, bucket: Gateway) -> None:
    run(job, run_id="here", store="")
    run(job)
    assert problems_of(job, name_of(job), stable_artifacts(job.runs / "here")) == []
    assert not any(STORE.encode() in content for content in kept(bucket, name_of(job)).values())


@pytest.mark.parametrize(("ledger", "written"), [("own", 1), ("shared", FILES - 1), ("own", FILES), ("shared", FILES)])
def test_a_run_that_is_killed_while_it_is_published_is_completed_with_the_same_bytes(
    ledger: str, written: int, job: Job, bucket: Gateway, request: pytest.FixtureRequest
) -> None:
    options = {"own": lambda: (), "shared": lambda: ("--ledger", request.getfixturevalue("database").address)}[ledger]()
    job = msgspec.structs.replace(job, options=(*job.options, *options))
    running = job.start(name_of(job))
    bucket.on_written = lambda number: running.kill() if number == written else None
    running.communicate()
    before = kept(bucket, name_of(job))
    assert (len(before), api.open_run(name_of(job), runs_dir=job.runs).result.state) == (written, "finalizing")
    result = api.resume(name_of(job), runs_dir=job.runs)
    after = kept(bucket, name_of(job))
    assert result.is_finished
    assert after == files(job.runs / name_of(job))
    assert before.items() <= after.items()
    assert bucket.writes == FILES


@pytest.mark.parametrize("status", [403, 503])
def test_a_store_that_is_away_or_refuses_leaves_a_run_that_can_be_resumed(
    status: int, job: Job, bucket: Gateway, provider: CountingProvider
) -> None:
    bucket.on_written = lambda number: setattr(bucket, "refusal", status if number == 3 else 0)
    with pytest.raises(StoreUnavailable, match=f"cannot use {STORE}") as problem:
        run(job)
    assert bucket.environ["AWS_SECRET_ACCESS_KEY"] not in problem.value.message + problem.value.hint
    asked, bucket.refusal = provider.calls.total(), 0
    failed = api.open_run(name_of(job), runs_dir=job.runs).result
    assert (failed.state, failed.is_resumable, STORE in failed.problem) == ("failed", True, True)
    assert api.resume(name_of(job), runs_dir=job.runs).is_finished
    assert kept(bucket, name_of(job)) == files(job.runs / name_of(job))
    assert provider.calls.total() == asked


def test_a_store_that_cannot_be_used_is_told_before_any_call(job: Job, bucket: Gateway, provider: CountingProvider) -> None:
    bucket.refusal = 403
    with pytest.raises(StoreRefused, match="cannot use"):
        run(job)
    bucket.refusal = 0
    with pytest.raises(StoreRefused, match="NoSuchBucket"):
        run(job, store="s3://nowhere/x")
    with pytest.raises(UsageProblem, match="holds no credentials"):
        run(job, store="s3://me:hush@runs/x")
    assert provider.calls.total() == 0
    assert list(api.list_runs(job.runs)) == []


def test_a_run_finds_another_home_when_the_first_is_of_no_use(job: Job, bucket: Gateway) -> None:
    bucket.on_written = lambda _: setattr(bucket, "refusal", 403)
    with pytest.raises(StoreUnavailable):
        run(job)
    bucket.refusal, bucket.on_written = 0, lambda _: None
    result = api.resume(name_of(job), runs_dir=job.runs, placement=api.RunBackend(store="s3://runs/second"))
    assert result.store == f"s3://runs/second/{name_of(job)}"
    assert api.verify(result.store) == []


def test_the_same_run_is_fetched_instead_of_being_paid_for_again(job: Job, bucket: Gateway, provider: CountingProvider) -> None:
    run(job)
    asked = provider.calls.total()
    run(job, runs_dir=str(job.folder / "elsewhere"))
    assert files(job.folder / "elsewhere" / name_of(job)) == kept(bucket, name_of(job))
    assert provider.calls.total() == asked


def test_another_run_of_the_same_name_is_refused_before_any_call(job: Job, bucket: Gateway, provider: CountingProvider) -> None:
    run(job)
    asked, before = provider.calls.total(), kept(bucket, name_of(job))
    with pytest.raises(RunSealed, match="made with other settings"):
        run(job, runs_dir=str(job.folder / "elsewhere"), limit=3)
    assert (provider.calls.total(), kept(bucket, name_of(job))) == (asked, before)


def test_another_machine_fetches_the_run_when_somebody_asks_for_it(job: Job, bucket: Gateway, database: Database) -> None:
    run(job, ledger=database.address)
    runs = elsewhere(job, database)
    (listed,) = api.list_runs(runs)
    assert (listed.state, listed.total_records, listed.done_records) == ("completed_with_failures", 14, 14)
    opened = api.open_run(name_of(job), runs_dir=runs)
    assert opened.result.counts.total_records == 14
    assert files(runs / name_of(job)) == files(job.runs / name_of(job)) == kept(bucket, name_of(job))
    assert (api.verify(name_of(job), runs_dir=runs), api.replay(name_of(job), runs_dir=runs)) == ([], [])
    assert not (runs / ".active" / name_of(job)).exists()


def test_to_go_on_with_a_run_that_has_ended_elsewhere_is_to_fetch_it(
    job: Job, bucket: Gateway, database: Database, provider: CountingProvider
) -> None:
    run(job, ledger=database.address)
    asked = provider.calls.total()
    (job.runs / name_of(job)).rename(job.folder / "gone")
    assert run(job, ledger=database.address, store="").state == "completed_with_failures"
    assert files(job.runs / name_of(job)) == files(job.folder / "gone")
    assert provider.calls.total() == asked
    assert bucket.writes == FILES


def test_a_machine_that_was_taken_for_dead_finds_the_run_that_another_has_sealed(
    job: Job, bucket: Gateway, database: Database
) -> None:
    other = RunPaths(job.folder / "elsewhere", name_of(job))
    # Before anything is asked, the first look is for a run of that name and the second for a store that can be used; the third is
    # that of whoever is about to publish.
    bucket.on_read = lambda number: sealed_meanwhile(other, database) if number == 3 else None
    assert run(job, ledger=database.address).state == "completed_with_failures"
    assert files(other.sealed) == files(job.runs / name_of(job)) == kept(bucket, name_of(job))
    assert bucket.writes == FILES


def test_a_run_that_has_ended_already_is_published_when_a_store_is_named(job: Job, bucket: Gateway) -> None:
    run(job, store="")
    assert run(job).store == f"{STORE}/{name_of(job)}"
    assert kept(bucket, name_of(job)) == files(job.runs / name_of(job))


def test_a_changed_byte_in_the_store_is_not_fetched(job: Job, bucket: Gateway, database: Database) -> None:
    run(job, ledger=database.address)
    whole = kept(bucket, name_of(job))["predictions.jsonl"]
    bucket.ask("PUT", f"/runs/homes/{name_of(job)}/predictions.jsonl", whole.replace(b'"passed":true', b'"passed":null', 1))
    runs = elsewhere(job, database)
    with pytest.raises(RunDamaged, match=r"predictions\.jsonl: was changed"):
        api.open_run(name_of(job), runs_dir=runs)
    assert [path.name for path in runs.iterdir()] == [".active"]
    bucket.ask("PUT", f"/runs/homes/{name_of(job)}/predictions.jsonl", whole)
    assert api.verify(name_of(job), runs_dir=runs) == []


def test_two_who_ask_at_once_get_the_same_run(job: Job, bucket: Gateway, database: Database) -> None:
    run(job, ledger=database.address)
    runs = elsewhere(job, database)
    found: list[list[str]] = []
    threads = [
        threading.Thread(target=lambda: found.append(api.verify(name_of(job), runs_dir=runs))),
        threading.Thread(target=lambda: found.append(api.verify(name_of(job), runs_dir=runs))),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[], []]
    assert files(runs / name_of(job)) == kept(bucket, name_of(job))


def test_a_run_that_ended_elsewhere_without_a_store_is_named_as_such(job: Job, database: Database) -> None:
    run(job, ledger=database.address, store="")
    with pytest.raises(RunNotFound, match="has ended on another machine"):
        api.resume(name_of(job), runs_dir=elsewhere(job, database))


def test_a_run_that_is_on_another_machine_alone_has_no_result_here_and_says_where_it_is(job: Job, database: Database) -> None:
    there = run(job, ledger=database.address, store="").run_dir
    command = [sys.executable, "-m", "assay", "show", name_of(job), "--runs-dir", str(elsewhere(job, database))]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f"NO RESULT   run '{name_of(job)}' has ended on another machine" in shown
    assert (there in shown, "FAIL " in shown, "missing " in shown, "assay retry" in shown) == (True, False, False, False)


def test_whoever_has_the_address_alone_fetches_the_run(job: Job, bucket: Gateway) -> None:
    home, runs = run(job).store, job.folder / "elsewhere"
    for _ in range(2):
        assert api.fetch(home, runs_dir=runs).result.run_id == name_of(job)
    assert files(runs / name_of(job)) == kept(bucket, name_of(job))
    assert not list((runs / ".active").iterdir())
    with pytest.raises(RunNotFound, match="no finished run at"):
        api.fetch(f"{home}-2", runs_dir=runs)


def test_a_run_of_the_same_id_is_not_replaced_by_one_from_a_store(job: Job, bucket: Gateway) -> None:
    home = run(job).store
    other = str(job.folder / "other")
    run(job, runs_dir=other, store="", limit=3)
    before = files(Path(other) / name_of(job))
    with pytest.raises(RunSealed, match="is another run of that id"):
        api.fetch(home, runs_dir=other)
    assert files(Path(other) / name_of(job)) == before != kept(bucket, name_of(job))


def test_a_fetch_that_is_killed_is_repeated(job: Job, bucket: Gateway) -> None:
    home, runs = run(job).store, job.folder / "elsewhere"
    command = [sys.executable, "-m", "assay", "fetch", home, "--runs-dir", str(runs), "--json"]
    killed = subprocess.Popen(command)
    bucket.on_read = lambda number: killed.kill() if number == 6 else None
    killed.wait()
    assert (killed.returncode, (runs / name_of(job)).exists()) == (-9, False)
    again = subprocess.run(command, capture_output=True, check=True)
    assert json.loads(again.stdout) == {"run_id": name_of(job), "run_dir": str(runs / name_of(job))}
    assert api.verify(name_of(job), runs_dir=runs) == []


def made_by(job: Job, command: str) -> list[str]:
    """The command line with which `assay retry`, `suite` or `rank` makes a run of a name that nobody else has."""
    run_id, runs = name_of(job), ("--runs-dir", str(job.runs))
    (job.folder / "suite.json").write_text(json.dumps({"suite": "nightly", "runs": [{"run": "run.json", "name": "made"}]}))
    made = ("--run-id", f"{run_id}-made", *runs)
    return {
        "retry": ["retry", run_id, *made],
        "suite": ["suite", str(job.folder / "suite.json"), "--run-id", run_id, *runs],
        "rank": ["rank", run_id, f"{run_id}-2", "--judge", "scripted/judge-sound", *made],
    }[command]


@pytest.mark.parametrize("command", ["retry", "suite", "rank"])
def test_variables_say_where_the_runs_of_every_command_are_kept(
    command: str, job: Job, bucket: Gateway, database: Database
) -> None:
    for run_id in (name_of(job), f"{name_of(job)}-2"):
        run(job, run_id=run_id, store="")
    environ = {"ASSAY_LEDGER": database.address, "ASSAY_STORE": STORE}
    ended = CliRunner().invoke(program, made_by(job, command), prog_name="assay", env=environ)
    with psycopg.connect(database.address) as connection:
        found = connection.execute("SELECT count(*) FROM run WHERE run_id = %s", (f"{name_of(job)}-made",)).fetchone()
    assert (found, len(kept(bucket, f"{name_of(job)}-made"))) == ((1,), FILES), ended.output


def test_the_command_says_where_the_artifacts_are(job: Job, bucket: Gateway) -> None:
    printed, complained = job.start(name_of(job)).communicate()
    assert json.loads(printed)["store"] == f"{STORE}/{name_of(job)}", complained
    plain = [word for word in job.command("plain") if word != "--json"]
    ended = subprocess.run(plain, capture_output=True, text=True, check=False)
    assert ended.stderr.endswith(f"artifacts also at {STORE}/plain\n")
    assert bucket.environ["AWS_SECRET_ACCESS_KEY"] not in ended.stdout + ended.stderr
