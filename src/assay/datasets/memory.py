"""Datasets given in memory: rows, documents, bytes, data frames, Arrow tables and Hugging Face datasets.

A library is recognised by the module of an object's type and never imported: who passes a frame has imported its library.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from importlib import import_module
from math import isnan
from pathlib import PurePath
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec

from assay.core.canonical import JsonObject
from assay.core.contract import CONTRACTS, ROW_MEMBERS
from assay.core.errors import UsageProblem
from assay.core.issue import Issue
from assay.core.report import RecordCounts, ValidationReport
from assay.core.settings import ColumnSection
from assay.datasets.parsing.formats import guess_contract, row_document, sniff_format
from assay.datasets.parsing.source import Source, open_source

if TYPE_CHECKING:
    from assay.datasets.tables import TableRecords

ACCEPTED = "a path, bytes, dicts, a DataFrame (pandas, polars), an Arrow table or a dataset of Hugging Face"
_FRAMES = ("pandas", "polars", "pyarrow", "datasets")
_JSON_HINT = "leave it out, or give dicts, lists, strings, numbers, booleans and None"


def open_data(
    data: object, contract: object = "auto", *, table: tuple[ColumnSection, str] = (ColumnSection(), ""), name: str = ""
) -> Source | ValidationReport:
    """Return data in memory as a source: contract rows, a document, or rows of a table with their columns found.

    Rows whose columns are unclear give the report that rejects them, as the file of such a table would. Raises UsageProblem for
    anything that is no data.
    """
    if isinstance(data, bytes | bytearray | memoryview):
        return open_source(data, name=name or "<bytes>")
    value = _value_of(data)
    # A contract that is named has its own words for a dataset without records.
    if value == [] and contract == "auto":
        issue = Issue(code="unknown_contract", message="there are no records", hint="a dataset has at least one record")
        return ValidationReport(path="<object>", contract=None, outcome="rejected", counts=RecordCounts(), issues=[issue])
    if isinstance(value, list) and value and _is_table(value, contract, table[0]):
        return _open_rows(value, contract, table, name=name)
    if _is_frame(data):
        # A frame has every member in every row, and null for what a record does not have.
        value = _without_nulls(value)
    return _encoded(value, contract, name=f"{name or '<object>'}.json")


def given_file(source: Source, name: str) -> str:
    """Return the name of the file that keeps data of memory, such as `records.jsonl`."""
    if PurePath(source.name).suffix and not source.name.startswith("<"):
        return PurePath(source.name).name
    form = source.format or sniff_format(source)
    return f"{name}.{form}"


# Values


def _value_of(data: object) -> object:
    """Return the plain value of an object: a list of rows or a document."""
    rows = _frame_rows(data)
    if rows is None and isinstance(data, Iterable) and not isinstance(data, Mapping | str | set | frozenset):
        rows = iter(data)
    try:
        if rows is not None:
            return [_plain(row, f"row {number}") for number, row in enumerate(rows, 1)]
        if isinstance(data, Mapping) or _is_struct(data):
            return _plain(data, "")
    except RecursionError as problem:
        raise UsageProblem(
            "the object is not JSON: it contains itself, or is nested too deep", hint=f"give {ACCEPTED}"
        ) from problem
    raise UsageProblem(f"a dataset cannot be {_type_name(data)}", hint=f"give {ACCEPTED}")


def _is_struct(value: object) -> bool:
    return isinstance(value, msgspec.Struct) or (hasattr(value, "__dataclass_fields__") and not isinstance(value, type))


def _type_name(value: object) -> str:
    kind = type(value)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__.partition('.')[0]}.{kind.__qualname__}"
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _frame_rows(data: Any) -> Iterable[object] | None:
    """Return the rows of a frame or a dataset of another library; None for anything else."""
    rows: Iterable[object] | None = None
    library, kind = type(data).__module__.partition(".")[0], type(data).__name__
    match library, kind:
        case "pandas", "DataFrame":
            rows = _pandas_rows(data)
        case "polars", "LazyFrame":
            rows = data.collect().to_dicts()
        case "polars", "DataFrame":
            rows = data.to_dicts()
        case "pyarrow", "Table" | "RecordBatch":
            rows = data.to_pylist()
        case "datasets", "DatasetDict" | "IterableDatasetDict":
            raise UsageProblem(
                f"the {kind} has the splits {', '.join(data)}", hint=f"give one of them: data[{next(iter(data), '')!r}]"
            )
        case "datasets", _:
            rows = data
    if rows is None and library in ("pandas", "polars", "numpy", "pyarrow"):
        raise UsageProblem(f"a dataset cannot be {_type_name(data)}", hint=f"give {ACCEPTED}")
    if rows is None and hasattr(data, "__arrow_c_stream__"):
        # Of whatever library: its table is read through the Arrow interface that it offers.
        rows = import_module("pyarrow").table(data).to_pylist()
    return rows


def _is_frame(data: object) -> bool:
    return type(data).__module__.partition(".")[0] in _FRAMES or hasattr(data, "__arrow_c_stream__")


def _pandas_rows(frame: Any) -> Iterator[Mapping[str, object]]:
    names = [str(name) for name in frame.columns]
    doubled = next((name for number, name in enumerate(names) if name in names[:number]), None)
    if doubled is not None:
        raise UsageProblem(f"the DataFrame has two columns called '{doubled}'", hint="rename one: frame.columns = [...]")
    # NaN, NaT and NA all mean that there is no value.
    objects = frame.astype(object).where(frame.notna(), None)
    for row in objects.itertuples(index=False, name=None):
        yield dict(zip(names, row, strict=True))


def _plain(value: Any, where: str) -> Any:
    """Return a value as JSON has it; raises UsageProblem that names the row and the member."""
    match value:
        case None | bool() | str():
            return value
        case Mapping():
            return {
                _key(name, where): _plain(member, f"{where}, '{name}'" if where else f"'{name}'") for name, member in value.items()
            }
        case list() | tuple():
            return [_plain(member, where) for member in value]
        case Enum():
            return _plain(value.value, where)
        case int():
            return int(value)
        case float():
            return float(value)
        case datetime() | date() | time():
            return value.isoformat()
        case UUID() | PurePath():
            return str(value)
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
    if type(value).__module__.partition(".")[0] in ("numpy", "pandas"):
        # Scalars of numpy and cells with arrays.
        plain = value.tolist() if hasattr(value, "tolist") else value.isoformat() if hasattr(value, "isoformat") else None
        if plain is not None:
            return None if isinstance(plain, float) and isnan(plain) else _plain(plain, where)
    if _is_struct(value):
        fields = value.__struct_fields__ if isinstance(value, msgspec.Struct) else value.__dataclass_fields__
        return {name: _plain(getattr(value, name), f"{where}, '{name}'" if where else f"'{name}'") for name in fields}
    raise UsageProblem(f"{where or 'the value'} is {_type_name(value)}, which is not JSON", hint=_JSON_HINT)


def _without_nulls(value: Any) -> Any:
    """Return a value without the members that are null, at any depth."""
    if isinstance(value, dict):
        return {name: _without_nulls(member) for name, member in value.items() if member is not None}
    return [_without_nulls(member) for member in value] if isinstance(value, list) else value


def _key(name: object, where: str) -> str:
    if isinstance(name, str | int | float | None):
        return name if isinstance(name, str) else json.dumps(name)
    raise UsageProblem(f"{where or 'the value'} has {_type_name(name)} as a key, which is not JSON", hint=_JSON_HINT)


# Tables


def _is_table(rows: list[Any], contract: object, columns: ColumnSection) -> bool:
    """Return whether rows are those of a table rather than records of a contract."""
    first = next((row for row in rows if isinstance(row, dict)), None)
    if first is None:
        return False
    if columns != ColumnSection():
        return True
    if contract != "auto":
        return False
    is_record = first.get("schema_version") in CONTRACTS or "task_type" in first or {"turn_id", "speaker"} & first.keys()
    return not is_record


def _open_rows(
    rows: list[JsonObject], contract: object, table: tuple[ColumnSection, str], *, name: str
) -> Source | ValidationReport:
    # Loaded here: records of a contract need no search for columns.
    tables = import_module("assay.datasets.tables")
    try:
        found: TableRecords = tables.read_objects(rows, tables.TableOptions(*table), contract=contract, name=name or "rows")
    except tables.ColumnsUnclear as unclear:
        source = _encoded(rows, contract, name="<object>.json")
        # What looks like records has a reader that says what they lack.
        if contract == "auto" and guess_contract(source).contract is not None:
            return source
        hint = f'name it: columns={{"{unclear.role}": "..."}}'
        issue = Issue(code="unknown_columns", message=unclear.message, hint=hint)
        return ValidationReport(path=source.name, contract=None, outcome="rejected", counts=RecordCounts(), issues=[issue])
    # The records as their contract has them are what a run stores and hashes.
    source = found.source.another()
    source.is_object, source.table = True, found
    return source


# Encoding


def _encoded(value: Any, contract: object, *, name: str) -> Source:
    """Encode a plain value as the bytes that it would be read from: the same strict parser then reads it as a file."""
    try:
        source = open_source(json.dumps(value).encode(), name=name)
        known = guess_contract(source).contract if contract == "auto" else contract
        stored = row_document(source)
        if stored is not None:
            source = open_source(_encode_rows(value, ROW_MEMBERS[stored]), name=name)
        elif isinstance(known, str) and known in CONTRACTS and CONTRACTS[known].is_lines:
            rows = value if isinstance(value, list | tuple) else [value]
            source = open_source("\n".join(map(json.dumps, rows)).encode(), name=f"{name}l")
    except (TypeError, ValueError, RecursionError) as problem:
        raise UsageProblem(
            f"the object is not JSON: {problem}", hint="give dicts, lists, strings, numbers, booleans and None"
        ) from problem
    source.is_object = True
    return source


def _encode_rows(value: JsonObject, member: str) -> bytes:
    """Encode a document of rows as runs write it, to be read in constant memory; one with other members unchanged."""
    # Other members belong to the document, and rows alone would lose them.
    if list(value) != ["schema_version", member] or not isinstance(value[member], list):
        return json.dumps(value).encode()
    head = json.dumps({**value, member: []}, separators=(",", ":"))[:-2]
    rows = ",\n".join(map(json.dumps, value[member]))
    return f"{head}\n{rows}\n]}}".encode()
