"""Workbooks (XLSX), read row by row; what unpacks to too much is refused before it is read."""

import io
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from importlib import import_module
from itertools import islice
from typing import Any

from assay.core.errors import MissingExtra, SourceUnreadable, UsageProblem
from assay.datasets.parsing.source import Source
from assay.datasets.tables.arrow_tables import plain_value
from assay.datasets.tables.column_names import PROMPTS, folded
from assay.datasets.tables.column_roles import ColumnsUnclear, listed
from assay.datasets.tables.table_rows import TableRow, TableSyntax, named_columns

MAX_UNPACKED = 1 << 30
"""Bytes that a workbook may have unpacked; they are counted as its archive states them, beyond which nothing is read."""
MAX_STRINGS = 256 << 20
"""Bytes of its table of texts, which is in memory while it is read."""
MAX_RATIO = 200
"""A workbook above 64 MB may not unpack to more than this many times its size."""
_RATIO_FROM = 64 << 20
MAX_COLUMNS, MAX_ROWS = 1_000, 1 << 20
"""Columns of a header, and rows of a sheet; the second is Excel's own limit."""
_MARGIN = 8
"""Cells right of the last column in which text without a column is found."""
# openpyxl raises whatever the XML that it does not understand leads to; SyntaxError is that of the parser of XML.
_DAMAGE = (
    OSError,
    ValueError,
    KeyError,
    TypeError,
    IndexError,
    AttributeError,
    EOFError,
    zipfile.BadZipFile,
    zlib.error,
    SyntaxError,
)
_HEADER_ROWS = 50
"""Rows at the top of a sheet in which its header is looked for."""


class WorkbookTable:
    """One sheet of a workbook."""

    def __init__(self, source: Source, sheet: str = "") -> None:
        self._source = source
        _check_archive(source)
        with closing(_opened(source)) as book:
            self._sheet = self._chosen(book, sheet)
            header = next((cells for _, cells in self._rows_of(book, self._sheet) if _is_filled(cells)), ())
            self.columns: Sequence[str] = named_columns([_name(cell) for cell in _trimmed(header)])

    @property
    def syntax(self) -> TableSyntax:
        """How the file is written."""
        return TableSyntax(format="XLSX", sheet=self._sheet, has_cells=True)

    def rows(self) -> Iterator[TableRow]:
        """Yield the rows below the header with the numbers that a spreadsheet shows."""
        width = len(self.columns)
        has_header = False
        with closing(_opened(self._source)) as book:
            for number, cells in self._rows_of(book, self._sheet, width + _MARGIN):
                if not _is_filled(cells):
                    if has_header:
                        yield TableRow(number, {})
                elif not has_header:
                    has_header = True
                elif _is_filled(cells[width:]):
                    problem = f"it has {len(_trimmed(cells))} cells under a header of {width}"
                    yield TableRow(number, self._row(cells), problem=problem)
                else:
                    yield TableRow(number, self._row(cells))

    def _row(self, cells: Sequence[object]) -> dict[str, object]:
        return {name: plain_value(cell) for name, cell in zip(self.columns, cells, strict=False)}

    def _chosen(self, book: Any, sheet: str) -> str:
        names = [str(name) for name in book.sheetnames if hasattr(book[name], "iter_rows")]
        if sheet:
            if sheet not in names:
                raise UsageProblem(f"'{self._source.name}' has no sheet {sheet!r}", hint=f"sheets: {', '.join(names)}")
            return sheet
        filled = [name for name in names if any(_is_filled(cells) for _, cells in islice(self._rows_of(book, name), _HEADER_ROWS))]
        if len(filled) == 1:
            return filled[0]
        if not filled:
            raise UsageProblem(f"every sheet of '{self._source.name}' is empty", hint=f"sheets: {', '.join(names)}")
        known = [name for name in filled if self._has_question(book, name)]
        if len(known) == 1:
            return known[0]
        raise ColumnsUnclear(
            f"'{self._source.name}' has several sheets: {listed(known or filled)}", role="sheet", options=known or filled
        )

    def _has_question(self, book: Any, name: str) -> bool:
        """Return whether the header of a sheet names a column with questions."""
        header = next((cells for _, cells in self._rows_of(book, name) if _is_filled(cells)), ())
        return any(folded(_name(cell)) in PROMPTS[0] for cell in header)

    def _rows_of(self, book: Any, name: str, width: int = MAX_COLUMNS) -> Iterator[tuple[int, Sequence[object]]]:
        sheet = book[name]
        # A sheet may state a size of a million rows and columns, and would be padded to it.
        sheet.reset_dimensions()
        try:
            for number, cells in enumerate(sheet.iter_rows(values_only=True, max_col=width), 1):
                # A row may state any number, and all those before it are there as empty ones.
                if number > MAX_ROWS:
                    raise SourceUnreadable(f"the sheet {name!r} of '{self._source.name}' has more than {MAX_ROWS:,} rows")
                yield number, cells
        except _DAMAGE as problem:
            raise _unreadable(self._source, problem) from problem


def _is_filled(cells: Sequence[object]) -> bool:
    return any(cell is not None and (not isinstance(cell, str) or cell.strip()) for cell in cells)


def _trimmed(cells: Sequence[object]) -> Sequence[object]:
    end = len(cells)
    while end and (cells[end - 1] is None or cells[end - 1] == ""):
        end -= 1
    return cells[:end]


def _name(cell: object) -> str:
    value = plain_value(cell)
    return "" if value is None else str(value)


def _check_archive(source: Source) -> None:
    """Refuse an archive that unpacks to too much; Python's zipfile reads no more than the sizes that are checked here."""
    try:
        with zipfile.ZipFile(_stream(source)) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError, OSError, ValueError) as problem:
        raise SourceUnreadable(f"cannot read '{source.name}': {problem}", hint="check that it is a workbook (.xlsx)") from problem
    total = sum(entry.file_size for entry in entries)
    strings = sum(entry.file_size for entry in entries if entry.filename.endswith("sharedStrings.xml"))
    if total > MAX_UNPACKED or strings > MAX_STRINGS or (total > _RATIO_FROM and total > source.size * MAX_RATIO):
        raise SourceUnreadable(
            f"'{source.name}' unpacks to {total >> 20:,} MB, which is too much for a workbook", hint="save it as CSV instead"
        )
    names = {entry.filename for entry in entries}
    if "xl/workbook.xml" not in names:
        raise SourceUnreadable(f"'{source.name}' is a zip archive but no workbook", hint="unpack it first")


def _stream(source: Source) -> io.BufferedReader | io.BytesIO:
    return source.open_bytes()  # type: ignore[return-value]  # both readers of a source can seek


def _opened(source: Source) -> Any:
    try:
        openpyxl = import_module("openpyxl")
    except ImportError:
        raise MissingExtra(f"reading '{source.name}' needs openpyxl", hint="pip install 'assay[xlsx]', or save it as CSV") from None
    # It warns of charts and of other parts that are no cells.
    warnings.filterwarnings("ignore", category=UserWarning, module="openpyxl")
    try:
        return openpyxl.load_workbook(_stream(source), read_only=True, data_only=True, keep_links=False)
    except _DAMAGE as problem:
        raise _unreadable(source, problem) from problem


def _unreadable(source: Source, problem: BaseException) -> SourceUnreadable:
    return SourceUnreadable(f"cannot read '{source.name}': {problem}", hint="save it again, or as CSV")
