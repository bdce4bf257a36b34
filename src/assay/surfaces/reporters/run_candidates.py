"""The runs of several candidates side by side."""

from collections.abc import Iterator, Sequence

from assay.core.metrics_summary import latencies
from assay.surfaces.printable import printable, printable_id
from assay.surfaces.reporters.paint import Paint, painter
from assay.surfaces.reporters.run_numbers import UNKNOWN, figure_text, latency, short_cost
from assay.surfaces.reporters.run_repeats import sampled_name
from assay.surfaces.reporters.run_slices import SliceMean, shared_mean
from assay.surfaces.reporters.run_table import Row, TextCell, TextColumn, table
from assay.surfaces.reporters.run_text import (
    ID_LIMIT,
    STATE_STYLES,
    command_lines,
    failure_lines,
    gate_lines,
    place_lines,
    score_text,
    slice_lines,
    subject_lines,
    verdict,
    worst_lines,
)
from assay.surfaces.reporters.run_view import Json, RunReport
from assay.surfaces.reporters.settings import ReportSettings

NAME_LIMIT = 32
MAX_WORST = 3
"""Answers with the lowest scores that are listed of each candidate."""


def candidates_text(
    views: Sequence[RunReport], settings: ReportSettings, *, waiting: Sequence[str] = (), commands: Sequence[str] = ()
) -> Iterator[str]:
    """One table over all candidates, the cases of golden datasets and the slices with the scores of each, then the decisions.

    `waiting` are the candidates that were to follow and have no run, `commands` what the reader may want to call next.
    """
    paint = painter(is_coloured=settings.is_coloured)
    yield from subject_lines(views[0], settings, paint=paint, is_one=False)
    yield "\n"
    if any(view.cases for view in views):
        yield from _cases(views, settings, paint=paint)
        yield "\n"
    mean = shared_mean(views)
    rows = [*(_row(view, mean) for view in views), *map(_waiting_row, waiting)]
    yield from table(_columns(mean), rows, paint=paint, width=settings.width)
    yield from slice_lines(views, settings, paint=paint)
    for view in views:
        yield "\n"
        yield f"{paint(_name(view), 'strong')} · {printable(view.result.run_id)}\n"
        yield from gate_lines(view, settings, paint=paint)
        yield from failure_lines(view.failures, settings, paint=paint)
        if view.worst and not view.cases:
            yield from worst_lines(view, settings, paint=paint, limit=MAX_WORST)
        yield from place_lines(view, settings, paint=paint)
    if commands:
        yield "\n"
        yield from command_lines(commands, paint=paint)


_NUMBERS = ("graded", "errors", "pass rate", "mean score", "p95", "cost")


def _columns(mean: SliceMean) -> tuple[TextColumn, ...]:
    titles = (mean.title if title == "mean score" else title for title in _NUMBERS)
    return (TextColumn("candidate"), TextColumn("state"), *(TextColumn(title, is_number=True) for title in titles))


def _row(view: RunReport, mean: SliceMean) -> Row:
    state = TextCell(view.result.standing.replace("_", " "), STATE_STYLES.get(view.result.state, "warning"))
    return (_name(view), state, *candidate_figures(view, mean))


def candidate_figures(view: RunReport, mean: SliceMean) -> tuple[str, ...]:
    """Graded, errors, pass rate, mean, p95 and cost of a run, each as short as a cell wants it."""
    counts, metrics = view.result.counts, view.result.metrics
    head = (f"{counts.evaluated_records:,}", f"{counts.failed_records:,}")
    if not metrics:
        return (*head, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN)
    return (
        *head,
        figure_text(metrics, "pass_rate"),
        mean.text(metrics),
        latency(latencies(metrics)["model"].p95),
        short_cost(metrics["cost_usd"]),
    )


def _waiting_row(name: str) -> Row:
    return (printable(name, limit=NAME_LIMIT), TextCell("not started", "warning"), *[UNKNOWN] * len(_NUMBERS))


def _cases(views: Sequence[RunReport], settings: ReportSettings, *, paint: Paint) -> Iterator[str]:
    """A line for each case, a column for each candidate."""
    by_candidate = [{sampled_name(case): case for case in view.cases} for view in views]
    record_ids = dict.fromkeys(record_id for cases in by_candidate for record_id in cases)
    columns = (TextColumn("record"), *(TextColumn(_name(view)) for view in views))
    rows: list[Row] = [
        (printable_id(record_id, limit=ID_LIMIT), *(_mark(cases.get(record_id)) for cases in by_candidate))
        for record_id in record_ids
    ]
    yield from table(columns, rows, paint=paint, width=settings.width)


def _mark(case: Json | None) -> TextCell:
    if case is None:
        return TextCell(UNKNOWN)
    found = verdict(case)
    return TextCell(f"{score_text(case)} {found.text}", found.style)


def _name(view: RunReport) -> str:
    return printable(view.result.candidate or view.result.run_id, limit=NAME_LIMIT)
