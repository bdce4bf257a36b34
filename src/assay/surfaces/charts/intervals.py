"""Estimates below each other, each with its interval: candidates, slices, differences."""

from collections.abc import Iterator, Sequence

import msgspec

from assay.presentation.charts import Caption, IntervalRow, PlottedEstimate, ReferenceLine
from assay.surfaces.charts import svg
from assay.surfaces.charts.svg import UNKNOWN, LinearScale, estimate_text, number_label, rounded_range, whole_range

MAX_ROWS = 60
"""More are counted in a last line: readers cannot compare more at a glance."""
TICKS = 3
_ROW = 26
_STACKED_ROW = 44
_GUTTER = 0.34
"""Share of the width that labels may take to the left of their intervals; longer ones stand above them."""
_GAP = 10
_DOT = 5.0


class _Layout(msgspec.Struct, frozen=True):
    """Where the columns are."""

    scale: LinearScale
    label_room: float
    row: float
    """Height of a line."""
    value_end: float
    count_end: float
    top: float
    bottom: float
    is_signed: bool


def interval_plot(
    rows: Sequence[IntervalRow],
    caption: Caption,
    *,
    domain: tuple[float, float] | None = None,
    reference: ReferenceLine | None = None,
    omitted: int = 0,
) -> str:
    """Return a line for each row: label, interval with its middle, value and n; `omitted` are rows that the caller left out."""
    values = [value for row in rows for value in row.estimate.known_values]
    values += [reference.value] if reference else []
    # With a domain the axis is the whole scale, so that charts of two runs can be laid side by side; otherwise it
    # fits the values.
    low, high = whole_range(values, at_least=domain) if domain else rounded_range(values, count=TICKS)
    return _plot(rows, caption, span=(low, high), reference=reference, omitted=omitted)


def difference_plot(rows: Sequence[IntervalRow], caption: Caption, *, omitted: int = 0) -> str:
    """Return differences around 0: in colour where the interval leaves 0 out, blue above and orange below."""
    values = [value for row in rows for value in row.estimate.known_values]
    # 0 is always on the axis: where the intervals are relative to it is the point of the plot.
    span = rounded_range([*values, 0.0], count=TICKS)
    return _plot(rows, caption, span=span, reference=ReferenceLine(0.0, "no difference"), omitted=omitted, is_signed=True)


def _plot(
    rows: Sequence[IntervalRow],
    caption: Caption,
    *,
    span: tuple[float, float],
    reference: ReferenceLine | None,
    omitted: int,
    is_signed: bool = False,
) -> str:
    shown = rows[:MAX_ROWS]
    layout = _layout(shown, caption, span=span, has_reference=reference is not None, is_signed=is_signed)
    left_out = omitted + len(rows) - len(shown)
    frame = [*_axis(layout), *(_reference(layout, reference) if reference else ())] if rows else []
    body = [*frame, *_rows(shown, layout)]
    height = layout.bottom + 24 + svg.EDGE
    if left_out:
        height += 18
        body.append(svg.words(svg.EDGE, height - svg.EDGE, f"… and {left_out:,} more", style="quiet"))
    if not rows:
        body.append(svg.words(svg.EDGE, layout.top + 17, "nothing to show", style="quiet"))
    return svg.document(caption, body, height=height, says=_spoken(shown, left_out, is_signed=is_signed))


def _layout(
    rows: Sequence[IntervalRow], caption: Caption, *, span: tuple[float, float], has_reference: bool, is_signed: bool
) -> _Layout:
    width = svg.drawn_width(caption)
    wanted = max((svg.text_width(svg.clean(row.label)) + _indent(row) for row in rows), default=0.0)
    # One long label moves all of them above their lines; mixed rows would not be comparable.
    is_stacked = wanted > _GUTTER * width
    count_end = width - svg.EDGE
    counts = max((svg.text_width(f"{row.estimate.n:,}") for row in rows), default=0.0)
    value_end = count_end - max(counts, 14) - 12
    values = max((svg.text_width(_value(row.estimate, is_signed=is_signed)) for row in rows), default=30.0)
    start = svg.EDGE + 10 if is_stacked else svg.EDGE + wanted + 16
    # A very long value leaves at least a stub of an axis instead of one that runs backwards.
    end = max(value_end - values - 14, start + 40)
    top = svg.caption_height(caption) + 18 + (14 if has_reference else 0)
    headings = len(_group_starts(rows))
    row = _STACKED_ROW if is_stacked else _ROW
    bottom = top + row * max(len(rows), 1) + (_ROW + _GAP) * headings
    label_room = width - 2 * svg.EDGE if is_stacked else wanted
    is_rate = any(row.estimate.is_rate for row in rows)
    return _Layout(LinearScale(*span, start, end, is_rate), label_room, row, value_end, count_end, top, bottom, is_signed)


