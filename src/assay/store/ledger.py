"""The ledger: durable log of an unfinished run. Everything else, artifacts included, is computed from it."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import msgspec

from assay.core.outcome import Attempt, InvalidOutcome, Outcome, record_status
from assay.core.runs import State
from assay.store.leases import LeaseStore

SHARD_SIZE = 250
"""Maximum records in a shard, the unit of work of one worker."""
SHARD_BYTES = 8 << 20
"""Maximum bytes of a shard's records, which a worker holds in memory together; a larger record is a shard of its own."""
READ = "read"
"""Name of the note that the records came with the run, and need not be read from its datasets."""
FAILURE = "failure"
"""Name of the note with the reason why the run has failed; empty once it is resumed."""
FAILURES = "failures"
"""Name of the note that lists the failures after which the run was resumed."""
UNPREPARED: tuple[State, ...] = ("queued", "validating")
"""States in which the records of a run may be written, because no worker has started."""
NOWHERE = (1 << 63) - 1
"""A position that no record has: the largest integer that a database column holds."""


def askable(position: int) -> int:
    """Return the position, or one that no record has when the database could not hold it."""
    return position if 0 <= position < NOWHERE else NOWHERE


class RecordRow(msgspec.Struct, frozen=True):
    """One record of the input: a valid case, or the issues of an invalid record."""

    position: int
    """Index over all datasets of the run, in their order, from 0."""
    record_id: str | None
    sha256: str
    case: bytes | None
    """Case as JSON; None for an invalid record."""
    issues: bytes = b""
    """Errors and warnings as a JSON array; empty when there are none."""
    row: bytes = b""
    """Record in its own contract, as compact JSON; empty when an earlier record has it (several answers to one record, several
    records of one conversation), and in ledgers of earlier versions. For an invalid record: its slices, as JSON."""
    head: bytes = b""
    """Set with the first valid record of a dataset: its dataset, and the document's members besides its records, as JSON."""


# Attempts are committed before more is asked, so that a crash never pays for the same answer twice.
class CommitEntry(msgspec.Struct, frozen=True):
    """One commit for one record: attempts, and its outcome once it has one."""

    position: int
    attempts: tuple[Attempt, ...] = ()
    outcome: Outcome | None = None


# A worker that froze may wake up after another one took its shard. Its epoch is then old, and its write is refused.
class Claim(msgspec.Struct, frozen=True):
    """Right of one worker to append to a shard, until another worker claims it."""

    shard: int
    epoch: int


class OpenRecord(msgspec.Struct, frozen=True):
    """A record without an outcome, and its attempts so far."""

    position: int
    case: bytes
    attempts: tuple[Attempt, ...] = ()


class FinishedRecord(msgspec.Struct, frozen=True):
    """A record with all its attempts and its outcome."""

    record: RecordRow
    attempts: tuple[Attempt, ...]
    outcome: Outcome | None


class RunRow(msgspec.Struct, frozen=True):
    """Run itself: plan, state, and history of states."""

    plan: bytes
    """Plan as JSON."""
    plan_sha256: str
    state: State
    states: tuple[tuple[State, float], ...]
    """Every state of the run, with its time."""
    is_cancel_requested: bool
    notes: dict[str, str]
    """Small values that must survive a crash, such as the final state while it is being published."""


class RunStatusRow(msgspec.Struct, frozen=True):
    """State and progress of a run."""

    run_id: str
    state: State
    records: int
    is_cancel_requested: bool
    created_at: float
    done: int
    """Records with an outcome; 0 once the run has ended and its records are deleted here."""
    is_submitted: bool
    """It was submitted to a server; the servers bring it to its end."""
    is_driven: bool
    """A process drives it."""
    is_with_workers: bool
    """A Temporal server distributes it to workers."""
    problem: str
    """Reason why the servers have given it up, or why workers cannot continue."""
    notes: dict[str, str]
    """Set for a run that has ended: counts of records by status, and the location of the artifacts."""


class ClaimLost(Exception):
    """Another worker has taken over the shard, or the run; the write is refused."""


class FinishedRun(Protocol):
    """Input of finalization: a run's row and all its records."""

    def run(self) -> RunRow:
        """Read the run's row; its final state is known once all records were read."""

    def finished(self) -> Iterator[FinishedRecord]:
        """Read all records in order, each with its attempts and outcome, in constant memory."""


