"""Runs as tables, for spreadsheets, notebooks and other tools."""

from assay.engine.tables import COLUMNS as TABLE_COLUMNS
from assay.engine.tables import SCORE_MEMBERS, ArrowTable, arrow_table, run_facts, table_rows, typed_rows, whole_scores

__all__ = ["SCORE_MEMBERS", "TABLE_COLUMNS", "ArrowTable", "arrow_table", "run_facts", "table_rows", "typed_rows", "whole_scores"]
