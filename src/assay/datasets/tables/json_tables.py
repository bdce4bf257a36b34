"""Tables in JSON: lines, lists, documents around a list, columns of lists, and lists in YAML."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec

from assay.core.canonical import JsonObject
from assay.core.errors import SourceUnreadable, UsageProblem
from assay.datasets.parsing.formats import MAX_YAML_BYTES, parse_yaml
from assay.datasets.parsing.source import BOM, NoTable, Source
from assay.datasets.tables.table_rows import SAMPLE_ROWS, TableRow, TableSyntax, is_blank

MAX_DOCUMENT_BYTES = 512 << 20
"""Bytes of one JSON document: its elements are views into it, and only one is decoded at a time."""
_WRAPPERS = (
    "data",
    "examples",
    "rows",
    "records",
    "items",
    "samples",
    "questions",
    "cases",
    "test_cases",
    "tests",
    "dataset",
    "goldens",
)
"""Members that usually hold the rows of a document, the most usual first."""
_decode_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class _Repeated(ValueError):
    """A name that an object has twice: one of the two values would be lost."""


def _members(pairs: list[tuple[str, Any]]) -> JsonObject:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _Repeated(f"the name {twice!r} is there twice")
    return members


def _constant(name: str) -> None:
    """Read NaN as a missing number, as tables write it."""
    if name != "NaN":
        raise ValueError(f"{name} is not a number of JSON")


_decode_row = json.JSONDecoder(object_pairs_hook=_members, parse_constant=_constant).decode


class JsonTable:
    """Rows that are JSON objects; what a row is made of is decoded when it is read."""

    def __init__(self, form: str, read: Callable[[], Iterator[TableRow]], syntax: TableSyntax | None = None) -> None:
        self.syntax = msgspec.structs.replace(syntax or TableSyntax(format=form), format=form)
        self._read = read
        self.columns: Sequence[str] = list(
            dict.fromkeys(name for row in islice(read(), SAMPLE_ROWS) if not row.problem for name in row.cells)
        )

    def rows(self) -> Iterator[TableRow]:
        """Yield the rows, counted from 1."""
        return self._read()


def json_lines(source: Source) -> JsonTable:
    """Return the table of a file with a JSON object on each line."""

    def read() -> Iterator[TableRow]:
        number = 0
        for line in source.lines():
            if line.content.strip():
                number += 1
                yield _row(number, bytes(line.content), line.number)

    return JsonTable("JSON Lines", read)


def _row(number: int, text: bytes, line: int | None = None) -> TableRow:
    try:
        value = _decode_row(text.decode("utf-8").strip())
    except UnicodeDecodeError:
        return TableRow(number, {}, line, problem="the line is not UTF-8")
    except (ValueError, RecursionError) as problem:
        return TableRow(number, {}, line, problem=f"not JSON: {problem}")
    return object_row(number, value, line)


def object_row(number: int, value: object, line: int | None = None) -> TableRow:
    """Return a value as a row."""
    if isinstance(value, Mapping):
        return TableRow(
            number, {} if all(map(is_blank, value.values())) else {str(name): cell for name, cell in value.items()}, line
        )
    return TableRow(number, {}, line) if value is None else TableRow(number, {}, line, problem="a row must be an object")


def json_document(source: Source, part: str = "") -> JsonTable:
    """Return the table in a JSON document; `part` names the member with the rows. Raises NoTable, UsageProblem."""
    if source.size > MAX_DOCUMENT_BYTES:
        raise SourceUnreadable(
            f"'{source.name}' is one JSON document of more than {MAX_DOCUMENT_BYTES >> 20} MB", hint="write its rows as JSON Lines"
        )
    text = memoryview(source.buffer())
    text = text[len(BOM) :] if text[: len(BOM)] == BOM else text
    try:
        if bytes(text[:64]).lstrip()[:1] == b"[":
            return _list_table(_decode_list(text))
        return _object_table(_decode_members(text), part)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise NoTable(f"not JSON: {problem}") from None


def _list_table(elements: list[msgspec.Raw], syntax: TableSyntax | None = None) -> JsonTable:
    if not elements:
        raise NoTable("the list is empty")
    if _kind(elements[0]) == "[":
        return _grid_table(elements)
    if not any(_kind(element) == "{" for element in elements[:SAMPLE_ROWS]):
        raise NoTable("its elements are not objects")

    def read() -> Iterator[TableRow]:
        for number, element in enumerate(elements, 1):
            row = _row(number, bytes(element))
            # The rows of a page of the Hugging Face server: {"row_idx": 0, "row": {...}}.
            inner = row.cells.get("row") if "row_idx" in row.cells else None
            yield object_row(number, inner) if isinstance(inner, Mapping) else row

    return JsonTable("JSON list", read, syntax)


def _kind(element: msgspec.Raw) -> str:
    return bytes(memoryview(element)[:1]).decode("ascii", "replace")


def _grid_table(elements: list[msgspec.Raw]) -> JsonTable:
    """Return the table of a list of lists, of which the first has the names of the columns."""
    header = json.loads(bytes(elements[0]))
    if not header or not all(isinstance(name, str) for name in header):
        raise NoTable("the first list does not name the columns")

    def read() -> Iterator[TableRow]:
        for number, element in enumerate(elements[1:], 1):
            yield object_row(number, dict(zip(header, json.loads(bytes(element)), strict=False)))

    return JsonTable("JSON list of lists", read)


def _object_table(members: dict[str, msgspec.Raw], part: str) -> JsonTable:
    if part and part not in members:
        raise UsageProblem(f"the document has no member {part!r}", hint=f"members: {', '.join(list(members)[:20])}")
    if not part and {"columns", "data"} <= members.keys() and _kind(members["data"]) == "[":
        # As pandas writes a table with orient="split".
        return _grid_table([members["columns"], *_decode_list(members["data"])])
    lists = {name: found for name, raw in members.items() if _kind(raw) == "[" and (found := _objects_in(raw))}
    names = [part] if part else [name for name in _WRAPPERS if name in lists] or list(lists)
    if len(names) > 1 and not set(names[:1]) & set(_WRAPPERS):
        raise NoTable(f"it has several lists, {', '.join(map(repr, names))}, of which --sheet NAME reads one")
    if names and names[0] in lists:
        return _squad_table(lists[names[0]]) or _list_table(lists[names[0]], _around(names[0], members, is_named=bool(part)))
    return _columns_table(members)


def _around(name: str, members: Iterable[str], *, is_named: bool) -> TableSyntax:
    """Describe the document around the rows in one of its members."""
    others = tuple(str(member) for member in members if member != name)
    return TableSyntax(format="", sheet=name, others=others, is_guess=not is_named and name not in _WRAPPERS)


def _objects_in(raw: msgspec.Raw) -> list[msgspec.Raw]:
    elements = _decode_list(raw)
    return elements if elements and _kind(elements[0]) == "{" else []


def _squad_table(elements: list[msgspec.Raw]) -> JsonTable | None:
    """Return the table of SQuAD's own files, whose articles have paragraphs, which have questions."""
    first = json.loads(bytes(elements[0]))
    if not isinstance(first.get("paragraphs"), list):
        return None

    def read() -> Iterator[TableRow]:
        number = 0
        for element in elements:
            article = json.loads(bytes(element))
            for paragraph in article.get("paragraphs", ()):
                for asked in paragraph.get("qas", ()):
                    number += 1
                    answers = list(dict.fromkeys(answer["text"] for answer in asked.get("answers", ()) if answer.get("text")))
                    row = {"id": asked.get("id"), "title": article.get("title"), "context": paragraph.get("context")}
                    yield object_row(number, {**row, "question": asked.get("question"), "answers": answers})

    return JsonTable("SQuAD", read)


