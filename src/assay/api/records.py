"""The records of a run, found by what they are like."""

from pathlib import Path

from assay.core.record_query import RecordSearch
from assay.engine.looking.found import (
    FoundRecord,
    FoundRecords,
    Neighbours,
    facets_of,
    find_records,
    missing_indexes,
    neighbours_of,
    question_of,
    row_at,
)
from assay.engine.looking.record_index import index_run
from assay.store.index_folder import progress_of
from assay.store.record_index import Facets, IndexedRecord

__all__ = [
    "Facets",
    "FoundRecord",
    "FoundRecords",
    "IndexedRecord",
    "Neighbours",
    "RecordSearch",
    "facets_of",
    "find_records",
    "index_progress",
    "index_run",
    "missing_indexes",
    "neighbours_of",
    "question_of",
    "row_at",
]


def index_progress(run_dir: Path) -> int:
    """How much of the index of a finished run is written, in percent, while somebody writes it."""
    return progress_of(run_dir)
