"""Source line of an issue, cut to the terminal, and the marks below it."""

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec
from rich.cells import cell_len

from assay.core.issue import CODES, MAX_ERRORS, MAX_LISTED, Issue
from assay.core.report import ValidationReport
from assay.core.text import printable
from assay.presentation.validation import (
    OUTCOME_TONES,
    OUTCOME_WORDS,
    IssueSelection,
    SimilarIssues,
    Totals,
    accepted_counts,
    change_line,
    contract_name,
    field_lines,
    place,
    pointed,
    record_label,
    record_word,
    select,
)
from assay.presentation.words import counted
from assay.surfaces.reporters.formats import ReportSettings
from assay.surfaces.reporters.terminal import Paint, hanging, painter

LEAD = 0.6
"""Share of the room that may stand left of the marked place when a line is cut."""


class MarkedLine(msgspec.Struct, frozen=True):
    """A line of text, and the cells below it that carry the mark."""

    text: str
    indent: int
    length: int


def marked(issue: Issue, *, room: int | None) -> MarkedLine:
    """Return the issue's excerpt in at most `room` cells, with the marked place always in view."""
    found = pointed(issue)
    text, caret = found.before + found.mark + found.after, len(found.before)
    stop = caret + len(found.mark)
    if room is not None and cell_len(text) > room:
        # Eight cells at least, enough for the mark and an ellipsis on both sides.
        text, caret, stop = _cut(text, caret, stop=stop, room=max(room, 8))
    return MarkedLine(text, cell_len(text[:caret]), max(1, cell_len(text[caret:stop])))


def _cut(text: str, caret: int, *, stop: int, room: int) -> tuple[str, int, int]:
    start, end = 0, len(text)
    # By cells, because the caret below has to stand under its character.
    while cell_len(text[start:caret]) > room * LEAD:
        start += 1
    lead = "…" if start else ""
    if cell_len(lead + text[start:]) > room:
        while cell_len(lead + text[start:end]) > room - 1:
            # Shortened from the end, so that the marked place stays in view.
            end -= 1
        text = text[:end] + "…"
    shift = len(lead) - start
    return lead + text[start:], caret + shift, min(stop, end) + shift


MAX_ISSUES = 20
"""Issues shown per file unless the caller says otherwise."""
MESSAGE_LIMIT = 600
PATH_LIMIT = 200
INDENT = 4
HANGING = 6
GUTTER = 6
COUNT_WIDTH = 10


def text_report(reports: Iterable[ValidationReport], settings: ReportSettings) -> Iterator[str]:
    """Write the reports for people, one file after the other, then counts by code and a summary line."""
    paint = painter(is_coloured=settings.is_coloured)
    # Written as reports come in: nothing of a file is kept after its part is out.
    tally = Totals()
    is_after_issues = True
    yield from _changes(settings, paint)
    for report in reports:
        tally.add(report)
        is_after_issues = bool(report.issues)
        yield from _file(report, settings, paint=paint)
    if tally.errors or tally.warnings:
        # An issue ends with an empty line of its own.
        yield "" if is_after_issues else "\n"
        yield from _codes(tally, settings, paint=paint)
    yield _summary(tally, settings, paint=paint)


def _changes(settings: ReportSettings, paint: Paint) -> Iterator[str]:
    if not settings.fixed_copy:
        return
    count = counted(len(settings.changes), "change")
    yield paint(printable(settings.fixed_copy), "strong") + f" · corrected copy · {count}\n"
    for change in settings.changes:
        yield f"{'':{INDENT}}{printable(change_line(change), limit=MESSAGE_LIMIT)}\n"
    yield "\n"


def _file(report: ValidationReport, settings: ReportSettings, *, paint: Paint) -> Iterator[str]:
    yield _header(report, settings, paint=paint)
    for label, text in field_lines(report.fields, record_word(report.contract)):
        words = hanging(printable(f"{label}: {text}", limit=MESSAGE_LIMIT), first=INDENT, width=settings.width, indent=HANGING)
        yield f"{'':{INDENT}}{paint(words, 'quiet')}\n"
    if not report.issues:
        return
    yield "\n"
    limit = MAX_ISSUES if settings.max_issues is None else settings.max_issues
    # All issues, or all in full, were asked for: then look-alikes are not collapsed.
    selection = select(report, max_issues=limit, is_collapsed=bool(limit) and not settings.is_verbose)
    path = printable(report.path)
    for item in selection.shown:
        if isinstance(item, SimilarIssues):
            yield paint(f"{'':{INDENT}}… and {item.count:,} more like this", "quiet") + "\n\n"
        else:
            yield from _issue(item, path, width=settings.width, paint=paint)
    yield from _omitted(report, selection, paint)


