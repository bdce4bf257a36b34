"""A table as a file of its contract, and a report of the rows that are not in it."""

from collections.abc import Iterator

import msgspec

from assay.core.canonical import JsonObject
from assay.core.report import ValidationReport
from assay.datasets.converters.report import ConversionCounts, ConversionResult, summarize
from assay.datasets.tables import TableRecords


def table_conversion(report: ValidationReport, table: TableRecords, *, name: str) -> ConversionResult:
    """Return the accepted records of a table, with a remark for each row that is not among them and for all that is odd."""
    counts = ConversionCounts(name)
    counts.read = report.counts.total_records
    counts.emitted = report.counts.accepted_records
    seen: set[int] = set()
    for issue in report.issues:
        if issue.severity == "error" and issue.index is not None and issue.index not in seen:
            seen.add(issue.index)
            counts.refuse(issue.message, line=issue.line, record_id=issue.record_id, path=issue.path)
    counts.invalid = report.counts.rejected_records
    for issue in report.issues:
        if issue.severity == "warning" and issue.index is None:
            counts.note("changed", issue.message)
    if table.plan.empty_rows:
        counts.skipped += table.plan.empty_rows
        counts.read += table.plan.empty_rows
    summary = summarize("table", table.contract, tallies=[counts])
    rows = TableRows(report)
    document = dict(report.head) | {"records": list(rows)} if table.contract == "batch_v1" else None
    return ConversionResult(rows=() if document else tuple(rows), document=document, report=summary)


class TableRows:
    """Accepted records, read again each time."""

    def __init__(self, report: ValidationReport) -> None:
        self._report = report

    def __iter__(self) -> Iterator[JsonObject]:
        for _, record in self._report.records:
            yield msgspec.to_builtins(record)
