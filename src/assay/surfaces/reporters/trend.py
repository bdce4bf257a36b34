"""Runs in the order of time, for the terminal, with the direction in words."""

from __future__ import annotations

from collections.abc import Iterator

from assay import api
from assay.core.number_text import rate_change_text, score_text
from assay.presentation.run import ID_LIMIT
from assay.presentation.sections import Column
from assay.presentation.words import bar, counted, decimal, ends_between, rate, with_interval
from assay.surfaces.printable import printable, printable_id
from assay.surfaces.reporters.settings import ReportSettings
from assay.surfaces.reporters.terminal import LABEL, Paint, hanging, painter, table

_STYLES = {"up": "accepted", "down": "error", "none": "quiet"}


def trend_text(found: api.RunTrend, settings: ReportSettings, *, chart: str = "") -> Iterator[str]:
    """A line for each run with its interval and a bar, then the direction."""
    paint = painter(is_coloured=settings.is_coloured)
    largest = 1.0 if found.measure == "pass_rate" else max((point.value for point in found.points), default=1.0)
    text = rate if found.measure == "pass_rate" else decimal
    columns = (
        Column("run"),
        Column("started"),
        Column("candidate"),
        Column("n", is_number=True),
        Column(printable(_title(found)), is_number=True),
        Column(""),
    )
    rows = [
        (
            printable_id(point.run_id, limit=ID_LIMIT),
            point.created_at[:16].replace("T", " "),
            printable(point.candidate, limit=ID_LIMIT),
            f"{point.n:,}",
            with_interval(point.value, ends_between(point.low, point.high), text),
            bar(max(0, round(1000 * point.value)), round(1000 * largest)),
        )
        for point in found.points
    ]
    yield f"{paint(printable(found.dataset), 'strong')} · {printable(found.candidate)} · {counted(len(found.points), 'run')}\n\n"
    yield from table(columns, rows, paint=paint, width=settings.width)
    direction = _folded(direction_words(found), settings)
    yield f"\n{label('direction', paint)}{paint(direction, _STYLES[found.trend.direction])}\n"
    if found.left_out:
        left_out = ", ".join(f"{count:,} {why}" for why, count in found.left_out.items())
        yield f"{label('left out', paint)}{_folded(left_out, settings)}\n"
    for note in found.notes:
        yield f"{label('note', paint)}{_folded(printable(note), settings)}\n"
    if chart:
        yield f"{label('chart', paint)}{printable(chart)}\n"


def _folded(text: str, settings: ReportSettings) -> str:
    return hanging(text, first=LABEL, width=settings.width, indent=LABEL)


def _title(found: api.RunTrend) -> str:
    """What the runs are followed by: `pass rate`, `mean score`, or the name of a profile."""
    if found.measure == "pass_rate":
        return "pass rate"
    return "mean score" if found.scored_by == "mean" else found.scored_by


def label(word: str, paint: Paint) -> str:
    """The word at the left of a line."""
    return paint(f"{word:{LABEL}}", "quiet")


def direction_words(found: api.RunTrend) -> str:
    """`down by 2.0 pp per run (p 0.017)`, or why nothing can be said."""
    trend = found.trend
    if trend.p_value is None:
        return f"unknown: {trend.slope.reason}"
    if trend.direction == "none":
        return f"none that a test supports (p {trend.p_value:.3f})"
    slope = abs(trend.slope.value or 0.0)
    shown = rate_change_text(slope, sign=False) if found.measure == "pass_rate" else score_text(slope, 3)
    return f"{trend.direction} by {shown} per run (p {trend.p_value:.3f})"
