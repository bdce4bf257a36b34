"""Rows onto sheets of a workbook: texts that stay texts, cells that fit, and sheets that continue on another when they are full."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from assay.core.canonical import json_text

CELL_UNITS = 32_767
"""What a cell may hold, as Excel counts: in units of UTF-16."""
SHEET_ROWS = 1_048_576
CUT_SHEET = "Cut cells"
_MARK = "\n[cut: the text has {:,} characters; see the sheet 'Cut cells']"
_HEADER = {"bold": True, "bg_color": "#E8EEF4", "bottom": 1, "valign": "top", "indent": 1}
_HEADER_HEIGHT = 16
_PAPER_WIDTH = 240
"""Characters that can still be read when they are on one page side by side."""
_FAILED = {"bg_color": "#F9DEDC"}

XlsxObject = Any
"""A workbook or worksheet of XlsxWriter, which is an extra and ships no types."""


class SheetColumn(msgspec.Struct, frozen=True):
    """A column of a sheet."""

    name: str
    width: int = 14
    kind: str = ""
    """`texts` are shown one on each line."""


class Sheets:
    """Sheets of one workbook, and the cells of them that had to be cut."""

    def __init__(self, book: XlsxObject, *, cut_columns: Sequence[SheetColumn], sheet_rows: int = SHEET_ROWS) -> None:
        self._book = book
        self._class = _plain_worksheet(book)
        self._cut_columns = cut_columns
        self._cut: Sheet | None = None
        self.sheet_rows = sheet_rows
        self.header = book.add_format(_HEADER)
        self.wrapped = book.add_format({"text_wrap": True, "valign": "top", "indent": 1})
        self.counts = book.add_format({"valign": "top"})
        self.numbers = book.add_format({"num_format": "0.00####", "valign": "top"})
        self.failed = book.add_format(_FAILED)
        self.cut_cells = 0

    def add(self, name: str, columns: Sequence[SheetColumn], rows: Iterable[Mapping[str, object]]) -> None:
        """Write a whole sheet."""
        sheet = self.sheet(name, columns)
        for row in rows:
            sheet.write(row)
        sheet.close()

    def sheet(self, name: str, columns: Sequence[SheetColumn], *, row_height: int | None = None) -> "Sheet":
        """Return a sheet to write rows on; it must be closed."""
        return Sheet(self, name, columns=columns, row_height=row_height)

    def page(self, name: str) -> XlsxObject:
        """Return a sheet of the library."""
        return self._book.add_worksheet(name, worksheet_class=self._class)

    def note_cut(self, place: Mapping[str, object]) -> None:
        """List a cell that was cut."""
        self.cut_cells += 1
        if self._cut is None:
            self._cut = self.sheet(CUT_SHEET, self._cut_columns)
        self._cut.write(place)
        self._cut.close()


def _plain_worksheet(book: XlsxObject) -> type:
    """Return a sheet that writes texts unchanged: in constant memory the library reads `<r>...</r>` as its own markup."""
    # A private name of XlsxWriter: tests/exports pins the behaviour, so that an update that changes it is
    # noticed.

    def plain(sheet: XlsxObject, string: str, attributes: Sequence[object] = ()) -> None:
        sheet._xml_inline_string(string, preserve=True, attributes=attributes)

    return type("PlainWorksheet", (book.worksheet_class,), {"_xml_rich_inline_string": plain})


class Sheet:
    """Rows under a frozen line of names; a full sheet is followed by another one of the same columns."""

    def __init__(self, sheets: Sheets, name: str, *, columns: Sequence[SheetColumn], row_height: int | None) -> None:
        self._sheets = sheets
        self._name = name
        self._columns = columns
        self._row_height = row_height
        self._number = 0
        self._begin()

    def _begin(self) -> None:
        self._number += 1
        self._title = self._name if self._number == 1 else f"{self._name} {self._number}"
        self._page = self._sheets.page(self._title)
        self._row = 0
        # Before the first row: in constant memory a row cannot be changed after the next was begun.
        if self._row_height is not None:
            self._page.set_default_row(self._row_height)
        self._page.set_row(0, _HEADER_HEIGHT)
        self._page.freeze_panes(1, 0)
        self._page.set_landscape()
        # More columns on one page would be too small to read; Excel then prints several pages.
        if sum(column.width for column in self._columns) <= _PAPER_WIDTH:
            self._page.fit_to_pages(1, 0)
        for place, column in enumerate(self._columns):
            # The button of the filter needs room next to the name.
            width = max(column.width, len(column.name) + 5)
            self._page.set_column(place, place, width, self._sheets.wrapped)
            self._page.write_string(0, place, column.name, self._sheets.header)

    def write(self, row: Mapping[str, object]) -> None:
        """Write one more row; members without a column are left to other sheets."""
        self._row += 1
        # Excel opens no sheet with more rows than that, so the rest goes on another of the same columns.
        if self._row == self._sheets.sheet_rows:
            self._row -= 1
            self.close()
            self._begin()
            self._row = 1
        for place, column in enumerate(self._columns):
            self._write_cell(place, column, row.get(column.name))

    def _write_cell(self, place: int, column: SheetColumn, value: object) -> None:
        sheets = self._sheets
        if value is None:
            return
        # Before the number: a bool is an int in Python.
        if isinstance(value, bool):
            self._page.write_boolean(self._row, place, value, sheets.wrapped)
        elif isinstance(value, int | float):
            self._page.write_number(self._row, place, value, sheets.counts if isinstance(value, int) else sheets.numbers)
        else:
            self._page.write_string(self._row, place, self._fitted(_text(value, column), column), sheets.wrapped)

    def _fitted(self, text: str, column: SheetColumn) -> str:
        """Return a text that a cell can hold."""
        # Most texts are short; encoding each of them to count its units would cost more than writing it.
        if len(text) <= CELL_UNITS // 2 or _units(text) <= CELL_UNITS:
            return text
        mark = _MARK.format(len(text))
        # Cut between units and decoded with `ignore`, so that half a surrogate pair is dropped.
        kept = text.encode("utf-16-le")[: 2 * (CELL_UNITS - len(mark))].decode("utf-16-le", "ignore")
        self._sheets.note_cut(
            {"sheet": self._title, "row": self._row + 1, "column": column.name, "characters": len(text), "kept": len(kept)}
        )
        return kept + mark

    def close(self) -> None:
        """Close the sheet with filters for its columns."""
        last = len(self._columns) - 1
        self._page.autofilter(0, 0, self._row, last)
        for place, column in enumerate(self._columns):
            if column.kind == "truth" and self._row:
                rule = {"type": "cell", "criteria": "==", "value": "FALSE", "format": self._sheets.failed}
                self._page.conditional_format(1, place, self._row, place, rule)


def _units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def _text(value: Any, column: SheetColumn) -> str:
    if isinstance(value, str):
        return value
    return "\n".join(value) if column.kind == "texts" else json_text(value)
