"""Sections into the text of a terminal: styled, folded to its width, and safe to print."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate

import msgspec
from rich.cells import cell_len, chop_cells

from assay.core.text import printable, printable_id, printable_lines
from assay.presentation.sections import (
    MAX_TEXT,
    Cell,
    CheckedItem,
    Column,
    CompactRow,
    Fact,
    FindingLine,
    Section,
    Table,
    TextBlock,
)
from assay.presentation.words import DASH, UNKNOWN
from assay.surfaces.reporters.formats import ReportSettings

LABEL = 12
"""Columns of the labels at the left."""
GAP = "  "
INDENT = 4
CHECK_MARK, CHECK_NAME = 4, 20
"""Columns of the result and of the name of a check."""
NARROWEST = 24
"""Cells that the last column gets even where the terminal is too small for the others."""
Paint = Callable[[str, str], str]
"""(text, style) -> the text, with the escape sequences of the style where colours are on."""

STYLES = {
    "error": "1;31",
    "warning": "1;33",
    "accepted": "1;32",
    "strong": "1",
    "quiet": "2",
    "gutter": "34",
    "hint": "1;36",
    "good": "1;32",
    "bad": "1;31",
    "warn": "1;33",
    "live": "1;33",
}
"""Numbers of ECMA-48: 1 is bold, 2 is dim, 31 to 36 are red, green, yellow, blue, magenta and cyan."""


def painter(*, is_coloured: bool) -> Paint:
    """Return a paint function; without colours it returns the text as it is."""
    return _coloured if is_coloured else _plain


def _coloured(text: str, style: str) -> str:
    return f"\x1b[{STYLES[style]}m{text}\x1b[0m" if text else text


def _plain(text: str, style: str) -> str:
    del style
    return text


def fold(text: str, *, first: int, width: int) -> list[str]:
    """Lines of at most `width` cells, broken at spaces; on the first one `first` cells are already taken."""
    lines: list[str] = []
    line, room = "", width - first
    # Words wider than the line, such as an address without blanks, are cut by cells and not by characters.
    for word in text.split(" "):
        joined = f"{line} {word}" if line else word
        if cell_len(joined) <= room:
            line = joined
            continue
        if line or room < width:
            lines.append(line)
        *full, line = chop_cells(word, width) or [""]
        lines += full
        room = width
    return [*lines, line]


def hanging(text: str, *, first: int, width: int | None, indent: int) -> str:
    """Return the text folded to the terminal, its further lines indented; as it is where there is no terminal."""
    if width is None:
        return text
    # Never below 20 cells: a folded text of three letters a line is unreadable, and a wide line only wraps.
    lines = fold(text, first=first - indent, width=max(width - indent, 20))
    return f"\n{'':{indent}}".join(lines)


Row = Sequence[str | Cell]


def report_text(sections: Iterable[Section], settings: ReportSettings, *, label: int = LABEL) -> Iterator[str]:
    """Write a report: its sections, with an empty line between them."""
    yield from report_lines(sections, settings, paint=painter(is_coloured=settings.is_coloured), label=label)


def report_lines(sections: Iterable[Section], settings: ReportSettings, *, paint: Paint, label: int = LABEL) -> Iterator[str]:
    """Write sections with an empty line between them."""
    for number, section in enumerate(sections):
        if number and not section.is_joined:
            yield "\n"
        yield from section_lines(section, settings, paint=paint, label=label)


def section_lines(section: Section, settings: ReportSettings, *, paint: Paint, label: int = LABEL) -> Iterator[str]:
    """Write a section: its heading, findings, tables with an empty line between them, texts, checks, facts and notes."""
    if section.heading:
        yield heading_line(section.heading, paint=paint)
    for finding in section.findings:
        yield from _finding_lines(finding, settings, paint=paint)
    for number, table_found in enumerate(section.tables):
        if number:
            yield "\n"
        yield from table_lines(table_found, settings, paint=paint, indent=table_found.indent)
    for number, block in enumerate(section.texts):
        if number:
            yield "\n"
        yield from _text_lines(block, settings, paint=paint)
    for check in section.checks:
        yield from _check_lines(check, settings, paint=paint)
    for fact in section.facts:
        yield fact_line(fact, settings, paint=paint, label=label)
    for note in section.notes:
        yield fact_line(Fact("note", note), settings, paint=paint, label=label)
    yield from (f"{hanging(printable(line), first=0, width=settings.width, indent=2)}\n" for line in section.lines)
    if section.more:
        yield paint(printable(section.more), "quiet") + "\n"


def heading_line(cells: Sequence[Cell], *, paint: Paint) -> str:
    """Write the line above a report; the first of its cells is its name, unless it is a decision."""
    first, *others = cells
    words = [_painted(printable(cell.text), cell.tone, paint=paint) for cell in others]
    return " · ".join([paint(printable(first.text), first.tone or "strong"), *words]) + "\n"


def _finding_lines(finding: FindingLine, settings: ReportSettings, *, paint: Paint) -> Iterator[str]:
    place = f"{printable(finding.place)}:" if finding.place else ""
    label = f"{printable(finding.label)}:"
    taken = cell_len(" ".join(filter(None, (place, label)))) + 1
    text = hanging(printable(finding.text), first=taken, width=settings.width, indent=INDENT)
    yield " ".join(filter(None, (paint(place, "strong"), paint(label, finding.tone), text))) + "\n"
    for detail in finding.details:
        yield f"{'':{INDENT}}{paint(printable(detail), 'quiet')}\n"


def _text_lines(block: TextBlock, settings: ReportSettings, *, paint: Paint) -> Iterator[str]:
    """Write a text with its lines, only the first part of a long one unless everything is asked for."""
    yield f"{paint(printable(block.title), 'quiet')}\n"
    # Texts of models may be hundreds of pages; the command shows a part unless asked for all.
    is_cut = len(block.text) > MAX_TEXT and not settings.is_verbose
    for line in printable_lines(block.text[:MAX_TEXT] if is_cut else block.text).split("\n"):
        # Blanks at the end of a line of a prompt are invisible and would only widen a copied text.
        yield f"{'':{INDENT}}{hanging(line, first=INDENT, width=settings.width, indent=INDENT)}".rstrip() + "\n"
    if is_cut:
        omitted = f"… and {len(block.text) - MAX_TEXT:,} more characters (--verbose shows all)"
        yield f"{'':{INDENT}}{paint(omitted, 'quiet')}\n"


def _check_lines(check: CheckedItem, settings: ReportSettings, *, paint: Paint) -> Iterator[str]:
    name = printable(check.name)
    indent = 2 + CHECK_MARK + 1 + CHECK_NAME + 1
    first = f"  {paint(f'{check.mark.text:<{CHECK_MARK}}', check.mark.kind)} {name:<{CHECK_NAME}} "
    # The name may be longer than its column; the text then begins later.
    text = hanging(printable(check.text), first=indent + max(0, len(name) - CHECK_NAME), width=settings.width, indent=indent)
    yield f"{first}{text}\n"
    if check.hint:
        hint = hanging(f"hint: {printable(check.hint)}", first=indent, width=settings.width, indent=indent)
        yield f"{'':{indent}}{paint(hint, 'hint' if check.mark.kind == 'bad' else 'quiet')}\n"


def fact_line(fact: Fact, settings: ReportSettings, *, paint: Paint, label: int = LABEL) -> str:
    """Return the label at the left and the text next to it, folded unless it stays whole."""
    limit = fact.limit or None
    # Each part is cut for itself: a long file name must not push the model out of the line.
    text = " · ".join(printable(part, limit=limit) for part in fact.parts) if fact.parts else printable(fact.text, limit=limit)
    room = " " * max(1, label - cell_len(fact.label))
    head = (
        paint(fact.label, fact.tone) + room if fact.tone else paint(f"{fact.label}{room}", "quiet") if fact.label else " " * label
    )
    # A command to be copied stays on one line, even where that is wider than the terminal.
    return f"{head}{hanging(text, first=label, width=None if fact.is_whole else settings.width, indent=label)}\n"


def table_lines(found: Table, settings: ReportSettings, *, paint: Paint, indent: int = 0) -> Iterator[str]:
    """Write a table with its note; names are cut in their middle, other texts at their end."""
    rows = [[_safe(cell, column) for cell, column in zip(row, found.columns, strict=True)] for row in found.rows]
    columns = [msgspec.structs.replace(column, title=printable(column.title)) for column in found.columns]
    # Measured with the whole cells: a table that fits is easier to compare than lines of words.
    if found.compact and settings.width is not None and sum(_widths(columns, rows)) + len(GAP) * len(columns) > settings.width + 1:
        yield from _compact_lines(found.compact, settings, paint=paint)
    else:
        yield from table(columns, rows, paint=paint, width=settings.width, indent=indent)
    if found.note:
        yield paint(printable(found.note), "quiet") + "\n"


def _compact_lines(rows: Sequence[CompactRow], settings: ReportSettings, *, paint: Paint) -> Iterator[str]:
    for row in rows:
        yield heading_line(row.heading, paint=paint)
        yield f"  {hanging(printable(row.text), first=2, width=settings.width, indent=2)}\n"


def _safe(cell: Cell, column: Column) -> Cell:
    limit = column.limit or None
    # Cut in the middle: ids often differ at their end.
    if column.is_name and limit:
        text = printable_id(cell.text, limit=limit)
    else:
        names = ", ".join(printable_id(name, limit=limit) if limit else printable(name) for name in cell.names)
        text = " ".join(filter(None, (names, printable(cell.full, limit=limit))))
    # Terminals get an ASCII dash: many fonts show the long one like a minus sign.
    return Cell(UNKNOWN if text == DASH else text, tone=cell.tone)


def table(columns: Sequence[Column], rows: Sequence[Row], *, paint: Paint, width: int | None, indent: int = 0) -> Iterator[str]:
    """Write a line of heads, then the rows; the last column is folded where the terminal ends.

    Columns that the terminal has no room for stand below each row, with their heads before them.
    """
    cells = [[cell if isinstance(cell, Cell) else Cell(cell) for cell in row] for row in rows]
    widths = _widths(columns, cells)
    # Only the first column may be cut, since paths say most at their end.
    if width is not None and columns[0].is_path:
        room = width - indent - sum(widths[1:]) - len(GAP) * len(widths[1:])
        cells = [[msgspec.structs.replace(path, text=_path_end(path.text, room)), *others] for path, *others in cells]
        widths = _widths(columns, cells)
    # As many columns as fit; the others follow below each row, so that nothing is lost on a narrow terminal.
    n_beside = _fitting(columns, widths, room=None if width is None else width - indent)
    heads = [Cell(column.title, tone="quiet") for column in columns]
    for row in (heads, *cells):
        yield _line(row[:n_beside], columns[:n_beside], widths=widths[:n_beside], paint=paint, width=width, indent=indent)
        if row is not heads and n_beside < len(columns):
            yield from _below(row[n_beside:], columns[n_beside:], width=width, indent=indent + len(GAP))


def _widths(columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> list[int]:
    return [
        max(column.width, *(cell_len(text) for text in (column.title, *(row[place].text for row in rows))))
        for place, column in enumerate(columns)
    ]


def _path_end(path: str, room: int) -> str:
    if cell_len(path) <= room:
        return path
    # Cell by cell, since a wide character takes two.
    while len(path) > 1 and cell_len(path) > room - 1:
        path = path[1:]
    return f"…{path}"


def _fitting(columns: Sequence[Column], widths: Sequence[int], *, room: int | None) -> int:
    """Return how many columns there is room for side by side, one at least; a last one of text can be folded."""
    if room is None:
        return len(columns)
    needed = [*widths]
    if not columns[-1].is_number:
        # A last column of text is folded, so it needs only the least width.
        needed[-1] = min(needed[-1], NARROWEST)
    ends = list(accumulate(size + len(GAP) for size in needed))
    return max(1, sum(end - len(GAP) <= room for end in ends))


def _below(row: Sequence[Cell], columns: Sequence[Column], *, width: int | None, indent: int) -> Iterator[str]:
    is_text = len(columns) == 1 and not columns[0].is_number
    heads = ["" if is_text else column.title for column in columns]
    text = " · ".join(f"{head} {cell.text}".strip() for cell, head in zip(row, heads, strict=True) if cell.text)
    if text:
        yield f"{'':{indent}}{hanging(text, first=indent, width=width, indent=indent)}\n"


def _line(
    row: Sequence[Cell], columns: Sequence[Column], *, widths: list[int], paint: Paint, width: int | None, indent: int
) -> str:
    *firsts, last = zip(row, columns, widths, strict=True)
    parts = [_padded(cell, column, size=size, paint=paint) for cell, column, size in firsts]
    taken = indent + sum(size + len(GAP) for _, _, size in firsts)
    cell, column, size = last
    room = None if width is None else max(width, taken + NARROWEST)
    text = f"{cell.text:>{size}}" if column.is_number else hanging(cell.text, first=taken, width=room, indent=taken)
    # Painted line by line: a pager shows one line at a time, and an escape sequence does not continue on the
    # next.
    styled = "\n".join(_painted(line, cell.tone, paint=paint) for line in text.split("\n"))
    return f"{'':{indent}}{GAP.join([*parts, styled])}".rstrip() + "\n"


def _padded(cell: Cell, column: Column, *, size: int, paint: Paint) -> str:
    room = " " * (size - cell_len(cell.text))
    # Padded before painting: escape sequences have no width, and a format of Python would count them.
    styled = _painted(cell.text, cell.tone, paint=paint)
    return room + styled if column.is_number else styled + room


def _painted(text: str, style: str, *, paint: Paint) -> str:
    return paint(text, style) if style and text else text
