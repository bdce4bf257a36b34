"""Runs as tables, for spreadsheets, notebooks and other tools."""

from assay.engine.tables import COLUMNS as TABLE_COLUMNS
from assay.engine.tables import ArrowTable, arrow_table, run_facts, table_rows, whole_scores

__all__ = ["TABLE_COLUMNS", "ArrowTable", "arrow_table", "run_facts", "table_rows", "whole_scores"]
