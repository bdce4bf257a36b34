"""The list of runs as a table."""

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.cells import cell_len

from assay.core.dataset_title import listed_dataset, more_datasets
from assay.core.run_result import RunListing
from assay.core.run_state import TERMINAL
from assay.surfaces.printable import printable
from assay.surfaces.reporters.paint import Paint, hanging, painter
from assay.surfaces.reporters.run_numbers import UNKNOWN, decimal, rate
from assay.surfaces.reporters.run_table import Row, TextCell, TextColumn, table
from assay.surfaces.reporters.run_text import STATE_STYLES
from assay.surfaces.reporters.settings import ReportSettings
from assay.surfaces.reporters.verdict_words import NO_RESULT
from assay.surfaces.reporters.wording import counted

NAME_LIMIT = 32
INDENT = 2
UNREAD = {"unreachable": "warning", "damaged": "error"}
"""States of which nothing else is known, and how they are painted."""

_COLUMNS = (
    TextColumn("run"),
    TextColumn("started"),
    TextColumn("state"),
    TextColumn("dataset"),
    TextColumn("candidate"),
    TextColumn("records", is_number=True),
    TextColumn("pass rate", is_number=True),
    TextColumn("score", is_number=True),
    TextColumn("scored by"),
    TextColumn("gates"),
)


def runs_text(runs: Sequence[RunListing], settings: ReportSettings) -> Iterator[str]:
    """One line for each run, what there is to say of some of them, and how many there are."""
    paint = painter(is_coloured=settings.is_coloured)
    if runs:
        yield from _lines([_row(run) for run in runs], settings, paint=paint)
        yield "\n"
    for run in runs:
        if run.note:
            yield f"{printable(run.run_id)}: {printable(run.note)}\n"
    states = Counter(run.state if run.state in UNREAD else "unfinished" for run in runs if run.state not in TERMINAL)
    words = [f"{states[state]:,} {state}" for state in ("unfinished", *UNREAD) if states[state]]
    yield " · ".join([counted(len(runs), "run"), *words]) + "\n"


def _lines(rows: Sequence[Row], settings: ReportSettings, *, paint: Paint) -> Iterator[str]:
    """A table; where the terminal is too narrow for one, two lines for each run."""
    plain = list(table(_COLUMNS, rows, paint=painter(is_coloured=False), width=None))
    if settings.width is None or max(map(cell_len, plain)) <= settings.width + 1:
        yield from table(_COLUMNS, rows, paint=paint, width=settings.width)
        return
    for row in rows:
        run_id, started, state, *figures = (cell if isinstance(cell, TextCell) else TextCell(cell) for cell in row)
        yield f"{paint(run_id.text, 'strong')} · {started.text} · {_painted(state, paint)}\n"
        yield f"{'':{INDENT}}{hanging(_figures(*figures), first=INDENT, width=settings.width, indent=INDENT)}\n"


def _figures(dataset: TextCell, candidate: TextCell, records: TextCell, *figures: TextCell) -> str:
    """`assistant · small · 6 records · pass rate 83.3 % · score 4.33 (mean, 1-5) · gates met`, without what is unknown."""
    pass_rate, score, scored_by, gates = (cell.text for cell in figures)
    named = (("pass rate", pass_rate), ("score", score if score == UNKNOWN else f"{score} ({scored_by})"), ("gates", gates))
    known = (f"{name} {text}" for name, text in named if text != UNKNOWN)
    return " · ".join((dataset.text, candidate.text, f"records {records.text}", *known))


def _painted(cell: TextCell, paint: Paint) -> str:
    return paint(cell.text, cell.style) if cell.style else cell.text


def _row(run: RunListing) -> Row:
    is_done = run.done_records == run.total_records
    if run.state in UNREAD:
        return (printable(run.run_id), UNKNOWN, TextCell(run.state, UNREAD[run.state]), *[UNKNOWN] * (len(_COLUMNS) - 3))
    return (
        printable(run.run_id),
        printable(run.created_at[:16].replace("T", " ")),
        TextCell(run.standing.replace("_", " "), STATE_STYLES.get(run.state, "warning")),
        printable(listed_dataset(run), limit=NAME_LIMIT) + more_datasets(run),
        printable(run.candidate, limit=NAME_LIMIT),
        f"{run.total_records:,}" if is_done else f"{run.done_records:,}/{run.total_records:,}",
        rate(run.pass_rate),
        decimal(run.score),
        f"{run.scored_by}, {run.scale}" if run.scored_by else UNKNOWN,
        _gates(run),
    )


def _gates(run: RunListing) -> TextCell:
    """What was decided about a run, in the words of its report."""
    if run.has_no_result:
        return TextCell(NO_RESULT.lower(), "error")
    return {True: TextCell("met", "accepted"), False: TextCell("missed", "error"), None: TextCell(UNKNOWN)}[run.passed]
