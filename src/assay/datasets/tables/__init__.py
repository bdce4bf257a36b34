"""Tables of questions (CSV, TSV, JSON Lines ...) as records of a contract.

`read_table` reads a file and `read_objects` rows in memory. Both find the columns, by the user's names for them or by common ones,
and give a TableRecords: the records as a source that the reader of their contract takes, and where each came from.
"""

import io
import re
import tempfile
from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from assay.core.contract import ContractId, file_stem
from assay.core.errors import UsageProblem
from assay.core.issue import MAX_ERRORS, Issue
from assay.core.plan import TablePlan
from assay.core.settings import ColumnSection
from assay.datasets.parsing.source import Source
from assay.datasets.tables.column_roles import ColumnSample, ColumnsUnclear, find_columns
from assay.datasets.tables.delimited import DelimitedTable
from assay.datasets.tables.record_builder import RecordBuilder, RowProblem
from assay.datasets.tables.table_rows import SAMPLE_ROWS, ObjectTable, SourceTable, TableRow, cell_address

__all__ = ["ColumnsUnclear", "TableOptions", "TableRecords", "read_objects", "read_table"]

TARGETS: tuple[ContractId, ...] = ("legal_eval_v1", "batch_v1")
"""Contracts that a table can be read as."""
_encode = msgspec.json.Encoder().encode
_NOT_IN_ID = re.compile(r"[^A-Za-z0-9_.-]+")


class TableOptions(NamedTuple):
    """What the caller says about a table."""

    columns: ColumnSection = ColumnSection()
    sheet: str = ""


NO_OPTIONS = TableOptions()


def read_table(source: Source, options: TableOptions = NO_OPTIONS, *, contract: str = "auto") -> "TableRecords":
    """Read a file as a table; raises ColumnsUnclear, UsageProblem or SourceUnreadable."""
    return _read(DelimitedTable(source), options, contract=contract, name=file_stem(source.name), path=source.name)


def read_objects(
    objects: Sequence[Mapping[str, Any]], options: TableOptions = NO_OPTIONS, *, contract: str = "auto", name: str = "rows"
) -> "TableRecords":
    """Read rows in memory as a table; raises ColumnsUnclear or UsageProblem."""
    return _read(ObjectTable([dict(row) for row in objects]), options, contract=contract, name=name, path=f"<{name}>")


class TableRecords:
    """Records of a table: a source of their contract, and the row that each came from."""

    def __init__(self, table: SourceTable, plan: TablePlan, contract: ContractId, lines: Source, found: "_WrittenRecords") -> None:
        self.plan = plan
        """Syntax and columns, for the manifest."""
        self.contract = contract
        self.source = lines
        """Records as the reader of their contract takes them."""
        self.issues = tuple(found.warnings)
        """Warnings about the table as a whole."""
        self._columns = table.columns
        self._found = found

    def row_of(self, index: int) -> int:
        """Return the number of the row that a record came from."""
        return self._found.rows[index]

    def locate(self, issue: Issue) -> Issue:
        """Return the issue of a record with its row, column and cell."""
        if issue.index is None:
            return msgspec.structs.replace(issue, line=None, column=None, excerpt="", caret=0)
        row, line = self._found.rows[issue.index], self._found.lines[issue.index] or None
        problem = self._found.problems.get(issue.index)
        column = problem.column if problem else self._column_of(issue.path)
        where: dict[str, Any] = {"row": row}
        place = f"row {row}"
        if column:
            where["column_name"] = column
            place += f", column {column!r}"
            if column in self._columns and line is not None:
                where["cell"] = cell_address(list(self._columns).index(column), row)
                place += f", cell {where['cell']}"
        message = f"{problem.message if problem else issue.message} ({place})"
        return msgspec.structs.replace(
            issue,
            code=problem.code if problem else issue.code,
            message=message,
            hint=problem.hint if problem else issue.hint,
            path=column or issue.path,
            line=line,
            column=None,
            excerpt="",
            caret=0,
            details={**(issue.details or {}), **where},
        )

    def _column_of(self, path: str) -> str:
        """Return the column that a member of a record was made from."""
        columns = self.plan.columns
        member = path.removeprefix(_RECORD.match(path).group()) if _RECORD.match(path) else path  # type: ignore[union-attr]
        for prefix, role in _MEMBERS.items():
            if member.startswith(prefix):
                value = getattr(columns, role)
                return value if isinstance(value, str) else (value[0] if value else "")
        name = re.match(r"metadata(?:\.([^.\[]+)|\[\"(.+?)\"\])", member)
        return (name.group(1) or name.group(2)) if name else ""


