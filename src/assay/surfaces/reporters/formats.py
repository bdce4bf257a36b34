"""Formats of a report on datasets: one function for each, all with the same signature."""

from collections.abc import Callable, Iterable, Iterator

from assay.core.report import ValidationReport
from assay.surfaces.reporters.github import github_report
from assay.surfaces.reporters.json_document import json_lines_report, json_report
from assay.surfaces.reporters.junit import junit_report
from assay.surfaces.reporters.markdown import markdown_report
from assay.surfaces.reporters.sarif import sarif_report
from assay.surfaces.reporters.settings import ReportSettings
from assay.surfaces.reporters.text import text_report

Reporter = Callable[[Iterable[ValidationReport], ReportSettings], Iterator[str]]

FORMATS: dict[str, Reporter] = {
    "text": text_report,
    "json": json_report,
    "jsonl": json_lines_report,
    "sarif": sarif_report,
    "junit": junit_report,
    "github": github_report,
    "markdown": markdown_report,
}
"""Every format by its name; a reporter yields its text as the reports come in."""
