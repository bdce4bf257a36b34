"""Reports as JUnit XML: a suite per file, a case for the dataset and for each record that fails."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from assay.core.issue import Issue
from assay.core.report import ValidationReport
from assay.presentation.validation import change_line, contract_name, limited, place, record_label
from assay.presentation.words import counted
from assay.surfaces.reporters.settings import ReportSettings
from assay.surfaces.reporters.xml_text import attribute, content


def junit_report(reports: Iterable[ValidationReport], settings: ReportSettings) -> Iterator[str]:
    """One `testsuites` document; a record without errors has no case of its own."""
    yield '<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="assay">\n'
    for report in reports:
        yield from _suite(report, settings)
    yield "</testsuites>\n"


def _suite(report: ValidationReport, settings: ReportSettings) -> Iterator[str]:
    issues = limited(report, settings.max_issues)
    failing = [issue for issue in issues if issue.severity == "error" or settings.is_strict]
    warnings = [] if settings.is_strict else [issue for issue in issues if issue.severity == "warning"]
    dataset = [issue for issue in failing if issue.index is None]
    records = _by_record(failing)
    failures = len(records) + bool(dataset)
    yield f'  <testsuite name={attribute(report.path)} tests="{len(records) + 1}" failures="{failures}" errors="0">\n'
    yield from _properties(report, omitted=report.issue_counts.total() - len(issues))
    yield from _case(report, "dataset", issues=dataset, notes=[*map(change_line, settings.changes), *_lines(report, warnings)])
    for group in records:
        yield from _case(report, record_label(group[0]), issues=group)
    yield "  </testsuite>\n"


def _by_record(issues: Iterable[Issue]) -> list[list[Issue]]:
    """Groups of issues that share a record, in the order of the records."""
    of_records = sorted((issue for issue in issues if issue.index is not None), key=_record)
    return [list(group) for _, group in groupby(of_records, key=_record)]


def _record(issue: Issue) -> tuple[int, int]:
    return (issue.conversation or 0, issue.index or 0)


def _properties(report: ValidationReport, *, omitted: int) -> Iterator[str]:
    counts = report.counts
    values = {
        "contract": contract_name(report),
        "outcome": report.outcome,
        "total_records": counts.total_records,
        "accepted_records": counts.accepted_records,
        "rejected_records": counts.rejected_records,
        **({"omitted_issues": omitted} if omitted else {}),
    }
    yield "    <properties>\n"
    for name, value in values.items():
        yield f'      <property name="{name}" value="{value}"/>\n'
    yield "    </properties>\n"


def _case(report: ValidationReport, name: str, *, issues: Sequence[Issue], notes: Sequence[str] = ()) -> Iterator[str]:
    head = f"    <testcase classname={attribute(report.path)} name={attribute(name)}"
    if not issues and not notes:
        yield f"{head}/>\n"
        return
    yield f"{head}>\n"
    if issues:
        rest = f" (and {counted(len(issues) - 1, 'more finding')})" if len(issues) > 1 else ""
        opening = f"      <failure type={attribute(issues[0].code)} message={attribute(issues[0].message + rest)}>"
        yield f"{opening}{content(_lines(report, issues))}</failure>\n"
    if notes:
        yield f"      <system-out>{content(notes)}</system-out>\n"
    yield "    </testcase>\n"


def _lines(report: ValidationReport, issues: Iterable[Issue]) -> list[str]:
    return [_line(report.path, issue) for issue in issues]


def _line(path: str, issue: Issue) -> str:
    at = f" at {issue.path}" if issue.path else ""
    hint = f" (hint: {issue.hint})" if issue.hint else ""
    return f"{place(path, issue)}: {issue.severity}[{issue.code}] {issue.message}{at}{hint}"
