"""Records of a table: a source of their contract, and the row that each came from."""

import io
import re
import tempfile
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import msgspec

from assay.core.contract import ContractId
from assay.core.issue import MAX_ERRORS, Issue
from assay.core.plan import TablePlan
from assay.datasets.parsing.source import Source
from assay.datasets.tables.cell_values import CellProblem
from assay.datasets.tables.column_roles import FoundColumns, listed
from assay.datasets.tables.column_writer import CleanBatch, ColumnWriter, RecordIds
from assay.datasets.tables.delimited import CellBatch, DelimitedTable
from assay.datasets.tables.record_builder import RecordBuilder
from assay.datasets.tables.table_rows import SourceTable, TableRow, cell_address

MAX_REMARKED = 3
"""Rows that a warning about several rows names."""
# Larger batches do not fit the processor's cache, and cost more than the calls that they save.
_BATCH_ROWS, _FEW_ROWS = 256, 16
"""Rows that are looked at together, and rows of a batch that are built one by one."""
_encode = msgspec.json.Encoder().encode
_NOT_IN_ID = re.compile(r"[^A-Za-z0-9_.-]+")
_RECORD = re.compile(r"^records\[\d+\]\.?")
_MEMBERS = {
    "input.prompt": "prompt",
    "input.context": "context",
    "input.messages": "messages",
    "reference.rubric": "rubric",
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


class RecordChunk(NamedTuple):
    """Some records of a table, in their order."""

    clean: CleanBatch | None
    """What is known of records that need no check; None for records that the contract's rules have to see."""
    lines: Callable[[], bytes]
    """Makes their lines."""


class _Found:
    """What one pass over the rows has found besides their records."""

    def __init__(self) -> None:
        self.rows = array("I")
        """Row of each record."""
        self.problems: dict[int, CellProblem] = {}
        self.empty = array("I")
        self.remarks: dict[str, list[int]] = {}
        """Rows with each remark, the first ones."""
        self.remarked: dict[str, int] = {}

    def note(self, row: TableRow) -> None:
        """Note what is odd about a row."""
        if row.remark:
            self.remarked[row.remark] = self.remarked.get(row.remark, 0) + 1
            named = self.remarks.setdefault(row.remark, [])
            if len(named) < MAX_REMARKED:
                named.append(row.number)


class TableRecords:
    """Records of a table, made of its rows each time they are asked for."""

    def __init__(self, table: SourceTable, columns: FoundColumns, contract: ContractId, *, name: str, path: str) -> None:
        self.contract = contract
        self._table = table
        self._columns = columns
        self._name = name
        self._path = path
        self._positions = {column: position for position, column in enumerate(table.columns)}
        self.keeps_lines = False
        """Set by a caller who will need the lines of all records, so that validation writes them in the same pass."""
        self._found = _Found()
        self._writer = ColumnWriter(columns.columns, table.columns, contract=contract, dataset=name)

    @property
    def plan(self) -> TablePlan:
        """Syntax and columns, for the manifest; complete after the rows were read."""
        syntax = self._table.syntax
        return TablePlan(
            format=syntax.format,
            columns=self._columns.columns,
            recognized=self._columns.layout,
            evidence=self._columns.evidence,
            encoding=syntax.encoding,
            separator=syntax.separator,
            sheet=syntax.sheet,
            empty_rows=len(self._found.empty),
        )

    @property
    def has_chunks(self) -> bool:
        """Return whether records can be had in chunks, most of which need no check."""
        return self._writer.is_usable and isinstance(self._table, DelimitedTable) and self._table.is_whole

    @property
    def progress(self) -> tuple[int, int]:
        """Return the bytes of the file that were read so far, and the bytes in all."""
        return self._table.progress if isinstance(self._table, DelimitedTable) else (0, 0)

    def chunks(self) -> Iterator[RecordChunk]:
        """Yield all records; what is found about the rows is found anew."""
        if not self.keeps_lines or self.contract == "batch_v1":
            yield from self._chunks(RecordIds())
            return
        spool = tempfile.TemporaryFile()  # noqa: SIM115  # lives as long as its Source
        for chunk in self._chunks(RecordIds()):
            lines = chunk.lines()
            spool.write(lines)
            yield RecordChunk(chunk.clean, partial(bytes, lines))
        self.source = Source(self._path, spool, size=spool.seek(0, io.SEEK_END), form="jsonl")

    def _chunks(self, ids: RecordIds) -> Iterator[RecordChunk]:
        self._found = _Found()
        builder = RecordBuilder(self._columns.columns, contract=self.contract, dataset=self._name, ids=ids)
        if not isinstance(self._table, DelimitedTable) or not self.has_chunks:
            for row in self._table.rows():
                yield from self._built(row, builder)
            return
        for batch in self._table.batches(_BATCH_ROWS):
            yield from self._chunks_of(batch, builder, ids)

    def _chunks_of(self, batch: CellBatch, builder: RecordBuilder, ids: RecordIds) -> Iterator[RecordChunk]:
        """Yield the records of a batch: all at once, or those of its halves where a row needs a closer look."""
        assert isinstance(self._table, DelimitedTable)
        cells, count = batch.cells, len(batch.cells)
        if not batch.problem and set(map(len, cells)) == {len(self._positions)}:
            columns = dict(zip(self._positions, zip(*cells, strict=True), strict=True))
            clean = self._writer.clean(columns, count)
            if clean is not None:
                self._found.rows.extend(range(batch.number, batch.number + count))
                yield RecordChunk(clean, lambda: self._writer.lines(columns, clean, ids))
                return
        if count <= _FEW_ROWS:
            for row in self._table.rows_of(batch):
                yield from self._built(row, builder)
            return
        half = count // 2
        yield from self._chunks_of(batch._replace(cells=cells[:half], problem=""), builder, ids)
        yield from self._chunks_of(batch._replace(number=batch.number + half, cells=cells[half:]), builder, ids)

    def _built(self, row: TableRow, builder: RecordBuilder) -> Iterator[RecordChunk]:
        found = self._found
        if not row.cells and not row.problem:
            found.empty.append(row.number)
            return
        record, problem = builder.build(row)
        if problem is not None and len(found.problems) < MAX_ERRORS:
            found.problems[len(found.rows)] = problem
        found.note(row)
        found.rows.append(row.number)
        line = _encode(record) + b"\n"
        yield RecordChunk(None, lambda: line)

    @cached_property
    def source(self) -> Source:
        """Records as the reader of their contract takes them; written when they are first asked for."""
        spool = tempfile.TemporaryFile()  # noqa: SIM115  # lives as long as its Source
        is_document = self.contract == "batch_v1"
        if is_document:
            head = {"dataset_id": _NOT_IN_ID.sub("_", self._name)[:128] or "table", "dataset_version": "1", "schema_version": "1.0"}
            spool.write(_encode(head)[:-1] + b',"records":[')
        start = spool.tell()
        # A question that is there twice shows itself at the end; only then its records are written with numbers.
        for ids in (RecordIds(is_exact=False), RecordIds()):
            spool.seek(start)
            spool.truncate()
            for number, chunk in enumerate(self._chunks(ids)):
                lines = chunk.lines()
                spool.write((b",\n" if number else b"\n") + lines.removesuffix(b"\n") if is_document else lines)
            if ids.are_unique():
                break
        if is_document:
            spool.write(b"\n]}\n")
        return Source(self._path, spool, size=spool.seek(0, io.SEEK_END), form="json" if is_document else "jsonl")

    # Issues

    def row_of(self, index: int) -> int:
        """Return the number of the row that a record came from."""
        return self._found.rows[index]

    @cached_property
    def _lines(self) -> Mapping[int, int]:
        """Line of each row; the file is read once more for it, which only a file with issues needs."""
        if isinstance(self._table, DelimitedTable):
            return self._table.line_numbers()
        return {row.number: row.line for row in self._table.rows() if row.line is not None}

    def locate(self, issue: Issue) -> Issue:
        """Return the issue of a record with its row, column and cell."""
        if issue.index is None:
            return msgspec.structs.replace(issue, line=None, column=None, excerpt="", caret=0)
        row = self._found.rows[issue.index]
        problem = self._found.problems.get(issue.index)
        column = problem.column if problem else self._column_of(issue.path)
        where: dict[str, Any] = {"row": row}
        place = f"row {row}"
        if column:
            where["column_name"] = column
            place += f", column {column!r}"
            if self._table.syntax.has_cells and column in self._positions:
                where["cell"] = cell_address(self._positions[column], row)
                place += f", cell {where['cell']}"
        return msgspec.structs.replace(
            issue,
            code=problem.code if problem else issue.code,
            message=f"{problem.message if problem else issue.message} ({place})",
            hint=problem.hint if problem else issue.hint,
            path=column or issue.path,
            line=self._lines.get(row),
            column=None,
            excerpt="",
            caret=0,
            details={**(issue.details or {}), **where},
        )

    def _column_of(self, path: str) -> str:
        """Return the column that a member of a record was made from."""
        member = _RECORD.sub("", path)
        for prefix, role in _MEMBERS.items():
            if member.startswith(prefix):
                value = getattr(self._columns.columns, role)
                return value if isinstance(value, str) else (value[0] if value else "")
        name = re.match(r"metadata(?:\.([^.\[]+)|\[\"(.+?)\"\])", member)
        return (name.group(1) or name.group(2)) if name else ""

    @property
    def issues(self) -> tuple[Issue, ...]:
        """Warnings about the table as a whole, after its rows were read."""
        return tuple(self._warnings())

    def _warnings(self) -> Iterator[Issue]:
        syntax, found = self._table.syntax, self._found
        if syntax.encoding and not syntax.encoding.startswith("utf"):
            yield _warning(
                f"the file is not UTF-8 and was read as {syntax.encoding}", hint="save it as UTF-8 if letters look wrong"
            )
        if found.empty:
            count = len(found.empty)
            yield _warning(f"{count:,} empty {'row' if count == 1 else 'rows'} skipped: {_rows(found.empty, count)}", rows=count)
        for remark, rows in found.remarks.items():
            count = found.remarked[remark]
            yield _warning(f"{_rows(rows, count)}: {remark}", rows=count)
        for remark in self._columns.remarks:
            yield _warning(remark)
        others = [name for name in syntax.others if name not in ("version", "name", "description")]
        if others:
            yield _warning(f"only the list {syntax.sheet!r} is read, and not {listed(others)}")


def _rows(rows: Sequence[int], count: int) -> str:
    numbers = ", ".join(map(str, rows[:MAX_REMARKED]))
    more = count - min(len(rows), MAX_REMARKED)
    return f"row{'s' * (count > 1)} {numbers}" + (f" and {more:,} more" if more else "")


def _warning(message: str, *, hint: str = "", rows: int = 0) -> Issue:
    return Issue(code="suspicious_value", severity="warning", message=message, hint=hint, details={"rows": rows} if rows else None)
