"""What servers share in PostgreSQL: who drives a run, who has submitted it, and where it stands."""

import time
from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest

from assay.integrations.postgres import PostgresCatalogue, PostgresLease, PostgresLedgers, PostgresSubmissions, open_run
from assay.store.submissions import NewSubmission, SubmissionRow, WaitingRun
from tests.store.databases import Database
from tests.store.samples import rows


@pytest.fixture
def run_id(database: Database) -> str:
    """A new run."""
    made = f"run-{uuid4().hex}"
    ledgers = PostgresLedgers(database.address)
    ledgers.create(made, plan=b"{}", plan_sha256="0", at=1.0).close()
    ledgers.close()
    return made


@pytest.fixture
def submissions(database: Database) -> Iterator[PostgresSubmissions]:
    PostgresLedgers(database.address).close()
    opened = PostgresSubmissions(database.address)
    yield opened
    opened.close()


@pytest.fixture
def catalogue(database: Database) -> Iterator[PostgresCatalogue]:
    opened = PostgresCatalogue(database.address)
    yield opened
    opened.close()


def lease(database: Database, run_id: str, owner: str, place: str = "") -> PostgresLease:
    return PostgresLease(database.address, run_id, owner=owner, place=place)


def expire(database: Database, run_id: str) -> None:
    """As if nothing had been heard of the driver for long."""
    with psycopg.connect(database.address) as connection:
        connection.execute("UPDATE driver SET until = '-infinity' FROM run WHERE run.run = driver.run AND run_id = %s", (run_id,))


def take_in_time(taker: PostgresLease) -> None:
    """A database that was just started lets nobody succeed another for the time of a lease."""
    end = time.monotonic() + 60
    while not taker.take():
        assert time.monotonic() < end
        time.sleep(0.1)


def submission(key: str = "", **members: str) -> SubmissionRow:
    given = {"run_id": f"run-{uuid4().hex}", "owner": "ci", "fingerprint": "f", **members}
    return SubmissionRow(**given, key=key, answer=b"{}", at=time.time())  # type: ignore[arg-type]


def submitted(number: int = 3) -> NewSubmission:
    return NewSubmission(b"{}", "0", lambda: rows(number))


def test_one_at_a_time_drives_a_run(database: Database, run_id: str) -> None:
    first, second = lease(database, run_id, "first"), lease(database, run_id, "second")
    assert (first.take(), second.take(), first.renew(), second.renew()) == (True, False, True, False)
    first.release()
    assert second.take()
    first.close()
    second.close()


def test_a_driver_that_is_not_heard_of_is_succeeded_and_knows_it(database: Database, run_id: str) -> None:
    first, second = lease(database, run_id, "first"), lease(database, run_id, "second")
    first.take()
    expire(database, run_id)
    take_in_time(second)
    assert (first.renew(), first.take(), second.renew()) == (False, False, True)
    first.close()
    second.close()


def test_a_lease_that_nobody_has_taken_meanwhile_is_renewed_late(database: Database, run_id: str) -> None:
    first, second = lease(database, run_id, "first"), lease(database, run_id, "second")
    first.take()
    expire(database, run_id)
    assert (first.renew(), second.take()) == (True, False)
    first.close()
    second.close()


def test_who_holds_the_lock_of_the_same_folder_waits_for_no_lease(database: Database, run_id: str) -> None:
    first, second = lease(database, run_id, "first", "folder"), lease(database, run_id, "second", "folder")
    assert (first.take(), second.take(), first.renew()) == (True, True, False)
    first.close()
    second.close()


def test_a_driver_that_was_succeeded_changes_no_state(database: Database, run_id: str) -> None:
    first, second = lease(database, run_id, "first", "folder"), lease(database, run_id, "second", "folder")
    first.take()
    late = open_run(database.address, run_id, driver="first")
    second.take()
    now = open_run(database.address, run_id, driver="second")
    assert (late.set_state("queued", "validating", at=2.0), now.set_state("queued", "validating", at=3.0)) == (False, True)
    for opened in (first, second, late, now):
        opened.close()


def test_a_restart_of_the_database_ends_no_lease(database: Database, run_id: str) -> None:
    first, second = lease(database, run_id, "first"), lease(database, run_id, "second")
    first.take()
    expire(database, run_id)
    database.restart_at_once()
    assert (second.take(), first.renew()) == (False, True)
    first.close()
    second.close()


def test_a_key_has_one_run_and_the_records_are_there_with_it(
    database: Database, submissions: PostgresSubmissions, catalogue: PostgresCatalogue
) -> None:
    first, second = submission(key := uuid4().hex), submission(key)
    assert (submissions.enter(first, submitted()), submissions.enter(second, submitted())) == (True, False)
    assert (submissions.under("ci", key), submissions.of(first.run_id), submissions.of(second.run_id)) == (first, first, None)
    assert (catalogue.has(first.run_id), catalogue.has(second.run_id)) == (True, False)
    ledger = open_run(database.address, first.run_id)
    assert (ledger.run().notes, sum(ledger.counts().values())) == ({"read": "1"}, 3)
    ledger.close()


def test_a_submission_whose_answer_was_lost_is_known_again(submissions: PostgresSubmissions) -> None:
    row = submission(uuid4().hex)
    assert (submissions.enter(row, submitted()), submissions.enter(row, submitted())) == (True, True)


def test_runs_wait_until_somebody_drives_them_or_they_are_given_up(
    database: Database, submissions: PostgresSubmissions, catalogue: PostgresCatalogue
) -> None:
    row = submission()
    submissions.enter(row, submitted())
    assert WaitingRun(row.run_id, "ci") in submissions.waiting(1000)
    driver = lease(database, row.run_id, "first")
    driver.take()
    assert WaitingRun(row.run_id, "ci") not in submissions.waiting(1000)
    driver.release()
    driver.close()
    submissions.set_problem(row.run_id, "no key")
    assert WaitingRun(row.run_id, "ci") not in submissions.waiting(1000)
    (standing,) = catalogue.standings([row.run_id])
    assert (standing.problem, standing.is_submitted, standing.is_driven, standing.records) == ("no key", True, False, 3)


def test_runs_that_workers_have_are_told_from_those_that_wait(
    database: Database, submissions: PostgresSubmissions, catalogue: PostgresCatalogue
) -> None:
    row = submission()
    submissions.enter(row, submitted())
    ledger = open_run(database.address, row.run_id)
    ledger.set_note("temporal", "{}")
    assert WaitingRun(row.run_id, "ci", is_with_workers=True) in submissions.waiting(1000)
    ledger.set_note("problem", "no key")
    assert row.run_id not in {waiting.run_id for waiting in submissions.waiting(1000)}
    (standing,) = catalogue.standings([row.run_id])
    assert (standing.problem, standing.is_driven, standing.is_with_workers) == ("no key", False, True)
    ledger.close()
