"""The ledger: the durable truth of a run. Everything else, artifacts included, is computed from it."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import msgspec

from assay.core.outcome import Attempt, Outcome
from assay.core.run_state import State
from assay.store.leases import Leases

SHARD_SIZE = 250
"""Records at most in a shard, the unit that an engine hands out."""
SHARD_BYTES = 8 << 20
"""Bytes at most of the records in a shard, which a worker takes into memory together; a larger record is a shard of its own."""
READ = "read"
"""Under this name a note says that the records came with the run, and need not be read from its datasets."""
FAILURE = "failure"
"""Under this name a note says why the run has failed, until it is resumed; empty otherwise."""
FAILURES = "failures"
"""Under this name a note lists the failures after which the run was resumed."""
UNPREPARED: tuple[State, ...] = ("queued", "validating")
"""States in which the records of a run may be written: nobody works on them yet."""
NOWHERE = (1 << 63) - 1
"""A position that no record has: the largest whole number that a database can be asked for."""


def askable(position: int) -> int:
    """The position, or nowhere for one that a database cannot be asked for."""
    return position if 0 <= position < NOWHERE else NOWHERE


class RecordRow(msgspec.Struct, frozen=True):
    """One record of the input: a case to evaluate, or what is wrong with it."""

    position: int
    """Zero-based over all datasets of the run, in their order."""
    record_id: str | None
    sha256: str
    case: bytes | None
    """The Case as JSON; None for a record that broke its contract."""
    issues: bytes = b""
    """Its errors and warnings as a JSON array; empty when there are none."""
    row: bytes = b""
    """The record in its own contract, as compact JSON; empty where an earlier record has it (several answers to one record, several
    records of one conversation), and in ledgers of earlier versions. Of a record that broke its contract: its slices, as JSON."""
    head: bytes = b""
    """With the first valid record of a dataset: which dataset it is, and the document's members besides its records, as JSON."""


class Entry(msgspec.Struct, frozen=True):
    """What one commit adds for one record: attempts, and its outcome when it has come to an end."""

    position: int
    attempts: tuple[Attempt, ...] = ()
    outcome: Outcome | None = None


class Claim(msgspec.Struct, frozen=True):
    """The right to append to a shard until somebody else claims it."""

    shard: int
    epoch: int


class OpenRecord(msgspec.Struct, frozen=True):
    """A record without an outcome and what was already tried for it."""

    position: int
    case: bytes
    attempts: tuple[Attempt, ...] = ()


class FinishedRecord(msgspec.Struct, frozen=True):
    """Everything that the ledger knows of one record."""

    record: RecordRow
    attempts: tuple[Attempt, ...]
    outcome: Outcome | None


class RunRow(msgspec.Struct, frozen=True):
    """The run itself: its plan, where it stands, when it got there."""

    plan: bytes
    """The Plan as JSON."""
    plan_sha256: str
    state: State
    states: tuple[tuple[State, float], ...]
    """Every state that was entered, with its time."""
    is_cancel_requested: bool
    notes: dict[str, str]
    """Small facts that must survive a crash, such as the final state while it is being published."""


class StandingRow(msgspec.Struct, frozen=True):
    """Where a run stands."""

    run_id: str
    state: State
    records: int
    is_cancel_requested: bool
    created_at: float
    done: int
    """Records with an outcome; 0 when the run has ended, and its records are deleted here."""
    is_submitted: bool
    """Servers see to it that it comes to its end."""
    is_driven: bool
    """A process has it for itself."""
    is_with_workers: bool
    """A Temporal server has handed it to workers."""
    problem: str
    """Why the servers have given it up, or what keeps workers from going on."""
    notes: dict[str, str]
    """How many records of each kind there were, and where the artifacts are, of a run that has ended."""


class Fenced(Exception):
    """Somebody else goes on with the shard, or with the run; what this one wanted to write is refused."""


class Finished(Protocol):
    """What the end of a run is made from: its row and all its records."""

    def run(self) -> RunRow:
        """The run's row; its final state is known when all records were taken."""

    def finished(self) -> Iterator[FinishedRecord]:
        """All records in order, each with its attempts and outcome, in constant memory."""


class Ledger(Protocol):
    """The tables of one run; every method is one durable transaction. Not safe for use from two threads at once."""

    def run(self) -> RunRow:
        """The run's row."""

    def check(self) -> None:
        """Raises LedgerLost where what is written here would be found by no one."""

    def rescue(self) -> bool:
        """Put a ledger back that was removed; False where that is not possible."""

    def set_state(self, old: State, new: State, *, at: float) -> bool:
        """Go from one state to the next; False when the run is not in `old` any more."""

    def is_ours(self, state: State) -> bool:
        """True while the run is in this state and nobody else drives it; whoever drives it may go on for the time of a lease."""

    def set_note(self, name: str, value: str) -> None:
        """Keep a small fact."""

    def request_cancel(self) -> None:
        """Ask whoever works on the run to stop."""

    def replace_records(self, rows: Iterable[RecordRow]) -> int:
        """Write the whole input anew, in one transaction and in constant memory; returns the number of records.

        This is where shards begin and end: at so many records, or before so many bytes. Raises Fenced when the run is worked on
        already, and then nothing was changed.
        """

    def shards(self) -> Sequence[int]:
        """The shards that have records without an outcome."""

    def claim(self, shard: int, *, owner: str) -> Claim:
        """Take a shard, which ends every earlier claim to it."""

    def open_records(self, shard: int) -> list[OpenRecord]:
        """The shard's records that have no outcome, in order."""

    def append(self, claim: Claim, entries: Sequence[Entry]) -> bool:
        """Append attempts and outcomes; True when a cancel was requested. Raises Fenced, and then nothing was appended.

        An outcome that a record already has is kept: the first one counts.
        """

    def close_open(self, outcome: Outcome) -> int:
        """Give every record without an outcome this one; returns how many there were."""

    def counts(self) -> dict[str, int]:
        """Records by record status; those without an outcome are counted as `open`."""

    def spent(self) -> float:
        """US dollars that the attempts so far have cost, as far as their prices are known."""

    def latest_failures(self, limit: int) -> list[FinishedRecord]:
        """The last records that ended with an error, the last first; without their attempts."""

    def finished(self) -> Iterator[FinishedRecord]:
        """All records in order, each with its attempts and outcome, in constant memory."""

    def finished_part(
        self, *, statuses: Sequence[str], passed: bool | None, limit: int, offset: int = 0, first: int = 0
    ) -> tuple[int, list[FinishedRecord]]:
        """How many records have an outcome of these statuses, or any, and of a verdict; and some of them."""

    def leases(self) -> Leases | None:
        """Where the workers of the run share its limits; None for a ledger that only one of them can use."""

    def close(self) -> None:
        """Let go of the database."""
