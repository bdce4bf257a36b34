"""Values below each other on a scale of powers of ten, as an SVG that is readable by day and by night."""

from collections.abc import Iterator, Sequence
from math import ceil, floor, log10
from typing import NamedTuple

from assay.presentation.charts import Caption
from assay.surfaces.charts import svg
from assay.surfaces.charts.svg import LinearScale

WIDTH = 760
ROW = 28
LABELS = 130
FIGURES = 110
EMPHASISED = "assay"


class Dot(NamedTuple):
    """One line of the chart."""

    name: str
    value: float
    note: str = ""
    """Said after the value, and the dot is marked."""

    @property
    def text(self) -> str:
        """The value as it is written."""
        figure = f"{self.value:.2g}" if self.value < 10 else f"{self.value:,.0f}"
        return f"{figure}, {self.note}" if self.note else figure


def dot_chart(dots: Sequence[Dot], title: str, *, note: str) -> str:
    """The whole chart; bars would have to start at 0, which such a scale has not."""
    caption = Caption(title=title, note=note, width=WIDTH)
    top = svg.caption_height(caption) + 6
    bottom = top + ROW * len(dots)
    low, high = floor(log10(min(dot.value for dot in dots))), ceil(log10(max(dot.value for dot in dots)))
    scale = LinearScale(low=low, high=max(high, low + 1), start=svg.EDGE + LABELS, end=WIDTH - svg.EDGE - FIGURES)
    elements = [*_axis(scale, top=top, bottom=bottom), *_rows(dots, scale, top=top)]
    spoken = "; ".join(f"{dot.name}: {dot.text}" for dot in dots)
    return svg.document(caption, elements, height=bottom + 24 + svg.EDGE, says=spoken)


def _axis(scale: LinearScale, *, top: float, bottom: float) -> Iterator[str]:
    for power in range(int(scale.low), int(scale.high) + 1):
        x = scale(power)
        yield svg.line((x, top), (x, bottom), style="rule")
        yield svg.words(x, bottom + 18, f"{10.0**power:,g}", style="small quiet", anchor="middle")


def _rows(dots: Sequence[Dot], scale: LinearScale, *, top: float) -> Iterator[str]:
    for number, dot in enumerate(dots):
        y = top + ROW * (number + 0.5)
        x = scale(log10(dot.value))
        tone = "" if dot.name == EMPHASISED else "-warn" if dot.note else "-soft"
        yield svg.words(svg.EDGE, y + 4, dot.name, style="" if tone else "strong")
        yield svg.line((scale.start, y), (scale.end, y), style="rule")
        yield svg.dot((x, y), 5.5, style=f"dot{tone}", says=f"{dot.name}: {dot.text}")
        yield svg.words(x + 12, y + 4, dot.text, style="halo")