_RECORD = re.compile(r"records\[\d+\]\.?|")
_MEMBERS = {
    "input.prompt": "prompt",
    "input.context": "context",
    "input.messages": "messages",
    "prompt": "prompt",
    "context": "context",
    "messages": "messages",
    "rubric": "rubric",
    "reference": "reference",
    "choices": "choices",
    "correct_choice_ids": "answer",
    "record_id": "id",
    "id": "id",
}
"""Beginnings of paths in records, and the roles of the columns they come from."""


class _WrittenRecords:
    """What is known of the written records."""

    def __init__(self) -> None:
        self.rows = array("I")
        """Row of each record."""
        self.lines = array("I")
        """Line of each record; 0 where the file has no lines."""
        self.problems: dict[int, RowProblem] = {}
        self.empty = array("I")
        self.remarks: list[tuple[int, str]] = []
        self.remarked = 0
        self.warnings: list[Issue] = []


def _read(table: SourceTable, options: TableOptions, *, contract: str, name: str, path: str) -> TableRecords:
    sample = _sample(table)
    found = find_columns(sample, options.columns)
    target = _target(contract, found.columns)
    builder = RecordBuilder(found.columns, contract=target, dataset=name)
    written = _WrittenRecords()
    spool = tempfile.TemporaryFile()  # noqa: SIM115  # lives as long as its Source
    if target == "batch_v1":
        head = {"dataset_id": _NOT_IN_ID.sub("_", name)[:128] or "table", "dataset_version": "1", "schema_version": "1.0"}
        spool.write(_encode(head)[:-1] + b',"records":[\n')
    between = b",\n" if target == "batch_v1" else b"\n"
    for row in table.rows():
        _write_row(row, builder, written, spool, between)
    if target == "batch_v1":
        spool.write(b"\n]}\n")
    syntax = table.syntax
    plan = TablePlan(
        format=syntax.format,
        columns=found.columns,
        evidence=found.evidence,
        encoding=syntax.encoding,
        separator=syntax.separator,
        sheet=syntax.sheet,
        empty_rows=len(written.empty),
    )
    lines = Source(path, spool, size=spool.seek(0, io.SEEK_END), form="json" if target == "batch_v1" else "jsonl")
    written.warnings += _warnings(plan, written)
    return TableRecords(table, plan, target, lines, written)


def _sample(table: SourceTable) -> ColumnSample:
    rows = islice((row.cells for row in table.rows() if row.cells and not row.problem), SAMPLE_ROWS)
    return ColumnSample(tuple(table.columns), tuple(rows))


def _target(contract: str, columns: ColumnSection) -> ContractId:
    if contract in TARGETS:
        return "batch_v1" if contract == "batch_v1" else "legal_eval_v1"
    if contract not in ("auto", "built-in"):
        raise UsageProblem(f"a table cannot be read as {contract}", hint=f"contracts of tables: {', '.join(TARGETS)}")
    return "legal_eval_v1" if columns.reference or columns.rubric or columns.choices else "batch_v1"


def _write_row(row: TableRow, builder: RecordBuilder, written: _WrittenRecords, spool: Any, between: bytes) -> None:
    if not row.cells and not row.problem:
        written.empty.append(row.number)
        return
    record, problem = builder.build(row)
    index = len(written.rows)
    if problem is not None and len(written.problems) < MAX_ERRORS:
        written.problems[index] = problem
    if row.remark:
        written.remarked += 1
        if len(written.remarks) < 3:
            written.remarks.append((row.number, row.remark))
    spool.write((between if index else b"") + _encode(record))
    written.rows.append(row.number)
    written.lines.append(row.line or 0)


def _warnings(plan: TablePlan, written: _WrittenRecords) -> Iterator[Issue]:
    if plan.encoding:
        yield Issue(
            code="not_normalized",
            severity="warning",
            message=f"the file is not UTF-8 and was read as {plan.encoding}",
            hint="save it as UTF-8 if letters look wrong",
        )
    if written.empty:
        listed = ", ".join(map(str, written.empty[:5])) + (" ..." if len(written.empty) > 5 else "")
        yield Issue(
            code="suspicious_value",
            severity="warning",
            message=f"{len(written.empty):,} empty row(s) skipped: {listed}",
            details={"rows": len(written.empty)},
        )
    if written.remarked:
        row, remark = written.remarks[0]
        more = f" (and {written.remarked - 1:,} more rows)" if written.remarked > 1 else ""
        yield Issue(
            code="suspicious_value", severity="warning", message=f"row {row}: {remark}{more}", details={"rows": written.remarked}
        )
