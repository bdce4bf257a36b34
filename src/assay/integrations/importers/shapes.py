"""Values, lines and tables of other tools, one member at a time: a member of the wrong shape costs itself, not the file."""

from collections.abc import Iterator
from datetime import datetime
from math import isfinite
from typing import Any

import msgspec

from assay.datasets.converters.columns import RowRefused
from assay.datasets.converters.report import UnreadableLine
from assay.datasets.converters.sources import read_source
from assay.datasets.imports.items import ImportSource, Row
from assay.datasets.source import filled_lines
from assay.integrations.importers.lazy_object import LazyObject, Text, elements

_LAST_SECOND = 253_402_300_799
"""Of the year 9999, after which no calendar goes on."""


def mapping(value: Any) -> Row:
    """The object, or an empty one."""
    return value if isinstance(value, dict) else {}


def sequence(value: Any) -> list[Any]:
    """The list, or an empty one."""
    return value if isinstance(value, list) else []


def mappings(value: Any) -> list[Row]:
    """The objects in a list."""
    return [one for one in sequence(value) if isinstance(one, dict)]


def number(value: Any) -> float | None:
    """The finite number; None for anything else, a boolean and a whole number beyond all fractions included."""
    try:
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) else None
    except OverflowError:
        return None


def amount(value: Any) -> float | None:
    """A number that is not negative."""
    found = number(value)
    return found if found is not None and found >= 0 else None


def tokens(value: Any) -> int | None:
    """A count of tokens."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53 else None


def seconds(value: Any) -> float | None:
    """A time, since 1970 in UTC: a number, or text with its offset."""
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return None
        return max(moment.timestamp(), 0.0) if moment.tzinfo is not None else None
    found = amount(value)
    return found if found is not None and found <= _LAST_SECOND else None


_GIVEN_BACK = 1000
TABLES = frozenset({".csv", ".tsv"})


def objects(source: ImportSource, what: str) -> Iterator[tuple[int, LazyObject]]:
    """Every object of a JSONL file, a JSON list or a table; each counts as read, and one that is none is refused."""
    for line, text in _texts(source):
        source.tally.read += 1
        try:
            yield line, LazyObject(text, what)
        except RowRefused as problem:
            source.tally.refuse(str(problem), line=line)


def listed(source: ImportSource, text: Text, what: str) -> Iterator[tuple[int, bytes]]:
    """The elements of a list inside a source, numbered from 1; memory of the file that was read is given back on the way."""
    for number, element in enumerate(elements(text, what), 1):
        if number % _GIVEN_BACK == 1:
            source.opened.let_go()
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
