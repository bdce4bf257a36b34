"""The right to drive a run, as PostgreSQL keeps it: one driver at a time, and successors."""

import time

import psycopg

from assay.integrations.postgres import PostgresLease, open_run
from tests.integrations.postgres.test_catalogue import lease
from tests.store.databases import Database


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
