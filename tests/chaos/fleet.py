"""Four workers, a Temporal server, a PostgreSQL and a provider that counts: what a run on many machines is made of."""

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import psycopg

from assay.store.leases import ALL, Pool
from tests.crash.job import steady
from tests.crash.loops import Bench, set_up
from tests.crash.provider import CountingProvider
from tests.integrations.temporal.machines import Site, TemporalProcess, WorkerProcess, until
from tests.store.databases import Database

PATIENCE = 120.0
"""Seconds after which something is taken not to happen."""
_IN_HAND = """
SELECT owner, first, last FROM shard JOIN span USING (run, shard) JOIN run USING (run) WHERE run_id = %s AND last - first >=
    (SELECT count(*) FROM outcome WHERE outcome.run = span.run AND position BETWEEN first AND last)
"""

_WAITING = """
SELECT application_name FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%INTO attempt%'
"""


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """How large a run is, and who works on it."""

    workers: int = 4
    records: int = 1_000
    """As many shards of 250 as there are workers, so that each has one and is free when it is through."""
    concurrency: int = 32
    """Seats of the run: calls in flight at most, of all workers together."""
    shards: int = 1
    """In hand of a worker at most: what it has no time for goes to those who have nothing to do."""
    latency: float = 0.12
    """Seconds that the provider takes for an answer: so a shard takes less time than the heartbeat timeout."""


class Fleet(msgspec.Struct, kw_only=True):
    """The machines of all runs; what a fault has ended is started again before the next run."""

    setting: Setting
    site: Site
    temporal: TemporalProcess
    database: Database
    bench: Bench
    workers: list[WorkerProcess] = []
    started: int = 0

    @property
    def provider(self) -> CountingProvider:
        return self.bench.provider

    def complete(self) -> None:
        """As many workers as there should be."""
        self.workers = [worker for worker in self.workers if worker.is_alive]
        starting = [self._start() for _ in range(self.setting.workers - len(self.workers))]
        for worker in starting:
            until(lambda log=worker.log: "takes work from" in log.read_text(encoding="utf-8"), patience=PATIENCE)  # type: ignore[misc]

    def _start(self) -> WorkerProcess:
        self.started += 1
        name = f"worker-{self.started}"
        worker = self.site.worker(name, "--shards", str(self.setting.shards), PGAPPNAME=name)
        self.workers.append(worker)
        return worker

    def in_hand(self, run_id: str) -> dict[str, list[range]]:
        """By worker, the cases of the shards that it has claimed and that have open records."""
        with psycopg.connect(self.database.address) as connection:
            rows = connection.execute(_IN_HAND, (run_id,)).fetchall()
        names = {owner_of(worker) for worker in self.workers}
        held: dict[str, list[range]] = {}
        for owner, first, last in rows:
            if owner in names:
                held.setdefault(owner, []).append(range(first, last + 1))
        return held

    def seats(self, run_id: str, worker: WorkerProcess) -> int:
        """Calls that a worker may have in flight at most: what it was given of the seats of the run."""
        with psycopg.connect(self.database.address) as connection:
            row = connection.execute("SELECT body FROM pool JOIN run USING (run) WHERE run_id = %s", (run_id,)).fetchone()
        assert row is not None, "workers share the seats of a run"
        shares = msgspec.json.decode(row[0], type=Pool).shares
        return sum(share.held[ALL] for name, share in shares.items() if name.startswith(f"{owner_of(worker)}:"))

    @contextmanager
    def held_up_in_a_write(self) -> Iterator[WorkerProcess]:
        """Inside, a worker waits in the middle of a transaction in which it writes results; afterwards it could go on."""
        address, by_name = self.database.address, {worker.log.stem: worker for worker in self.workers}
        # Who looks needs a connection of its own: in a transaction it would see the same again and again.
        with psycopg.connect(address) as holding, psycopg.connect(address, autocommit=True) as looking:
            holding.execute("LOCK TABLE attempt IN SHARE MODE")
            until(lambda: bool(looking.execute(_WAITING).fetchall()), patience=PATIENCE)
            yield next(by_name[name] for (name,) in looking.execute(_WAITING))

    def close(self) -> None:
        for worker in self.workers:
            worker.process.kill()
            worker.process.wait()


def owner_of(worker: WorkerProcess) -> str:
    """The name under which a worker claims shards."""
    return f"{socket.gethostname()}:{worker.process.pid}"


def kill(process: "subprocess.Popen[str] | subprocess.Popen[bytes]") -> None:
    """kill -9; returns when it is gone."""
    process.send_signal(signal.SIGKILL)
    process.wait()


def following(site: Site, run_id: str) -> "subprocess.Popen[str]":
    """`assay resume`, which watches a run that goes on."""
    command = [sys.executable, "-m", "assay", "resume", run_id, "--runs-dir", str(site.runs), "--json", "--quiet"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


@contextmanager
def standing_fleet(folder: Path, temporal: TemporalProcess, database: Database, setting: Setting) -> Iterator[Fleet]:
    """A fleet over servers that run, with a job that was run once in peace on this machine alone."""
    site = Site(folder=folder, temporal=temporal.address, ledger=database.address, queue=f"chaos-{folder.name}")
    with CountingProvider(steady) as provider:
        bench = set_up(folder, provider, records=setting.records, concurrency=setting.concurrency)
        provider.latency = setting.latency
        fleet = Fleet(setting=setting, site=site, temporal=temporal, database=database, bench=bench)
        try:
            yield fleet
        finally:
            fleet.close()


def results_in(folder: Path) -> list[str]:
    """The record of each result of a run."""
    lines = (folder / "predictions.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["record_id"] for line in lines]
