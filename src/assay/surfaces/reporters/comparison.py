"""Two runs beside each other, for the terminal: the difference, what it is worth, where it comes from, and the flips."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assay import api
from assay.surfaces.printable import printable, printable_id
from assay.surfaces.reporters.comparison_words import (
    compared_datasets,
    conclusion,
    difference_rows,
    listed_records,
    p_text,
    rate_change,
    shown_slices,
    told,
    told_notes,
)
from assay.surfaces.reporters.paint import Paint, hanging, painter
from assay.surfaces.reporters.run_table import Row, TextCell, TextColumn, table
from assay.surfaces.reporters.run_text import ID_LIMIT, LABEL, NAME_LIMIT, SLICE_LIMIT, TEXT_LIMIT
from assay.surfaces.reporters.settings import ReportSettings
from assay.surfaces.reporters.wording import counted

_STYLES = {"IMPROVED": "accepted", "WORSE": "error", "UNDECIDED": "warning"}


def comparison_text(found: api.RunComparison, settings: ReportSettings, *, commands: Sequence[str] = ()) -> Iterator[str]:
    """The whole report; `commands` are what the reader may want to call next."""
    paint = painter(is_coloured=settings.is_coloured)
    yield from _sides(found, settings, paint=paint)
    yield from _differences(found, settings, paint=paint)
    yield from _slices(found, settings, paint=paint)
    yield from _flips(found, settings, paint=paint)
    yield "\n"
    word, reason = conclusion(found)
    yield f"{paint(word, _STYLES[word])}{' ' * max(1, LABEL - len(word))}{_folded(reason, settings)}\n"
    for note in told_notes(found):
        yield _labelled("note", printable(note, limit=TEXT_LIMIT), paint=paint, settings=settings)
    for number, command in enumerate(commands):
        yield _labelled("" if number else "next", printable(command), paint=paint, settings=None)


def _sides(found: api.RunComparison, settings: ReportSettings, *, paint: Paint) -> Iterator[str]:
    for label, side in (("before", found.before), ("after", found.after)):
        words = [
            side.run_id,
            side.candidate,
            *([f"judged by {', '.join(side.judges)}"] if side.judges else []),
            f"{counted(side.records, 'record')}",
        ]
        text = " · ".join(printable(word, limit=NAME_LIMIT) for word in words)
        yield _labelled(label, text, paint=paint, settings=settings)
    yield _labelled("dataset", printable(compared_datasets(found), limit=TEXT_LIMIT), paint=paint, settings=settings)
    yield _labelled("compared", listed_records(found), paint=paint, settings=settings)


def _differences(found: api.RunComparison, settings: ReportSettings, *, paint: Paint) -> Iterator[str]:
    columns = (
        TextColumn(""),
        TextColumn("before", is_number=True),
        TextColumn("after", is_number=True),
        TextColumn("difference", is_number=True),
        TextColumn("p", is_number=True),
    )
    rows = difference_rows(found)
    if rows:
        yield "\n"
        yield from table(columns, rows, paint=paint, width=settings.width)


def _slices(found: api.RunComparison, settings: ReportSettings, *, paint: Paint) -> Iterator[str]:
    shown, omitted = shown_slices(found, is_verbose=settings.is_verbose)
    if not shown:
        return
    columns = (
        TextColumn("slice"),
        TextColumn("value"),
        TextColumn("n", is_number=True),
        TextColumn("pass rate", is_number=True),
        TextColumn("p (Holm)", is_number=True),
    )
    rows = [
        (
            printable(row.slice, limit=SLICE_LIMIT),
            printable_id(row.value if row.value is not None else "(none)", limit=SLICE_LIMIT),
            f"{row.n:,}",
            rate_change(row.passes),
            p_text(row.p_adjusted),
        )
        for row in shown
    ]
    yield "\n"
    yield from table(columns, rows, paint=paint, width=settings.width)
    if omitted:
        yield paint(f"… and {counted(omitted, 'more value')} (--verbose lists them)", "quiet") + "\n"


def _flips(found: api.RunComparison, settings: ReportSettings, *, paint: Paint) -> Iterator[str]:
    if not found.flips:
        return
    limit = None if settings.is_verbose else TEXT_LIMIT
    rows: list[Row] = []
    for flip in found.flips:
        style = "error" if flip.direction == "worse" else "accepted"
        name = flip.record_id if not flip.sample else f"{flip.record_id} (sample {flip.sample})"
        rows += [
            (TextCell(flip.direction, style), printable_id(name, limit=ID_LIMIT), "before", told(flip.before, limit=limit)),
            ("", "", "after", told(flip.after, limit=limit)),
        ]
    yield "\n"
    yield from table(
        (TextColumn("flip"), TextColumn("record"), TextColumn(""), TextColumn("answer and why")),
        rows,
        paint=paint,
        width=settings.width,
    )
    omitted = found.n_flips - len(found.flips)
    if omitted:
        yield paint(f"… and {counted(omitted, 'more flip')} (--flips all lists them)", "quiet") + "\n"


def _labelled(label: str, text: str, *, paint: Paint, settings: ReportSettings | None) -> str:
    shown = paint(f"{label:{LABEL}}", "quiet") if label else " " * LABEL
    return f"{shown}{_folded(text, settings)}\n"


def _folded(text: str, settings: ReportSettings | None) -> str:
    return hanging(text, first=LABEL, width=settings.width if settings else None, indent=LABEL)
