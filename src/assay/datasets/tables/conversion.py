"""A table as a file of its contract, and a report of the rows that are not in it."""

from collections.abc import Iterator

import msgspec

from assay.core.canonical import JsonObject
from assay.core.report import ValidationReport
from assay.datasets.converters.report import ConversionCounts, ConversionReport, summarize
from assay.datasets.parsing.source import filled_lines
from assay.datasets.tables.table_records import TableRecords

_PIECE = 1 << 20


class TableConversion:
    """The accepted records of a table, and a remark for each row that is not among them and for all that is odd."""

    def __init__(self, report: ValidationReport, table: TableRecords, *, name: str) -> None:
        self._validated = report
        self._table = table
        self.report = _summary(report, table, name)

    def lines(self) -> Iterator[bytes]:
        """Yield the pieces of a file with the accepted records, as they were read."""
        source, rejected = self._table.source, self._validated.broken
        if not rejected:
            yield from (source.part(at, at + _PIECE) for at in range(0, source.size, _PIECE))
        elif self._table.contract == "batch_v1":
            yield msgspec.json.encode(dict(self._validated.head))[:-1] + b',"records":['
            for number, record in enumerate(self.rows()):
                yield (b",\n" if number else b"\n") + msgspec.json.encode(record)
            yield b"\n]}\n"
        else:
            yield from (line.content for index, line in enumerate(filled_lines(source)) if index not in rejected)

    def rows(self) -> Iterator[JsonObject]:
        """Yield the accepted records."""
        return (msgspec.to_builtins(record) for _, record in self._validated.records)


def _summary(report: ValidationReport, table: TableRecords, name: str) -> ConversionReport:
    counts = ConversionCounts(name)
    seen: set[int] = set()
    for issue in report.issues:
        if issue.severity == "error" and issue.index is not None and issue.index not in seen:
            seen.add(issue.index)
            counts.refuse(issue.message, line=issue.line, record_id=issue.record_id, path=issue.path)
    for issue in report.issues:
        if issue.severity == "warning" and issue.index is None:
            counts.note("changed", issue.message)
    empty = table.plan.empty_rows
    counts.read, counts.skipped = report.counts.total_records + empty, empty
    counts.emitted, counts.invalid = report.counts.accepted_records, report.counts.rejected_records
    return summarize("table", table.contract, tallies=[counts])
