"""Cells that hold a text alone, and charts in the two widths that a page has for them."""

from collections.abc import Callable

import msgspec

from assay.presentation.charts import Chart
from assay.presentation.sections import Cell
from assay.surfaces.charts import draw

WIDE = 460
NARROW = 340
"""Widths in pixels that charts are drawn for: text in a picture cannot flow, so that a phone gets its own."""


class ChartPair(msgspec.Struct, frozen=True, kw_only=True):
    """A chart in two widths."""

    title: str
    wide: str
    narrow: str


def text_cell(text: str, says: str = "", *, address: str = "", is_code: bool = False) -> Cell:
    """Return a cell that holds a text."""
    return Cell(text, says, link=address, is_code=is_code)


def drawing(title: str, draw_width: Callable[[int], str]) -> ChartPair:
    """Return a chart drawn for both widths."""
    return ChartPair(title=title, wide=draw_width(WIDE), narrow=draw_width(NARROW))


def chart_pair(chart: Chart) -> ChartPair:
    """Return a chart of a section, drawn for both widths."""
    return drawing(chart.heading, lambda width: draw(chart, width=width))
