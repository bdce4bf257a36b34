"""Runs and datasets as tables, for spreadsheets, notebooks and other tools."""

from pathlib import Path

from assay.api.validation import validate_with_hashes
from assay.core.errors import UsageProblem
from assay.datasets.source import open_source
from assay.engine.readers.columns import LISTS as TABLE_LISTS
from assay.engine.readers.columns import SCORE_MEMBERS, ArrowTable, RecordTable, arrow_of
from assay.engine.readers.tables import COLUMNS as TABLE_COLUMNS
from assay.engine.readers.tables import arrow_table, case_table, run_facts, run_table, table_rows, typed_rows

__all__ = [
    "SCORE_MEMBERS",
    "TABLE_COLUMNS",
    "TABLE_LISTS",
    "ArrowTable",
    "RecordTable",
    "arrow_of",
    "arrow_table",
    "dataset_table",
    "run_facts",
    "run_table",
    "table_rows",
    "typed_rows",
]


def dataset_table(path: str | Path) -> RecordTable:
    """The records of a dataset; raises UsageProblem for one with errors: a table has all its records, or there is none."""
    report = validate_with_hashes(str(path))
    errors = report.count("error")
    if errors:
        raise UsageProblem(f"'{path}' is not valid: {errors:,} error{'s' * (errors > 1)}", hint=f"assay validate {path} lists them")
    return case_table(report, sha256=open_source(str(path)).sha256())
