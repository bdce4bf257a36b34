"""Rows of every ledger: outcomes and attempts as JSON, and records assembled from them again."""

from collections.abc import Iterable, Iterator

import msgspec

from assay.core.outcome import Attempt, InvalidOutcome, Outcome, record_status
from assay.store.ledger import SHARD_BYTES, SHARD_SIZE, FinishedRecord, RecordRow

encode = msgspec.json.Encoder().encode
_decode_attempt = msgspec.json.Decoder(Attempt).decode
_outcomes: msgspec.json.Decoder[Outcome] = msgspec.json.Decoder(Outcome)


class _IssueRow(msgspec.Struct):
    """The members of an issue that the ledger reads."""

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
    first = next((finding for finding in findings if finding.severity == "error"), _IssueRow())
    return InvalidOutcome(code=first.code, message=first.message)


def in_shards(rows: Iterable[RecordRow]) -> Iterator[list[RecordRow]]:
    """Divide rows into shards; asserts that positions have no gap."""
    shard: list[RecordRow] = []
    size = 0
    for expected, row in enumerate(rows):
        assert row.position == expected, "positions count the records from 0 without a gap"
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
