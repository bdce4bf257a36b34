"""JSON of other tools: objects read member by member, lines of objects, and values taken only in their right shape."""

import mmap
import re
from collections.abc import Iterator, Set
from datetime import datetime
from math import isfinite
from typing import Any

import msgspec

from assay.core.strict_json import parse_json
from assay.datasets.converters.report import UnreadableLine
from assay.datasets.converters.rows import Row, RowRefused, kind
from assay.datasets.converters.sources import read_source
from assay.datasets.imports.items import ImportSource
from assay.datasets.parsing.source import filled_lines

_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_EMPTY = frozenset({b"null", b"{}", b"[]", b'""', b"false"})
_LONGEST_EMPTY = max(map(len, _EMPTY))
# NaN and Infinity are not JSON, but Python tools write them.
_NOT_NUMBERS = re.compile(rb'("(?:[^"\\]|\\.)*+")|-?\b(?:NaN|Infinity)\b', re.DOTALL)
"""Strings are matched as wholes, so that their words stay what they are."""
_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[\]{}]', re.DOTALL)
_CUT_DEPTH = 300
# Possessive quantifiers, since a long text without an end would otherwise be tried again from every position.
_NAME = re.compile(rb'[\s{,]*+"(?:[^"\\]|\\.)*+"\s*+:\s*+', re.DOTALL)
_END = re.compile(rb"\s*+\}")
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_BOM = b"\xef\xbb\xbf"

Text = bytes | bytearray | memoryview | mmap.mmap | msgspec.Raw


class LazyObject:
    """JSON object that parses a member on first use; the others are known by name."""

    def __init__(self, text: Text, what: str = "the object") -> None:
        """Parse an object; raises RowRefused for other texts and repeated names. NaN, which some tools write, is null."""
        self._what = what
        readable, parts = _split(text, _decode_members, what)
        if not _is_each_once(readable, parts):
            # Members are compared by their bytes, because a parser that keeps the last of two would hide the
            # first.
            raise RowRefused(f"{what} has two members of the same name")
        self._parts: dict[str, msgspec.Raw] = parts
        self._values: dict[str, Any] = {}

    def __contains__(self, name: str) -> bool:
        view = memoryview(self._parts.get(name, b"null"))
        # A long member is not copied for the question whether it is empty.
        return view.nbytes > _LONGEST_EMPTY or bytes(view) not in _EMPTY

    def names(self) -> Set[str]:
        """Return the names of all members."""
        return self._parts.keys()

    def get(self, name: str) -> object:
        """Return the member as plain values, None where it is absent; raises RowRefused where the strict door finds a flaw."""
        if name not in self._values:
            self._values[name] = strict_value(self._parts[name], name) if name in self._parts else None
        return self._values[name]

    def part(self, name: str) -> msgspec.Raw:
        """Return the member's text unchanged; `null` where it is absent."""
        # Counts as read, although its value is not kept: it may be a gigabyte of samples.
        self._values.setdefault(name, None)
        return self._parts.get(name) or msgspec.Raw(b"null")

    def text(self, name: str) -> str:
        """Return the member where it is text; empty where it is absent. Raises RowRefused for anything else."""
        value = self.get(name)
        if not isinstance(value, str | None):
            raise RowRefused(f"{name} is not text but {kind(value)}")
        return value or ""

    def mapping(self, name: str) -> dict[str, Any]:
        """Return the member where it is an object; empty where it is absent. Raises RowRefused for anything else."""
        value = self.get(name)
        if not isinstance(value, dict | None):
            raise RowRefused(f"{name} is not an object but {kind(value)}")
        return value or {}

    def list(self, name: str) -> list[object]:
        """Return the member where it is a list; empty where it is absent. Raises RowRefused for anything else."""
        value = self.get(name)
        if not isinstance(value, list | None):
            raise RowRefused(f"{name} is not a list but {kind(value)}")
        return value or []

    def unread(self) -> Iterator[str]:
        """List the names of non-empty members that were not used."""
        return (name for name in self._parts if name not in self._values and name in self)


def elements(text: Text, what: str) -> list[msgspec.Raw]:
    """Return the elements of a JSON list, not parsed yet; raises RowRefused where the text is none."""
    _, found = _split(text, _decode_list, what)
    return list(found)


def strict_value(text: Text, what: str) -> object:
    """Return the value in a text, through the strict door; raises RowRefused with the first flaw."""
    document = parse_json(bytes(text), is_whole=False)
    if document.flaws:
        raise RowRefused(f"{what}: {document.flaws[0].message}")
    return document.value


