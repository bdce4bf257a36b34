"""The runs of several candidates side by side."""

from collections.abc import Iterator, Sequence

from assay.surfaces.printable import printable
from assay.surfaces.reporters.paint import Paint, painter
from assay.surfaces.reporters.run_numbers import UNKNOWN, dollars, latency, with_interval
from assay.surfaces.reporters.run_table import Cell, Column, Row, table
from assay.surfaces.reporters.run_text import (
    ID_LIMIT,
    STATE_STYLES,
    failure_lines,
    gate_lines,
    place_line,
    score_text,
    subject_lines,
    verdict,
)
from assay.surfaces.reporters.run_view import Json, RunView
from assay.surfaces.reporters.settings import Settings

NAME_LIMIT = 32


def candidates_text(views: Sequence[RunView], settings: Settings) -> Iterator[str]:
    """One table over all candidates, the cases of golden datasets with the scores of each, then the decision on each."""
    paint = painter(is_coloured=settings.is_coloured)
    yield from subject_lines(views[0], settings, paint=paint, is_one=False)
    yield "\n"
    if any(view.cases for view in views):
        yield from _cases(views, settings, paint=paint)
        yield "\n"
    yield from table(_COLUMNS, [_row(view) for view in views], paint=paint, width=settings.width)
    for view in views:
        yield "\n"
        yield f"{paint(_name(view), 'strong')} · {printable(view.result.run_id)}\n"
        yield from gate_lines(view, settings, paint=paint)
        yield from failure_lines(view.failures, settings, paint=paint)
        yield place_line(view, paint=paint)


_COLUMNS = (
    Column("candidate"),
    Column("state"),
    Column("evaluated", is_number=True),
    Column("failed", is_number=True),
    Column("pass rate", is_number=True),
    Column("mean score", is_number=True),
    Column("p95", is_number=True),
    Column("cost", is_number=True),
)


def _row(view: RunView) -> Row:
    counts, metrics = view.result.counts, view.result.metrics
    state = Cell(view.result.state.replace("_", " "), STATE_STYLES.get(view.result.state, "warning"))
    head = (_name(view), state, f"{counts.evaluated_records:,}", f"{counts.failed_records:,}")
    if not metrics:
        return (*head, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN)
    return (
        *head,
        with_interval(metrics["pass_rate"], metrics["pass_rate_interval"]),
        with_interval(metrics["raw_score_mean"], metrics["raw_score_mean_interval"]),
        latency(metrics["latency_ms"]["model"]["p95"]),
        _cost(metrics["cost_usd"]),
    )


def _cost(cost: Json) -> str:
    """Short for a cell: what is not known makes it a lower bound."""
    if cost["sum"] is None:
        return "unknown" if cost["n_unknown"] else UNKNOWN
    return ("> " if cost["n_unknown"] else "") + dollars(cost["sum"])


def _cases(views: Sequence[RunView], settings: Settings, *, paint: Paint) -> Iterator[str]:
    """A line for each case, a column for each candidate."""
    by_candidate = [{case["record_id"]: case for case in view.cases} for view in views]
    record_ids = dict.fromkeys(record_id for cases in by_candidate for record_id in cases)
    columns = (Column("record"), *(Column(_name(view)) for view in views))
    rows: list[Row] = [
        (printable(record_id, limit=ID_LIMIT), *(_mark(cases.get(record_id)) for cases in by_candidate)) for record_id in record_ids
    ]
    yield from table(columns, rows, paint=paint, width=settings.width)


def _mark(case: Json | None) -> Cell:
    if case is None:
        return Cell(UNKNOWN)
    found = verdict(case)
    return Cell(f"{score_text(case)} {found.text}", found.style)


def _name(view: RunView) -> str:
    return printable(view.result.candidate or view.result.run_id, limit=NAME_LIMIT)
