"""Results of conversions: the rows or the document, and a report of everything that was not carried over."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

import msgspec

from assay.core.canonical import JsonObject, pretty_json
from assay.core.issue import Issue
from assay.core.plan import PluginPlan

IdStyle = Literal["stable", "upstream"]
"""Naming of rows and choices: `stable` never depends on a line number, `upstream` repeats the older ids."""

Action = Literal["invalid", "skipped", "moved", "dropped", "changed", "left_out"]
"""invalid: not convertible; skipped: a repeated id, or no question; left_out: columns without a field in the rows.

The others are lossy steps of a row that is converted."""


class UnreadableLine(msgspec.Struct, frozen=True):
    """Reason why a source line holds no row, in place of the row."""

    reason: str


SourceLine = tuple[int, Mapping[str, object] | UnreadableLine]
"""1-based line (in Parquet: the row) with its content."""


class RowSource(msgspec.Struct, frozen=True):
    """A named stream of source rows."""

    name: str
    lines: Iterable[SourceLine]


class ConversionNote(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a conversion did not carry over unchanged, with place and reason."""

    action: Action
    source: str
    """File or contract that the row came from."""
    reason: str
    line: int | None = None
    """1-based line in the source file; None for cases."""
    record_id: str | None = None
    path: str = ""
    """Member of the row; empty for the row as a whole."""


class SourceCounts(msgspec.Struct, frozen=True):
    """Rows of one source; `emitted` counts rows of the result, of which one source row may give several."""

    source: str
    read: int = 0
    emitted: int = 0
    invalid: int = 0
    skipped: int = 0


class ConversionReport(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of each source and every remark, in reading order."""

    conversion: str
    """Name of the converter, or of the contract converted from."""
    target: str
    """Contract of the result."""
    sources: tuple[SourceCounts, ...]
    remarks: tuple[ConversionNote, ...] = ()
    plugin: PluginPlan | None = None
    """Plugin that converted; None for a built-in converter."""

    @property
    def is_complete(self) -> bool:
        """Return whether every source row is in the result."""
        return not any(counts.invalid or counts.skipped for counts in self.sources)

    def to_dict(self) -> dict[str, object]:
        """Convert to plain values, with totals over the sources."""
        totals = {name: sum(getattr(counts, name) for counts in self.sources) for name in ("read", "emitted", "invalid", "skipped")}
        return {
            "conversion": self.conversion,
            "target": self.target,
            "totals": totals,
            "sources": [msgspec.to_builtins(counts) for counts in self.sources],
            "remarks": [msgspec.to_builtins(remark) for remark in self.remarks],
            **({"plugin": msgspec.to_builtins(self.plugin)} if self.plugin else {}),
        }


class ConversionResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result: rows for JSONL contracts, one document for the others, and the report."""

    report: ConversionReport
    rows: tuple[JsonObject, ...] = ()
    document: JsonObject | None = None

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of a file: one row each, or the document indented by two spaces."""
        if self.document is None:
            yield from (msgspec.json.encode(row) + b"\n" for row in self.rows)
        else:
            yield pretty_json(self.document)


class ConversionCounts:
    """Counts and remarks of one source while it is being converted."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.read = 0
        self.emitted = 0
        self.invalid = 0
        self.skipped = 0
        self.remarks: list[ConversionNote] = []

    def refuse(self, reason: str, *, line: int | None = None, record_id: str | None = None, path: str = "") -> None:
        """Count a row that cannot be converted."""
        self.invalid += 1
        self.remarks.append(
            ConversionNote(action="invalid", source=self.source, reason=reason, line=line, record_id=record_id, path=path),
        )

    # Refused and skipped rows are counted separately: the first is a fault of the source, the second is on purpose.
    def skip(self, reason: str, *, line: int | None = None, record_id: str | None = None, path: str = "") -> None:
        """Count a row that is left out of the result on purpose."""
        self.skipped += 1
        self.remarks.append(
            ConversionNote(action="skipped", source=self.source, reason=reason, line=line, record_id=record_id, path=path),
        )

    def note(self, action: Action, reason: str, *, record_id: str | None = None, path: str = "") -> None:
        """Record a lossy step of a row that is converted."""
        self.remarks.append(ConversionNote(action=action, source=self.source, reason=reason, record_id=record_id, path=path))

    def counts(self) -> SourceCounts:
        """Return the counts so far."""
        return SourceCounts(self.source, self.read, self.emitted, self.invalid, self.skipped)


def summarize(conversion: str, target: str, *, tallies: Iterable[ConversionCounts]) -> ConversionReport:
    """Build the report over finished counts."""
    finished = tuple(tallies)
    return ConversionReport(
        conversion=conversion,
        target=target,
        sources=tuple(tally.counts() for tally in finished),
        remarks=tuple(remark for tally in finished for remark in tally.remarks),
    )


def with_rejected(conversion: ConversionResult, issues: Iterable[Issue]) -> ConversionResult:
    """Add a note for each record that validation has rejected, so that none is lost without a trace."""
    # Reversed, so that the first issue of a record is the one that remains.
    first = {issue.index: issue for issue in reversed(tuple(issues)) if issue.index is not None}
    report = conversion.report
    counts = report.sources[0]
    remarks = [
        ConversionNote(
            action="invalid",
            source=counts.source,
            reason=issue.message,
            line=issue.line,
            record_id=issue.record_id,
            path=issue.path,
        )
        for _, issue in sorted(first.items())
    ]
    counted = msgspec.structs.replace(counts, read=counts.read + len(first), invalid=counts.invalid + len(first))
    sources = (counted, *report.sources[1:])
    return msgspec.structs.replace(
        conversion, report=msgspec.structs.replace(report, sources=sources, remarks=(*report.remarks, *remarks))
    )
