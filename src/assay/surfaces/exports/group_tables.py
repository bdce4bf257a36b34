"""Records of several runs side by side as files: a row for each record, with the answer and the score of each candidate."""

from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

from assay import api
from assay.core.canonical import JsonObject, json_text
from assay.core.errors import MissingExtra
from assay.presentation.matrix import matrix_document, matrix_table
from assay.presentation.run import candidate_table
from assay.presentation.run_report import view_of
from assay.surfaces.exports.parquet import table_parquet, write_dataset_folder
from assay.surfaces.exports.sheets import SheetColumn, Sheets
from assay.surfaces.exports.text_tables import ExportProgress, responses_chunks, table_csv
from assay.surfaces.reporters.markdown import code, table_markdown

BLOCK = 1 << 18
ROW_HEIGHT = 45
"""Points: three lines of a long text are seen, and the whole of it in the cell."""
MARKDOWN_TEXT = 400
"""Characters of an answer in Markdown, where a cell is one line."""
_MEMBERS = {"answer": "text", "score": "number", "passed": "truth", "reason": "text"}
"""Columns of each candidate."""
_COLUMNS = {
    "record_id": "text",
    "dataset": "text",
    "sample": "count",
    "question": "text",
    "references": "texts",
    "correct_choice_ids": "texts",
}


class GroupTable:
    """Runs that are exported together."""

    def __init__(self, group: api.RunGroup) -> None:
        self.group = group

    @cached_property
    def matrix(self) -> api.RunMatrix:
        """Records side by side; read when a format first needs them."""
        return api.run_matrix(self.group.runs)

    def table(self) -> api.RecordTable:
        """Return the matrix as a table with typed columns: `CANDIDATE.answer`, `CANDIDATE.score` and so on."""
        own = {f"{column.title}.{name}": kind for column in self.matrix.columns for name, kind in _MEMBERS.items()}
        runs = ", ".join(run.folders.run_id for run in self.group.runs)
        facts = {"group": self.group.name, "runs": runs, "candidates": ", ".join(column.title for column in self.matrix.columns)}
        return api.RecordTable(name=self.group.name, columns={**_COLUMNS, **own}, rows=self._rows, facts=facts)  # type: ignore[dict-item]

    def documents(self) -> Iterator[JsonObject]:
        """Yield the rows as plain values, with a member of `results` for each candidate."""
        return (matrix_document(row, self.matrix.columns) for row in self.matrix.rows())

    def _rows(self) -> Iterator[JsonObject]:
        empty = dict.fromkeys(_MEMBERS)
        for found in self.documents():
            results = found["results"]
            flat = {
                f"{column.title}.{name}": _member(results[column.title], name) if column.title in results else value
                for column in self.matrix.columns
                for name, value in empty.items()
            }
            yield {**{name: found.get(name) for name in _COLUMNS}, **flat}

    # Files

    def csv(self, progress: ExportProgress) -> Iterator[bytes]:
        """Yield the matrix as CSV."""
        return table_csv(self.table(), progress)

    def parquet(self, progress: ExportProgress) -> Iterator[bytes]:
        """Yield the matrix as Parquet; raises MissingExtra."""
        return table_parquet(self.table(), progress)

    def json_lines(self, progress: ExportProgress) -> Iterator[bytes]:
        """Yield a line for each record."""
        return (json_text(found).encode() + b"\n" for found in progress.counted(self.documents()))

    def json(self, progress: ExportProgress) -> Iterator[bytes]:
        """Yield one document: the candidates with their metrics, and the records."""
        candidates = [run.result.to_dict() | {"candidate": run.result.candidate} for run in self.group.runs]
        head = json_text({"group": self.group.name, "candidates": candidates})
        yield head[:-1].encode() + b',"records":['
        for number, found in enumerate(progress.counted(self.documents())):
            yield (b",\n" if number else b"\n") + json_text(found).encode()
        yield b"\n]}\n"

    def markdown(self, progress: ExportProgress) -> Iterator[bytes]:
        """Yield the candidates and the matrix as Markdown."""
        views = [view_of(run) for run in self.group.runs]
        titles = ("candidate", "run", "state", "graded", "errors", "pass rate")
        table = matrix_table(self.matrix, range(len(self.matrix)), text_limit=MARKDOWN_TEXT)
        yield f"# {code(self.group.name)}\n\n".encode()
        yield from (chunk.encode("utf-8", "replace") for chunk in table_markdown(candidate_table(views).only(*titles)))
        yield b"\n## Records by candidate\n\n"
        yield from (chunk.encode("utf-8", "replace") for chunk in table_markdown(table))
        progress.watch(len(self.matrix))

    def workbook(self, progress: ExportProgress) -> Iterator[bytes]:
        """Yield an Excel workbook with the candidates and the matrix; raises MissingExtra without XlsxWriter."""
        try:
            library = import_module("xlsxwriter")
        except ImportError as problem:
            raise MissingExtra("XLSX needs XlsxWriter, which is not installed", hint="pip install 'assay[xlsx]'") from problem
        with TemporaryDirectory(prefix="assay-export-") as folder:
            path = Path(folder) / "group.xlsx"
            settings = {"constant_memory": True, "tmpdir": folder, "in_memory": False}
            with library.Workbook(str(path), settings) as book:
                # Without a time of its own, so that the same runs give the same file.
                created = max(run.run_manifest.created_at or "" for run in self.group.runs)
                book.set_properties({"title": self.group.name, "subject": "runs of assay", "comments": created})
                self._write_sheets(Sheets(book, cut_columns=_CUT), progress)
            with path.open("rb") as file:
                while piece := file.read(BLOCK):
                    yield piece

    def _write_sheets(self, sheets: Sheets, progress: ExportProgress) -> None:
        sheets.add("Candidates", _CANDIDATES, (_candidate_row(run) for run in self.group.runs))
        columns = [SheetColumn(name, width=_width(name), kind=kind) for name, kind in self.table().columns.items()]
        sheet = sheets.sheet("Matrix", columns, row_height=ROW_HEIGHT)
        for row in progress.counted(self._rows()):
            sheet.write(row)
        sheet.close()

    def responses(self, progress: ExportProgress) -> Iterator[bytes]:
        """Yield the answers of all candidates, as `assay run --responses` takes them."""
        for run in self.group.runs:
            yield from responses_chunks(run, progress)

    def write_folder(self, folder: Path, progress: ExportProgress) -> None:
        """Write the matrix as a folder that Hugging Face `datasets` loads."""
        write_dataset_folder(self.table(), folder, progress)


