"""Tables with columns of known kinds, and the same as columns of Arrow."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from importlib import import_module
from typing import Any, Literal

import msgspec

from assay.core.canonical import JsonObject
from assay.core.errors import MissingExtra

Kind = Literal["text", "number", "count", "truth", "time", "texts", "json", "scores", "messages", "criteria", "choices"]

SCORE_MEMBERS: Mapping[str, Kind] = {
    "criterion": "text",
    "score": "number",
    "scale": "text",
    "normalized": "number",
    "weight": "number",
    "justification": "text",
    "judge": "text",
    "confidence": "number",
    "flags": "texts",
}
LISTS: Mapping[str, Mapping[str, Kind]] = {
    "scores": SCORE_MEMBERS,
    "messages": {"role": "text", "content": "text"},
    "criteria": {"id": "text", "title": "text", "description": "text", "weight": "number"},
    "choices": {"id": "text", "text": "text"},
}
"""Kinds that are lists of objects, with the members of each."""

GROUP = 5_000
GROUP_CHARACTERS = 8 << 20
"""Rows and characters per column group: large enough to compress well, small enough for memory."""


class RecordTable(msgspec.Struct, frozen=True, kw_only=True):
    """Table whose rows are read anew for each iteration."""

    name: str
    columns: Mapping[str, Kind]
    rows: Callable[[], Iterator[JsonObject]]
    """A value for each column, None where there is none; entries of lists have all their members."""
    facts: Mapping[str, str]
    """Name and provenance of the table, for readers who have only the file."""


class ArrowTable(msgspec.Struct, frozen=True):
    """Table in columns, a few thousand rows at a time."""

    schema: Any
    """A `pyarrow.Schema`; its metadata has the facts of the table, each name beginning with `assay.`."""
    groups: Iterator[Any]
    """The rows, as `pyarrow.Table`."""


def arrow_of(table: RecordTable) -> ArrowTable:
    """Convert a table to typed, nullable columns; raises MissingExtra without pyarrow."""
    pyarrow = _pyarrow()
    metadata = {f"assay.{name}": fact for name, fact in table.facts.items()}
    kinds = _arrow_kinds(pyarrow)
    schema = pyarrow.schema([(name, kinds[kind]) for name, kind in table.columns.items()], metadata=metadata)
    return ArrowTable(schema, (pyarrow.table(_columns(group, table), schema=schema) for group in _groups(table.rows())))


def typed(row: Mapping[str, object], columns: Mapping[str, Kind]) -> JsonObject:
    """Convert a row's values for typed columns: times to datetimes, free-form values to JSON."""
    return {name: _value(row[name], kind) for name, kind in columns.items()}


def _pyarrow() -> Any:
    try:
        return import_module("pyarrow")
    except ImportError as problem:
        raise MissingExtra("typed columns need pyarrow, which is not installed", hint="pip install 'assay[tables]'") from problem


def _arrow_kinds(pyarrow: Any) -> JsonObject:
    kinds = {
        "text": pyarrow.string(),
        "json": pyarrow.string(),
        "number": pyarrow.float64(),
        "count": pyarrow.int64(),
        "truth": pyarrow.bool_(),
        "time": pyarrow.timestamp("us", tz="UTC"),
        "texts": pyarrow.list_(pyarrow.string()),
    }
    lists = {
        name: pyarrow.list_(pyarrow.struct([(member, kinds[kind]) for member, kind in members.items()]))
        for name, members in LISTS.items()
    }
    return kinds | lists


def _columns(group: list[JsonObject], table: RecordTable) -> dict[str, list[Any]]:
    return {name: [_value(row[name], kind) for row in group] for name, kind in table.columns.items()}


def _value(value: Any, kind: Kind) -> Any:
    if value is None:
        return None
    if kind == "time":
        return datetime.fromisoformat(value)
    return msgspec.json.encode(value).decode() if kind == "json" else value


def _estimate_size(value: object) -> int:
    """Estimate the memory that a value takes, in characters."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, list | tuple):
        return sum(map(_estimate_size, value))
    return sum(map(_estimate_size, value.values())) if isinstance(value, dict) else 0


def _groups(rows: Iterator[JsonObject]) -> Iterator[list[JsonObject]]:
    group: list[JsonObject] = []
    remaining = GROUP_CHARACTERS
    for row in rows:
        group.append(row)
        remaining -= sum(map(_estimate_size, row.values()))
        if len(group) == GROUP or remaining < 0:
            yield group
            group, remaining = [], GROUP_CHARACTERS
    if group:
        yield group
