"""Documents in which runs store their input: rows under a member of one JSON document, and several datasets in one.

Rows become lines of a temporary file, which the reader of their contract takes like any JSON Lines. Where each row is on a line of
its own, as runs write them, lines and columns stay the same, and nothing is held in memory; any other layout is read as well.
"""

import io
import re
import tempfile
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import BinaryIO

import msgspec

from assay.core.contract import ROW_MEMBERS, DatasetPart, StoredName
from assay.core.errors import SourceUnreadable
from assay.core.issue import Issue
from assay.core.strict_json import Location, parse_json
from assay.datasets.batch_v1.split import has_more_elements
from assay.datasets.parsing.checks import FindingList, check_flaws, unknown_members, word_at
from assay.datasets.parsing.formats import ROW_HEADS, row_document
from assay.datasets.parsing.issue_locator import RecordContext, locate_issue
from assay.datasets.parsing.scan import LocationCursor, address_of
from assay.datasets.parsing.source import BOM, Buffer, Source, open_source

_END = re.compile(rb"\n\]\}\s*\Z")
_END_BYTES = 64
_PIECE = 4 << 20
_EXACT_BYTES = 4 << 20
"""Up to this size a document that is not JSON goes through the strict parser, whose message has more detail."""
MAX_FREE_ROWS = 200_000
"""Maximum rows of a document that does not have each on its own line: all their offsets are in memory."""
_TOO_MANY = Issue(
    code="value_out_of_range",
    message=f"the document has more than {MAX_FREE_ROWS:,} rows, which are not on lines of their own",
    hint="write each row on a line of its own, as runs do, or the rows as JSON Lines",
)


class _RowsDocument(msgspec.Struct):
    rows: msgspec.Raw


class _ConversationsDocument(msgspec.Struct):
    rows: msgspec.Raw = msgspec.field(name="conversations")


_KINDS: dict[str, type[_RowsDocument] | type[_ConversationsDocument]] = {
    "rows": _RowsDocument,
    "conversations": _ConversationsDocument,
}
_decode_rows = msgspec.json.Decoder(list[msgspec.Raw]).decode
Locate = Callable[[Issue], Issue]


class RowLines(msgspec.Struct, frozen=True):
    """Rows of a source as JSON Lines."""

    source: Source
    issues: tuple[Issue, ...] = ()
    """Issues of the document around the rows."""
    locate: Locate = lambda issue: issue
    """Moves an issue of a line to its location in the document."""
    is_by_line: bool = False
    """True if the document was read line by line, and not parsed."""


def row_lines(source: Source, contract: str, *, is_exact: bool = False) -> RowLines:
    """Return the source as JSON Lines: itself, unless it is a document with rows of the contract; `is_exact` parses that."""
    if row_document(source) != contract:
        return RowLines(source)
    if source.rows is None or is_exact:
        head = None if is_exact else ROW_HEADS[contract].match(source.head())
        by_line = _by_line(source, head.end()) if head else None
        source.rows = by_line or _by_value(source, contract)
    rows: RowLines = source.rows
    return rows


def _by_line(source: Source, start: int) -> RowLines | None:
    """Read the rows of a document that has each on its own line; None for any other layout."""
    # Only a document that ends as runs write it is cut at its line feeds; everything else is parsed.
    tail = source.part(max(start, source.size - _END_BYTES), source.size)
    end = _END.search(tail)
    if end is None or source.part(start, start + 1) != b"\n" or not source.part(0, 1).strip():
        return None
    at, last = start, source.size - len(tail) + end.start()
    spool = tempfile.TemporaryFile()  # noqa: SIM115  # lives as long as its Source
    feeds = commas = 0
    while at < last:
        piece = source.part(at, min(at + _PIECE, last))
        # The comma stays with the line feed that follows it, or neither would be found by the search for both.
        if piece.endswith(b",") and at + len(piece) < last:
            piece = piece[:-1]
        feeds += piece.count(b"\n")
        commas += piece.count(b",\n")
        # Inside a JSON string a line feed is escaped, so a comma before one is always between two rows.
        spool.write(piece.replace(b",\n", b"\n"))
        at += len(piece)
    # The first line feed ends the head; each other one is between two rows.
    if commas != feeds - 1:
        spool.close()
        return None
    return RowLines(_lines_in(source, spool), is_by_line=True)


