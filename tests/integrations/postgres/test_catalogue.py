"""What servers share in PostgreSQL: who drives a run, who has submitted it, and where it stands."""

import time
from collections.abc import Iterator
from uuid import uuid4

import pytest

from assay.integrations.postgres import PostgresCatalogue, PostgresLease, PostgresLedgers, PostgresSubmissions, open_run
from assay.store.submissions import NewSubmission, SubmissionRow, WaitingRun
from tests.store.databases import Database
from tests.store.samples import rows


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


def submission(key: str = "", **members: str) -> SubmissionRow:
    given = {"run_id": f"run-{uuid4().hex}", "owner": "ci", "fingerprint": "f", **members}
    return SubmissionRow(**given, key=key, answer=b"{}", at=time.time())  # type: ignore[arg-type]


def submitted(number: int = 3) -> NewSubmission:
    return NewSubmission(b"{}", "0", lambda: rows(number))


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
