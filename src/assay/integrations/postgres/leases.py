"""Shared limits of workers, in one row of PostgreSQL per run: each request locks the row, and uses the database's time."""

import msgspec
import psycopg

from assay.core.run_state import TERMINAL
from assay.integrations.postgres.connection import ReconnectingConnection
from assay.store.leases import LeaseGrant, LeaseRequest, Pool, RunLimits, grant_lease, without

_PATIENCE = 5.0
"""Seconds for which one request is retried; the caller decides how often to repeat it."""
_DECODER = msgspec.json.Decoder(Pool)


class PostgresLeases:
    """The pool row of one run, through a connection of its own."""

    def __init__(self, address: str, run: int) -> None:
        self._run = run
        # A worker that is suspended while it holds the row's lock must not block the others.
        self._connection = ReconnectingConnection(address, patience=_PATIENCE, idle_in_transaction=1.0)

    def ask(self, request: LeaseRequest, limits: RunLimits) -> LeaseGrant:
        """Renew the worker's lease; raises StoreUnavailable when the database cannot be reached."""

        def renew(database: psycopg.Connection) -> LeaseGrant:
            pool, now, started = self._lock_pool(database)
            pool, grant = grant_lease(pool, request, limits, now=now, started=started)
            self._write(database, pool)
            return grant

        return self._connection.transact(renew)

    def leave(self, worker: str) -> None:
        """Give up the worker's lease."""

        def remove(database: psycopg.Connection) -> None:
            found = self._select_pool(database)
            if found is None:
                return
            pool = without(found[0], worker)
            self._write(database, pool)
            if not pool.shares:
                # While a run continues, its used-up rates must stay known.
                ended = "DELETE FROM pool USING run WHERE pool.run = %s AND run.run = pool.run AND run.state = ANY(%s)"
                database.execute(ended, (self._run, sorted(TERMINAL)))

        self._connection.transact(remove)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _lock_pool(self, database: psycopg.Connection) -> tuple[Pool, float, float]:
        found = self._select_pool(database)
        if found is None:
            database.execute("INSERT INTO pool VALUES (%s, %s) ON CONFLICT DO NOTHING", (self._run, msgspec.json.encode(Pool())))
            found = self._select_pool(database)
        assert found is not None
        return found

    def _select_pool(self, database: psycopg.Connection) -> tuple[Pool, float, float] | None:
        """Lock and read the pool, with the database's time and its start time."""
        row = database.execute(
            "SELECT body, extract(epoch FROM clock_timestamp()), extract(epoch FROM pg_postmaster_start_time())"
            " FROM pool WHERE run = %s FOR UPDATE",
            (self._run,),
        ).fetchone()
        return None if row is None else (_DECODER.decode(row[0]), float(row[1]), float(row[2]))

    def _write(self, database: psycopg.Connection, pool: Pool) -> None:
        database.execute("UPDATE pool SET body = %s WHERE run = %s", (msgspec.json.encode(pool), self._run))
