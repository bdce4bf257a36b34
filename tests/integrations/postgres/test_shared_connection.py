"""One connection for many threads: while the server is away, all who wait hear of it together."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from assay.core.errors import StoreUnavailable
from assay.integrations.postgres.connection import SHARED_PATIENCE, ThreadSafeConnection
from tests.store.databases import Database
from tests.surfaces.server.serving import free_port

CALLERS = 8


def test_threads_take_turns(database: Database) -> None:
    link = ThreadSafeConnection(database.address)
    with ThreadPoolExecutor(CALLERS) as threads:
        found = list(
            threads.map(lambda n: link.transact(lambda asked: asked.execute("SELECT %s", (n,)).fetchone()), range(CALLERS))
        )
    link.close()
    assert found == [(n,) for n in range(CALLERS)]


def test_many_who_wait_for_a_server_that_is_away_wait_no_longer_than_two() -> None:
    link = ThreadSafeConnection(f"postgresql://assay@127.0.0.1:{free_port()}/none")
    tried: list[int] = []
    together = threading.Barrier(CALLERS)

    def ask(number: int) -> None:
        together.wait()
        with pytest.raises(StoreUnavailable, match="cannot use the ledger"):
            link.transact(lambda _: tried.append(number))

    begun = time.monotonic()
    with ThreadPoolExecutor(CALLERS) as threads:
        list(threads.map(ask, range(CALLERS)))
    # One after the other they would have waited eight times as long.
    assert time.monotonic() - begun < CALLERS * SHARED_PATIENCE / 2
    assert tried == []
