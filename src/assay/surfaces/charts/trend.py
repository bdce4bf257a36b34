"""A metric over the runs that followed each other."""

from collections.abc import Iterator, Sequence

import msgspec

from assay.presentation.charts import Caption, PlottedRun, ReferenceLine
from assay.surfaces.charts import svg
from assay.surfaces.charts.svg import LinearScale, estimate_text, number_label, rounded_range, whole_range

TICKS = 4
_PLOT = 190
_MANY = 40
"""From so many points on, intervals are a band and no longer a line each."""
_REMARK = 16
_LABEL = 120.0
"""Widest label of a point."""


class _Layout(msgspec.Struct, frozen=True):
    """Where points stand."""

    across: LinearScale
    upward: LinearScale
    floor: float
    """Labels of the points begin here; below the lowest value there is room for remarks."""


def trend_chart(
    points: Sequence[PlottedRun],
    caption: Caption,
    *,
    domain: tuple[float, float] | None = None,
    reference: ReferenceLine | None = None,
    fit: tuple[float, float] | None = None,
) -> str:
    """Return points from the oldest to the newest with their intervals; `fit` is a straight line from the first to the last."""
    values = [value for point in points for value in point.estimate.known_values]
    values += [*(fit or ()), *([reference.value] if reference else ())]
    low, high = whole_range(values, at_least=domain) if domain else rounded_range(values, count=TICKS)
    layout = _layout(points, caption, span=(low, high))
    body = [
        *_axis(layout),
        *(_reference(points, layout, reference) if reference else ()),
        *_points(points, layout),
        *(_fit(layout, fit) if fit else ()),
        *_labels(points, layout),
    ]
    if not values:
        body.append(svg.words(layout.across.start + 8, layout.upward.end + _PLOT / 2, "no scores", style="quiet"))
    return svg.document(caption, body, height=layout.floor + 26 + svg.EDGE, says=_spoken(points))


def _layout(points: Sequence[PlottedRun], caption: Caption, *, span: tuple[float, float]) -> _Layout:
    top = svg.caption_height(caption) + 14
    # If one point is a rate, all are: a trend has one measure.
    upward = LinearScale(*span, top + _PLOT, top, any(point.estimate.is_rate for point in points))
    floor = upward.start + (_REMARK if any(point.remark for point in points) else 0)
    ticks = upward.ticks(TICKS)
    gutter = max(svg.text_width(label, svg.SMALL) for label in upward.tick_labels(ticks)) + 10
    newest = max((svg.text_width(_value(point)) for point in points[-1:]), default=0.0)
    start = svg.EDGE + gutter + 10
    end = max(svg.drawn_width(caption) - svg.EDGE - 1.1 * newest - 12, start + 40)
    # A single point is drawn in the middle.
    span = (0, len(points) - 1) if len(points) > 1 else (-1, 1)
    return _Layout(LinearScale(*span, start, end), upward, floor)


def _axis(layout: _Layout) -> Iterator[str]:
    ticks = layout.upward.ticks(TICKS)
    left, right = layout.across.start - 10, layout.across.end + 6
    for tick, label in zip(ticks, layout.upward.tick_labels(ticks), strict=True):
        y = layout.upward(tick)
        yield svg.line((left, y), (right, y), style="rule")
        yield svg.words(left - 6, y + 4, label, style="quiet small", anchor="end")


def _reference(points: Sequence[PlottedRun], layout: _Layout, reference: ReferenceLine) -> Iterator[str]:
    y = layout.upward(reference.value)
    left, right = layout.across.start - 10, layout.across.end + 6
    text = svg.fitted(reference.label, right - left, svg.SMALL)
    width = svg.text_width(text, svg.SMALL)
    # Four places are tried, and the one that runs into the fewest points is taken.
    places = [(start, below) for below in (14, -6) for start in (left + 2, right - width)]
    crowds = [_crowd(points, layout, span=(start, start + width), middle=y + below - 4) for start, below in places]
    start, below = places[crowds.index(min(crowds))]
    yield svg.line((left, y), (right, y), style="dashed")
    yield svg.words(start, y + below, text, style="quiet small halo", whole=reference.label)


def _crowd(points: Sequence[PlottedRun], layout: _Layout, *, span: tuple[float, float], middle: float) -> int:
    """Return how many points a text at that height would run into."""
    found = 0
    for index, point in enumerate(points):
        heights = [layout.upward(value) for value in point.estimate.known_values]
        if heights and span[0] - 6 <= layout.across(index) <= span[1] + 6:
            found += min(heights) - 10 <= middle <= max(heights) + 10
    return found


def _points(points: Sequence[PlottedRun], layout: _Layout) -> Iterator[str]:
    for stretch in _stretches(points):
        if len(points) > _MANY:
            yield _band(points, stretch, layout)
        if len(stretch) > 1:
            yield svg.path([_place(points, index, layout) for index in stretch], style="trace")
    for index, point in enumerate(points):
        if point.estimate.is_known:
            yield from _point(point, _place(points, index, layout), layout, is_one_of_many=len(points) > _MANY)