def _split(text: Text, decode: Any, what: str) -> tuple[Text, Any]:
    """Split a text one level down, and return the text in which that worked; raises RowRefused where it cannot be read.

    After the text as it stands one without NaN is tried, and then one without what is nested too deeply for any reader: it shall
    cost the member that it is in, where the strict door finds it, and not all the others.
    """
    try:
        return text, decode(text)
    except _UNREADABLE:
        # Strings are matched as wholes and put back, so that their words stay what they are.
        finite = _NOT_NUMBERS.sub(lambda match: match[1] or b"null", bytes(text).removeprefix(_BOM))
    try:
        return finite, decode(finite)
    except RecursionError:
        readable = _shallow(finite)
    except _UNREADABLE:
        raise _refusal(finite, what) from None
    try:
        return readable, decode(readable)
    except _UNREADABLE:
        raise _refusal(readable, what) from None


def _refusal(text: bytes, what: str) -> RowRefused:
    """Return the problem of a text by the strict parser, which decides."""
    document = parse_json(text)
    flaw = next((flaw for flaw in document.flaws if flaw.fatal), None)
    return RowRefused(f"{what}: {flaw.message}" if flaw else f"{what} is not as expected but {kind(document.value)}")


def _shallow(text: bytes) -> bytes:
    """Return the text without all that is nested deeper than a bound, which is beyond that of the strict door."""
    kept: list[bytes] = []
    depth = start = 0
    # Strings match as wholes, so that brackets inside of them do not count.
    for match in _BRACKETS.finditer(text):
        sign = match[0]
        if sign in b"[{":
            depth += 1
            if depth == _CUT_DEPTH:
                kept.append(text[start : match.end()])
        elif sign in b"]}":
            if depth == _CUT_DEPTH:
                start = match.start()
            depth -= 1
    # Where the last bracket is missing nothing is cut off, so that the problem is reported for the whole text.
    return b"".join([*kept, text[start:]]) if depth == 0 else text


def _is_each_once(text: Text, parts: dict[str, msgspec.Raw]) -> bool:
    """Return whether no two members have the same name: then they follow each other with nothing in between."""
    view = memoryview(text)
    place = 0
    for part in parts.values():
        match = _NAME.match(view, place)
        if match is None:
            return False
        # The parts are slices of one text, so that their lengths give their places.
        place = match.end() + memoryview(part).nbytes
    return _END.match(view, place) is not None


_LAST_SECOND = 253_402_300_799
"""Seconds of the year 9999, after which datetime has no dates."""


def mapping(value: object) -> Row:
    """Return the object, or an empty one."""
    return value if isinstance(value, dict) else {}


def sequence(value: object) -> list[object]:
    """Return the list, or an empty one."""
    return value if isinstance(value, list) else []


def mappings(value: object) -> list[Row]:
    """Return the objects in a list."""
    return [one for one in sequence(value) if isinstance(one, dict)]


def number(value: object) -> float | None:
    """Return the finite number; None for anything else, a boolean and a whole number beyond all fractions included."""
    try:
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) else None
    except OverflowError:
        return None


def amount(value: object) -> float | None:
    """Return a number that is not negative."""
    found = number(value)
    return found if found is not None and found >= 0 else None


def tokens(value: object) -> int | None:
    """Return a count of tokens."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53 else None


def seconds(value: object) -> float | None:
    """Return a time, since 1970 in UTC: a number, or text with its offset."""
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return None
        # A time without a zone could be off by half a day; none is better.
        return max(moment.timestamp(), 0.0) if moment.tzinfo is not None else None
    found = amount(value)
    return found if found is not None and found <= _LAST_SECOND else None


_GIVEN_BACK = 1000
TABLES = frozenset({".csv", ".tsv"})


def objects(source: ImportSource, what: str) -> Iterator[tuple[int, LazyObject]]:
    """Yield every object of a JSONL file, a JSON list or a table; each is counted as read, and other values are refused."""
    for line, text in _texts(source):
        source.tally.read += 1
        try:
            yield line, LazyObject(text, what)
        except RowRefused as problem:
            source.tally.refuse(str(problem), line=line)


def listed(source: ImportSource, text: Text, what: str) -> Iterator[tuple[int, bytes]]:
    """Return the elements of a list inside a source, numbered from 1; memory of the file that was read is given back on the way."""
    for number, element in enumerate(elements(text, what), 1):
        if number % _GIVEN_BACK == 1:
            source.opened.release()
        yield number, bytes(element)


def _texts(source: ImportSource) -> Iterator[tuple[int, Any]]:
    if source.ending in TABLES:
        yield from _table(source)
    elif source.ending in (".jsonl", ".ndjson") or not _is_list(source):
        yield from ((line.number, line.content) for line in filled_lines(source.opened))
    else:
        yield from listed(source, source.opened.buffer(), "the file")


def _table(source: ImportSource) -> Iterator[tuple[int, bytes]]:
    for line, row in read_source(source.path).lines:
        if isinstance(row, UnreadableLine):
            source.tally.read += 1
            source.tally.refuse(row.reason, line=line)
        else:
            yield line, msgspec.json.encode(row)


def _is_list(source: ImportSource) -> bool:
    return source.opened.head().lstrip().startswith(b"[")
