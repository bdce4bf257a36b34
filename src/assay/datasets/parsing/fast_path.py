"""Fast path of contracts with rows: typed decoding and a count of strings accept clean rows, others go to the exact rules."""

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from assay.core.narrow_text import LARGE_BYTES
from assay.datasets.parsing.hashing import RecordHasher, ValueScan, convert_whole_floats, scan_values
from assay.datasets.parsing.scan import LineScanner, may_outgrow
from assay.datasets.parsing.source import BATCH_BYTES, LineBlock

LEVELS = 6
"""Levels of containers that typed decoding takes; real metadata has two or three."""

_Scalar = str | int | float | bool | None


# A type for each level: within it typed decoding is complete, and what is deeper goes to the exact rules.
def _value(levels: int) -> Any:
    if levels == 0:
        return _Scalar
    inner = _value(levels - 1)
    return _Scalar | dict[str, inner] | list[inner]  # type: ignore[valid-type]  # the type is made level by level


# Six levels take 4 ms to make and eight took 12, at every start; deeper values go to the exact rules.
ShallowValue: Any = _value(LEVELS)
ShallowObject: Any = dict[str, _value(LEVELS - 1)]  # type: ignore[misc]  # as above


Row = TypeVar("Row")
_LARGEST_BLOCK = 2 << 20
"""Maximum bytes that are decoded without counting their values first."""
_RETURN = ord("\r")
_REFUSALS = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)
_write_values = msgspec.json.Encoder().encode
_write_sorted = msgspec.json.Encoder(order="deterministic").encode
"""Sorts the names of open values; those of types are sorted where the types are made, so that no row has to be."""


# The proof in one sentence: a row holds as many strings as its decoded parts have, or something in it was dropped.
class StringCounts(NamedTuple):
    """Number of strings that some rows are written with, names of members included."""

    strings: int
    """Outside the other values."""
    others: list[Any]
    """Open values, whose strings were not counted."""
    numbered: list[Any]
    """Parts of rows that have a number which may be a float."""


class CleanBlock(NamedTuple, Generic[Row]):
    """Rows of a block with a clean row on every line."""

    rows: list[Row]
    numbered: list[Any]
    """Parts of rows that have a number which may be a float."""
    are_plain: bool
    """True if msgspec is known to write the open values as RFC 8785 demands."""


class RowSchema(msgspec.Struct, Generic[Row], frozen=True):
    """Types of a contract's rows, and the checks that types cannot express."""

    decoder: msgspec.json.Decoder[Row]
    """Its types have their members in the order of their names, in which hashes want them written."""
    brackets: bytes
    """Brackets that a row begins and ends with."""
    count_strings: Callable[[Sequence[Row]], StringCounts | None]
    """Returns None when a rule that types cannot express may be broken; may reject a clean row, never accepts a bad one."""
    number: str
    """Member of `StringCounts.numbered` that is a number."""


class FastPath(Generic[Row]):
    """Typed decoding with a proof; rows that it does not accept are left to the exact rules."""

    def __init__(self, kind: RowSchema[Row]) -> None:
        self._schema = kind
        self._scanner = LineScanner(2 * BATCH_BYTES)
        self._hasher = RecordHasher()

    def all_rows(self, block: LineBlock, *, hashes: bool = False) -> CleanBlock[Row] | None:
        """Return the rows of a block if every line has a clean one, else None; `hashes` announces that these will be wanted."""
        if block.size > _LARGEST_BLOCK:
            return None
        try:
            # One call for a whole block instead of one for each line.
            rows = self._schema.decoder.decode_lines(block.view)
        except _REFUSALS:
            return None
        # The decoder takes any white space between rows, so it may have read two rows on a line or one on two.
        is_one_per_line = len(rows) == _count_row_lines(block, self._schema.brackets)
        return self._check_rows(block.view, rows, hashes=hashes) if is_one_per_line else None

    def clean_rows(self, lines: Sequence[bytes]) -> list[Row | None]:
        """Return the row of each clean line; None for the others."""
        rows = [self._read(line) for line in lines]
        read = [position for position, row in enumerate(rows) if row is not None]
        for position in self._find_unproved(lines, rows, read):
            rows[position] = None
        return rows

    def digests(self, taken: CleanBlock[Row], block: LineBlock) -> bytes:
        """Return the hashes (RFC 8785) of all rows of a block, joined."""
        if taken.are_plain and convert_whole_floats(taken.numbered, self._schema.number):
            return b"".join([sha256(_write_sorted(row)).digest() for row in taken.rows])
        # Finding out which rows are plain would cost as much time as writing those from the decoded values would save.
        return b"".join([self._hasher.digest(line) for line in bytes(block.view).split(b"\n")[: len(taken.rows)]])

    def _read(self, line: bytes) -> Row | None:
        if len(line) > LARGE_BYTES or may_outgrow(line):
            return None
        try:
            return self._schema.decoder.decode(line)
        except _REFUSALS:
            return None

    def _find_unproved(self, lines: Sequence[bytes], rows: Sequence[Row | None], positions: list[int]) -> list[int]:
        """Find the positions that have no proof by halving: few rows are bad."""
        some = [row for position in positions if (row := rows[position]) is not None]
        if not some or self._check_rows(b"\n".join([lines[position] for position in positions]), some) is not None:
            return []
        if len(positions) == 1:
            return positions
        # A block with one bad row costs a few more scans of halves, and never one scan for each row.
        middle = len(positions) // 2
        return self._find_unproved(lines, rows, positions[:middle]) + self._find_unproved(lines, rows, positions[middle:])

    def _check_rows(self, text: bytes | memoryview, rows: list[Row], *, hashes: bool = False) -> CleanBlock[Row] | None:
        """Return the rows, which are all that the text holds, if they are clean.

        A name that appears twice in an object is read once, and an unknown one never: fewer strings are read than were written.
        """
        written = self._schema.count_strings(rows)
        if written is None:
            return None
        # Hashes need more facts about the open values than the number of strings, which is faster to count in written JSON.
        scanned_values = (
            scan_values(written.others) if hashes else ValueScan(self._scanner.strings(_write_values(written.others)), False)
        )
        # Last, because it reads the whole text: a block that breaks a rule does not get here.
        scanned = self._scanner.scan(text)
        is_proved = scanned.strings == written.strings + scanned_values.strings and not scanned.may_hold_nul
        return CleanBlock(rows, written.numbered, scanned_values.are_plain) if is_proved else None


def _count_row_lines(block: LineBlock, brackets: bytes) -> int | None:
    """Count the lines of a block, if each is known to begin and end with a value in such brackets; None otherwise.

    Between two values in brackets an array has a comma, so a line feed right between `}` and `{` is inside of no value.
    """
    opening, closing = brackets
    buffer, end = block
    lines = after = 0
    while after < end:
        # A line that begins otherwise may be blank, or the middle of a value that spans lines.
        if buffer[after] != opening:
            return None
        after = buffer.find(b"\n", after, end) + 1 or end + 1
        before = after - 2
        if buffer[before - (buffer[before] == _RETURN)] != closing:
            return None
        lines += 1
    return lines
