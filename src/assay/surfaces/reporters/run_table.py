"""Cells into a table of the terminal's width."""

from collections.abc import Iterator, Sequence
from itertools import accumulate

import msgspec
from rich.cells import cell_len

from assay.surfaces.reporters.paint import Paint, hanging

GAP = "  "
NARROWEST = 24
"""Cells that the last column gets even where the terminal is too small for the others."""


class TextCell(msgspec.Struct, frozen=True):
    """One text of a table, already safe to show, and its style."""

    text: str
    style: str = ""


class TextColumn(msgspec.Struct, frozen=True):
    """The head of a column, and whether its cells are numbers, which end at the same place."""

    title: str
    is_number: bool = False


Row = Sequence[str | TextCell]


def table(columns: Sequence[TextColumn], rows: Sequence[Row], *, paint: Paint, width: int | None, indent: int = 0) -> Iterator[str]:
    """A line of heads, then the rows; the last column is folded where the terminal ends.

    Columns that the terminal has no room for stand below each row, with their heads before them.
    """
    cells = [[cell if isinstance(cell, TextCell) else TextCell(cell) for cell in row] for row in rows]
    widths = [
        max(cell_len(text) for text in (column.title, *(row[place].text for row in cells))) for place, column in enumerate(columns)
    ]
    n_beside = _fitting(columns, widths, room=None if width is None else width - indent)
    heads = [TextCell(column.title, "quiet") for column in columns]
    for row in (heads, *cells):
        yield _line(row[:n_beside], columns[:n_beside], widths=widths[:n_beside], paint=paint, width=width, indent=indent)
        if row is not heads and n_beside < len(columns):
            yield from _below(row[n_beside:], columns[n_beside:], width=width, indent=indent + len(GAP))


def _fitting(columns: Sequence[TextColumn], widths: Sequence[int], *, room: int | None) -> int:
    """How many columns there is room for beside each other, one at least; a last one of text can be folded."""
    if room is None:
        return len(columns)
    needed = [*widths]
    if not columns[-1].is_number:
        needed[-1] = min(needed[-1], NARROWEST)
    ends = list(accumulate(size + len(GAP) for size in needed))
    return max(1, sum(end - len(GAP) <= room for end in ends))


def _below(row: Sequence[TextCell], columns: Sequence[TextColumn], *, width: int | None, indent: int) -> Iterator[str]:
    is_text = len(columns) == 1 and not columns[0].is_number
    heads = ["" if is_text else column.title for column in columns]
    text = " · ".join(f"{head} {cell.text}".strip() for cell, head in zip(row, heads, strict=True) if cell.text)
    if text:
        yield f"{'':{indent}}{hanging(text, first=indent, width=width, indent=indent)}\n"


def _line(
    row: Sequence[TextCell], columns: Sequence[TextColumn], *, widths: list[int], paint: Paint, width: int | None, indent: int
) -> str:
    *firsts, last = zip(row, columns, widths, strict=True)
    parts = [_padded(cell, column, size=size, paint=paint) for cell, column, size in firsts]
    taken = indent + sum(size + len(GAP) for _, _, size in firsts)
    cell, column, size = last
    room = None if width is None else max(width, taken + NARROWEST)
    text = f"{cell.text:>{size}}" if column.is_number else hanging(cell.text, first=taken, width=room, indent=taken)
    styled = "\n".join(_painted(line, cell.style, paint=paint) for line in text.split("\n"))
    return f"{'':{indent}}{GAP.join([*parts, styled])}".rstrip() + "\n"


def _padded(cell: TextCell, column: TextColumn, *, size: int, paint: Paint) -> str:
    room = " " * (size - cell_len(cell.text))
    styled = _painted(cell.text, cell.style, paint=paint)
    return room + styled if column.is_number else styled + room


def _painted(text: str, style: str, *, paint: Paint) -> str:
    return paint(text, style) if style and text else text
