"""Sheets that are full go on."""

from pathlib import Path

import pytest

from assay.surfaces.exports.sheets import SheetColumn, Sheets

openpyxl = pytest.importorskip("openpyxl")
xlsxwriter = pytest.importorskip("xlsxwriter")


def test_a_full_sheet_is_followed_by_another_with_the_same_header(tmp_path: Path) -> None:
    path = tmp_path / "full.xlsx"
    with xlsxwriter.Workbook(str(path), {"constant_memory": True}) as book:
        sheets = Sheets(book, cut_columns=(), sheet_rows=4)
        sheets.add("Records", (SheetColumn("n"),), ({"n": number} for number in range(7)))
    read = {sheet.title: [row[0] for row in sheet.iter_rows(values_only=True)] for sheet in openpyxl.load_workbook(path)}
    assert read == {"Records": ["n", 0, 1, 2], "Records 2": ["n", 3, 4, 5], "Records 3": ["n", 6]}
