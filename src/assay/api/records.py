"""The records of a run, found by what they are like."""

from pathlib import Path

from assay.core.record_query import RecordSearch
from assay.engine.readers.record_index import index_run
from assay.engine.readers.record_search import (
    Neighbours,
    RecordHit,
    RecordHits,
    facets_of,
    find_records,
    missing_indexes,
    neighbours_of,
    question_of,
    row_at,
)
from assay.store.index_folder import progress_of
from assay.store.record_index import Facets, IndexedRecord

__all__ = [
    "Facets",
    "IndexedRecord",
    "Neighbours",
    "RecordHit",
    "RecordHits",
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
    """Return the progress of a finished run's index in percent, while a process writes it."""
    return progress_of(run_dir)
