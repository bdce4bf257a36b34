"""Formats of a report on datasets: one function for each, all with the same signature."""

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module

from assay.core.report import ValidationReport
from assay.surfaces.reporters.settings import ReportSettings

Reporter = Callable[[Iterable[ValidationReport], ReportSettings], Iterator[str]]


def _reporter(module: str, name: str) -> Reporter:
    """Make a reporter that imports its module when it is used: a report has one format, and some of them load much of a run."""

    def report(reports: Iterable[ValidationReport], settings: ReportSettings) -> Iterator[str]:
        chunks: Iterator[str] = getattr(import_module(f"assay.surfaces.reporters.{module}"), name)(reports, settings)
        return chunks

    return report


FORMATS: dict[str, Reporter] = {
    "text": _reporter("text", "text_report"),
    "json": _reporter("json_document", "json_report"),
    "jsonl": _reporter("json_document", "json_lines_report"),
    "sarif": _reporter("sarif", "sarif_report"),
    "junit": _reporter("junit", "junit_report"),
    "github": _reporter("github", "github_report"),
    "markdown": _reporter("markdown", "markdown_report"),
}
"""Every format by its name; a reporter yields its text as the reports come in."""
