"""The store of one history: a real ledger in a real file, under a disk that fails or a process that dies at a given moment."""

import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec

from assay.engine.storage.run_paths import RunPaths
from assay.store.ledger import Claim, CommitEntry, FinishedRecord, Ledger, RecordRow
from assay.store.sqlite import SqliteLedger, open_ledger
from tests.simulation.world import World

PROBLEMS = {
    "full": (sqlite3.SQLITE_FULL, "database or disk is full"),
    "broken": (sqlite3.SQLITE_IOERR, "disk I/O error"),
    "busy": (sqlite3.SQLITE_BUSY, "database is locked"),
    "unsure": (sqlite3.SQLITE_IOERR, "disk I/O error"),
}
"""What a database may complain about; `unsure` has written everything all the same."""
_WAL = "ledger.sqlite-wal"


class Fault(msgspec.Struct, frozen=True):
    """A transaction that goes wrong."""

    transaction: int
    """Counted in one life, of those that write."""
    kind: str
    """A name of PROBLEMS, or `torn` for a death in the middle of the write."""


class Disk:
    """What is on the disk, and what it does wrong next."""

    def __init__(self, world: World, runs_dir: Path, *, shard_size: int) -> None:
        self.world = world
        self.runs_dir = runs_dir
        self.shard_size = shard_size
        self._kept = runs_dir.with_name("kept")
        self._fault: Fault | None = None
        self._transactions = 0
        self._is_begun = False
        world.on_death = self.keep

    def begin(self, fault: Fault | None) -> None:
        """A new process, in which this goes wrong."""
        self._fault, self._transactions, self._is_begun = fault, 0, False

    def keep(self) -> None:
        """Remember what is on the disk at this moment: a process that dies leaves nothing else behind."""
        shutil.rmtree(self._kept, ignore_errors=True)
        shutil.copytree(self.runs_dir, self._kept)

    def restore(self) -> None:
        """Put back what the dead process has left; what it did since then was never done."""
        shutil.rmtree(self.runs_dir)
        self._kept.rename(self.runs_dir)

    def begun(self, statement: str) -> None:
        """A transaction begins; raises sqlite3.OperationalError where it cannot."""
        self._is_begun = statement == "BEGIN IMMEDIATE"
        self._transactions += self._is_begun
        if self._is_due("busy"):
            raise self._problem("busy")

    def commit(self, database: sqlite3.Connection, folder: Path) -> None:
        """Make a transaction durable, or not."""
        if self._is_due("full", "broken"):
            assert self._fault is not None
            raise self._problem(self._fault.kind)
        if self._is_due("torn"):
            self._tear(database, folder)
        database.execute("COMMIT")
        if self._is_due("unsure"):
            raise self._problem("unsure")

    def _is_due(self, *kinds: str) -> bool:
        fault = self._fault
        is_here = fault is not None and self._is_begun and fault.transaction == self._transactions and not self.world.is_dead
        return is_here and fault is not None and fault.kind in kinds

    def _problem(self, kind: str) -> sqlite3.OperationalError:
        code, message = PROBLEMS[kind]
        self.world.note("store", kind)
        problem = sqlite3.OperationalError(message)
        problem.sqlite_errorcode = code
        return problem

    def _tear(self, database: sqlite3.Connection, folder: Path) -> None:
        """Die in the middle of the write to the log: the disk has some of the new bytes and some of the old ones."""
        log = folder / _WAL
        old = log.read_bytes() if log.exists() else b""
        self.keep()
        database.execute("COMMIT")
        new = log.read_bytes() if log.exists() else b""
        written = self.world.chance.randint(0, len(new))
        (self._kept / log.relative_to(self.runs_dir)).write_bytes(new[:written] + old[written:])
        self.world.on_death = lambda: None
        try:
            self.world.die("torn write")
        finally:
            self.world.on_death = self.keep


class _Connection:
    """A connection to a database that asks the disk before it does anything."""

    def __init__(self, database: sqlite3.Connection, disk: Disk, folder: Path) -> None:
        self._database = database
        self._disk = disk
        self._folder = folder
        self.executemany = database.executemany
        self.close = database.close

    @property
    def in_transaction(self) -> bool:
        """True between a beginning and its end."""
        return self._database.in_transaction

    def execute(self, statement: str, *values: Any) -> Any:
        """One statement; raises sqlite3.OperationalError, and Killed when the process dies here."""
        world = self._disk.world
        if world.is_dead:
            raise sqlite3.OperationalError("the process is dead")
        if statement.startswith("BEGIN"):
            world.point(statement)
            self._disk.begun(statement)
        if statement != "COMMIT":
            return self._database.execute(statement, *values)
        world.point("before commit")
        self._disk.commit(self._database, self._folder)
        world.point("after commit")
        return None


class SimulatedLedger(SqliteLedger):
    """The ledger itself, over such a connection; its shards are small, so that there are several of them."""

    def __init__(self, path: Path, database: sqlite3.Connection, disk: Disk) -> None:
        super().__init__(path, cast("sqlite3.Connection", _Connection(database, disk, path.parent)))
        self._disk = disk

    def replace_records(self, rows: Iterable[RecordRow]) -> int:
        """As ever, and then the same records in smaller shards."""
        records = super().replace_records(rows)
        size = self._disk.shard_size
        with self.transaction() as database:
            database.execute("DELETE FROM span")
            starts = enumerate(range(0, records, size))
            spans = [(shard, first, min(first + size, records) - 1) for shard, first in starts]
            database.executemany("INSERT INTO span VALUES (?, ?, ?)", spans)
        return records

    def append(self, claim: Claim, entries: Sequence[CommitEntry]) -> bool:
        """As ever; the world hears when it is done."""
        is_cancelled = super().append(claim, entries)
        self._disk.world.appends.append(self._disk.world.clock.now)
        self._disk.world.note("appended", len(entries))
        return is_cancelled

    def finished(self) -> Iterator[FinishedRecord]:
        """As ever; the process may die between two records."""
        for record in super().finished():
            self._disk.world.point("record")
            yield record


class SimulatedFolders(RunPaths, frozen=True):
    """The folders of a run whose ledger is under such a disk."""

    disk: Disk

    def open_ledger(self, *, driver: str = "") -> Ledger:  # noqa: ARG002  # nobody else drives the run
        """The ledger of the run."""
        opened = open_ledger(self.active / "ledger.sqlite")
        return SimulatedLedger(opened.path, opened.database, self.disk)
