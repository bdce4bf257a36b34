"""Reports on conversions and imports in sections: remarks, a table of sources, and what was carried over or not, by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from assay import api
from assay.presentation.sections import Cell, Column, Fact, FindingLine, Section, Table
from assay.presentation.words import counted, cut

MAX_KINDS = 20
"""Different remarks shown unless all are called for."""
MAX_OF_KIND = 3
COUNTS = ("read", "emitted", "invalid", "skipped")
TEXT_LIMIT = 400
MAX_LEFT_OUT = 12
_NAME_LIMIT = 200
_COUNT_WIDTH = 8


def conversion_sections(report: api.ConversionReport | api.ImportReport, *, is_verbose: bool) -> list[Section]:
    """Return the remarks, then the table of sources."""
    kinds = _kinds(report.remarks)
    shown = kinds if is_verbose else kinds[:MAX_KINDS]
    omitted = sum(map(len, kinds[len(shown) :]))
    findings = Section(
        title="Remarks",
        findings=tuple(_finding(remarks, is_verbose=is_verbose) for remarks in shown),
        more=f"… and {counted(omitted, 'more remark')} (--verbose shows all)" if omitted else "",
    )
    return [*([findings] if kinds else []), Section(title="Sources", tables=(_source_table(report),))]


def import_sections(report: api.ImportReport, *, is_verbose: bool, dataset: str = "") -> list[Section]:
    """Return remarks and counts as of every conversion, then what there is now and what was not carried over."""
    # Losses first: settings of the other tool change neither a question nor its grade.
    left_out = sorted(report.left_out.items(), key=lambda one: one[0] in report.settings)
    shown = left_out if is_verbose else left_out[:MAX_LEFT_OUT]
    losses = len(left_out) - len(report.settings)
    lost = [counted(losses, "kind") + " of loss"] if losses else []
    pairs = [
        ("from", f"{report.tool} {report.version}".strip()),
        *(("recognized by", evidence) for evidence in dict.fromkeys(report.recognized_by.values())),
        ("dataset", " · ".join(filter(None, (counted(report.records, "record"), report.target, dataset)))),
        *(("candidate", f"{name} · {counted(answers, 'answer')}") for name, answers in report.candidates.items()),
        *(("scorer", f"{name} · {counted(scores, 'score')}") for name, scores in report.scorers.items()),
        *(("incomplete", words) for words in report.incomplete),
        ("import", " · ".join([report.status, *lost])),
        *([] if left_out else [("not carried over", "nothing")]),
        *(("not carried over", f"{name} · {times:,}{' · a setting' * (name in report.settings)}") for name, times in shown),
    ]
    omitted = len(left_out) - len(shown)
    more = f"… and {counted(omitted, 'more kind')} (--verbose shows all)" if omitted else ""
    facts = tuple(Fact(label, text, limit=_NAME_LIMIT) for label, text in pairs)
    return [*conversion_sections(report, is_verbose=is_verbose), Section(title="Import", facts=facts, more=more)]


MAX_REASONS = 8


class EmptyImport(NamedTuple):
    """Error of an import without a record: what the sources contain instead, and the next step."""

    message: str
    details: tuple[str, ...]
    hint: str


def empty_import(report: api.ImportReport) -> EmptyImport:
    """Return the error of an import without a record."""
    named = [source.source for source in report.sources]
    subject = f"'{named[0]}'" if len(named) == 1 else f"these {len(named)} files"
    reasons = [f"'{one.source}' {one.reason}" if len(named) > 1 and one.source else one.reason for one in report.absences]
    if not reasons:
        refused = Counter(remark.reason for remark in report.remarks if remark.action in ("invalid", "skipped"))
        reasons = [f"{cut(reason, TEXT_LIMIT)} ({counted(times, 'time')})" for reason, times in refused.most_common()]
    if not reasons:
        reasons = [f"not carried over: {name} ({counted(times, 'time')})" for name, times in report.left_out.items()]
    more = [f"... and {len(reasons) - MAX_REASONS} more reasons"] if len(reasons) > MAX_REASONS else []
    message = f"no record could be imported from {subject}, and nothing was written"
    if len(reasons) == 1:
        message, reasons = f"{message}: {reasons[0]}", []
    elif not reasons:
        message = f"{message}: there is no item in it"
    hint = next((one.hint for one in report.absences if one.hint), "")
    return EmptyImport(message, (*reasons[:MAX_REASONS], *more), hint)


def _kinds(remarks: Sequence[api.ConversionNote]) -> list[list[api.ConversionNote]]:
    """Return the remarks that say the same of one source together, in the order in which each was first made."""
    kinds: dict[tuple[str, str, str], list[api.ConversionNote]] = {}
    for remark in remarks:
        kinds.setdefault((remark.source, remark.action, remark.reason), []).append(remark)
    return list(kinds.values())


def _finding(remarks: Sequence[api.ConversionNote], *, is_verbose: bool) -> FindingLine:
    first, is_alone = remarks[0], len(remarks) == 1
    reason = cut(first.reason, TEXT_LIMIT)
    subject = _subject(first, has_line=False) if is_alone else ""
    return FindingLine(
        place=f"{first.source}:{first.line}" if is_alone and first.line is not None else first.source,
        label=first.action.replace("_", " ") + ("" if is_alone else f" ({len(remarks):,} times)"),
        tone="bad" if first.action == "invalid" else "warn",
        text=f"{reason} ({subject})" if subject else reason,
        details=() if is_alone else tuple(_members(remarks, is_verbose=is_verbose)),
    )


def _members(remarks: Sequence[api.ConversionNote], *, is_verbose: bool) -> Iterator[str]:
    subjects = [subject for subject in map(_subject, remarks) if subject]
    # A line that says "1 more" is no shorter than the remark that it stands for.
    shown = subjects if is_verbose or len(subjects) == MAX_OF_KIND + 1 else subjects[:MAX_OF_KIND]
    yield from shown
    if len(subjects) > len(shown):
        yield f"… and {len(subjects) - len(shown):,} more like this"


def _subject(remark: api.ConversionNote, *, has_line: bool = True) -> str:
    line = f"line {remark.line}" if has_line and remark.line is not None else ""
    return cut(" · ".join(filter(None, (line, remark.record_id, remark.path))), TEXT_LIMIT)


def _source_table(report: api.ConversionReport | api.ImportReport) -> Table:
    # In the order of COUNTS, which is also that of the columns.
    rows = [(source.source, [getattr(source, name) for name in COUNTS]) for source in report.sources]
    # One source is its own total. A report without any source still has a total, of zeros, since `zip` of nothing
    # has no columns.
    if len(rows) != 1:
        rows.append(("total", [sum(counts) for counts in zip(*(counts for _, counts in rows), strict=True)] or [0] * len(COUNTS)))
    columns = (Column("source", is_path=True), *(Column(name, is_number=True, width=_COUNT_WIDTH) for name in COUNTS))
    return Table(columns=columns, rows=tuple((Cell(name), *(Cell(f"{count:,}") for count in counts)) for name, counts in rows))