def _lines_in(source: Source, spool: BinaryIO) -> Source:
    size = spool.seek(0, io.SEEK_END)
    lines = Source(source.name, spool, size=size, is_object=source.is_object, form="jsonl")
    lines.stored = source.stored
    return lines


def _by_value(source: Source, contract: str) -> RowLines:
    """Read the rows of a document in any layout, each on a line; an issue is located by the text of its row."""
    buffer, member = source.buffer(), ROW_MEMBERS[contract]
    try:
        listed = msgspec.json.decode(_without_mark(buffer), type=_KINDS[member]).rows
        if has_more_elements(memoryview(listed), MAX_FREE_ROWS):
            return RowLines(open_source(b"", name=source.name), (_TOO_MANY,))
        rows = _decode_rows(listed)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as problem:
        return RowLines(open_source(b"", name=source.name), (_unreadable(source, str(problem)),))
    first = address_of(buffer) if len(buffer) else 0
    offsets = array("q", [address_of(row) - first for row in rows])
    spool = tempfile.TemporaryFile()  # noqa: SIM115  # lives as long as its Source
    for row in rows:
        # Line breaks between the members of a row become blanks of the same length, so that columns can be mapped back.
        spool.write(bytes(row).replace(b"\n", b" ").replace(b"\r", b" ") + b"\n")
    issues = tuple(_around(_without_list(buffer, listed), contract))
    end = offsets[-1] + len(memoryview(rows[-1])) if rows else 0
    return RowLines(_lines_in(source, spool), issues, _RowLocator(buffer, offsets, end).locate)


def _without_mark(buffer: Buffer) -> memoryview:
    view = memoryview(buffer)
    return view[len(BOM) :] if view[: len(BOM)] == BOM else view


def _without_list(buffer: Buffer, listed: msgspec.Raw) -> bytes:
    """Empty a list in a text, with everything else at its line and column."""
    start = address_of(listed) - address_of(buffer)
    end = start + len(memoryview(listed))
    place = LocationCursor(buffer).place
    (line, column), (last, after) = place(start + 1), place(end - 1)
    space = b"\n" * (last - line) + b" " * (after - 1 if last > line else after - column)
    return bytes(buffer[: start + 1]) + space + bytes(buffer[end - 1 :])


def _around(text: bytes, contract: str) -> Iterator[Issue]:
    """Check a document without its rows by the strict parser, and by the small contract of such documents."""
    document = parse_json(text)
    found = FindingList(required=("schema_version",))
    if type(document.value) is dict:
        if "schema_version" not in document.value:
            found.missing(("schema_version",), hint=f'write "schema_version": "{contract}"')
        else:
            word_at(found, document.value["schema_version"], ("schema_version",), words=(contract,))
        for unknown in unknown_members(document.value, ("schema_version", ROW_MEMBERS[contract])):
            message = f"{unknown.message} and is ignored"
            found.warn("unsupported_field", (unknown.name,), message, guess=unknown.guess, on_key=True)
    check_flaws(found, document, ())
    for finding in found:
        yield locate_issue(finding, document, RecordContext())


class _RowLocator:
    """Locator of issues in a document whose rows were read from lines; each byte is read once, however many issues there are.

    It holds numbers and no objects, since a small document may have many rows; and the buffer instead of its source, which holds
    the locator: objects that hold each other stay in memory until the collector looks for them.
    """

    def __init__(self, buffer: Buffer, offsets: "array[int]", end: int) -> None:
        self._buffer = buffer
        self._offsets = offsets
        self._end = end
        self._lines = array("q")
        self._columns = array("q")
        self._row = -1
        self._feeds: list[int] = []
        """Offsets of the line breaks of that row."""

    def locate(self, issue: Issue) -> Issue:
        """Move the issue of a line to its location in the document."""
        if issue.line is None or issue.line > len(self._offsets):
            return issue
        if not self._lines:
            self._find_starts()
        row, at = issue.line - 1, (issue.column or 1) - 1
        if row != self._row:
            self._row, self._feeds = row, [found.start() for found in re.finditer("\n", self._text(row))]
        line, column = self._lines[row], self._columns[row]
        before = bisect_left(self._feeds, at)
        column = at - self._feeds[before - 1] if before else column + at
        return msgspec.structs.replace(issue, line=line + before, column=column)

    def _find_starts(self) -> None:
        place = LocationCursor(self._buffer).place
        for offset in self._offsets:
            line, column = place(offset)
            self._lines.append(line)
            self._columns.append(column)

    def _text(self, row: int) -> str:
        """Return a row with the text up to the next one, in which no location is needed."""
        end = self._offsets[row + 1] if row + 1 < len(self._offsets) else self._end
        return self._buffer[self._offsets[row] : end].decode("utf-8", "replace")


