"""Runs in the order of time, for the terminal, with the direction in words."""

from __future__ import annotations

from collections.abc import Iterator

from assay import api
from assay.core.number_text import rate_change_text, score_text
from assay.core.text import printable
from assay.presentation.run import ID_LIMIT
from assay.presentation.sections import Cell, Column, Fact, Section, Table, Tone
from assay.presentation.words import bar, counted, decimal, ends_between, rate, with_interval
from assay.surfaces.reporters.settings import ReportSettings
from assay.surfaces.reporters.terminal import painter, report_lines

_TONES: dict[str, Tone] = {"up": "good", "down": "bad", "none": "quiet"}


def trend_text(found: api.RunTrend, settings: ReportSettings, *, chart: str = "") -> Iterator[str]:
    """A line for each run with its interval and a bar, then the direction."""
    paint = painter(is_coloured=settings.is_coloured)
    head = f"{printable(found.candidate)} · {counted(len(found.points), 'run')}"
    yield f"{paint(printable(found.dataset), 'strong')} · {head}\n\n"
    yield from report_lines(_sections(found, chart), settings, paint=paint)


def _sections(found: api.RunTrend, chart: str) -> Iterator[Section]:
    largest = 1.0 if found.measure == "pass_rate" else max((point.value for point in found.points), default=1.0)
    text = rate if found.measure == "pass_rate" else decimal
    title = "pass rate" if found.measure == "pass_rate" else "mean score" if found.scored_by == "mean" else found.scored_by
    columns = (
        Column("run", is_name=True, limit=ID_LIMIT),
        Column("started"),
        Column("candidate", limit=ID_LIMIT),
        Column("n", is_number=True),
        Column(title, is_number=True),
        Column(""),
    )
    rows = tuple(
        (
            Cell(point.run_id),
            Cell(point.created_at[:16].replace("T", " ")),
            Cell(point.candidate),
            Cell(f"{point.n:,}"),
            Cell(with_interval(point.value, ends_between(point.low, point.high), text)),
            Cell(bar(max(0, round(1000 * point.value)), round(1000 * largest))),
        )
        for point in found.points
    )
    yield Section(tables=(Table(columns=columns, rows=rows),))
    left_out = ", ".join(f"{count:,} {why}" for why, count in found.left_out.items())
    facts = [
        Fact("direction", direction_words(found), tone=_TONES[found.trend.direction]),
        *([Fact("left out", left_out)] if left_out else []),
        *(Fact("note", note) for note in found.notes),
        *([Fact("chart", chart, is_whole=True)] if chart else []),
    ]
    yield Section(facts=tuple(facts))


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
