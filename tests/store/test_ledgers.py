"""Where the ledger of a run is: found again by its folder, its id and the environment."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from assay import api
from assay.core.errors import RunNotFound, UsageProblem
from tests.crash.check import problems_of
from tests.crash.job import Job, steady, write_job
from tests.crash.provider import CountingProvider
from tests.engine.test_shared_ledger import kept, name_of, peaceful, rows_of, run, start_and_kill
from tests.store.databases import Database


@pytest.fixture
def provider() -> Iterator[CountingProvider]:
    with CountingProvider(steady, latency=0.02) as opened:
        yield opened


@pytest.fixture
def job(tmp_path: Path, provider: CountingProvider, database: Database) -> Job:
    """A job whose runs are kept in the database."""
    return kept(write_job(tmp_path, provider.base_url, records=40), database)


def test_a_run_that_was_killed_goes_on_without_being_told_where_its_ledger_is(
    job: Job, provider: CountingProvider, database: Database
) -> None:
    expected = peaceful(job)
    start_and_kill(job, name_of(job), provider)
    assert rows_of(database, name_of(job)) == (42, "running")
    listed = {listing.run_id: listing.state for listing in api.list_runs(job.runs)}
    assert listed == {"peaceful": "completed_with_failures", name_of(job): "running"}
    api.resume(name_of(job), runs_dir=job.runs)
    assert problems_of(job, name_of(job), expected) == []


def test_another_machine_finds_a_run_by_its_id_in_the_ledger_of_its_environment(
    job: Job, provider: CountingProvider, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_and_kill(job, name_of(job), provider)
    elsewhere = job.folder / "elsewhere"
    with pytest.raises(RunNotFound):
        api.open_run(name_of(job), runs_dir=elsewhere)
    monkeypatch.setenv("ASSAY_LEDGER", database.address)
    assert api.open_run(name_of(job), runs_dir=elsewhere).result.state == "running"
    with pytest.raises(RunNotFound):
        api.open_run("no-such-run", runs_dir=elsewhere)


@pytest.mark.parametrize("address", ["sqlite:///x", "http://127.0.0.1/"])
def test_what_is_no_address_of_postgresql_is_refused_before_any_call(job: Job, provider: CountingProvider, address: str) -> None:
    with pytest.raises(UsageProblem, match="not an address of PostgreSQL"):
        run(job, "x", ledger=address)
    assert provider.calls.total() == 0
    assert list(api.list_runs(job.runs)) == []
