"""Split a batch_v1 document into raw records; elements are counted before they are built, since millions would fill memory."""

import re
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from assay.core.canonical import JsonObject
from assay.core.issue import Finding, Issue, path_text
from assay.core.narrow_text import LARGE_BYTES, byte_offsets
from assay.core.strict_json import Location, ParsedDocument, SourceExcerpt, decode_for_checks, excerpt, parse_json
from assay.datasets.batch_v1 import rules
from assay.datasets.parsing.checks import FindingList, check_flaws
from assay.datasets.parsing.config import ValidationConfig
from assay.datasets.parsing.issue_locator import IssueList
from assay.datasets.parsing.record_fields import BATCH_HEAD, drop_nulls
from assay.datasets.parsing.scan import LocationCursor, address_of, commas_in, lone_surrogates
from assay.datasets.parsing.source import BOM, Buffer, release

_BLOCK = 1 << 20
_STRUCTURE = b'"[]{},'
# Deleted before counting: what is left of a text is short enough to be scanned with a running depth.
_TEXT = bytes(sorted(set(range(256)) - set(_STRUCTURE)))
# The change of depth at each byte: one lookup and one running sum instead of a loop in Python.
_STEPS = np.zeros(256, np.int8)
_STEPS[list(b"[{")] = 1
_STEPS[list(b"]}")] = -1


def has_more_elements(array: memoryview, most: int) -> bool:
    """Return whether a value, which must be valid JSON, is an array of more than `most` elements."""
    commas = depth = quotes = 0
    for block in _structure(array):
        is_quote = block == ord('"')
        # Only whether a number of quotation marks is odd counts, so that 8 bits are enough.
        is_outside = (np.add.accumulate(is_quote, dtype=np.uint8) + np.uint8(quotes)) & 1 == 0
        outside = block[is_outside & ~is_quote]
        depths = np.add.accumulate(_STEPS[outside], dtype=np.int64) + depth
        commas += int(np.count_nonzero((outside == ord(",")) & (depths == 1)))
        if commas >= most:
            return array[0] == ord("[")
        depth = int(depths[-1]) if depths.size else depth
        quotes = (quotes + int(np.count_nonzero(is_quote))) & 1
    return False


def _structure(text: memoryview) -> Iterator[npt.NDArray[np.uint8]]:
    """Yield the quotation marks, brackets and commas of a JSON text, block by block, without escaped quotation marks."""
    escape = b""
    for at in range(0, len(text), _BLOCK):
        # Pairs of backslashes go first, so that any backslash before a quotation mark escapes it.
        block = (escape + bytes(text[at : at + _BLOCK])).replace(b"\\\\", b"")
        # A backslash at the end of a block belongs to the first character of the next one.
        escape = b"\\" if block.endswith(b"\\") else b""
        yield np.frombuffer(block.replace(b'\\"', b"").translate(None, _TEXT), np.uint8)


_EXACT_BYTES = 4 << 20
"""Up to this size a document that no fast parser reads goes through the exact reader for its message."""
_FLOOD_COMMAS = 750_000
"""msgspec needs 75 bytes per element before it can count them; more commas than this are counted first."""
# Their offsets and original bytes are held in memory; a document with more is refused as a whole.
_MAX_SURROGATES = 1_000_000
_ESCAPE = len(b"\\ud800")
_BYTE_OFFSET = r" \(byte ([0-9]+)\)"


class _RecordArray(msgspec.Struct):
    records: list[msgspec.Raw] | msgspec.UnsetType = msgspec.UNSET


class _UncutRecords(msgspec.Struct):
    records: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _TooManyRecords(Exception):
    """Stops reading: the document has more records than allowed."""


_decode = msgspec.json.Decoder(_RecordArray).decode
_decode_uncut = msgspec.json.Decoder(_UncutRecords).decode
_decode_array = msgspec.json.Decoder(list[msgspec.Raw]).decode