def _indent(row: IntervalRow) -> float:
    return 10.0 if row.group else 0.0


def _group_starts(rows: Sequence[IntervalRow]) -> set[int]:
    before = ["", *(row.group for row in rows)]
    return {index for index, row in enumerate(rows) if row.group and row.group != before[index]}


def _axis(layout: _Layout) -> Iterator[str]:
    scale = layout.scale
    ticks = scale.ticks(TICKS)
    # A scale from 1 to 5 is shown with its ends.
    ticks = ticks if {scale.low, scale.high} & set(ticks) else scale.ticks(TICKS + 1)
    for tick, label in zip(ticks, scale.tick_labels(ticks), strict=True):
        yield svg.line((scale(tick), layout.top - 4), (scale(tick), layout.bottom), style="rule")
        yield svg.words(scale(tick), layout.bottom + 17, label, style="quiet small", anchor="middle")
    yield svg.words(layout.count_end, layout.top - 8, "n", style="quiet small", anchor="end")


def _reference(layout: _Layout, reference: ReferenceLine) -> Iterator[str]:
    place = layout.scale(reference.value)
    room = layout.value_end - svg.EDGE
    text = svg.fitted(reference.label, room, svg.SMALL)
    half = svg.text_width(text, svg.SMALL) / 2
    # Kept inside the plot: the label of a gate at 100 % would otherwise run over the column of numbers.
    x = min(max(place, svg.EDGE + half), max(layout.value_end - half, svg.EDGE + half))
    yield svg.line((place, layout.top - 6), (place, layout.bottom), style="dashed")
    yield svg.words(x, layout.top - 12, text, style="quiet small", anchor="middle", whole=reference.label)


def _rows(rows: Sequence[IntervalRow], layout: _Layout) -> Iterator[str]:
    starts = _group_starts(rows)
    y = layout.top
    for index, row in enumerate(rows):
        if index in starts:
            y += _GAP if index else 0
            room = layout.scale.end - svg.EDGE
            yield svg.words(svg.EDGE, y + 17, svg.fitted(row.group, room), style="strong halo", whole=row.group)
            y += _ROW
        yield from _row(row, y, layout)
        y += layout.row


def _row(row: IntervalRow, y: float, layout: _Layout) -> Iterator[str]:
    # A label next to its interval is at the same height, one above it is a line higher.
    estimate, middle = row.estimate, y + layout.row - _ROW / 2
    label = svg.fitted(row.label, layout.label_room - _indent(row))
    yield svg.words(svg.EDGE + _indent(row), y + _ROW / 2 + 4.5, label, style="halo", whole=row.label)
    shade = _shade(estimate) if layout.is_signed else ""
    if estimate.has_interval and estimate.low is not None and estimate.high is not None:
        ends = layout.scale(estimate.low), layout.scale(estimate.high)
        yield svg.line((ends[0], middle), (ends[1], middle), style=f"whisker{shade}")
    if estimate.is_known and estimate.middle is not None:
        says = f"{row.label}: {estimate_text(estimate, is_signed=layout.is_signed)}"
        yield svg.dot((layout.scale(estimate.middle), middle), _DOT, style=f"dot{shade}", says=says)
    style = "strong" if estimate.is_known else "quiet small"
    yield svg.words(layout.value_end, middle + 4.5, _value(estimate, is_signed=layout.is_signed), style=style, anchor="end")
    yield svg.words(layout.count_end, middle + 4.5, f"{estimate.n:,}", style="quiet", anchor="end")


def _shade(estimate: PlottedEstimate) -> str:
    """Return the shade of a difference: soft if its interval contains 0, a warning below 0."""
    # An interval that contains 0 shows no difference, so it must not look like one.
    if not estimate.has_interval or estimate.low is None or estimate.high is None or estimate.low <= 0 <= estimate.high:
        return "-soft"
    return "-warn" if estimate.high < 0 else ""


def _value(estimate: PlottedEstimate, *, is_signed: bool) -> str:
    return number_label(estimate.middle, is_signed=is_signed, is_rate=estimate.is_rate) if estimate.is_known else UNKNOWN


def _spoken(rows: Sequence[IntervalRow], left_out: int, *, is_signed: bool) -> str:
    # A description is read aloud from its beginning to its end: twenty rows are as much as anyone listens to.
    said = "; ".join(f"{svg.clean(row.label, limit=40)}: {estimate_text(row.estimate, is_signed=is_signed)}" for row in rows[:20])
    rest = left_out + max(len(rows) - 20, 0)
    return f"Interval plot. {said}" + (f"; and {rest:,} more" if rest else "") + "."
