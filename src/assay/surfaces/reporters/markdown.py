"""Sections as Markdown that no code host reads as more than text, and reports on datasets: files first, then findings by kind."""

import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from assay.core.issue import CODES, Issue
from assay.core.report import ValidationReport
from assay.presentation.sections import Cell, Column, Table
from assay.presentation.validation import (
    OUTCOME_WORDS,
    SUGGESTIONS,
    Totals,
    change_line,
    contract_name,
    limited,
    place,
    record_counts,
    record_label,
)
from assay.presentation.words import DASH, UNKNOWN, counted, cut, one_line
from assay.surfaces.printable import printable
from assay.surfaces.reporters.settings import ReportSettings

TEXT_LIMIT = 400
NAME_LIMIT = 48
"""Characters of a name or an id in a table."""

# An underscore inside a word is no markup, and names read better without backslashes.
_SPECIAL = re.compile(r"[\\`*\[\]<>|~&$]|(?<!\w)_|_(?!\w)")
_BACKTICKS = re.compile("`+")
_NOTIFYING = re.compile(r"@|[#!](?=\w)|:(?=//)|(?<=www)(?=\.)|(?<=\bgh)-(?=\d)", re.IGNORECASE)
_NOTHING = "&#8203;"
"""A space without width: code hosts look for names, numbers and addresses in the finished text, where an escape is gone."""


class FileIssue(msgspec.Struct, frozen=True):
    """An issue and the file that it was found in."""

    file: str
    issue: Issue


def markdown_report(reports: Iterable[ValidationReport], settings: ReportSettings) -> Iterator[str]:
    """A table of files, then one section per error type or code, errors before warnings."""
    tally = Totals()
    found: list[FileIssue] = []
    yield "# Validation report\n\n| file | contract | outcome | records | errors | warnings |\n|---|---|---|---|---:|---:|\n"
    for report in reports:
        tally.add(report)
        yield _file_row(report)
        found += [FileIssue(report.path, issue) for issue in limited(report, settings.max_issues)]
    yield f"\n{tally.line()}\n"
    yield from _fixes(settings)
    for severity in ("error", "warning"):
        yield from _sections([item for item in found if item.issue.severity == severity], severity)
    omitted = tally.errors.total() + tally.warnings.total() - len(found)
    if omitted:
        yield f"\n… and {counted(omitted, 'more finding')}.\n"


def _file_row(report: ValidationReport) -> str:
    errors, warnings = report.count("error"), report.count("warning")
    cells = (code(report.path), contract_name(report), OUTCOME_WORDS[report.outcome], record_counts(report))
    return f"| {' | '.join(cells)} | {errors:,} | {warnings:,} |\n"


def _fixes(settings: ReportSettings) -> Iterator[str]:
    if settings.fixed_copy:
        yield f"\n## Fixed in {code(settings.fixed_copy)}: {counted(len(settings.changes), 'change')}\n\n"
        yield from (f"- {plain(change_line(change))}\n" for change in settings.changes)


def _sections(found: Sequence[FileIssue], severity: str) -> Iterator[str]:
    kinds: dict[str, list[FileIssue]] = {}
    for item in found:
        kinds.setdefault(item.issue.error_type or item.issue.code, []).append(item)
    for kind, members in sorted(kinds.items(), key=lambda entry: -len(entry[1])):
        yield f"\n## `{kind}`: {counted(len(members), severity)}\n\n"
        yield from (f"{sentence}\n\n" for sentence in (CODES.get(kind), _suggestion(kind)) if sentence)
        yield "| place | record | path | message |\n|---|---|---|---|\n"
        yield from map(_issue_row, members)


def _suggestion(kind: str) -> str:
    return f"**Suggested fix:** {SUGGESTIONS[kind]}" if kind in SUGGESTIONS else ""


def _issue_row(item: FileIssue) -> str:
    issue = item.issue
    message = plain(f"{issue.message} ({issue.hint})" if issue.hint else issue.message)
    return f"| {code(place(item.file, issue))} | {plain(record_label(issue))} | {code(issue.path)} | {message} |\n"


def table_markdown(found: Table) -> Iterator[str]:
    """A table with its note."""
    rows = ([_cell(one, column) for one, column in zip(row, found.columns, strict=True)] for row in found.rows)
    yield from markdown_table([column.title for column in found.columns], rows, [column.is_number for column in found.columns])
    if found.note:
        yield f"\n{plain(found.note)}\n"


def markdown_table(titles: Sequence[str], rows: Iterable[Sequence[str]], are_numbers: Sequence[bool]) -> Iterator[str]:
    """A table of cells that are already Markdown."""
    yield f"| {' | '.join(titles)} |\n"
    yield f"|{'|'.join('---:' if is_number else '---' for is_number in are_numbers)}|\n"
    yield from (f"| {' | '.join(row)} |\n" for row in rows)


def _cell(found: Cell, column: Column) -> str:
    text = UNKNOWN if found.full == DASH else found.full
    if column.is_name:
        return name(text) if text != UNKNOWN else text
    if column.is_number:
        # `<1 ms` is no tag, and two amounts in dollars are no formula.
        return text.replace("<", "&lt;").replace(">", "&gt;").replace("$", "\\$")
    return " ".join(filter(None, (", ".join(map(name, found.names)), inert(text, limit=column.limit or None))))


def name(text: str) -> str:
    """Names and ids as code, in which nothing is read as markup or as a mention."""
    return code(cut(one_line(text), NAME_LIMIT))


def inert(text: str, *, limit: int | None = None) -> str:
    """Text from outside as one line that no code host reads as markup, a mention, a reference or an address."""
    line = one_line(text)
    return _NOTIFYING.sub(lambda match: match[0] + _NOTHING, plain(line if limit is None else cut(line, limit)))


def plain(text: str) -> str:
    """Text with every character that Markdown or HTML would read as markup escaped."""
    shown = printable(text, limit=TEXT_LIMIT)
    return _SPECIAL.sub(lambda match: {"<": "&lt;", ">": "&gt;", "&": "&amp;"}.get(match[0], "\\" + match[0]), shown)


def code(text: str) -> str:
    """Text as a code span that holds in a table cell, whatever it contains."""
    if not text:
        return ""
    shown = printable(text, limit=TEXT_LIMIT).replace("|", "\\|")
    fence = "`" * (1 + max((len(run) for run in _BACKTICKS.findall(shown)), default=0))
    padding = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{padding}{shown}{padding}{fence}"
