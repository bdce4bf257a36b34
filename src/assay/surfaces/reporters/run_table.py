"""Cells into a table of the terminal's width."""

from collections.abc import Iterator, Sequence

import msgspec
from rich.cells import cell_len

from assay.surfaces.reporters.paint import Paint, hanging

GAP = "  "
NARROWEST = 24
"""Cells that the last column gets even where the terminal is too small for the others."""


class Cell(msgspec.Struct, frozen=True):
    """One text of a table, already safe to show, and its style."""

    text: str
    style: str = ""


class Column(msgspec.Struct, frozen=True):
    """The head of a column, and whether its cells are numbers, which end at the same place."""

    title: str
    is_number: bool = False


Row = Sequence[str | Cell]


def table(columns: Sequence[Column], rows: Sequence[Row], *, paint: Paint, width: int | None, indent: int = 0) -> Iterator[str]:
    """A line of heads, then the rows; the last column is folded where the terminal ends."""
    cells = [[cell if isinstance(cell, Cell) else Cell(cell) for cell in row] for row in rows]
    widths = [
        max(cell_len(text) for text in (column.title, *(row[place].text for row in cells))) for place, column in enumerate(columns)
    ]
    heads = [Cell(column.title, "quiet") for column in columns]
    for row in (heads, *cells):
        yield _line(row, columns, widths=widths, paint=paint, width=width, indent=indent)


def _line(
    row: Sequence[Cell], columns: Sequence[Column], *, widths: list[int], paint: Paint, width: int | None, indent: int
) -> str:
    *firsts, last = zip(row, columns, widths, strict=True)
    parts = [_padded(cell, column, size=size, paint=paint) for cell, column, size in firsts]
    taken = indent + sum(size + len(GAP) for _, _, size in firsts)
    cell, column, size = last
    room = None if width is None else max(width, taken + NARROWEST)
    text = f"{cell.text:>{size}}" if column.is_number else hanging(cell.text, first=taken, width=room, indent=taken)
    styled = "\n".join(_painted(line, cell.style, paint=paint) for line in text.split("\n"))
    return f"{'':{indent}}{GAP.join([*parts, styled])}".rstrip() + "\n"


def _padded(cell: Cell, column: Column, *, size: int, paint: Paint) -> str:
    room = " " * (size - cell_len(cell.text))
    styled = _painted(cell.text, cell.style, paint=paint)
    return room + styled if column.is_number else styled + room


def _painted(text: str, style: str, *, paint: Paint) -> str:
    return paint(text, style) if style and text else text
