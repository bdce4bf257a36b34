"""XLSX, read back with another library than the one that wrote it."""

import io
from pathlib import Path
from typing import Any

import pytest

from assay import api
from assay.surfaces.exports import EXPORTS
from assay.surfaces.exports.text_tables import ExportProgress
from tests.surfaces.exports.exported_runs import FORMULAS, ODD, PLAIN, hostile_run

openpyxl = pytest.importorskip("openpyxl")
pytest.importorskip("xlsxwriter")

LONG = "x" * 32_767


def workbook(run: api.RunReader, progress: ExportProgress | None = None) -> Any:
    content = b"".join(EXPORTS["xlsx"].write(run, progress or ExportProgress()))
    return openpyxl.load_workbook(io.BytesIO(content))


def rows(book: Any, name: str) -> list[dict[str, Any]]:
    header, *lines = book[name].iter_rows(values_only=True)
    return [dict(zip(header, line, strict=True)) for line in lines]


def column(book: Any, name: str, *, sheet: str = "Records") -> list[Any]:
    return [row[name] for row in rows(book, sheet)]


def test_every_answer_is_a_text_and_the_same_text(tmp_path: Path) -> None:
    answers = (*FORMULAS, *ODD, *PLAIN)
    book = workbook(hostile_run(tmp_path, *answers))
    # What reads it back leaves the escapes of control characters to its caller.
    read = [openpyxl.utils.escape.unescape(text) for text in column(book, "model_response")]
    assert read == list(answers)


def test_no_cell_is_a_formula_or_a_link(tmp_path: Path) -> None:
    book = workbook(hostile_run(tmp_path, *FORMULAS, *PLAIN))
    cells = [cell for sheet in book for row in sheet.iter_rows() for cell in row]
    assert {cell.data_type for cell in cells} <= {"s", "n", "b", "inlineStr"}
    assert [cell.coordinate for cell in cells if cell.hyperlink] == []


def test_the_sheets_have_names_frozen_headers_and_filters(tmp_path: Path) -> None:
    book = workbook(hostile_run(tmp_path, "A", "B"))
    assert book.sheetnames == ["Summary", "Records", "Criteria", "Slices", "Errors", "About"]
    assert {sheet.freeze_panes for sheet in book} == {"A2"}
    assert book["Records"].auto_filter.ref.startswith("A1:")


def test_scores_are_numbers_and_missing_ones_are_empty(tmp_path: Path) -> None:
    book = workbook(hostile_run(tmp_path, "A", "B", "no choice at all"))
    assert column(book, "score") == [1, 0, 0]
    assert column(book, "passed") == [True, False, False]
    assert column(book, "cost") == [None, None, None]


def test_the_workbook_says_which_run_it_is_of(tmp_path: Path) -> None:
    run = hostile_run(tmp_path, "A")
    facts = {row["fact"]: row["value"] for row in rows(workbook(run), "About")}
    assert (facts["run_id"], facts["manifest_sha256"]) == ("hostile", run.run_manifest.own_hash)


@pytest.mark.parametrize("text", [LONG + "y", "\U0001f600" * 20_000])
def test_a_text_that_no_cell_can_hold_is_cut_marked_and_listed(tmp_path: Path, text: str) -> None:
    progress = ExportProgress()
    book = workbook(hostile_run(tmp_path, "A", text), progress)
    shown = column(book, "model_response")[1]
    (cut,) = rows(book, "Cut cells")
    assert len(shown.encode("utf-16-le")) // 2 <= 32_767
    assert shown[: cut["kept"]] == text[: cut["kept"]]
    assert f"[cut: the text has {len(text):,} characters" in shown
    assert (cut["sheet"], cut["row"], cut["column"], cut["characters"]) == ("Records", 3, "model_response", len(text))
    assert "1 text longer than a cell" in progress.notes[0]


def test_a_text_that_just_fits_is_not_cut(tmp_path: Path) -> None:
    progress = ExportProgress()
    book = workbook(hostile_run(tmp_path, LONG), progress)
    assert (column(book, "model_response"), progress.notes) == ([LONG], [])


def test_the_same_run_gives_the_same_file(tmp_path: Path) -> None:
    run = hostile_run(tmp_path, "A", "B")
    assert b"".join(EXPORTS["xlsx"].write(run, ExportProgress())) == b"".join(EXPORTS["xlsx"].write(run, ExportProgress()))
