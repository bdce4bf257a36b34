"""Finished and unfinished runs as files that other tools open: one function for each format, all with the same signature."""

from collections.abc import Callable, Iterator

import msgspec

from assay.api import RunReader, StoredDataset
from assay.surfaces.exports.parquet import parquet_chunks
from assay.surfaces.exports.text_tables import (
    ExportProgress,
    csv_chunks,
    dataset_chunks,
    eval_results_chunks,
    json_chunks,
    json_lines_chunks,
    responses_chunks,
)
from assay.surfaces.exports.workbook import workbook_chunks

Chunks = Callable[[RunReader, ExportProgress], Iterator[bytes]]


class Export(msgspec.Struct, frozen=True):
    """One format of one file."""

    media_type: str
    write: Chunks
    """Yield the bytes of the file, and note progress and what had to be changed or left out."""
    suffix: str
    is_text: bool = True

    def of(self, run: RunReader) -> "Export":
        """Return the format for one run: a dataset of rows is JSON Lines."""
        # Whether a stored dataset is rows or a document is only known from the run.
        is_lines = self.write is dataset_chunks and StoredDataset(run).is_lines
        return msgspec.structs.replace(self, media_type="application/x-ndjson", suffix=".jsonl") if is_lines else self


EXPORTS: dict[str, Export] = {
    "json": Export("application/json", json_chunks, ".json"),
    "jsonl": Export("application/x-ndjson", json_lines_chunks, ".jsonl"),
    "csv": Export("text/csv", csv_chunks, ".csv"),
    "parquet": Export("application/vnd.apache.parquet", parquet_chunks, ".parquet", is_text=False),
    "xlsx": Export("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", workbook_chunks, ".xlsx", is_text=False),
    "eval-results": Export("application/json", eval_results_chunks, ".json"),
    "responses": Export("application/x-ndjson", responses_chunks, ".jsonl"),
    "dataset": Export("application/json", dataset_chunks, ".json"),
}
"""Every format by its name."""

MEDIA_TYPES = tuple(dict.fromkeys(export.media_type for export in EXPORTS.values()))