def _stretches(points: Sequence[PlottedRun]) -> list[list[int]]:
    """Neighbours with a value; a point without one leaves a gap."""
    found: list[list[int]] = [[]]
    for index, point in enumerate(points):
        if point.estimate.is_known:
            found[-1].append(index)
        # A missing value breaks the line: a straight line across it would be a value that was not measured.
        elif found[-1]:
            found.append([])
    return [stretch for stretch in found if stretch]


def _place(points: Sequence[PlottedRun], index: int, layout: _Layout) -> tuple[float, float]:
    return layout.across(index), layout.upward(points[index].estimate.middle or 0.0)


def _band(points: Sequence[PlottedRun], stretch: Sequence[int], layout: _Layout) -> str:
    ends = [(index, points[index].estimate) for index in stretch]
    # Where one point of many lacks an interval, the band narrows to its value.
    upper = [(layout.across(index), layout.upward(_end(estimate.high, estimate.middle))) for index, estimate in ends]
    lower = [(layout.across(index), layout.upward(_end(estimate.low, estimate.middle))) for index, estimate in ends]
    return svg.path([*upper, *reversed(lower)], style="band", is_closed=True)


def _end(value: float | None, middle: float | None) -> float:
    return next((end for end in (value, middle) if end is not None), 0.0)


def _point(point: PlottedRun, place: tuple[float, float], layout: _Layout, *, is_one_of_many: bool) -> Iterator[str]:
    estimate, shade = point.estimate, "-warn" if point.remark else ""
    if not is_one_of_many and estimate.has_interval and estimate.low is not None and estimate.high is not None:
        ends = layout.upward(estimate.low), layout.upward(estimate.high)
        yield svg.line((place[0], ends[0]), (place[0], ends[1]), style=f"whisker{shade}")
    said = f"{point.label}: {estimate_text(estimate)}" + (f" ({point.remark})" if point.remark else "")
    yield svg.dot(place, 2.5 if is_one_of_many and not shade else 4.5, style=f"dot{shade}", says=said)


def _fit(layout: _Layout, fit: tuple[float, float]) -> Iterator[str]:
    yield svg.line((layout.across.start, layout.upward(fit[0])), (layout.across.end, layout.upward(fit[1])), style="dashed")


def _labels(points: Sequence[PlottedRun], layout: _Layout) -> Iterator[str]:
    for index in _labelled(points, layout):
        x = layout.across(index)
        is_first, is_last = index == 0, index == len(points) - 1
        text = svg.fitted_ends(points[index].label, _LABEL, svg.SMALL)
        # The first and the last label are aligned with the edge of the plot, so that they do not run out of it.
        anchor = "start" if is_first and not is_last else "end" if is_last and not is_first else "middle"
        shift = {"start": -10.0, "end": 10.0}.get(anchor, 0.0)
        yield svg.words(x + shift, layout.floor + 19, text, style="quiet small", anchor=anchor, whole=points[index].label)
    if points and points[-1].estimate.is_known:
        x, y = _place(points, len(points) - 1, layout)
        yield svg.words(x + 10, y + 4.5, _value(points[-1]), style="strong")
    yield from _remarks(points, layout)


def _labelled(points: Sequence[PlottedRun], layout: _Layout) -> list[int]:
    """Return the first, the last, and between them as many at equal steps as have room."""
    if len(points) < 2:
        return list(range(len(points)))
    widest = max(svg.text_width(svg.fitted_ends(point.label, _LABEL, svg.SMALL), svg.SMALL) for point in points)
    span = layout.across.end - layout.across.start + 20
    parts = max(min(int(span / (widest + 16)), len(points) - 1), 1)
    # A divisor of the number of gaps puts the labels at equal distances.
    usable = next((count for count in range(parts, 0, -1) if (len(points) - 1) % count == 0), 1)
    if widest * 2 + 12 > span:
        return [len(points) - 1]
    return [round(part * (len(points) - 1) / usable) for part in range(usable + 1)]


def _remarks(points: Sequence[PlottedRun], layout: _Layout) -> Iterator[str]:
    """Words at the points that stand out, as long as they do not run into each other; all can be read by pointing at them."""
    end = layout.across.start - 20
    room = 0.6 * (layout.across.end - layout.across.start)
    for index, point in enumerate(points):
        if not point.remark or not point.estimate.is_known:
            continue
        text = svg.fitted(point.remark, room, svg.SMALL)
        half = svg.text_width(text, svg.SMALL) / 2
        center = min(max(layout.across(index), layout.across.start - 8 + half), layout.across.end + 8 - half)
        if center - half >= end:
            lowest = max(layout.upward(value) for value in point.estimate.known_values)
            yield svg.words(center, lowest + 15, text, style="warn small halo", anchor="middle", whole=point.remark)
            end = center + half + 6


def _value(point: PlottedRun) -> str:
    return number_label(point.estimate.middle, is_rate=point.estimate.is_rate) if point.estimate.is_known else ""


def _spoken(points: Sequence[PlottedRun]) -> str:
    if not points:
        return "Trend without any run."
    first, last = (f"{svg.clean(point.label, limit=60)}: {estimate_text(point.estimate)}" for point in (points[0], points[-1]))
    remarks = "; ".join(
        f"{svg.clean(point.label, limit=60)}: {svg.clean(point.remark, limit=100)}" for point in points if point.remark
    )
    return f"Trend over {len(points):,} runs. First {first}. Last {last}." + (f" {remarks}." if remarks else "")
