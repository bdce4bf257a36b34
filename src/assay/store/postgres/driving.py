"""Who drives a run that many machines can reach: a row with the end of a lease, in the time of the database."""

from typing import Any, LiteralString

import psycopg

from assay.store.lock import LEASE_SECONDS
from assay.store.postgres.connection import FIRST_PATIENCE, Link

_PATIENCE = 2.0
"""Seconds that one question is tried again; whoever asks does so again and again."""
# After a start of the database whoever drove before has the time of a lease to say so: it could not while the database was away.
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
    """The right to drive one run, under a name that nobody else has."""

    def __init__(self, address: str, run_id: str, *, owner: str, place: str = "") -> None:
        """Whoever takes it at a place where one process at a time works on the run need not wait for a lease from there."""
        self.owner = owner
        self._link = Link(address, patience=_PATIENCE)
        self._values = {"run_id": run_id, "owner": owner, "place": place, "lease": LEASE_SECONDS}

    def take(self) -> bool:
        """Begin to drive; False while another one does. Raises StoreUnavailable when nobody can say."""
        self._link.close()
        # A database that is about to come back is waited for, as everywhere before anything has begun.
        first = Link(self._link.address, patience=FIRST_PATIENCE)
        try:
            return self._changed(_TAKE, first)
        finally:
            self._link.take_over(first)

    def renew(self) -> bool:
        """Go on driving for the time of a lease; False when another one has taken over."""
        return self._changed(_RENEW, self._link)

    def release(self) -> None:
        """Let the next one drive."""
        self._changed(_RELEASE, self._link)

    def close(self) -> None:
        """Let go of the connection."""
        self._link.close()

    def _changed(self, statement: LiteralString, link: Link) -> bool:
        def change(database: psycopg.Connection[Any]) -> bool:
            return database.execute(statement, self._values).rowcount == 1

        return link.transact(change)
