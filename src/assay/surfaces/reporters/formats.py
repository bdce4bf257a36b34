"""Formats of a report on datasets: one function for each, all with the same signature and the same settings."""

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module

import msgspec

from assay.core.report import FixChange, ValidationReport


class ReportSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How reports are shown; every reporter takes the same."""

    version: str
    """Product's version, as machine formats name it."""
    max_issues: int | None = None
    """Issues shown per file; 0 for all, None for the format's own default."""
    width: int | None = None
    """Columns of the terminal; None where there is no terminal and nothing is folded or cut."""
    is_coloured: bool = False
    is_verbose: bool = False
    """Similar findings are not collapsed, and codes are explained."""
    is_strict: bool = False
    """Warnings fail as errors do."""
    fixed_source: str = ""
    """File that was corrected; the lines of the changes are its."""
    fixed_copy: str = ""
    """Where the corrected copy was written."""
    changes: tuple[FixChange, ...] = ()
    """Fixes that the corrected copy has."""


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
