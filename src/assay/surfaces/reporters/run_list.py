"""The list of runs as a table."""

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.cells import cell_len

from assay.core.contract import listed_dataset, more_datasets
from assay.core.run_result import RunListing
from assay.core.runs import TERMINAL
from assay.core.text import printable
from assay.presentation.sections import Cell, Column
from assay.presentation.words import UNKNOWN, counted, decimal, gate_mark, rate, state_mark
from assay.surfaces.reporters.settings import ReportSettings
from assay.surfaces.reporters.terminal import Paint, Row, hanging, painter, table

NAME_LIMIT = 32
INDENT = 2
UNREAD = ("unreachable", "damaged")
"""States of which nothing else is known."""

_COLUMNS = (
    Column("run"),
    Column("started"),
    Column("state"),
    Column("dataset"),
    Column("candidate"),
    Column("records", is_number=True),
    Column("pass rate", is_number=True),
    Column("score", is_number=True),
    Column("scored by"),
    Column("gates"),
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
        run_id, started, state, *figures = (cell if isinstance(cell, Cell) else Cell(cell) for cell in row)
        yield f"{paint(run_id.text, 'strong')} · {started.text} · {_painted(state, paint)}\n"
        yield f"{'':{INDENT}}{hanging(_figures(*figures), first=INDENT, width=settings.width, indent=INDENT)}\n"


def _figures(dataset: Cell, candidate: Cell, records: Cell, *figures: Cell) -> str:
    """`assistant · small · 6 records · pass rate 83.3 % · score 4.33 (mean, 1-5) · gates met`, without what is unknown."""
    pass_rate, score, scored_by, gates = (cell.text for cell in figures)
    named = (("pass rate", pass_rate), ("score", score if score == UNKNOWN else f"{score} ({scored_by})"), ("gates", gates))
    known = (f"{name} {text}" for name, text in named if text != UNKNOWN)
    return " · ".join((dataset.text, candidate.text, f"records {records.text}", *known))


def _painted(cell: Cell, paint: Paint) -> str:
    return paint(cell.text, cell.tone) if cell.tone else cell.text


def _row(run: RunListing) -> Row:
    is_done = run.done_records == run.total_records
    if run.state in UNREAD:
        return (printable(run.run_id), UNKNOWN, _state(run), *[UNKNOWN] * (len(_COLUMNS) - 3))
    return (
        printable(run.run_id),
        printable(run.created_at[:16].replace("T", " ")),
        _state(run),
        printable(listed_dataset(run), limit=NAME_LIMIT) + more_datasets(run),
        printable(run.candidate, limit=NAME_LIMIT),
        f"{run.total_records:,}" if is_done else f"{run.done_records:,}/{run.total_records:,}",
        rate(run.pass_rate),
        decimal(run.score),
        f"{run.scored_by}, {run.scale}" if run.scored_by else UNKNOWN,
        _gates(run),
    )


def _state(run: RunListing) -> Cell:
    mark = state_mark(run.standing)
    return Cell(mark.text, tone=mark.kind)


def _gates(run: RunListing) -> Cell:
    """What was decided about a run, in the words of its page."""
    mark = gate_mark(run)
    return Cell(UNKNOWN) if mark is None else Cell(mark.text, tone=mark.kind)
