"""Migrations of a shared ledger's tables: each step is one transaction, so that a killed one never happened."""

from typing import LiteralString

import psycopg

from assay.core.errors import StoreUnavailable

_LOCK = 0x6173_7361_79  # "assay": the migrating process holds it until the transaction ends

# Texts that come from outside are stored as bytes: PostgreSQL's text cannot hold a NUL. A run is a number in every row but its own.
# Attempts have a serial number with an index by record, as in SQLite.
STEPS: tuple[LiteralString, ...] = (
    """
CREATE TABLE run(
    run bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, run_id text UNIQUE NOT NULL, plan bytea NOT NULL,
    plan_sha256 text NOT NULL, state text NOT NULL, records bigint NOT NULL DEFAULT 0,
    is_cancel_requested boolean NOT NULL DEFAULT false);
CREATE TABLE state(
    run bigint REFERENCES run ON DELETE CASCADE, seq bigint GENERATED ALWAYS AS IDENTITY, state text NOT NULL,
    at double precision NOT NULL, PRIMARY KEY (run, seq));
CREATE TABLE note(run bigint REFERENCES run ON DELETE CASCADE, name text, value bytea NOT NULL, PRIMARY KEY (run, name));
CREATE TABLE record(
    run bigint REFERENCES run ON DELETE CASCADE, position bigint, record_id bytea, sha256 text NOT NULL, case_json bytea,
    issues bytea NOT NULL, PRIMARY KEY (run, position));
CREATE TABLE shard(
    run bigint REFERENCES run ON DELETE CASCADE, shard bigint, epoch bigint NOT NULL, owner text NOT NULL, last_append uuid,
    PRIMARY KEY (run, shard));
CREATE TABLE attempt(
    run bigint REFERENCES run ON DELETE CASCADE, seq bigint GENERATED ALWAYS AS IDENTITY, position bigint NOT NULL,
    body bytea NOT NULL);
CREATE INDEX attempt_by_position ON attempt(run, position, seq);
CREATE TABLE outcome(
    run bigint REFERENCES run ON DELETE CASCADE, position bigint, status text NOT NULL, passed boolean, body bytea NOT NULL,
    PRIMARY KEY (run, position));
""",
    """
CREATE TABLE pool(run bigint PRIMARY KEY REFERENCES run ON DELETE CASCADE, body bytea NOT NULL);
""",
    # Shards are limited in bytes, too; those of earlier runs have 250 records each.
    """
CREATE TABLE span(
    run bigint REFERENCES run ON DELETE CASCADE, shard bigint, first bigint NOT NULL, last bigint NOT NULL,
    PRIMARY KEY (run, shard));
INSERT INTO span SELECT run, first / 250, first, least(first + 250, records) - 1
    FROM run, generate_series(0, records - 1, 250) AS first;
""",
    # Every worker asks for a run's cost each second: summing its shards is cheaper than reading all attempts.
    "ALTER TABLE shard ADD COLUMN spent double precision NOT NULL DEFAULT 0",
    # Several servers use one ledger: the driver of a run with its lease, and the submitter with the key.
    """
CREATE TABLE driver(
    run bigint PRIMARY KEY REFERENCES run ON DELETE CASCADE, owner text NOT NULL, place text NOT NULL, until timestamptz NOT NULL);
CREATE TABLE submission(
    run bigint PRIMARY KEY REFERENCES run ON DELETE CASCADE, owner text NOT NULL, key text NOT NULL, fingerprint text NOT NULL,
    answer bytea NOT NULL, at double precision NOT NULL, problem bytea NOT NULL DEFAULT '');
CREATE UNIQUE INDEX submission_by_key ON submission(owner, key) WHERE key != '';
CREATE INDEX run_unfinished ON run(run) WHERE state NOT IN ('completed', 'completed_with_failures', 'failed', 'cancelled');
""",
    # Records as their contracts write them, and the members of their documents besides them, for input_dataset.json.
    """
ALTER TABLE record ADD COLUMN row_json bytea NOT NULL DEFAULT '', ADD COLUMN head bytea NOT NULL DEFAULT '';
""",
)
"""Step n brings the tables from version n to version n + 1; a released step is never changed."""


def migrate(database: psycopg.Connection) -> None:
    """Bring the tables to the version of this program, once across concurrent processes; raises StoreUnavailable for newer ones."""
    with database.transaction():
        # An advisory lock and not a lock on the table, which may not exist yet.
        database.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        # CREATE only when it is missing: a user who may only read and write rows can use existing tables.
        if database.execute("SELECT to_regclass('migration')").fetchone() == (None,):
            database.execute("CREATE TABLE migration(step integer PRIMARY KEY, at timestamptz NOT NULL DEFAULT now())")
        done = _version(database)
    if done > len(STEPS):
        raise StoreUnavailable(
            f"the ledger has version {done}, this program knows {len(STEPS)}", hint="use the version of assay that the others use"
        )
    for step in range(done, len(STEPS)):
        _run_step(database, step)


def _version(database: psycopg.Connection) -> int:
    found = database.execute("SELECT count(*) FROM migration").fetchone()
    return int(found[0]) if found else 0


def _run_step(database: psycopg.Connection, step: int) -> None:
    """Run one step, unless another process has run it meanwhile."""
    with database.transaction():
        database.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        # Another process may have run it while this one waited for the lock.
        if _version(database) == step:
            database.execute(STEPS[step])
            database.execute("INSERT INTO migration(step) VALUES (%s)", (step,))
