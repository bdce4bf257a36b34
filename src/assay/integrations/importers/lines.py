"""Lines, lists and tables of objects, one member at a time, with the reason for each that cannot be read."""

from collections.abc import Iterator
from typing import Any

import msgspec

from assay.datasets.converters.columns import RowRefused
from assay.datasets.converters.report import UnreadableLine
from assay.datasets.converters.sources import read_source
from assay.datasets.imports.inputs import ImportSource
from assay.datasets.source import filled_lines
from assay.integrations.importers.lazy_object import LazyObject, Text, elements

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
