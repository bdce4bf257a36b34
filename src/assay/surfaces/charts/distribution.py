"""How often each score was given."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec

from assay.core.number_text import rate_text
from assay.presentation.charts import Caption, PlottedEstimate, ScoreLevel, is_drawable
from assay.surfaces.charts import svg
from assay.surfaces.charts.svg import LinearScale, estimate_text, number_label, whole_range

_PLOT = 150
_WIDEST = 56.0
_THINNEST = 3.0
# Pixels between the columns and the labels of the axis, where the mean and its interval are drawn.
_MEAN_LANE = 26
_NO_MEAN = PlottedEstimate(None, None, None, 0)


class _Layout(msgspec.Struct, frozen=True):
    """Where the columns stand."""

    across: LinearScale
    upward: LinearScale
    """Counts to heights."""
    column: float
    """Width of the column of a single score; 0 where all columns have their own."""
    floor: float
    total: int


def score_distribution(
    levels: Sequence[ScoreLevel],
    caption: Caption,
    *,
    domain: tuple[float, float] | None = None,
    mean: PlottedEstimate | None = None,
) -> str:
    """Return a column for each level with its count above, and below them the mean with its interval."""
    shown = sorted(
        (level for level in levels if is_drawable(level.low) and is_drawable(level.high)), key=lambda level: (level.low, level.high)
    )
    layout = _layout(shown, caption, domain=domain)
    has_mean = mean is not None and mean.is_known
    lane = _MEAN_LANE if has_mean else 0
    body = [
        *(_columns(shown, layout) if layout.total else _nothing(layout)),
        *_axis(shown, layout, lane=lane),
        *(_mean(mean or _NO_MEAN, layout) if has_mean else ()),
    ]
    return svg.document(caption, body, height=layout.floor + lane + 24 + svg.EDGE, says=_spoken(shown, layout.total, mean))


def _layout(levels: Sequence[ScoreLevel], caption: Caption, *, domain: tuple[float, float] | None) -> _Layout:
    low, high = whole_range([end for level in levels for end in (level.low, level.high)], at_least=domain)
    width = svg.drawn_width(caption) - 2 * svg.EDGE
    column = _column_width([level.low for level in levels if level.low == level.high], high - low, width)
    # Half a column on each side, or the columns of the lowest and the highest score would be cut at the edge.
    across = LinearScale(low, high, svg.EDGE + max(column / 2, 12), svg.EDGE + width - max(column / 2, 12))
    top = svg.caption_height(caption) + 16
    highest = max((level.count for level in levels), default=0)
    # An empty distribution still needs a scale that is not empty.
    return _Layout(across, LinearScale(0, max(highest, 1), 0, _PLOT), column, top + _PLOT, sum(level.count for level in levels))


def _column_width(scores: Sequence[float], span: float, room: float) -> float:
    """Three quarters of the smallest gap between single scores, within reason."""
    if not scores:
        return 0.0
    gaps = [after - before for before, after in pairwise(scores) if after > before]
    share = min(gaps, default=span) / span
    # A gap of one of n equal parts leaves room for n + 1 columns.
    return min(max(0.75 * room * share / (1 + share), _THINNEST), _WIDEST)


def _columns(levels: Sequence[ScoreLevel], layout: _Layout) -> Iterator[str]:
    """Draw columns, with the count above each where all have room for it, else in front of a grid."""
    edges = [_edges(level, layout) for level in levels]
    # All or none: a count above some columns only reads as if the others had none.
    is_labelled = _have_room(levels, [(left + right) / 2 for left, right in edges])
    if not is_labelled:
        yield from _grid(layout)
    for level, (left, right) in zip(levels, edges, strict=True):
        # One record among thousands would be less than a pixel high, and look like none.
        height = max(layout.upward(level.count), 1.0) if level.count else 0.0
        if height:
            yield svg.rectangle((left, layout.floor - height), (right - left, height), style="bar", says=_says(level, layout.total))
        if is_labelled:
            style = "small" if level.count else "quiet small"
            yield svg.words((left + right) / 2, layout.floor - height - 5, f"{level.count:,}", style=style, anchor="middle")


def _have_room(levels: Sequence[ScoreLevel], centers: Sequence[float]) -> bool:
    halves = [svg.text_width(f"{level.count:,}", svg.SMALL) / 2 for level in levels]
    starts = [center - half for center, half in zip(centers, halves, strict=True)]
    ends = [center + half for center, half in zip(centers, halves, strict=True)]
    # Estimated widths are on the large side, so labels may overlap by two pixels on paper without touching on a
    # screen.
    return all(start - end >= -2 for end, start in zip(ends, starts[1:], strict=False))


def _grid(layout: _Layout) -> Iterator[str]:
    left, right = layout.across.start - 12, layout.across.end + 12
    counts = [count for count in layout.upward.ticks(4) if count and count.is_integer()]
    for count in counts:
        y = layout.floor - layout.upward(count)
        yield svg.line((left, y), (right, y), style="rule")
        yield svg.words(left, y - 4, f"{count:,.0f}", style="quiet small")


def _edges(level: ScoreLevel, layout: _Layout) -> tuple[float, float]:
    left, right = layout.across(level.low), layout.across(level.high)
    if level.low == level.high:
        return left - layout.column / 2, right + layout.column / 2
    # A gap between bins, but never so much that a narrow bin disappears.
    return left + 0.5, max(right - 0.5, left + 1.5)


def _nothing(layout: _Layout) -> Iterator[str]:
    yield svg.words(
        (layout.across.start + layout.across.end) / 2, layout.floor - _PLOT / 2, "no scores", style="quiet", anchor="middle"
    )


def _axis(levels: Sequence[ScoreLevel], layout: _Layout, *, lane: float) -> Iterator[str]:
    across = layout.across
    reach = max(layout.column / 2, 12)
    yield svg.line((across.start - reach, layout.floor), (across.end + reach, layout.floor), style="axis")
    for tick, label in _ticks(levels, layout):
        yield svg.line((across(tick), layout.floor), (across(tick), layout.floor + 4), style="axis")
        yield svg.words(across(tick), layout.floor + lane + 19, label, style="quiet small", anchor="middle")


def _ticks(levels: Sequence[ScoreLevel], layout: _Layout) -> list[tuple[float, str]]:
    """Return each score where they are few and stand apart, else round numbers."""
    across = layout.across
    scores = [level.low for level in levels if level.low == level.high]
    places = [across(score) for score in scores]
    is_apart = all(after - before >= 34 for before, after in pairwise(places))
    # Labels of scores only where each column is one: a bin has no single score to write below it.
    if scores and len(scores) == len(levels) and is_apart and len(scores) > 1:
        return [
            (score, f"{score:g}" if score.is_integer() and abs(score) < 1e6 else number_label(score))
            for score in map(float, scores)
        ]
    ticks = across.ticks(max(int((across.end - across.start) / 70), 2))
    return list(zip(ticks, across.tick_labels(ticks), strict=True))


def _mean(mean: PlottedEstimate, layout: _Layout) -> Iterator[str]:
    y = layout.floor + 17
    place = layout.across(mean.middle or 0.0)
    ends = (place, place)
    if mean.has_interval and mean.low is not None and mean.high is not None:
        ends = layout.across(mean.low), layout.across(mean.high)
        yield svg.line((ends[0], y), (ends[1], y), style="whisker")
    yield svg.dot((place, y), 5, says=f"mean {estimate_text(mean)}")
    label = f"mean {number_label(mean.middle)}"
    # On the right of the interval if there is room before the edge, otherwise on its left.
    is_right = max(ends[1], place + 5) + 8 + svg.text_width(label, svg.SMALL) <= layout.across.end + layout.column / 2
    x, anchor = (max(ends[1], place + 5) + 7, "start") if is_right else (min(ends[0], place - 5) - 7, "end")
    yield svg.words(x, y + 4, label, style="strong small", anchor=anchor)


def _says(level: ScoreLevel, total: int) -> str:
    ends = number_label(level.low) if level.low == level.high else f"{number_label(level.low)} to {number_label(level.high)}"
    return f"score {ends}: {level.count:,} of {total:,} ({rate_text(level.count / total)})"


def _spoken(levels: Sequence[ScoreLevel], total: int, mean: PlottedEstimate | None) -> str:
    said = "; ".join(_says(level, total) for level in levels if level.count)
    # The description is what a screen reader reads instead of the picture, so it has every number that is drawn.
    tail = f" Mean {estimate_text(mean)}." if mean is not None and mean.is_known else ""
    return f"Distribution of {total:,} scores. {said or 'No scores'}.{tail}"
