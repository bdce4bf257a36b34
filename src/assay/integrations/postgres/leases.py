"""Leases in PostgreSQL: of shared limits, and of the right to drive a run."""

from typing import LiteralString

import msgspec
import psycopg

from assay.core.runs import TERMINAL
from assay.integrations.postgres.connection import FIRST_PATIENCE, ReconnectingConnection
from assay.store.leases import LeaseGrant, LeaseRequest, Pool, RunLimits, grant_lease, without
from assay.store.lock import LEASE_SECONDS

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
            # Computed while the row is locked: the answer depends on what all other workers have.
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
            # ON CONFLICT: two workers may come first at once.
            database.execute("INSERT INTO pool VALUES (%s, %s) ON CONFLICT DO NOTHING", (self._run, msgspec.json.encode(Pool())))
            # Read again, so that the row is locked.
            found = self._select_pool(database)
        assert found is not None
        return found

    def _select_pool(self, database: psycopg.Connection) -> tuple[Pool, float, float] | None:
        """Lock and read the pool, with the database's time and its start time."""
        row = database.execute(
            "SELECT body, extract(epoch FROM clock_timestamp()), extract(epoch FROM pg_postmaster_start_time())"
            # The time of the database for all workers, since clocks of machines differ.
            " FROM pool WHERE run = %s FOR UPDATE",
            (self._run,),
        ).fetchone()
        return None if row is None else (_DECODER.decode(row[0]), float(row[1]), float(row[2]))

    def _write(self, database: psycopg.Connection, pool: Pool) -> None:
        database.execute("UPDATE pool SET body = %s WHERE run = %s", (msgspec.json.encode(pool), self._run))


_DRIVING_PATIENCE = 2.0
"""Seconds for which one statement is retried; callers repeat it themselves."""
# After a restart of the database the last driver has a full lease to renew: it could not while the database was away.
_TAKE: LiteralString = """
INSERT INTO driver SELECT run, %(owner)s, %(place)s, clock_timestamp() + make_interval(secs => %(lease)s) FROM run
WHERE run_id = %(run_id)s
ON CONFLICT (run) DO UPDATE SET owner = excluded.owner, place = excluded.place, until = excluded.until
WHERE driver.owner = excluded.owner OR (driver.place = excluded.place AND driver.place != '')
    OR greatest(driver.until, pg_postmaster_start_time() + make_interval(secs => %(lease)s)) < clock_timestamp()
"""
_RENEW: LiteralString = """
UPDATE driver SET until = clock_timestamp() + make_interval(secs => %(lease)s) FROM run
WHERE driver.run = run.run AND run_id = %(run_id)s AND owner = %(owner)s
"""
_RELEASE: LiteralString = "DELETE FROM driver USING run WHERE driver.run = run.run AND run_id = %(run_id)s AND owner = %(owner)s"


class PostgresLease:
    """The right to drive one run, under a unique owner name."""

    def __init__(self, address: str, run_id: str, *, owner: str, place: str = "") -> None:
        """Prepare a lease. One process at a time works in a `place`, so its driver need not wait for an older lease from there."""
        self.owner = owner
        self._connection = ReconnectingConnection(address, patience=_DRIVING_PATIENCE)
        self._values = {"run_id": run_id, "owner": owner, "place": place, "lease": LEASE_SECONDS}

    def take(self) -> bool:
        """Take the lease; False while another driver holds it. Raises StoreUnavailable when the database cannot be reached."""
        # A connection from before may have been lost together with the database.
        self._connection.close()
        # Wait longer here for a database that is restarting, as every command does before it starts.
        first = ReconnectingConnection(self._connection.address, patience=FIRST_PATIENCE)
        try:
            return self._execute(_TAKE, first)
        finally:
            # Kept afterwards, so that renewing needs no new connection.
            self._connection.take_over(first)

    def renew(self) -> bool:
        """Renew the lease; False when another driver has taken over."""
        return self._execute(_RENEW, self._connection)

    def release(self) -> None:
        """Release the lease."""
        self._execute(_RELEASE, self._connection)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _execute(self, statement: LiteralString, connection: ReconnectingConnection) -> bool:
        def change(database: psycopg.Connection) -> bool:
            # No row means that the lease belongs to another driver.
            return database.execute(statement, self._values).rowcount == 1

        return connection.transact(change)
