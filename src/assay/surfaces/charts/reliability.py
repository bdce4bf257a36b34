"""Whether scores mean what they say: what the judge gave against what the labels say."""

from collections.abc import Iterator, Sequence

import msgspec

from assay.presentation.charts import Caption, ScoreBin, is_drawable
from assay.surfaces.charts import svg
from assay.surfaces.charts.svg import LinearScale, estimate_text, number_label

_WIDEST = 400
_STRIP = 34
"""Height of the columns that show how many records a bin has."""


class _Layout(msgspec.Struct, frozen=True):
    """Where the square is."""

    across: LinearScale
    upward: LinearScale
    strip: float
    """Line that the columns stand on."""


def reliability_diagram(
    bins: Sequence[ScoreBin],
    caption: Caption,
    *,
    domain: tuple[float, float] = (0.0, 1.0),
    axes: tuple[str, str] = ("judge's score", "labelled score"),
) -> str:
    """Return a point for each bin with its interval, the diagonal of perfect agreement, and how many records each bin has."""
    shown = sorted((found for found in bins if is_drawable(found.given)), key=lambda found: found.given)
    layout = _layout(caption, domain, is_rate=any(found.observed.is_rate for found in shown))
    body = [*_axes(layout, axes), *_diagonal(layout), *_strip(shown, layout), *_points(shown, layout)]
    if not any(found.observed.is_known for found in shown):
        center = (layout.across.start + layout.across.end) / 2, (layout.upward.start + layout.upward.end) / 2
        body.append(svg.words(*center, "no labelled records", style="quiet halo", anchor="middle"))
    return svg.document(caption, body, height=layout.strip + 40 + svg.EDGE, says=_spoken(shown))


def _layout(caption: Caption, domain: tuple[float, float], *, is_rate: bool) -> _Layout:
    width = svg.drawn_width(caption)
    top = svg.caption_height(caption) + 24
    start = svg.EDGE + 44
    side = min(width - start - svg.EDGE - 10, _WIDEST)
    bottom = top + side * 0.86
    return _Layout(LinearScale(*domain, start, start + side), LinearScale(*domain, bottom, top, is_rate), bottom + _STRIP + 22)


def _axes(layout: _Layout, axes: tuple[str, str]) -> Iterator[str]:
    across, upward = layout.across, layout.upward
    ticks = across.ticks(5)
    # Both axes have the same ticks, since the diagonal compares them.
    for tick, label, height in zip(ticks, across.tick_labels(ticks), upward.tick_labels(ticks), strict=True):
        yield svg.line((across(tick), upward.start), (across(tick), upward.end), style="rule")
        yield svg.line((across.start, upward(tick)), (across.end, upward(tick)), style="rule")
        yield svg.words(across.start - 7, upward(tick) + 4, height, style="quiet small", anchor="end")
        yield svg.words(across(tick), layout.strip + 17, label, style="quiet small", anchor="middle")
    room = across.end - across.start
    yield svg.words(svg.EDGE, upward.end - 12, svg.fitted(f"↑ {axes[1]}", room, svg.SMALL), style="small", whole=axes[1])
    text = svg.fitted(f"{axes[0]} →", room, svg.SMALL)
    yield svg.words(across.end, layout.strip + 35, text, style="small", anchor="end", whole=axes[0])


def _diagonal(layout: _Layout) -> Iterator[str]:
    across, upward = layout.across, layout.upward
    yield svg.line((across.start, upward.start), (across.end, upward.end), style="dashed")
    yield svg.words(across.start + 8, upward.end + 18, "judge too strict", style="quiet small halo")
    yield svg.words(across.end - 8, upward.start - 10, "judge too generous", style="quiet small halo", anchor="end")


def _strip(bins: Sequence[ScoreBin], layout: _Layout) -> Iterator[str]:
    highest = max((found.observed.n for found in bins), default=0)
    yield svg.line((layout.across.start, layout.strip), (layout.across.end, layout.strip), style="axis")
    yield svg.words(svg.EDGE, layout.strip - 1, "n", style="quiet small")
    # Counts that would run into the one before are left out; pointing at a column shows its own.
    end = float("-inf")
    for found in bins:
        if found.observed.n <= 0:
            continue
        x = layout.across(found.given)
        height = max(_STRIP * found.observed.n / highest, 1.0)
        yield svg.rectangle((x - 5, layout.strip - height), (10, height), style="bar-soft", says=_says(found))
        label = f"{found.observed.n:,}"
        half = svg.text_width(label, svg.SMALL) / 2
        if x - half > end:
            yield svg.words(x, layout.strip - height - 4, label, style="quiet small", anchor="middle")
            end = x + half + 2


def _points(bins: Sequence[ScoreBin], layout: _Layout) -> Iterator[str]:
    known = [found for found in bins if found.observed.is_known]
    # `or 0.0` is for the type alone: only known bins are drawn.
    places = [(layout.across(found.given), layout.upward(found.observed.middle or 0.0)) for found in known]
    if len(places) > 1:
        yield svg.path(places, style="trace")
    for found, place in zip(known, places, strict=True):
        low, high = found.observed.low, found.observed.high
        if found.observed.has_interval and low is not None and high is not None:
            yield svg.line((place[0], layout.upward(low)), (place[0], layout.upward(high)), style="whisker")
        yield svg.dot(place, 5, says=_says(found))


def _says(found: ScoreBin) -> str:
    return f"given {number_label(found.given)}, labelled {estimate_text(found.observed)}"


def _spoken(bins: Sequence[ScoreBin]) -> str:
    said = "; ".join(_says(found) for found in bins[:20])
    return f"Reliability diagram. {said or 'No labelled records'}."
