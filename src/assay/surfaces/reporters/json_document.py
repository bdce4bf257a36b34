"""Plain values into JSON text that any strict reader takes."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from assay.core.canonical import json_text
from assay.core.report import FixChange, ValidationReport
from assay.presentation.validation import limited
from assay.surfaces.reporters.formats import ReportSettings

_DATASET_LEVEL: dict[str, Any] = {"index": None, "record_id": None, "severity": "error"}


def json_report(reports: Iterable[ValidationReport], settings: ReportSettings) -> Iterator[str]:
    """Write `{"assay_version", "files": [...]}`, one file at a time."""
    yield f'{{\n  "assay_version": {json_text(settings.version)},\n  "files": ['
    separator = "\n    "
    for report in reports:
        yield separator
        yield from _file_text(file_values(report, settings))
        separator = ",\n    "
    yield "\n  ]\n}\n"


def json_lines_report(reports: Iterable[ValidationReport], settings: ReportSettings) -> Iterator[str]:
    """Write each issue with its `file` and `contract`; a fix that was applied has the severity `fixed`.

    Where a file has more issues than a report lists, its last line has their number as `omitted_issues`.
    """
    for report in reports:
        source = {"file": report.path, "contract": report.contract}
        for change in settings.changes:
            yield json_text({**source, "file": settings.fixed_source, "severity": "fixed", **change_values(change)}) + "\n"
        values = file_values(report, settings)
        for issue in values["dataset_errors"]:
            yield json_text({**source, **_DATASET_LEVEL, **issue}) + "\n"
        for issue in (*values["record_errors"], *values["warnings"]):
            yield json_text({**source, **issue}) + "\n"
        if report.unlisted:
            yield json_text({**source, "omitted_issues": values["omitted_issues"]}) + "\n"


def _file_text(values: Mapping[str, object]) -> Iterator[str]:
    """Write one file's part as `json_text` writes it with an indent, an issue at a time: there may be 60,000 of them."""
    # Piece by piece: a file may have 60,000 issues, and its JSON would be in memory a second time.
    opening = "{"
    for name, value in values.items():
        yield f"{opening}\n      {json_text(name)}: "
        if isinstance(value, list) and value:
            for position, element in enumerate(value):
                yield ("," if position else "[") + "\n        " + json_text(element, indent=2).replace("\n", "\n        ")
            yield "\n      ]"
        else:
            yield json_text(value, indent=2).replace("\n", "\n      ")
        opening = ","
    yield "\n    }"


def file_values(report: ValidationReport, settings: ReportSettings) -> dict[str, Any]:
    """Return one file's part: the report's own shape, and what was left out or fixed where that applies."""
    issues = limited(report, settings.max_issues)
    # What --max-issues leaves out is counted, never dropped.
    omitted = report.issue_counts.total() - len(issues)
    values = (_with_issues(report, issues) if omitted else report).to_dict()
    if omitted:
        values["omitted_issues"] = omitted
    if settings.fixed_copy:
        values |= {"fixed_copy": settings.fixed_copy, "fixes": [change_values(change) for change in settings.changes]}
    return values


def change_values(change: FixChange) -> dict[str, object]:
    """Return one fix as plain values."""
    return {"line": change.line, "path": change.path, "message": change.message}


def _with_issues(report: ValidationReport, issues: Iterable[Any]) -> ValidationReport:
    return ValidationReport(
        path=report.path,
        contract=report.contract,
        outcome=report.outcome,
        counts=report.counts,
        issues=issues,
        fields=report.fields,
    )
