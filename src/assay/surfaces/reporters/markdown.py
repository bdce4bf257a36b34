"""Sections as Markdown that no code host reads as more than text, and reports on datasets: files first, then findings by kind."""

import re
from collections.abc import Iterable, Iterator, Sequence

from assay.core.report import ValidationReport
from assay.core.text import printable
from assay.presentation.sections import Cell, Column, Table
from assay.presentation.validation import FILE_COLUMNS, FileIssue, Totals, change_line, file_row, finding_sections, limited
from assay.presentation.words import DASH, UNKNOWN, counted, cut, one_line
from assay.surfaces.reporters.formats import ReportSettings

TEXT_LIMIT = 400
NAME_LIMIT = 48
"""Characters of a name or an id in a table."""

# An underscore inside a word is not markup, and names read better without backslashes.
_SPECIAL = re.compile(r"[\\`*\[\]<>|~&$]|(?<!\w)_|_(?!\w)")
_BACKTICKS = re.compile("`+")
_NOTIFYING = re.compile(r"@|[#!](?=\w)|:(?=//)|(?<=www)(?=\.)|(?<=\bgh)-(?=\d)", re.IGNORECASE)
_NOTHING = "&#8203;"
"""A space without width: code hosts look for names, numbers and addresses in the finished text, where an escape is gone."""


def markdown_report(reports: Iterable[ValidationReport], settings: ReportSettings) -> Iterator[str]:
    """Write a table of files, then one section per error type or code, errors before warnings."""
    tally = Totals()
    found: list[FileIssue] = []
    yield "# Validation report\n\n"
    # The head of the table can be written before the first report is there.
    yield from table_markdown(Table(columns=FILE_COLUMNS, rows=()))
    for report in reports:
        tally.add(report)
        yield _row(file_row(report), FILE_COLUMNS)
        # Kept until the end, because findings are listed by kind over all files.
        found += [FileIssue(report.path, issue) for issue in limited(report, settings.max_issues)]
    yield f"\n{tally.line()}\n"
    yield from _fixes(settings)
    for severity in ("error", "warning"):
        for section in finding_sections(found, severity):
            (table,) = section.tables
            yield f"\n## {code(section.title)}: {table.title}\n\n"
            yield from (f"{note}\n\n" for note in section.notes)
            yield from (f"**{fact.label}:** {fact.text}\n\n" for fact in section.facts)
            yield from table_markdown(table)
    omitted = tally.errors.total() + tally.warnings.total() - len(found)
    if omitted:
        yield f"\n… and {counted(omitted, 'more finding')}.\n"


def _fixes(settings: ReportSettings) -> Iterator[str]:
    if settings.fixed_copy:
        yield f"\n## Fixed in {code(settings.fixed_copy)}: {counted(len(settings.changes), 'change')}\n\n"
        yield from (f"- {plain(change_line(change))}\n" for change in settings.changes)


def table_markdown(found: Table) -> Iterator[str]:
    """Write a table with its note."""
    yield from markdown_table([column.title for column in found.columns], (), [column.is_number for column in found.columns])
    yield from (_row(row, found.columns) for row in found.rows)
    if found.note:
        yield f"\n{plain(found.note)}\n"


def markdown_table(titles: Sequence[str], rows: Iterable[Sequence[str]], are_numbers: Sequence[bool]) -> Iterator[str]:
    """Write a table of cells that are already Markdown."""
    yield f"| {' | '.join(titles)} |\n"
    yield f"|{'|'.join('---:' if is_number else '---' for is_number in are_numbers)}|\n"
    yield from (f"| {' | '.join(row)} |\n" for row in rows)


def _row(row: Sequence[Cell], columns: Sequence[Column]) -> str:
    return f"| {' | '.join(_cell(cell, column) for cell, column in zip(row, columns, strict=True))} |\n"


def _cell(found: Cell, column: Column) -> str:
    # ASCII in Markdown: files are read in terminals and diffs.
    text = UNKNOWN if found.full == DASH else found.full
    if column.is_name:
        if text == UNKNOWN:
            return text
        # A path is shown whole; a name is cut like one in a terminal.
        return code(text) if column.limit > NAME_LIMIT else name(text)
    if column.is_number:
        # `<1 ms` is not a tag, and two amounts in dollars are not a formula.
        return text.replace("<", "&lt;").replace(">", "&gt;").replace("$", "\\$")
    return " ".join(filter(None, (", ".join(map(name, found.names)), inert(text, limit=column.limit or None))))


def name(text: str) -> str:
    """Return names and ids as code, in which nothing is read as markup or as a mention."""
    return code(cut(one_line(text), NAME_LIMIT))


def inert(text: str, *, limit: int | None = None) -> str:
    """Return text from outside as one line that no code host reads as markup, a mention, a reference or an address."""
    line = one_line(text)
    return _NOTIFYING.sub(lambda match: match[0] + _NOTHING, plain(line if limit is None else cut(line, limit)))


def plain(text: str) -> str:
    """Return text with every character that Markdown or HTML would read as markup escaped."""
    shown = printable(text, limit=TEXT_LIMIT)
    return _SPECIAL.sub(lambda match: {"<": "&lt;", ">": "&gt;", "&": "&amp;"}.get(match[0], "\\" + match[0]), shown)


def code(text: str) -> str:
    """Return text as a code span that holds in a table cell, with any content."""
    if not text:
        return ""
    # GFM ends a cell at `|` even inside a code span.
    shown = printable(text, limit=TEXT_LIMIT).replace("|", "\\|")
    # One backtick more than the longest run inside, as CommonMark ends a span only at a run of the same length.
    fence = "`" * (1 + max((len(run) for run in _BACKTICKS.findall(shown)), default=0))
    padding = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{padding}{shown}{padding}{fence}"
