"""What only a shared ledger meets: restarts of its server, other versions, several who begin at once."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from assay.integrations.postgres import PostgresCatalogue, PostgresLedgers
from assay.store.ledger import Claim, ClaimLost
from tests.store.databases import Database, running_database
from tests.store.samples import done, rows


@pytest.fixture(scope="module")
def own() -> Iterator[Database]:
    """A PostgreSQL that may be killed."""
    with running_database() as database:
        yield database


def test_an_append_is_done_once_however_often_the_server_is_restarted(own: Database) -> None:
    runs = PostgresLedgers(own.address)
    ledger = runs.create("restarted", plan=b"{}", plan_sha256="ab", at=1.0)
    ledger.replace_records(rows(200))
    claim, appended = ledger.claim(0, owner="a"), threading.Semaphore(0)

    def restart() -> None:
        # Each time in the middle of the next appends, and never so often that a slow machine comes to none between two restarts.
        for _ in range(4):
            assert all(appended.acquire(timeout=60) for _ in range(40))
            own.restart_at_once()

    with ThreadPoolExecutor(1) as pool:
        restarting = pool.submit(restart)
        for position in range(200):
            ledger.append(claim, [done(position)])
            appended.release()
        restarting.result()
    assert ledger.counts() == {"evaluated": 200, "open": 0}
    assert [len(record.attempts) for record in ledger.finished()] == [2] * 200
    ledger.close()
    runs.close()


def test_a_server_that_is_killed_loses_nothing_that_was_appended(own: Database) -> None:
    runs = PostgresLedgers(own.address)
    ledger = runs.create("killed", plan=b"{}", plan_sha256="ab", at=1.0)
    ledger.replace_records(rows(3))
    claim = ledger.claim(0, owner="a")
    ledger.append(claim, [done(0)])
    own.kill()
    own.start()
    ledger.append(claim, [done(1)])
    assert ledger.counts() == {"evaluated": 2, "open": 1}
    ledger.close()
    runs.close()


def test_who_freezes_in_the_middle_of_an_append_holds_up_nobody_who_takes_the_shard_over(database: Database) -> None:
    runs = PostgresLedgers(database.address)
    ledger, run_id = runs.create("frozen", plan=b"{}", plan_sha256="ab", at=1.0), "frozen"
    ledger.replace_records(rows(3))
    first, waking = ledger.claim(0, owner="frozen"), threading.Event()

    class Freezing(Claim, frozen=True):
        def __getattribute__(self, name: str) -> object:
            # The epoch is compared under the lock of the shard.
            if name == "epoch":
                waking.wait(30)
            return super().__getattribute__(name)

    other = runs.open(run_id)
    with ThreadPoolExecutor(1) as pool:
        thawed = pool.submit(ledger.append, Freezing(first.shard, first.epoch), [done(0)])
        while not is_in_a_transaction(database):
            waking.wait(0.01)
        second = other.claim(0, owner="other")
        waking.set()
        with pytest.raises(ClaimLost):
            thawed.result()
    other.append(second, [done(0)])
    assert other.counts() == {"evaluated": 1, "open": 2}
    for opened in (ledger, other, runs):
        opened.close()


def is_in_a_transaction(database: Database) -> bool:
    """True when somebody stands still in one."""
    with psycopg.connect(database.address, autocommit=True) as looking:
        return bool(looking.execute("SELECT pid FROM pg_stat_activity WHERE state = 'idle in transaction'").fetchall())


def test_a_run_with_an_odd_note_is_listed_with_all_others(database: Database) -> None:
    runs = PostgresLedgers(database.address)
    ledger = runs.create("odd-note", plan=b"{}", plan_sha256="ab", at=1.0)
    ledger.set_note("problem", "a\x00b \ud800")
    ledger.set_note("counts", "{}")
    catalogue = PostgresCatalogue(database.address)
    (standing,) = catalogue.standings(["odd-note"])
    for opened in (ledger, runs, catalogue):
        opened.close()
    assert standing.problem.startswith("a\x00b ")
    assert standing.notes == {"counts": "{}"}