def _columns_table(members: dict[str, msgspec.Raw]) -> JsonTable:
    """Return the table of an object whose members are columns: lists of one length, or objects with the same row names."""
    kinds = {_kind(raw) for raw in members.values()}
    if kinds == {"["}:
        columns = {name: _decode_list(raw) for name, raw in members.items()}
        if len(columns) < 1 or len({len(column) for column in columns.values()}) != 1:
            raise NoTable("its lists differ in length")
        return _from_columns(columns)
    if kinds == {"{"} and len(members) > 1:
        inner = {name: _decode_members(raw) for name, raw in members.items()}
        rows = list(next(iter(inner.values())))
        if rows and all(list(column) == rows for column in inner.values()) and all(row.isdigit() for row in rows):
            # As pandas writes a table without another word: {"question": {"0": ..., "1": ...}}.
            return _from_columns({name: list(column.values()) for name, column in inner.items()})
        if rows and len({tuple(column) for column in inner.values()}) == 1:
            return _by_name(members)
    raise NoTable("it holds no list of rows")


def _from_columns(columns: dict[str, list[msgspec.Raw]]) -> JsonTable:
    def read() -> Iterator[TableRow]:
        for number, cells in enumerate(zip(*columns.values(), strict=True), 1):
            yield object_row(number, {name: json.loads(bytes(value)) for name, value in zip(columns, cells, strict=True)})

    return JsonTable("JSON columns", read)


def _by_name(members: dict[str, msgspec.Raw]) -> JsonTable:
    """Return the table of objects by their names, which become a column."""

    def read() -> Iterator[TableRow]:
        for number, (name, raw) in enumerate(members.items(), 1):
            yield object_row(number, {"id": name, **json.loads(bytes(raw))})

    return JsonTable("JSON objects by name", read)


def yaml_document(source: Source, part: str = "") -> JsonTable:
    """Return the table in a YAML file: a list of objects, or a document around one. Raises NoTable, UsageProblem."""
    document = parse_yaml(source.part(0, MAX_YAML_BYTES + 1))
    if not document.is_readable or not isinstance(document.value, list | dict):
        raise NoTable("not a list or a mapping in YAML")
    value = document.value
    syntax: TableSyntax | None = None
    rows: object = value
    if isinstance(value, dict):
        members = [name for name, inner in value.items() if _are_objects(inner)]
        name = part or next((name for name in _WRAPPERS if name in members), members[0] if len(members) == 1 else "")
        if part and part not in members:
            raise UsageProblem(
                f"the document has no list of rows {part!r}", hint=f"members: {', '.join(map(str, list(value)[:20]))}"
            )
        if not name:
            raise NoTable("it holds no list of rows")
        rows, syntax = value[name], _around(name, value, is_named=bool(part))
    if not _are_objects(rows):
        raise NoTable("its elements are not mappings")
    listed: list[object] = rows if isinstance(rows, list) else []
    return JsonTable("YAML", lambda: (object_row(number, row) for number, row in enumerate(listed, 1)), syntax)


def _are_objects(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)
