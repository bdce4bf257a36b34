"""Tables and charts as a page shows them, whatever they are about."""

from collections.abc import Callable

import msgspec

from assay.surfaces.pages.figures import Figure, Mark, Whisker

WIDE = 460
NARROW = 340
"""Widths in pixels that charts are drawn for: text in a picture cannot flow, so that a phone gets its own."""


class Column(msgspec.Struct, frozen=True):
    """The head of a column."""

    text: str
    says: str = ""
    is_number: bool = False


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """What stands in a cell."""

    figure: Figure = Figure("")
    address: str = ""
    bar: Whisker | None = None
    mark: Mark | None = None
    is_code: bool = False


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """Rows below columns; the first cell of a row names it."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    """What is left out of it, or true of all of it."""


class Drawing(msgspec.Struct, frozen=True, kw_only=True):
    """A chart in two widths."""

    title: str
    wide: str
    narrow: str


def text_cell(text: str, says: str = "", *, address: str = "", is_code: bool = False) -> Cell:
    """A cell that holds a text."""
    return Cell(figure=Figure(text, says), address=address, is_code=is_code)


def drawing(title: str, draw: Callable[[int], str]) -> Drawing:
    """A chart drawn for both widths."""
    return Drawing(title=title, wide=draw(WIDE), narrow=draw(NARROW))
