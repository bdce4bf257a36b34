"""Estimates below each other, each with its interval: candidates, slices, differences."""

from collections.abc import Iterator, Sequence

import msgspec

from assay.surfaces.charts import ink
from assay.surfaces.charts.figures import UNKNOWN, estimate_text, figure
from assay.surfaces.charts.scales import Scale, rounded_range, whole_range
from assay.surfaces.charts.values import Caption, Estimate, Reference, Row

MAX_ROWS = 60
"""More are counted in a last line: nobody compares more at a glance."""
TICKS = 3
_ROW = 26
_STACKED_ROW = 44
_GUTTER = 0.34
"""Share of the width that labels may take beside their intervals; longer ones stand above them."""
_GAP = 10
_DOT = 5.0


class _Layout(msgspec.Struct, frozen=True):
    """Where the columns are."""

    scale: Scale
    label_room: float
    row: float
    """Height of a line."""
    value_end: float
    count_end: float
    top: float
    bottom: float
    is_signed: bool


def interval_plot(
    rows: Sequence[Row],
    caption: Caption,
    *,
    domain: tuple[float, float] | None = None,
    reference: Reference | None = None,
    omitted: int = 0,
) -> str:
    """A line for each row: label, interval with its middle, value and n; `omitted` are rows that the caller left out."""
    values = [value for row in rows for value in row.estimate.known_values]
    values += [reference.value] if reference else []
    low, high = whole_range(values, at_least=domain) if domain else rounded_range(values, count=TICKS)
    return _plot(rows, caption, span=(low, high), reference=reference, omitted=omitted)


def difference_plot(rows: Sequence[Row], caption: Caption, *, omitted: int = 0) -> str:
    """Differences around 0: in colour where the interval leaves 0 out, blue above and orange below."""
    values = [value for row in rows for value in row.estimate.known_values]
    span = rounded_range([*values, 0.0], count=TICKS)
    return _plot(rows, caption, span=span, reference=Reference(0.0, "no difference"), omitted=omitted, is_signed=True)


def _plot(
    rows: Sequence[Row],
    caption: Caption,
    *,
    span: tuple[float, float],
    reference: Reference | None,
    omitted: int,
    is_signed: bool = False,
) -> str:
    shown = rows[:MAX_ROWS]
    layout = _layout(shown, caption, span=span, has_reference=reference is not None, is_signed=is_signed)
    left_out = omitted + len(rows) - len(shown)
    frame = [*_axis(layout), *(_reference(layout, reference) if reference else ())] if rows else []
    body = [*frame, *_rows(shown, layout)]
    height = layout.bottom + 24 + ink.EDGE
    if left_out:
        height += 18
        body.append(ink.words(ink.EDGE, height - ink.EDGE, f"… and {left_out:,} more", style="quiet"))
    if not rows:
        body.append(ink.words(ink.EDGE, layout.top + 17, "nothing to show", style="quiet"))
    return ink.document(caption, body, height=height, says=_spoken(shown, left_out, is_signed=is_signed))


def _layout(rows: Sequence[Row], caption: Caption, *, span: tuple[float, float], has_reference: bool, is_signed: bool) -> _Layout:
    width = ink.drawn_width(caption)
    wanted = max((ink.text_width(ink.clean(row.label)) + _indent(row) for row in rows), default=0.0)
    is_stacked = wanted > _GUTTER * width
    count_end = width - ink.EDGE
    counts = max((ink.text_width(f"{row.estimate.n:,}") for row in rows), default=0.0)
    value_end = count_end - max(counts, 14) - 12
    values = max((ink.text_width(_value(row.estimate, is_signed=is_signed)) for row in rows), default=30.0)
    start = ink.EDGE + 10 if is_stacked else ink.EDGE + wanted + 16
    end = max(value_end - values - 14, start + 40)
    top = ink.caption_height(caption) + 18 + (14 if has_reference else 0)
    headings = len(_group_starts(rows))
    row = _STACKED_ROW if is_stacked else _ROW
    bottom = top + row * max(len(rows), 1) + (_ROW + _GAP) * headings
    label_room = width - 2 * ink.EDGE if is_stacked else wanted
    is_rate = any(row.estimate.is_rate for row in rows)
    return _Layout(Scale(*span, start, end, is_rate), label_room, row, value_end, count_end, top, bottom, is_signed)


