"""Reports as GitHub workflow commands, which show as annotations on the changed lines."""

from collections.abc import Iterable, Iterator

from assay.core.issue import Issue
from assay.core.report import ValidationReport
from assay.presentation.validation import Totals, change_line, limited, record_label
from assay.surfaces.printable import printable, printable_lines
from assay.surfaces.reporters.settings import ReportSettings


def github_report(reports: Iterable[ValidationReport], settings: ReportSettings) -> Iterator[str]:
    """One `::error` or `::warning` command per issue, then a plain summary line."""
    tally = Totals()
    for report in reports:
        tally.add(report)
        yield from report_annotations(report, settings)
    yield tally.line() + "\n"


def report_annotations(report: ValidationReport, settings: ReportSettings) -> Iterator[str]:
    """The commands for the issues of one file."""
    for change in settings.changes:
        properties = {"file": settings.fixed_source, "line": change.line, "title": "fixed"}
        yield annotation("notice", properties, message=change_line(change))
    for issue in limited(report, settings.max_issues):
        place = {"file": report.path, "line": issue.line, "col": issue.column, "title": issue.code}
        yield annotation("error" if settings.is_strict else issue.severity, place, message=_message(issue))


def _message(issue: Issue) -> str:
    subject = " · ".join(part for part in (record_label(issue), issue.path) if part)
    return "\n".join(line for line in (issue.message, subject, f"hint: {issue.hint}" if issue.hint else "") if line)


def annotation(level: str, properties: dict[str, str | int | None], *, message: str) -> str:
    """One workflow command; nothing in the message or the properties ends it or begins another."""
    given = ",".join(f"{name}={_property(str(value))}" for name, value in properties.items() if value is not None)
    return f"::{level} {given}::{_escaped(printable_lines(message))}\n"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _escaped(printable(text)).replace(":", "%3A").replace(",", "%2C")