class Ledger(Protocol):
    """Tables of one run; every method is one durable transaction. Not safe for use from two threads at once."""

    def run(self) -> RunRow:
        """Read the run's row."""

    def check(self) -> None:
        """Check that what is written here can be found again; raises LedgerLost otherwise."""

    def rescue(self) -> bool:
        """Restore a ledger that was removed; False when that is not possible."""

    def set_state(self, old: State, new: State, *, at: float) -> bool:
        """Change the state from `old` to `new`; False when the run is no longer in `old`."""

    def is_ours(self, state: State) -> bool:
        """Return whether the run is in this state and no other process drives it; renews the driver's lease."""

    def set_note(self, name: str, value: str) -> None:
        """Store a small value under a name."""

    def request_cancel(self) -> None:
        """Request a cancel; the workers of the run see it at their next append."""

    def replace_records(self, rows: Iterable[RecordRow]) -> int:
        """Replace the whole input, in one transaction and in constant memory; returns the number of records.

        Divides the records into shards by count and size. Raises ClaimLost when a worker has started on the run already; nothing is
        changed then.
        """

    def shards(self) -> Sequence[int]:
        """List the shards that have records without an outcome."""

    def claim(self, shard: int, *, owner: str) -> Claim:
        """Claim a shard, which ends every earlier claim to it."""

    def open_records(self, shard: int) -> list[OpenRecord]:
        """Read the shard's records that have no outcome, in order."""

    def append(self, claim: Claim, entries: Sequence[CommitEntry]) -> bool:
        """Append attempts and outcomes; True when a cancel was requested. Raises ClaimLost, and then nothing was appended.

        The first outcome of a record counts; later ones are ignored.
        """

    def close_open(self, outcome: Outcome) -> int:
        """Give this outcome to every record without one; returns how many there were."""

    def counts(self) -> dict[str, int]:
        """Count records by status; those without an outcome are counted as `open`."""

    def spent(self) -> float:
        """Sum the cost of all attempts in US dollars, as far as prices are known."""

    def latest_failures(self, limit: int) -> list[FinishedRecord]:
        """Read the last records that ended with an error, the last first, without their attempts."""

    def finished(self) -> Iterator[FinishedRecord]:
        """Read all records in order, each with its attempts and outcome, in constant memory."""

    def finished_part(
        self, *, statuses: Sequence[str], passed: bool | None, limit: int, offset: int = 0, first: int = 0
    ) -> tuple[int, list[FinishedRecord]]:
        """Count the records with one of these statuses (or any) and this verdict (or any), and read a page of them."""

    def leases(self) -> LeaseStore | None:
        """Open the limits that the workers of the run share; None for a ledger that only one worker can use."""

    def close(self) -> None:
        """Close the database."""


encode = msgspec.json.Encoder().encode
_decode_attempt = msgspec.json.Decoder(Attempt).decode
_outcomes: msgspec.json.Decoder[Outcome] = msgspec.json.Decoder(Outcome)


class _IssueRow(msgspec.Struct):
    """Members of an issue that the ledger reads."""

    code: str = "invalid_record"
    message: str = ""
    severity: str = "error"


_decode_findings = msgspec.json.Decoder(list[_IssueRow]).decode


def decode_outcome(body: bytes) -> Outcome:
    """Decode the outcome of a row; raises msgspec.DecodeError when the row is damaged."""
    return _outcomes.decode(body)


def outcome_values(position: int, outcome: Outcome) -> tuple[int, str, bytes]:
    """Encode an outcome as a row."""
    return position, record_status(outcome), encode(outcome)


def invalid_outcome(issues: bytes) -> InvalidOutcome:
    """Build the outcome of an invalid record from the first of its errors."""
    findings = _decode_findings(issues or b"[]")
    # An invalid record has an outcome from the start: it counts in the run, and no model is ever called for it.
    first = next((finding for finding in findings if finding.severity == "error"), _IssueRow())
    return InvalidOutcome(code=first.code, message=first.message)


def in_shards(rows: Iterable[RecordRow]) -> Iterator[list[RecordRow]]:
    """Divide rows into shards; asserts that positions have no gap."""
    shard: list[RecordRow] = []
    size = 0
    for expected, row in enumerate(rows):
        assert row.position == expected, "positions count the records from 0 without a gap"
        # By bytes as well, since records of a megabyte would make a shard of a quarter of a gigabyte.
        weight = len(row.case or b"") + len(row.issues)
        if shard and (len(shard) == SHARD_SIZE or size + weight > SHARD_BYTES):
            yield shard
            shard, size = [], 0
        shard.append(row)
        size += weight
    if shard:
        yield shard


def invalid_outcomes(shard: Iterable[RecordRow]) -> list[tuple[int, str, bytes]]:
    """Build the outcomes of a shard's invalid records, which have one from the start."""
    return [outcome_values(row.position, invalid_outcome(row.issues)) for row in shard if row.case is None]


def attempts_of(bodies: Iterable[bytes]) -> tuple[Attempt, ...]:
    """Decode the attempts of rows, in order."""
    return tuple(map(_decode_attempt, bodies))


def finished_record(record: RecordRow, bodies: Iterable[bytes], end: bytes | None) -> FinishedRecord:
    """Assemble a record from its attempts and its outcome, if any."""
    tried = attempts_of(bodies)
    # Concurrent calls are stored in order of completion; sorting makes a run and its repetition list them alike.
    ordered = tuple(sorted(tried, key=_turn)) if len(tried) > 2 else tried
    return FinishedRecord(record, ordered, None if end is None else decode_outcome(end))


def _turn(attempt: Attempt) -> tuple[int, str, str]:
    return attempt.round, attempt.stage, attempt.call_id


class RowGroups:
    """Rows of (position, body) in order, grouped by position on the fly."""

    def __init__(self, rows: Iterator[tuple[int, bytes]]) -> None:
        self._rows = rows
        self._next = next(rows, None)

    def of(self, position: int) -> list[bytes]:
        """Return the bodies of a position; callers ask for positions in order, and those in between are skipped."""
        bodies: list[bytes] = []
        row = self._next
        while row is not None and row[0] <= position:
            if row[0] == position:
                bodies.append(row[1])
            row = next(self._rows, None)
        self._next = row
        return bodies
