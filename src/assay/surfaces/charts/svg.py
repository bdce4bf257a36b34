"""Numbers to positions: linear scales, ticks at round numbers, and how those are written."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import partial
from html import escape
from itertools import accumulate, takewhile
from math import ceil, floor, log10
from sys import float_info

import msgspec

from assay.core.number_text import rate_change_text, rate_text, score_change_text, score_text
from assay.core.text import REPLACEMENT, printable
from assay.presentation.charts import Caption, PlottedEstimate, is_drawable
from assay.presentation.words import ends_between, with_interval

_ROUND_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
MINUS = "\u2212"
UNKNOWN = "no score"
_LARGE = 1e6
_WIDENINGS = 8
_SMALLEST_SPAN = 1e-9
"""Relative to the values; what is closer together is drawn as one value."""


class LinearScale(msgspec.Struct, frozen=True):
    """A range of values on a range of pixels; the end of the pixels may be before their start."""

    low: float
    high: float
    start: float
    end: float
    is_rate: bool = False
    """Its values are shares, and its ticks percentages."""

    def __call__(self, value: float) -> float:
        """Return the pixel of a value; what is outside stands at the edge."""
        # What lies outside, such as an interval that reaches beyond its scale, must not be drawn over the labels.
        share = (value - self.low) / (self.high - self.low)
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)

    def ticks(self, count: int) -> list[float]:
        """Return about `count` round numbers of the range, at least one."""
        step = round_step(self.high - self.low, count)
        first, last = _above(self.low / step), _below(self.high / step)
        found = [multiple * step for multiple in range(first, last + 1)]
        # A range narrower than any step has no round number in it.
        return found or [self.low]

    def tick_labels(self, ticks: Sequence[float]) -> list[str]:
        """Return the labels of ticks, all with the same number of decimals."""
        # A single tick tells no step; its own size decides how many decimals it needs.
        step = ticks[1] - ticks[0] if len(ticks) > 1 else abs(ticks[0]) or 1.0
        return [f"{tick_text(100 * tick, 100 * step)} %" if self.is_rate else tick_text(tick, step) for tick in ticks]


def _below(steps: float) -> int:
    """Return the next whole number below, or the one that was meant."""
    return floor(steps + _slack(steps))


def _above(steps: float) -> int:
    return ceil(steps - _slack(steps))


def _slack(steps: float) -> float:
    # Far from 0 neighbouring numbers are further from each other than near it.
    return max(1e-9, 2 * float_info.epsilon * abs(steps))


def round_step(span: float, count: int) -> float:
    """Return the round number nearest above a `count`-th of the span."""
    rough = span / max(count, 1)
    power = 10.0 ** floor(log10(rough))
    # Sums of binary fractions end slightly off the decimal that was meant.
    return next(factor * power for factor in _ROUND_STEPS if factor * power >= rough * (1 - 1e-9))


def is_large(value: float) -> bool:
    """Return True for a number that is written with an exponent."""
    return abs(value) >= _LARGE


def number_label(value: float | None, *, is_signed: bool = False, is_rate: bool = False) -> str:
    """Return `0.83`, `83.3 %`; a difference has a sign: `+0.04`, `+4.2 pp`."""
    if value is None:
        return UNKNOWN
    # Large numbers are drawn with an exponent, which has no place for the sign of a change.
    if is_large(value):
        text = tick_text(value, 1.0)
    elif is_rate:
        text = rate_change_text(value) if is_signed else rate_text(value)
    else:
        text = score_change_text(value) if is_signed else _score(value)
    # The minus sign is as wide as a plus and a digit; a hyphen is not, and may end a line.
    return text.replace("-", MINUS)


def _score(value: float) -> str:
    whole, _, rest = score_text(value).partition(".")
    return f"{int(whole):,}.{rest}" if abs(value) >= 1000 else f"{whole}.{rest}"


def estimate_text(estimate: PlottedEstimate, *, is_signed: bool = False) -> str:
    """Return `83.3 % [78.1 %, 87.4 %], n = 120`."""
    if not estimate.is_known:
        return f"{UNKNOWN}, n = {estimate.n:,}"
    ends = ends_between(estimate.low, estimate.high) if estimate.has_interval else None
    text = partial(number_label, is_signed=is_signed, is_rate=estimate.is_rate)
    return f"{with_interval(estimate.middle, ends, text)}, n = {estimate.n:,}"


def tick_text(value: float, step: float) -> str:
    """Return `0.25`, `0.50`, `1,000`, `2e+06`."""
    if is_large(value) or (value and abs(step) < 1e-4):
        return f"{value:.3g}".replace("-", MINUS)
    # 0 to 4 decimals, the fewest that show the step exactly.
    places = next((places for places in range(5) if abs(step * 10**places - round(step * 10**places)) < 1e-6), 4)
    # Adding 0.0 turns -0.0 into 0.0, which would be written as -0.
    return f"{value + 0.0:,.{places}f}".replace("-", MINUS)


def whole_range(values: Iterable[float | None], *, at_least: tuple[float, float] | None = None) -> tuple[float, float]:
    """Return the range that holds all values that can be drawn, and `at_least`; never empty."""
    known = [value for value in (*values, *(at_least or ())) if value is not None and is_drawable(value)]
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    if high - low > _SMALLEST_SPAN * max(abs(low), abs(high), 1e-3):
        return low, high
    # Equal values would make a scale without length; a tenth around them shows that they are equal.
    room = max(abs(low) * 0.1, 0.1)
    return low - room, high + room


def rounded_range(values: Iterable[float | None], *, count: int) -> tuple[float, float]:
    """Return the range of the values, widened so that it begins and ends with one of about `count` ticks."""
    low, high = whole_range(values)
    # Widening may make the step between ticks larger, which widens again.
    for _ in range(_WIDENINGS):
        step = round_step(high - low, count)
        low, high = _below(low / step) * step, _above(high / step) * step
    return low, high


STYLESHEET = """
.assay-chart{max-width:100%;height:auto;font:13px/1.3 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif;
font-variant-numeric:tabular-nums;color:var(--assay-ink,#1f2328);--paper:var(--assay-paper,#fff);--mark:var(--assay-mark,#0067a5);
--warn:var(--assay-warn,#b84a00);--quiet:color-mix(in srgb,currentColor 70%,var(--paper));
--soft:color-mix(in srgb,currentColor 48%,var(--paper));--rule:color-mix(in srgb,currentColor 15%,var(--paper))}
@media (prefers-color-scheme:dark){.assay-chart{color:var(--assay-ink,#e6edf3);--paper:var(--assay-paper,#0d1117);
--mark:var(--assay-mark,#58b0e8);--warn:var(--assay-warn,#f0a13a)}}
@media print{.assay-chart{color:#000;--paper:#fff;--mark:#0067a5;--warn:#b84a00}}
.assay-chart text{fill:currentColor}
.assay-chart .paper{fill:var(--paper)}
.assay-chart .title{font-size:16px;font-weight:600}
.assay-chart .small{font-size:12px}
.assay-chart .strong{font-weight:600}
.assay-chart .quiet{fill:var(--quiet)}
.assay-chart .warn{fill:var(--warn)}
.assay-chart .halo{stroke:var(--paper);stroke-width:4px;stroke-linejoin:round;paint-order:stroke}
.assay-chart .rule{stroke:var(--rule)}
.assay-chart .axis,.assay-chart .dashed{stroke:var(--quiet)}
.assay-chart .bar{fill:var(--mark)}
.assay-chart .bar-soft{fill:var(--soft)}
.assay-chart .bar-warn{fill:var(--warn)}
.assay-chart .dot{fill:var(--mark);stroke:var(--paper)}
.assay-chart .dot-soft{fill:var(--soft);stroke:var(--paper)}
.assay-chart .dot-warn{fill:var(--warn);stroke:var(--paper)}
.assay-chart .whisker,.assay-chart .trace{stroke:var(--mark)}
.assay-chart .whisker-soft{stroke:var(--soft)}
.assay-chart .whisker-warn{stroke:var(--warn)}
.assay-chart .band{fill:var(--mark)}
"""
"""Style sheet of every chart, so that a page under a strict content policy can allow it by its hash or serve it itself.

A page themes its charts with `--assay-ink`, `--assay-paper`, `--assay-mark` and `--assay-warn`; without them they follow the
reader's colour scheme. Every kind of colour vision distinguishes blue and orange.
"""

_STROKE = {"stroke-width": "2", "fill": "none"}
# Written as attributes of each element; where the style sheet applies it takes precedence, as CSS does over
# presentation attributes.
_PLAIN: dict[str, dict[str, str]] = {
    "paper": {"fill": "#fff"},
    "title": {"font-size": "16", "font-weight": "600"},
    "small": {"font-size": "12"},
    "strong": {"font-weight": "600"},
    "quiet": {"fill": "#5b5f64"},
    "warn": {"fill": "#b84a00"},
    "rule": {"stroke": "#dddedf", "shape-rendering": "crispEdges"},
    "axis": {"stroke": "#5b5f64", "shape-rendering": "crispEdges"},
    "dashed": {"stroke": "#5b5f64", "stroke-dasharray": "4 3"},
    "bar": {"fill": "#0067a5"},
    "bar-soft": {"fill": "#94969a"},
    "bar-warn": {"fill": "#b84a00"},
    "dot": {"fill": "#0067a5", "stroke": "#fff", "stroke-width": "1.5"},
    "dot-soft": {"fill": "#94969a", "stroke": "#fff", "stroke-width": "1.5"},
    "dot-warn": {"fill": "#b84a00", "stroke": "#fff", "stroke-width": "1.5"},
    "whisker": {"stroke": "#0067a5", **_STROKE},
    "whisker-soft": {"stroke": "#94969a", **_STROKE},
    "whisker-warn": {"stroke": "#b84a00", **_STROKE},
    "trace": {"stroke": "#0067a5", "stroke-linejoin": "round", **_STROKE},
    "band": {"fill": "#0067a5", "fill-opacity": "0.16"},
}
"""What each class looks like to a program that knows no style sheets, or may not follow them."""

SIZE = 13
SMALL = 12
TITLE_SIZE = 16
EDGE = 12
"""Pixels left free on each side."""
NARROWEST = 320
MAX_LABEL = 300
"""Characters of a text that is only shown when pointed at."""
_LINE = 17
_HAIR = 0.01
"""Pixels by which a text may be too wide: room that was made for it may differ in the last bits of a sum."""
# Noncharacters that XML 1.0 forbids: a browser shows an error in place of a document that has one.
_NOT_XML = re.compile("[\ufffe\uffff]")
# Widths by class of character, since no font is known where the chart is drawn.
_NARROW = frozenset("iljtfrI.,:;'|!()[] ·-")
_WIDE = frozenset("mwMW@%…—")


def number(value: float) -> str:
    """Return a coordinate with at most two decimals, the same on every machine."""
    # Adding 0.0 avoids `-0.00`; fewer digits keep the bytes the same where the last bits of a float differ.
    return f"{round(value, 2) + 0.0:.2f}".rstrip("0").rstrip(".")


def clean(text: str, *, limit: int = MAX_LABEL) -> str:
    """Return one line of harmless characters, not longer than the limit; not yet escaped."""
    return _NOT_XML.sub(REPLACEMENT, printable(text, limit=limit))


def text_width(text: str, size: float = SIZE) -> float:
    """Estimate the pixels that a text takes, rather too many than too few."""
    return size * sum(map(_character_width, text))


def _character_width(character: str) -> float:
    if character in _NARROW:
        return 0.4
    if character in _WIDE or unicodedata.east_asian_width(character) in "WF":
        return 1.0
    return 0.7 if character.isupper() else 0.64


def fitted(text: str, room: float, size: float = SIZE) -> str:
    """Return the beginning of a text that fits into the room, with an ellipsis where it was cut."""
    line = clean(text)
    if text_width(line, size) <= room + _HAIR:
        return line
    return line[: _fitting(line, room - text_width("…", size), size)].rstrip() + "…"


def fitted_ends(text: str, room: float, size: float = SIZE) -> str:
    """Return the beginning and the end of a text that fit into the room: names of runs differ at their end."""
    line = clean(text)
    if text_width(line, size) <= room + _HAIR:
        return line
    half = (room - text_width("…", size)) / 2
    end = _fitting(line[::-1], half, size)
    return f"{line[: _fitting(line, half, size)]}…{line[len(line) - end :]}"


def _fitting(line: str, room: float, size: float) -> int:
    """Return how many characters of a line fit."""
    widths = accumulate(_character_width(character) * size for character in line)
    return sum(1 for _ in takewhile(lambda width: width <= room, widths))


def wrapped(text: str, room: float, *, size: float = SIZE, lines: int = 2) -> list[str]:
    """Return the text on at most so many lines; the last is cut where it is too long."""
    words = clean(text).split()
    found: list[str] = []
    while words and len(found) < lines - 1:
        count = 1
        while count < len(words) and text_width(" ".join(words[: count + 1]), size) <= room:
            count += 1
        found.append(fitted(" ".join(words[:count]), room, size))
        words = words[count:]
    return [*found, fitted(" ".join(words), room, size)] if words else found


def element(name: str, attributes: dict[str, str | float], content: str = "") -> str:
    """Return one element; the content is markup already, the attributes are not."""
    plain = {key: value for style in str(attributes.get("class", "")).split() for key, value in _PLAIN.get(style, {}).items()}
    given = "".join(f' {key}="{_attribute(value)}"' for key, value in {**plain, **attributes}.items())
    return f"<{name}{given}>{content}</{name}>" if content else f"<{name}{given}/>"


def _attribute(value: str | float) -> str:
    # Attributes are in double quotes; `escape(quote=True)` would also change apostrophes, which is longer and not
    # needed there.
    return number(value) if isinstance(value, int | float) else escape(value, quote=False).replace('"', "&quot;")


def tooltip(text: str) -> str:
    """Return the title of an element: shown when it is pointed at, and read aloud."""
    return f"<title>{escape(clean(text), quote=False)}</title>"


def words(x: float, y: float, text: str, *, style: str = "", anchor: str = "", whole: str = "") -> str:
    """Return a text at a place; `whole` is what it was cut from."""
    # The whole text is shown when pointed at, but only where something was cut.
    attributes: dict[str, str | float] = {"x": x, "y": y}
    if anchor:
        attributes["text-anchor"] = anchor
    if style:
        attributes["class"] = style
    shown = escape(clean(text), quote=False)
    return element("text", attributes, shown + (tooltip(whole) if whole and clean(whole) != clean(text) else ""))


def line(start: tuple[float, float], end: tuple[float, float], *, style: str) -> str:
    """Return a straight line."""
    return element("line", {"x1": start[0], "y1": start[1], "x2": end[0], "y2": end[1], "class": style})


def rectangle(corner: tuple[float, float], size: tuple[float, float], *, style: str, says: str = "") -> str:
    """Return a filled rectangle from its upper left corner."""
    place: dict[str, str | float] = {"x": corner[0], "y": corner[1], "width": max(size[0], 0), "height": max(size[1], 0)}
    return element("rect", {**place, "class": style}, tooltip(says) if says else "")


def dot(center: tuple[float, float], radius: float, *, style: str = "dot", says: str = "") -> str:
    """Return a filled circle."""
    return element("circle", {"cx": center[0], "cy": center[1], "r": radius, "class": style}, tooltip(says) if says else "")


def path(points: Sequence[tuple[float, float]], *, style: str, is_closed: bool = False) -> str:
    """Straight lines from point to point."""
    steps = "L".join(f"{number(x)} {number(y)}" for x, y in points)
    return element("path", {"d": f"M{steps}{'Z' if is_closed else ''}", "class": style})


def caption_height(caption: Caption) -> float:
    """Return where the room below title and note begins."""
    return EDGE + 22 + _LINE * len(_note_lines(caption)) + 6


def _note_lines(caption: Caption) -> list[str]:
    return wrapped(caption.note, drawn_width(caption) - 2 * EDGE, size=SIZE) if caption.note else []


def drawn_width(caption: Caption) -> int:
    """Return the width that the chart is laid out for."""
    return max(caption.width, NARROWEST)


def document(caption: Caption, elements: Iterable[str], *, height: float, says: str) -> str:
    """Return the whole SVG: title, note and the chart; `says` describes it in words."""
    width = drawn_width(caption)
    size = number(height)
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="assay-chart" role="img" viewBox="0 0 {width} {size}" '
        f'width="{width}" height="{size}" font-family="system-ui,sans-serif" font-size="13">'
    )
    title = fitted(caption.title, width - 2 * EDGE, TITLE_SIZE)
    head = [
        tooltip(caption.title),
        f"<desc>{escape(clean(says, limit=2000), quote=False)}</desc>",
        # In the document itself, so that the file looks right by itself. Pages take it out again and serve it
        # (pages/page_renderer.py).
        f"<style>{STYLESHEET}</style>",
        rectangle((0, 0), (width, height), style="paper"),
        words(EDGE, EDGE + 13, title, style="title", whole=caption.title),
        *(
            words(EDGE, EDGE + 13 + _LINE * (index + 1) + 2, text, style="quiet", whole=caption.note if text.endswith("…") else "")
            for index, text in enumerate(_note_lines(caption))
        ),
    ]
    return "\n".join([opening, *head, *elements, "</svg>\n"])
