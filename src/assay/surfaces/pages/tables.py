"""Tables and charts as a page shows them, whatever they are about."""

from collections.abc import Callable

import msgspec

from assay.surfaces.pages.display_values import Badge, DisplayValue, IntervalBar

WIDE = 460
NARROW = 340
"""Widths in pixels that charts are drawn for: text in a picture cannot flow, so that a phone gets its own."""


class PageColumn(msgspec.Struct, frozen=True):
    """The head of a column."""

    text: str
    says: str = ""
    is_number: bool = False


class PageCell(msgspec.Struct, frozen=True, kw_only=True):
    """What stands in a cell."""

    figure: DisplayValue = DisplayValue("")
    address: str = ""
    bar: IntervalBar | None = None
    mark: Badge | None = None
    is_code: bool = False


class PageTable(msgspec.Struct, frozen=True, kw_only=True):
    """Rows below columns; the first cell of a row names it."""

    caption: str
    columns: tuple[PageColumn, ...]
    rows: tuple[tuple[PageCell, ...], ...]
    note: str = ""
    """What is left out of it, or true of all of it."""


class ChartPair(msgspec.Struct, frozen=True, kw_only=True):
    """A chart in two widths."""

    title: str
    wide: str
    narrow: str


def text_cell(text: str, says: str = "", *, address: str = "", is_code: bool = False) -> PageCell:
    """A cell that holds a text."""
    return PageCell(figure=DisplayValue(text, says), address=address, is_code=is_code)


def drawing(title: str, draw: Callable[[int], str]) -> ChartPair:
    """A chart drawn for both widths."""
    return ChartPair(title=title, wide=draw(WIDE), narrow=draw(NARROW))
