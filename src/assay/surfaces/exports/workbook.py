"""A run as an Excel workbook: its figures, records, criteria, errors and origin, each on a sheet of its own."""

from collections.abc import Iterator
from datetime import datetime
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from assay.api import RunReader, run_columns, run_facts, table_rows
from assay.core.errors import MissingExtra
from assay.presentation.words import counted
from assay.surfaces.exports.sheets import SheetColumn, Sheets, XlsxObject
from assay.surfaces.exports.summary_rows import SUMMARY, slice_columns, slice_rows, summary_rows
from assay.surfaces.exports.text_tables import ExportProgress

BLOCK = 1 << 18
ROW_HEIGHT = 45
"""Points: three lines of a long text are seen, and the whole of it in the cell."""

_WIDTHS = {"question": 50, "references": 30, "model_response": 60, "justification": 40, "error_message": 30, "record_id": 28}
_NAMED = (SheetColumn("index", width=8), SheetColumn("record_id", width=20), SheetColumn("sample", width=8))
_CRITERIA = (
    *_NAMED,
    *(
        SheetColumn("criterion", width=40),
        SheetColumn("judge", width=20),
        SheetColumn("score"),
        # Made as a file first: XlsxWriter assembles the archive at its end, from temporary files of its own.
        SheetColumn("scale"),
        SheetColumn("normalized"),
    ),
    *(SheetColumn("weight"), SheetColumn("confidence"), SheetColumn("flags", kind="texts"), SheetColumn("justification", width=60)),
)
_CHECKS = (
    *_NAMED,
    *(SheetColumn("name", width=24), SheetColumn("type"), SheetColumn("passed", kind="truth"), SheetColumn("score")),
    SheetColumn("reason", width=80),
)
_GRADERS = (
    *_NAMED,
    *(SheetColumn("name", width=24), SheetColumn("kind"), SheetColumn("is_primary"), SheetColumn("status")),
    *(SheetColumn("passed", kind="truth"), SheetColumn("score"), SheetColumn("raw_score"), SheetColumn("scale")),
    *(SheetColumn("justification", width=60), SheetColumn("label", width=24), SheetColumn("evaluator", width=24)),
    *(SheetColumn("template", width=24), SheetColumn("error_code", width=20), SheetColumn("error_message", width=60)),
)
_SHEETS = ("evaluator_scores", "checks", "graders")
"""Columns whose entries have a sheet of their own."""
_ERRORS = (
    *_NAMED,
    *(SheetColumn("status", width=18), SheetColumn("code", width=24), SheetColumn("stage"), SheetColumn("record_attempts")),
    *(SheetColumn("message", width=80), SheetColumn("taxonomy_label", width=24)),
)
_ABOUT = (SheetColumn("fact", width=24), SheetColumn("value", width=80))
_CUT = (SheetColumn("sheet"), SheetColumn("row"), SheetColumn("column", width=20), SheetColumn("characters"), SheetColumn("kept"))


def workbook_chunks(run: RunReader, progress: ExportProgress) -> Iterator[bytes]:
    """Yield the file, made in a temporary folder with one row in memory at a time; raises MissingExtra without XlsxWriter."""
    library = _library()
    with TemporaryDirectory(prefix="assay-export-") as folder:
        path = Path(folder) / "run.xlsx"
        _write(run, library, path=path, progress=progress)
        with path.open("rb") as file:
            while piece := file.read(BLOCK):
                yield piece


def _library() -> object:
    try:
        return import_module("xlsxwriter")
    except ImportError as problem:
        raise MissingExtra("XLSX needs XlsxWriter, which is not installed", hint="pip install 'assay[xlsx]'") from problem


def _write(run: RunReader, library: XlsxObject, *, path: Path, progress: ExportProgress) -> None:
    settings = {
        # Rows are written through, so that 50,000 records take the memory of one.
        "constant_memory": True,
        "tmpdir": str(path.parent),
        "in_memory": False,
    }
    with library.Workbook(str(path), settings) as book:
        _describe(book, run)
        sheets = Sheets(book, cut_columns=_CUT)
        sheets.add("Summary", SUMMARY, summary_rows(run))
        _write_records(run, sheets, progress=progress)
        slices = run.slice_metrics()
        sheets.add("Slices", slice_columns(slices), slice_rows(slices))
        sheets.add("Errors", _ERRORS, (msgspec.to_builtins(line) for line in run.failures() if line.kind == "error"))
        sheets.add("About", _ABOUT, _about(run))
    if sheets.cut_cells:
        progress.notes.append(
            f"{counted(sheets.cut_cells, 'text')} longer than a cell of Excel may be: cut there, marked, and listed on the sheet "
            "'Cut cells'; CSV, Parquet and JSON have them whole"
        )


def _describe(book: XlsxObject, run: RunReader) -> None:
    """Set the properties of the file; the only time in it is the run's, so that the same run gives the same file."""
    completed = run.moments["completed_at"] or run.moments["created_at"]
    # XlsxWriter takes times without a zone.
    created = datetime.fromisoformat(completed).replace(tzinfo=None)
    book.set_properties({"title": run.folders.run_id, "subject": "a run of assay", "created": created})


def _write_records(run: RunReader, sheets: Sheets, *, progress: ExportProgress) -> None:
    """Records and criteria in one pass."""
    columns = [
        SheetColumn(name, width=_WIDTHS.get(name, 14), kind=kind) for name, kind in run_columns(run).items() if name not in _SHEETS
    ]
    records = sheets.sheet("Records", columns, row_height=ROW_HEIGHT)
    criteria = sheets.sheet("Criteria", _CRITERIA)
    checks = sheets.sheet("Checks", _CHECKS) if any(column.name.startswith("checks.") for column in columns) else None
    graders = sheets.sheet("Graders", _GRADERS) if any(column.name.startswith("graders.") for column in columns) else None
    for row in progress.counted(table_rows(run)):
        records.write(row)
        named = {column.name: row[column.name] for column in _NAMED}
        for sheet, member in ((checks, "checks"), (graders, "graders")):
            if sheet is not None:
                for result in row.get(member) or ():
                    sheet.write({**named, **result})
        # A second pass over the predictions would double the time of the export.
        for score in row["evaluator_scores"]:
            criteria.write({**{column.name: row[column.name] for column in _NAMED}, **score})
    for sheet in filter(None, (records, criteria, checks, graders)):
        sheet.close()


def _about(run: RunReader) -> Iterator[dict[str, object]]:
    facts = run_facts(run)
    for name, value in {**facts, "redactions": _redactions(run), **_READING}.items():
        yield {"fact": name, "value": value}


def _redactions(run: RunReader) -> str:
    found = run.run_manifest.redactions
    return ", ".join(f"{rule}: {count}" for rule, count in found.items()) or "none"


_READING = {
    "empty cells": "not known, or there is none; never 0",
    "score": "0 to 1 over all criteria; empty without a grade: an error is not a score",
    "low, high": "95 % interval",
    "n": "the records that a figure is about",
    "lists": "one entry on each line",
    "texts": "as they are: no cell is a formula or a link",
}
