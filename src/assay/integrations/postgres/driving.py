"""Lease to drive a run that many machines can reach: a row with its expiry, in the time of the database."""

from typing import Any, LiteralString

import psycopg

from assay.integrations.postgres.connection import FIRST_PATIENCE, ReconnectingConnection
from assay.store.lock import LEASE_SECONDS

_PATIENCE = 2.0
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
        self._connection = ReconnectingConnection(address, patience=_PATIENCE)
        self._values = {"run_id": run_id, "owner": owner, "place": place, "lease": LEASE_SECONDS}

    def take(self) -> bool:
        """Take the lease; False while another driver holds it. Raises StoreUnavailable when the database cannot be reached."""
        self._connection.close()
        # Wait longer here for a database that is restarting, as every command does before it starts.
        first = ReconnectingConnection(self._connection.address, patience=FIRST_PATIENCE)
        try:
            return self._execute(_TAKE, first)
        finally:
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
        def change(database: psycopg.Connection[Any]) -> bool:
            return database.execute(statement, self._values).rowcount == 1

        return connection.transact(change)