def _header(report: ValidationReport, settings: ReportSettings, *, paint: Paint) -> str:
    path, outcome = printable(report.path), OUTCOME_WORDS[report.outcome]
    facts = f"{contract_name(report)} · {outcome} · {accepted_counts(report)}"
    is_narrow = settings.width is not None and cell_len(f"{path} · {facts}") > settings.width
    separator = f"\n{'':{INDENT}}" if is_narrow else " · "
    # Coloured after folding, and only once: the path may contain the same word.
    return paint(path, "strong") + separator + facts.replace(outcome, paint(outcome, OUTCOME_TONES[report.outcome]), 1) + "\n"


def _issue(issue: Issue, path: str, *, width: int | None, paint: Paint) -> Iterator[str]:
    where, label = place(path, issue) + ":", f"{issue.severity}[{issue.code}]"
    message = hanging(
        printable(issue.message, limit=MESSAGE_LIMIT), first=cell_len(f"{where} {label} "), width=width, indent=HANGING
    )
    # An empty message would leave a blank at the end of the line.
    yield f"{paint(where, 'strong')} {paint(label, issue.severity)} {message}\n".replace(" \n", "\n")
    subject = _subject(issue)
    if subject:
        yield f"{'':{INDENT}}{paint(hanging(subject, first=INDENT, width=width, indent=HANGING), 'quiet')}\n"
    if issue.excerpt:
        yield from _excerpt(issue, width=width, paint=paint)
    if issue.hint:
        hint = hanging(printable(issue.hint, limit=MESSAGE_LIMIT), first=INDENT + len("hint: "), width=width, indent=HANGING)
        yield f"{'':{INDENT}}{paint('hint:', 'hint')} {hint}\n"
    yield "\n"


def _subject(issue: Issue) -> str:
    parts = (printable(record_label(issue), limit=PATH_LIMIT), printable(issue.path, limit=PATH_LIMIT), issue.error_type)
    return " · ".join(part for part in parts if part)


def _excerpt(issue: Issue, *, width: int | None, paint: Paint) -> Iterator[str]:
    number = str(issue.line or "")
    margin = max(GUTTER, len(number) + 1)
    shown = marked(issue, room=None if width is None else width - margin - len(" | "))
    yield f"{paint(f'{number:>{margin}} |', 'gutter')} {shown.text}\n"
    yield f"{paint(' ' * margin + ' |', 'gutter')} {'':{shown.indent}}{paint('^' * shown.length, issue.severity)}\n"


def _omitted(report: ValidationReport, selection: IssueSelection, paint: Paint) -> Iterator[str]:
    counts = [(selection.omitted_errors, "more error"), (selection.omitted_warnings, "more warning")]
    left_out = " and ".join(counted(number, noun) for number, noun in counts if number)
    if left_out:
        way = (
            f"a report lists at most {MAX_ERRORS:,} errors and {MAX_LISTED:,} warnings of a file"
            # Some issues are only counted by the reader, and no option can list them.
            if report.unlisted
            else "--max-issues 0 shows all"
        )
        yield paint(f"… and {left_out} ({way})", "quiet") + "\n\n"


def _codes(tally: Totals, settings: ReportSettings, *, paint: Paint) -> Iterator[str]:
    longest = max(map(len, (*tally.errors, *tally.warnings)), default=0)
    for noun, counts in (("error", tally.errors), ("warning", tally.warnings)):
        if counts:
            yield paint(f"{noun + 's':>{COUNT_WIDTH}}  code", "quiet") + "\n"
            yield from _code_rows(counts, noun, longest=longest, width=settings.width, paint=paint)
            yield "\n"


def _code_rows(counts: Counter[str], noun: str, *, longest: int, width: int | None, paint: Paint) -> Iterator[str]:
    for code, count in counts.most_common():
        taken = COUNT_WIDTH + longest + 4
        meaning = hanging(CODES.get(code, ""), first=taken, width=width, indent=taken)
        yield f"{count:>{COUNT_WIDTH},}  {paint(f'{code:{longest}}', noun)}  {paint(meaning, 'quiet')}\n"


def _summary(tally: Totals, settings: ReportSettings, *, paint: Paint) -> str:
    is_good = tally.is_all_valid and not (settings.is_strict and tally.warnings)
    line = tally.line()
    if settings.is_strict and tally.warnings:
        line += " (--strict: warnings fail too)"
    style = "accepted" if is_good else "error"
    return paint(hanging(line, first=0, width=settings.width, indent=HANGING), style) + "\n"
