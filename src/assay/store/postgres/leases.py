"""Limits that workers share, in one row of PostgreSQL for each run: whoever asks holds its lock, and the time is the database's."""

import msgspec
import psycopg

from assay.core.run_state import TERMINAL
from assay.store.leases import Grant, Need, Pool, Terms, settle, without
from assay.store.postgres.connection import Link

_PATIENCE = 5.0
"""Seconds that one question is tried again; whoever asks decides how often to."""
_DECODER = msgspec.json.Decoder(Pool)


class PostgresLeases:
    """The row of one run, through a connection of its own."""

    def __init__(self, address: str, run: int) -> None:
        self._run = run
        # A worker that is frozen while it holds the row's lock must not hold up the others.
        self._link = Link(address, patience=_PATIENCE, idle_in_transaction=1.0)

    def ask(self, need: Need, terms: Terms) -> Grant:
        """What the worker may do now; raises StoreUnavailable when nobody can say."""

        def settled(database: psycopg.Connection) -> Grant:
            pool, now, started = self._locked(database)
            pool, grant = settle(pool, need, terms, now=now, started=started)
            self._write(database, pool)
            return grant

        return self._link.transact(settled)

    def leave(self, worker: str) -> None:
        """Give everything back."""

        def left(database: psycopg.Connection) -> None:
            found = self._selected(database)
            if found is None:
                return
            pool = without(found[0], worker)
            self._write(database, pool)
            if not pool.shares:
                # Of a run that goes on, the rates are still used up.
                ended = "DELETE FROM pool USING run WHERE pool.run = %s AND run.run = pool.run AND run.state = ANY(%s)"
                database.execute(ended, (self._run, sorted(TERMINAL)))

        self._link.transact(left)

    def close(self) -> None:
        """Let go of the connection."""
        self._link.close()

    def _locked(self, database: psycopg.Connection) -> tuple[Pool, float, float]:
        found = self._selected(database)
        if found is None:
            database.execute("INSERT INTO pool VALUES (%s, %s) ON CONFLICT DO NOTHING", (self._run, msgspec.json.encode(Pool())))
            found = self._selected(database)
        assert found is not None
        return found

    def _selected(self, database: psycopg.Connection) -> tuple[Pool, float, float] | None:
        """The pool under its lock, the database's time, and the time when the database was started."""
        row = database.execute(
            "SELECT body, extract(epoch FROM clock_timestamp()), extract(epoch FROM pg_postmaster_start_time())"
            " FROM pool WHERE run = %s FOR UPDATE",
            (self._run,),
        ).fetchone()
        return None if row is None else (_DECODER.decode(row[0]), float(row[1]), float(row[2]))

    def _write(self, database: psycopg.Connection, pool: Pool) -> None:
        database.execute("UPDATE pool SET body = %s WHERE run = %s", (msgspec.json.encode(pool), self._run))
