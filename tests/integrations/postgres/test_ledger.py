"""What only a shared ledger meets: restarts of its server, other versions, several who begin at once."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg import sql

from assay.core.errors import StoreUnavailable
from assay.integrations.postgres import PostgresCatalogue, PostgresLedgers
from assay.integrations.postgres.connection import ReconnectingConnection, connect, shown_address
from assay.integrations.postgres.migrations import STEPS, migrate
from assay.store.ledger import Claim, ClaimLost
from tests.store.databases import Database, running_database
from tests.store.samples import done, rows


@pytest.fixture(scope="module")
def own() -> Iterator[Database]:
    """A PostgreSQL that may be killed."""
    with running_database() as database:
        yield database


def _another(database: Database, name: str) -> str:
    """An empty database on the same server."""
    with psycopg.connect(database.address, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    return database.address.replace("/postgres", f"/{name}")


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


def test_a_server_that_is_not_there_is_named_without_its_password() -> None:
    link = ReconnectingConnection("postgresql://assay:hush-hush@127.0.0.1:1/runs", patience=0.2)
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:1/runs") as problem:
        link.transact(lambda _: None)
    assert "hush" not in problem.value.message
    assert "PostgreSQL runs" in problem.value.hint


def test_a_database_that_is_not_there_is_said_at_once(database: Database) -> None:
    with pytest.raises(StoreUnavailable, match='database "nowhere" does not exist'):
        PostgresLedgers(database.address.replace("/postgres", "/nowhere"))


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://me:secret@db.example:5433/runs", "postgresql://db.example:5433/runs"),
        ("postgresql:///runs", "postgresql://localhost:5432/runs"),
        ("postgresql://me:secret@one:1,two:2/runs", "postgresql://one:1,two:2/runs"),
        ("host=db.example user=me password=secret", "postgresql://db.example:5432/"),
        ("postgresql://[broken", "an address that cannot be read"),
    ],
)
def test_an_address_is_shown_without_who_uses_it(address: str, shown: str) -> None:
    assert shown_address(address) == shown


def test_several_who_begin_at_once_make_the_tables_once(database: Database) -> None:
    address = _another(database, "begun")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: PostgresLedgers(address).close(), range(8)))
    with psycopg.connect(address) as looking:
        assert looking.execute("SELECT count(*) FROM migration").fetchone() == (len(STEPS),)


def test_a_migration_that_is_cut_off_never_happened(database: Database) -> None:
    address = _another(database, "cut")
    with psycopg.connect(address, autocommit=True) as again:
        broken = psycopg.connect(address)
        broken.execute(STEPS[0])
        again.execute("SELECT pg_terminate_backend(%s, 10000)", (broken.info.backend_pid,))  # as when the program is killed
        broken.close()
        migrate(again)
        assert again.execute("SELECT count(*) FROM run").fetchone() == (0,)


def test_runs_from_before_shards_were_kept_go_on_with_those_of_250_records(database: Database) -> None:
    address = _another(database, "before")
    with psycopg.connect(address, autocommit=True) as before:
        before.execute(STEPS[0])
        before.execute("CREATE TABLE migration(step integer PRIMARY KEY, at timestamptz NOT NULL DEFAULT now())")
        before.execute("INSERT INTO migration(step) VALUES (0)")
        for run_id, records in (("many", 501), ("none", 0)):
            values = (run_id, b"{}", records)
            before.execute("INSERT INTO run(run_id, plan, plan_sha256, state, records) VALUES (%s, %s, '', 'running', %s)", values)
    runs = PostgresLedgers(address)
    many, none = runs.open("many"), runs.open("none")
    assert (many.shards(), none.shards()) == ([0, 1, 2], [])
    for opened in (many, none, runs):
        opened.close()


def test_a_ledger_of_a_newer_version_is_refused(database: Database) -> None:
    address = _another(database, "newer")
    PostgresLedgers(address).close()
    with psycopg.connect(address, autocommit=True) as ahead:
        ahead.execute("INSERT INTO migration(step) VALUES (%s)", (len(STEPS),))
    with pytest.raises(StoreUnavailable, match="has version"):
        PostgresLedgers(address)


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


@pytest.mark.parametrize(("query", "expected"), [("", "12000"), ("?tcp_user_timeout=3000", "3000")])
def test_a_connection_that_is_cut_off_without_a_word_is_given_up(database: Database, query: str, expected: str) -> None:
    with connect(database.address + query) as connection:
        said = connection.info.get_parameters()
    assert (said["tcp_user_timeout"], said["keepalives_idle"]) == (expected, "5")