class SplitDocument:
    """A document split into raw records; `issues` has the problems of the dataset as a whole."""

    def __init__(self, buffer: Buffer, config: ValidationConfig, issues: IssueList | None = None) -> None:
        self._config = config
        self.buffer = buffer
        # The contract accepts and ignores the mark; msgspec refuses it.
        self.start = len(BOM) if buffer[: len(BOM)] == BOM else 0
        self.view = memoryview(buffer)
        # msgspec returns slices of the buffer without their offsets, so these come from the difference of addresses.
        self._address = address_of(buffer) if len(buffer) else 0
        self.records: Sequence[msgspec.Raw] = ()
        self.dataset_id = ""
        self._head: JsonObject | None = {}
        """None for what is so large that its long texts were not read as they are."""
        self._around: tuple[tuple[int, int], ...] = ()
        """Where everything outside the records is."""
        self.issues = issues or IssueList()
        self._patched = array("q")
        """Offsets of unpaired surrogates, at which msgspec would refuse the whole document."""
        self._before = bytearray()
        """Original bytes at these offsets."""
        self._read()

    @property
    def is_rejected(self) -> bool:
        """Return whether the dataset as a whole cannot be used."""
        return self.issues.dataset_errors > 0

    def offset(self, raw: msgspec.Raw) -> int:
        """Return the offset of a raw record in the buffer."""
        return address_of(raw) - self._address

    def restore(self) -> None:
        """Restore the original bytes for the next reader of the buffer."""
        for number, at in enumerate(self._patched):
            self.view[at : at + _ESCAPE] = self._before[_ESCAPE * number : _ESCAPE * (number + 1)]
        del self._patched[:], self._before[:]

    def patched_records(self) -> frozenset[int]:
        """Return the indexes of the records that hold an unpaired surrogate."""
        if not self._patched:
            return frozenset()
        starts = np.fromiter(map(self.offset, self.records), np.int64, len(self.records))
        holders = np.unique(np.searchsorted(starts, np.frombuffer(self._patched, np.int64), side="right") - 1)
        return frozenset(holders.tolist())

    def original(self, offset: int, size: int) -> bytes:
        """Return the bytes as the caller sent them, without the patches made for msgspec."""
        first, last = bisect_left(self._patched, offset), bisect_left(self._patched, offset + size)
        if first == last:
            return bytes(self.view[offset : offset + size])
        piece = bytearray(self.view[offset : offset + size])
        for number in range(first, last):
            at = self._patched[number] - offset
            piece[at : at + _ESCAPE] = self._before[_ESCAPE * number : _ESCAPE * (number + 1)]
        return bytes(piece)

    def _read(self) -> None:
        try:
            records = self._decoded()
        except _TooManyRecords:
            self._reject("value_out_of_range", "records", f"records has more than {rules.MAX_RECORDS:,} items", hint=_TOO_MANY)
        except RecursionError:
            self._reject("invalid_json", "", "nested deeper than the reader allows", hint="flatten the value")
        # `records` is not an array, or the root is not an object: the strict parser tells which.
        except msgspec.ValidationError:
            self._check_whole()
        except msgspec.DecodeError as problem:
            self._syntax_error(str(problem))
        else:
            if records:
                self.records = records
                self._check_around(records)
            else:
                self._check_whole()

    def _decoded(self) -> Sequence[msgspec.Raw] | msgspec.UnsetType:
        # A 20 MB file of `1,1,1` took 718 MB before its 50,001st element was noticed.
        is_flood = commas_in(self.view) > _FLOOD_COMMAS
        try:
            return self._cut(is_flood=is_flood)
        except msgspec.DecodeError:
            # msgspec refuses the whole document for one unpaired surrogate, although the contract rejects only its record.
            offsets = lone_surrogates(self.buffer, most=_MAX_SURROGATES)
            if not offsets or len(offsets) > _MAX_SURROGATES:
                raise
            self._patch(offsets)
            return self._cut(is_flood=is_flood)

    def _cut(self, *, is_flood: bool) -> Sequence[msgspec.Raw] | msgspec.UnsetType:
        view = self.view[self.start :]
        if not is_flood:
            return _decode(view).records
        records = _decode_uncut(view).records
        if records is msgspec.UNSET:
            return records
        if has_more_elements(memoryview(records), rules.MAX_RECORDS):
            raise _TooManyRecords
        return _decode_array(records)

    def _patch(self, offsets: list[int]) -> None:
        # A file is mapped copy-on-write and may be patched; bytes of a caller may not.
        if isinstance(self.buffer, bytes):
            self.buffer = bytearray(self.buffer)
            self.view = memoryview(self.buffer)
            self._address = address_of(self.buffer)
        self._patched.extend(offsets)
        for at in offsets:
            self._before += self.view[at : at + _ESCAPE]
            # Of the same length, so that all offsets stay true.
            self.view[at : at + _ESCAPE] = b"\\ufffd"

    def _check_around(self, records: Sequence[msgspec.Raw]) -> None:
        """Check the head exactly: everything before the first record and after the last one."""
        first = self.offset(records[0])
        last = self.offset(records[-1]) + len(memoryview(records[-1]))
        # Read without the records between: a second `records`, or a name that appears twice, is found in what is left.
        document = self._parsed((self.start, first), (last, self._end()))
        self._check_head(document, cut=first - self.start, gap=last - first)

    def _check_whole(self) -> None:
        """Check a document without records: absent, empty, of another type, or the root is not an object."""
        self._check_head(self._parsed((self.start, self._end())), cut=len(self.buffer), gap=0)

    def read_head(self) -> dict[str, object]:
        """Read the document's members outside its records."""
        head = self._head
        if head is None:
            head = parse_json(self._bytes_around()).value
            if self._config.null_as_absent:
                drop_nulls(head, BATCH_HEAD)
        return {name: member for name, member in head.items() if name != "records"}

    def _parsed(self, *ranges: tuple[int, int]) -> ParsedDocument:
        self._around = ranges
        # The bytes are let go before values are made: an unknown member may have 100 MB.
        around = self._bytes_around()
        if len(around) > LARGE_BYTES and not self._patched:
            release(self.buffer)
        text = decode_for_checks(around, is_whole=False)
        del around
        return text if isinstance(text, ParsedDocument) else parse_json(text)

    def _bytes_around(self) -> bytearray:
        joined = bytearray()
        for block in self._blocks_around():
            joined += block
        return joined

    def _blocks_around(self) -> Iterator[bytes]:
        for start, end in self._around:
            if self._patched:
                yield self.original(start, end - start)
                continue
            for at in range(start, end, _BLOCK):
                yield self.original(at, min(_BLOCK, end - at))

    def _end(self) -> int:
        """Return the end of the document, without white space after a large one."""
        end = len(self.buffer)
        # A small file may be followed by a hundred megabytes of blanks, which would all be parsed as part of the head.
        while end > self.start + _EXACT_BYTES:
            low = max(self.start, end - _EXACT_BYTES)
            filled = bytes(self.view[low:end]).rstrip(b" \t\r\n")
            if filled:
                return low + len(filled)
            end = low
        return end

    def _check_head(self, document: ParsedDocument, *, cut: int, gap: int) -> None:
        found = FindingList(required=rules.REQUIRED)
        if document.is_readable:
            self._check_members(found, document.value)
        check_flaws(found, document, (), whole=_ONE_DOCUMENT)
        document.locate([finding.path for finding in found if finding.offset is None])
        at = [_offset_in(document, finding) for finding in found]
        offsets = self._byte_offsets(document.text, at, cut=cut, gap=gap)
        cursor = LocationCursor(self.buffer)
        for offset, finding in sorted(zip(offsets, found, strict=True), key=lambda pair: pair[0]):
            self.issues.add(self._issue(finding, cursor.place(offset), self._excerpt(offset)))
        self.issues.unlisted.update(found.unlisted)
        self.issues.dataset_errors += sum(number for (_, severity), number in found.unlisted.items() if severity == "error")

    def _size_around(self) -> int:
        return sum(end - start for start, end in self._around)

    def _byte_offsets(self, text: str, characters: list[int], *, cut: int, gap: int) -> list[int]:
        """Convert character offsets in the head's text to byte offsets in the buffer; each part of the text is encoded once."""
        if text.isascii():
            return [self.start + at + (gap if at > cut else 0) for at in characters]
        known: dict[int, int] = {}
        rising = sorted(set(characters))
        for at, size in zip(rising, byte_offsets(self._blocks_around(), rising), strict=True):
            known[at] = self.start + size + (gap if size > cut else 0)
        return [known[at] for at in characters]

    def _check_members(self, found: FindingList, value: object) -> None:
        if type(value) is not dict:
            expected = "an object with dataset_id, dataset_version, schema_version and records"
            found.wrong_type((), expected, value, like=rules.DOCUMENT_LIKE)
            return
        if self._config.null_as_absent:
            drop_nulls(value, BATCH_HEAD)
        self._head = value if self._size_around() <= LARGE_BYTES else None
        self.dataset_id = value.get("dataset_id", "")
        found += rules.check_head(value, self._config)
        records = value.get("records", self)
        if len(self.records) > rules.MAX_RECORDS:
            message = f"records has {len(self.records):,} items; the limit is {rules.MAX_RECORDS:,}"
            found.add("value_out_of_range", ("records",), message, hint=_TOO_MANY)
        elif type(records) is list and not records and not self.records:
            found.add("value_out_of_range", ("records",), "records is empty; at least one record is needed")
        elif records is not self and type(records) is not list:
            found.wrong_type(("records",), "an array", records, like=f"[{rules.RECORD_LIKE}, ...]")

    def _syntax_error(self, problem: str) -> None:
        if len(self.buffer) <= _EXACT_BYTES:
            self._check_whole()
            if self.is_rejected:
                return
        # msgspec has no error codes: its messages are compared here and nowhere else.
        match = re.search(_BYTE_OFFSET, problem)
        offset = self.start + int(match.group(1)) if match else len(self.buffer)
        # msgspec counts to the character after the one that it found.
        offset -= "trailing characters" in problem
        message = re.sub(_BYTE_OFFSET, "", problem).removeprefix("JSON is malformed: ")
        hint = "the file looks cut off" if "truncated" in problem else "check the text around this place"
        hint = _ONE_DOCUMENT if "trailing characters" in problem else hint
        finding = Finding("invalid_json", (), f"not JSON: {message.lower()}", hint)
        self.issues.add(
            self._issue(finding, LocationCursor(self.buffer).place(min(offset, len(self.buffer))), self._excerpt(offset))
        )

    def _reject(self, code: str, path: str, message: str, *, hint: str) -> None:
        self.issues.add(Issue(code=code, path=path, message=message, hint=hint, details=INVALID_REQUEST))

    def _issue(self, finding: Finding, place: Location, around: SourceExcerpt) -> Issue:
        return Issue(
            code=finding.code,
            message=finding.message,
            path=path_text(finding.path),
            severity=finding.severity,
            line=place.line,
            column=place.column,
            hint=self.issues.hints.hint(finding),
            excerpt=around.text,
            caret=around.caret,
            details=INVALID_REQUEST if finding.severity == "error" else None,
        )

    def _excerpt(self, offset: int) -> SourceExcerpt:
        """Return the text around a byte offset, wherever characters begin."""
        low = max(0, offset - 240)
        before = bytes(self.buffer[low:offset]).decode("utf-8", "ignore")
        after = bytes(self.buffer[offset : offset + 480]).decode("utf-8", "replace")
        return excerpt(before + after, len(before))


def _offset_in(document: ParsedDocument, finding: Finding) -> int:
    """Return the character offset of a finding in the head's text."""
    return document.offset(finding.path, on_key=finding.on_key) if finding.offset is None else finding.offset


INVALID_REQUEST: JsonObject = {"http_status": 400, "error_code": "invalid_request"}
PAYLOAD_TOO_LARGE: JsonObject = {"http_status": 413, "error_code": "payload_too_large"}
_ONE_DOCUMENT = f"batch_v1 is one JSON document: {rules.DOCUMENT_LIKE}"
_TOO_MANY = "split the dataset into files of at most 50,000 records"