_CUT = (SheetColumn("sheet"), SheetColumn("row"), SheetColumn("column", width=20), SheetColumn("characters"), SheetColumn("kept"))
_CANDIDATES = (
    *(SheetColumn("candidate", width=30), SheetColumn("run_id", width=30), SheetColumn("state")),
    *(SheetColumn(name) for name in ("graded", "passed", "errors", "pass_rate", "pass_rate_low", "pass_rate_high")),
    *(SheetColumn(name) for name in ("score_mean", "cost_usd")),
)


def _candidate_row(run: api.RunReader) -> dict[str, object]:
    result, summary = run.result, run.result.summary
    row: dict[str, object] = {"candidate": result.candidate, "run_id": result.run_id, "state": result.state}
    row |= {"graded": result.counts.evaluated_records, "errors": result.counts.failed_records}
    if summary is None:
        return row
    rate = summary.pass_rate_metric
    row |= {"passed": summary.pass_count, "pass_rate": rate.value, "cost_usd": summary.cost_usd.sum}
    if rate.interval is not None:
        row |= {"pass_rate_low": rate.interval.low, "pass_rate_high": rate.interval.high}
    return {**row, "score_mean": summary.raw_score_mean_metric.value if summary.scale else summary.score_mean_metric.value}


def _member(result: JsonObject, name: str) -> object:
    if name == "reason":
        return result["error_code"] or result["label"]
    return result["raw_score"] if name == "score" and result["raw_score"] is not None else result[name]


def _width(name: str) -> int:
    return 60 if name.endswith(".answer") else 50 if name == "question" else 30 if name in ("references", "record_id") else 14