def _indent(row: Row) -> float:
    return 10.0 if row.group else 0.0


def _group_starts(rows: Sequence[Row]) -> set[int]:
    before = ["", *(row.group for row in rows)]
    return {index for index, row in enumerate(rows) if row.group and row.group != before[index]}


def _axis(layout: _Layout) -> Iterator[str]:
    scale = layout.scale
    ticks = scale.ticks(TICKS)
    # A scale from 1 to 5 is shown with its ends.
    ticks = ticks if {scale.low, scale.high} & set(ticks) else scale.ticks(TICKS + 1)
    for tick, label in zip(ticks, scale.tick_labels(ticks), strict=True):
        yield ink.line((scale(tick), layout.top - 4), (scale(tick), layout.bottom), style="rule")
        yield ink.words(scale(tick), layout.bottom + 17, label, style="quiet small", anchor="middle")
    yield ink.words(layout.count_end, layout.top - 8, "n", style="quiet small", anchor="end")


def _reference(layout: _Layout, reference: Reference) -> Iterator[str]:
    place = layout.scale(reference.value)
    room = layout.value_end - ink.EDGE
    text = ink.fitted(reference.label, room, ink.SMALL)
    half = ink.text_width(text, ink.SMALL) / 2
    x = min(max(place, ink.EDGE + half), max(layout.value_end - half, ink.EDGE + half))
    yield ink.line((place, layout.top - 6), (place, layout.bottom), style="dashed")
    yield ink.words(x, layout.top - 12, text, style="quiet small", anchor="middle", whole=reference.label)


def _rows(rows: Sequence[Row], layout: _Layout) -> Iterator[str]:
    starts = _group_starts(rows)
    y = layout.top
    for index, row in enumerate(rows):
        if index in starts:
            y += _GAP if index else 0
            room = layout.scale.end - ink.EDGE
            yield ink.words(ink.EDGE, y + 17, ink.fitted(row.group, room), style="strong halo", whole=row.group)
            y += _ROW
        yield from _row(row, y, layout)
        y += layout.row


def _row(row: Row, y: float, layout: _Layout) -> Iterator[str]:
    # A label beside its interval is at the same height, one above it is a line higher.
    estimate, middle = row.estimate, y + layout.row - _ROW / 2
    label = ink.fitted(row.label, layout.label_room - _indent(row))
    yield ink.words(ink.EDGE + _indent(row), y + _ROW / 2 + 4.5, label, style="halo", whole=row.label)
    shade = _shade(estimate) if layout.is_signed else ""
    if estimate.has_interval and estimate.low is not None and estimate.high is not None:
        ends = layout.scale(estimate.low), layout.scale(estimate.high)
        yield ink.line((ends[0], middle), (ends[1], middle), style=f"whisker{shade}")
    if estimate.is_known and estimate.middle is not None:
        says = f"{row.label}: {estimate_text(estimate, is_signed=layout.is_signed)}"
        yield ink.dot((layout.scale(estimate.middle), middle), _DOT, style=f"dot{shade}", says=says)
    style = "strong" if estimate.is_known else "quiet small"
    yield ink.words(layout.value_end, middle + 4.5, _value(estimate, is_signed=layout.is_signed), style=style, anchor="end")
    yield ink.words(layout.count_end, middle + 4.5, f"{estimate.n:,}", style="quiet", anchor="end")


def _shade(estimate: Estimate) -> str:
    """Of a difference: none in doubt, a warning where it is surely below 0."""
    if not estimate.has_interval or estimate.low is None or estimate.high is None or estimate.low <= 0 <= estimate.high:
        return "-soft"
    return "-warn" if estimate.high < 0 else ""


def _value(estimate: Estimate, *, is_signed: bool) -> str:
    return figure(estimate.middle, is_signed=is_signed, is_rate=estimate.is_rate) if estimate.is_known else UNKNOWN


def _spoken(rows: Sequence[Row], left_out: int, *, is_signed: bool) -> str:
    said = "; ".join(f"{ink.clean(row.label, limit=40)}: {estimate_text(row.estimate, is_signed=is_signed)}" for row in rows[:20])
    rest = left_out + max(len(rows) - 20, 0)
    return f"Interval plot. {said}" + (f"; and {rest:,} more" if rest else "") + "."
