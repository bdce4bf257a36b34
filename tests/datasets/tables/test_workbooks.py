"""Workbooks: sheets, cells, and archives that unpack to too much."""

import io
import zipfile
from datetime import datetime
from pathlib import Path

import openpyxl
import pytest

from assay.core.errors import SourceUnreadable, UsageProblem
from assay.datasets.parsing.source import open_source
from assay.datasets.tables import workbooks
from assay.datasets.tables.column_roles import ColumnsUnclear
from assay.datasets.tables.workbooks import WorkbookTable

Rows = list[list[object]]


def workbook(path: Path, **sheets: Rows) -> Path:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def test_rows_have_the_numbers_of_the_spreadsheet(tmp_path: Path) -> None:
    rows: Rows = [[], ["Question", "Answer", None, "When"], ["Why?", 4.0], [], ["Who?", True, None, datetime(2026, 11, 16)]]  # noqa: DTZ001
    table = WorkbookTable(open_source(workbook(tmp_path / "b.xlsx", Fragen=rows)))
    assert list(table.columns) == ["Question", "Answer", "column 3", "When"]
    assert [(row.number, [value for value in row.cells.values() if value is not None]) for row in table.rows()] == [
        (3, ["Why?", 4]),
        (4, []),
        (5, ["Who?", True, "2026-11-16T00:00:00"]),
    ]
    assert table.syntax.sheet == "Fragen"


def test_of_several_sheets_the_one_with_questions_is_read(tmp_path: Path) -> None:
    path = workbook(tmp_path / "b.xlsx", Notes=[["About"], ["x"]], Fragen=[["Frage", "Antwort"], ["Wer?", "Ich"]])
    assert WorkbookTable(open_source(path)).syntax.sheet == "Fragen"
    assert WorkbookTable(open_source(path), "Notes").syntax.sheet == "Notes"
    with pytest.raises(UsageProblem, match="no sheet 'Other'"):
        WorkbookTable(open_source(path), "Other")


def test_several_sheets_with_questions_are_a_question_to_the_user(tmp_path: Path) -> None:
    path = workbook(tmp_path / "b.xlsx", One=[["Question"], ["x"]], Two=[["Question"], ["y"]])
    with pytest.raises(ColumnsUnclear, match="'One', 'Two'") as refused:
        WorkbookTable(open_source(path))
    assert refused.value.role == "sheet"


def test_a_cell_right_of_the_header_is_a_problem_of_its_row(tmp_path: Path) -> None:
    path = workbook(tmp_path / "b.xlsx", One=[["Question", "Answer"], ["x", "y", "z"]])
    assert [row.problem for row in WorkbookTable(open_source(path)).rows()] == ["it has 3 cells under a header of 2"]


def archive(**files: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in files.items():
            packed.writestr(name, content)
    return stream.getvalue()


def test_an_archive_that_unpacks_to_too_much_is_refused_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workbooks, "MAX_UNPACKED", 1 << 20)
    packed = archive(**{"xl/workbook.xml": b"<x/>", "xl/worksheets/sheet1.xml": bytes(2 << 20)})
    with pytest.raises(SourceUnreadable, match="unpacks to 2 MB"):
        WorkbookTable(open_source(packed, name="b.xlsx"))


def test_a_row_of_any_number_ends_the_sheet(tmp_path: Path) -> None:
    path = workbook(tmp_path / "b.xlsx", One=[["Question", "Answer"], ["x", "y"]])
    with zipfile.ZipFile(path) as packed:
        files = {name: packed.read(name) for name in packed.namelist()}
    name = "xl/worksheets/sheet1.xml"
    files[name] = (
        files[name].replace(b'<row r="2"', b'<row r="99999999"').replace(b'"A2"', b'"A99999999"').replace(b'"B2"', b'"B99999999"')
    )
    table = WorkbookTable(open_source(archive(**files), name="b.xlsx"))
    with pytest.raises(SourceUnreadable, match="more than 1,048,576 rows"):
        for _ in table.rows():
            pass


@pytest.mark.parametrize("data", [b"PK\x03\x04 and no archive", archive(**{"a.txt": b"x"}), archive(**{"xl/workbook.xml": b"<x>"})])
def test_what_is_no_workbook_is_unreadable(data: bytes) -> None:
    with pytest.raises(SourceUnreadable):
        WorkbookTable(open_source(data, name="b.xlsx"))
