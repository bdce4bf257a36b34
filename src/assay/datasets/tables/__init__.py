"""Tables of questions (CSV, JSON Lines, workbooks ...) as records of a contract.

`read_table` reads a file and `read_objects` rows in memory. Both find the columns, by the user's names for them or by common ones,
and give a TableRecords: the records as a source that the reader of their contract takes, and where each came from.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from assay.core.contract import ContractId, file_stem
from assay.core.errors import UsageProblem
from assay.core.settings import ColumnSection
from assay.datasets.parsing.formats import sniff_format, table_kind
from assay.datasets.parsing.source import NoTable, Source
from assay.datasets.tables.cell_values import UnfitCell, messages_of
from assay.datasets.tables.column_roles import ColumnSample, ColumnsUnclear, find_columns, is_clear_question
from assay.datasets.tables.delimited import DelimitedTable, Undecodable
from assay.datasets.tables.json_tables import json_document, json_lines, yaml_document
from assay.datasets.tables.table_records import TableRecords
from assay.datasets.tables.table_rows import SAMPLE_ROWS, ObjectTable, SourceTable

__all__ = [
    "TARGETS",
    "ColumnsUnclear",
    "NoTable",
    "TableOptions",
    "TableRecords",
    "Undecodable",
    "open_table",
    "read_objects",
    "read_table",
    "sample_of",
]

TARGETS: tuple[ContractId, ...] = ("legal_eval_v1", "batch_v1")
"""Contracts that a table can be read as."""
_ARROW = "assay.datasets.tables.arrow_tables"


class TableOptions(NamedTuple):
    """What the caller says about a table."""

    columns: ColumnSection = ColumnSection()
    sheet: str = ""
    """Sheet of a workbook, split of a dataset, or member of a document."""


NO_OPTIONS = TableOptions()
OneTable = TypeVar("OneTable", bound=SourceTable)


def open_table(source: Source, sheet: str = "", *, is_checked: bool = False) -> SourceTable:
    """Open a file as a table; raises NoTable where it holds none, UsageProblem, SourceUnreadable or MissingExtra.

    With `is_checked` all its bytes decide about its encoding; without it reading its rows may raise Undecodable.
    """
    kind = table_kind(source)
    if kind == "delimited":
        return _without_sheet(DelimitedTable(source, is_checked=is_checked), sheet)
    if kind == "workbook":
        # Imported with the first workbook, like the parts below with the first of theirs.
        workbook: SourceTable = import_module("assay.datasets.tables.workbooks").WorkbookTable(source, sheet)
        return workbook
    if kind == "parquet":
        parquet: SourceTable = import_module(_ARROW).parquet_table(source)
        return _without_sheet(parquet, sheet)
    if kind == "folder":
        saved: SourceTable = import_module(_ARROW).saved_dataset(Path(source.name), sheet)
        return saved
    form = sniff_format(source)
    if form == "jsonl":
        return _without_sheet(json_lines(source), sheet)
    if form == "json":
        return json_document(source, sheet)
    return _text_table(source, sheet, is_checked=is_checked)


def _text_table(source: Source, sheet: str, *, is_checked: bool) -> SourceTable:
    """Open a file of unknown ending: a list in YAML, or cells between separators under names that are known."""
    try:
        return yaml_document(source, sheet)
    except NoTable:
        if source.format == "yaml":
            raise
    table = _without_sheet(DelimitedTable(source, is_checked=is_checked), sheet)
    if len(table.columns) < 2 or not table.has_known_name:
        raise NoTable("no separator divides its lines into columns with known names")
    return table


def _without_sheet(table: OneTable, sheet: str) -> OneTable:
    if sheet:
        raise UsageProblem(f"{table.syntax.format} has no sheets", hint="leave --sheet out")
    return table


def read_table(
    source: Source, options: TableOptions = NO_OPTIONS, *, contract: str = "auto", is_checked: bool = False
) -> TableRecords:
    """Read a file as a table; raises what `open_table` raises, and ColumnsUnclear."""
    table = open_table(source, options.sheet, is_checked=is_checked)
    return _read(table, options, contract=contract, name=file_stem(source.name), path=source.name)


def read_objects(
    objects: Sequence[Mapping[str, Any]], options: TableOptions = NO_OPTIONS, *, contract: str = "auto", name: str = "rows"
) -> TableRecords:
    """Read rows in memory as a table; raises ColumnsUnclear or UsageProblem."""
    if not objects:
        raise ColumnsUnclear("there are no rows", role="prompt")
    return _read(ObjectTable([dict(row) for row in objects]), options, contract=contract, name=name, path=f"<{name}>")


def sample_of(table: SourceTable) -> ColumnSample:
    """Return the first rows of a table, by which its columns are recognised."""
    rows = islice((row.cells for row in table.rows() if row.cells and not row.problem), SAMPLE_ROWS)
    return ColumnSample(table.columns, tuple(rows))


def _read(table: SourceTable, options: TableOptions, *, contract: str, name: str, path: str) -> TableRecords:
    if not table.columns:
        raise NoTable("it has no rows")
    sample = sample_of(table)
    found = find_columns(sample, options.columns)
    if table.syntax.is_guess and options == NO_OPTIONS and not is_clear_question(found.columns.prompt):
        raise NoTable(f"its list {table.syntax.sheet!r} has no column that is clearly one of questions")
    return TableRecords(table, found, _target(contract, sample, found.columns), name=name, path=path)


def _target(contract: str, sample: ColumnSample, columns: ColumnSection) -> ContractId:
    if contract in TARGETS:
        return "batch_v1" if contract == "batch_v1" else "legal_eval_v1"
    if contract not in ("auto", "built-in"):
        raise UsageProblem(f"a table cannot be read as {contract}", hint=f"contracts of tables: {', '.join(TARGETS)}")
    if columns.reference or columns.rubric or columns.choices:
        return "legal_eval_v1"
    # The last answer of a recorded conversation is its reference.
    return "legal_eval_v1" if columns.messages and _ends_with_answers(sample, columns.messages) else "batch_v1"


def _ends_with_answers(sample: ColumnSample, column: str) -> bool:
    for value in sample.values(column):
        try:
            messages = messages_of(value, column)
        except UnfitCell:
            continue
        return bool(messages) and messages[-1]["role"] == "assistant"
    return False