def _unreadable(source: Source, problem: str) -> Issue:
    """Return the issue of a document with rows that cannot be parsed."""
    if source.size <= _EXACT_BYTES:
        document = parse_json(source.buffer())
        found = FindingList()
        check_flaws(found, document, ())
        for finding in found:
            return locate_issue(finding, document, RecordContext())
    offset = re.search(r"\(byte ([0-9]+)\)", problem)
    mark = source.size - len(_without_mark(source.buffer()))
    place = LocationCursor(source.buffer()).place(min(mark + int(offset.group(1)), source.size)) if offset else Location(1, 1)
    return Issue(code="invalid_json", message=f"not JSON: {problem}", line=place.line, column=place.column)


MAX_DATASETS = 10_000
"""Maximum datasets in one document."""
_MAX_PADDING = 64 << 20
"""Bytes of white space that the datasets of a document get together, so that their lines are those of the document."""


class _DatasetsDocument(msgspec.Struct):
    datasets: msgspec.Raw


_decode_parts = msgspec.json.Decoder(list[DatasetPart]).decode


class DatasetParts:
    """A document with several datasets, read once; raises SourceUnreadable if it is damaged."""

    def __init__(self, source: Source) -> None:
        self._source = source
        buffer = source.buffer()
        try:
            listed = msgspec.json.decode(_without_mark(buffer), type=_DatasetsDocument).datasets
            self._parts = _decode_parts(listed)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as problem:
            raise SourceUnreadable(f"cannot read the datasets in '{source.name}': {problem}", hint="fetch it again") from problem
        if len(self._parts) > MAX_DATASETS:
            raise SourceUnreadable(f"'{source.name}' holds more than {MAX_DATASETS:,} datasets", hint="use several files")
        # msgspec keeps the last of two lists of datasets without a word; the strict parser finds the repeated name.
        for flaw in parse_json(_without_list(buffer, listed)).flaws:
            raise SourceUnreadable(f"cannot read the datasets in '{source.name}': {flaw.message}", hint=flaw.hint)
        first, place = address_of(buffer), LocationCursor(buffer).place
        self._starts = [place(address_of(part.document) - first) for part in self._parts]

    @property
    def names(self) -> list[str]:
        """Names of the datasets in the run."""
        return [part.name for part in self._parts]

    def open(self, number: int) -> Source:
        """Open one of the datasets, counted from 1; raises SourceUnreadable.

        White space before it keeps its lines and columns those of the document, unless that would be too much of it.
        """
        name, count = self._source.name, len(self._parts)
        if number > count:
            raise SourceUnreadable(f"'{name}' holds {count} datasets, and no number {number}", hint="count them from 1")
        part, start = self._parts[number - 1], self._starts[number - 1]
        spool = tempfile.TemporaryFile()  # noqa: SIM115  # lives as long as its Source
        # All parts together get a bounded amount, or many small datasets at the end of a long document would take quadratic space.
        if start.line + start.column <= _MAX_PADDING // count:
            spool.write(b"\n" * (start.line - 1) + b" " * (start.column - 1))
        view = memoryview(part.document)
        for at in range(0, len(view), _PIECE):
            spool.write(view[at : at + _PIECE])
        opened = Source(f"{name}#{number}", spool, size=spool.seek(0, io.SEEK_END), form="json")
        opened.stored = StoredName(part.name, part.file)
        return opened
