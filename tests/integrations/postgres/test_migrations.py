"""Migrations of a shared ledger's tables: once, whole or not at all."""

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg import sql

from assay.core.errors import StoreUnavailable
from assay.integrations.postgres import PostgresLedgers
from assay.integrations.postgres.migrations import STEPS, migrate
from tests.store.databases import Database


def _another(database: Database, name: str) -> str:
    """An empty database on the same server."""
    with psycopg.connect(database.address, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    return database.address.replace("/postgres", f"/{name}")


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
