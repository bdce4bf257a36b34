"""Runs as a list, over time, and under way: rows, the direction of a trend, and the progress of a run, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from assay import api
from assay.core.artifact_lines import FailureLine
from assay.core.contract import listed_dataset, more_datasets
from assay.core.number_text import rate_change_text, score_text
from assay.core.run_result import RunListing, RunResult
from assay.core.runs import TERMINAL
from assay.presentation.charts import Chart, PlottedEstimate, PlottedRun, TrendPlot
from assay.presentation.sections import (
    Badge,
    Cell,
    Column,
    CompactRow,
    DisplayValue,
    Fact,
    KeyMetric,
    Section,
    Table,
    Timestamp,
    Tone,
)
from assay.presentation.words import (
    PASS_RATE_BAR,
    UNKNOWN,
    MetricBasis,
    bar,
    counted,
    cut,
    decimal,
    duration,
    ends_between,
    gate_mark,
    is_live,
    latency,
    moment,
    money,
    most_took,
    rate,
    rate_value,
    score_value,
    shown,
    state_mark,
    with_interval,
    without_code,
)

ID_LIMIT = 48
NAME_LIMIT = 32
MESSAGE_LIMIT = 300
UNREADABLE = ("unreachable", "damaged")
"""States of which nothing else is known."""
Sort = Literal["created", "run", "dataset", "candidate", "pass_rate", "score", "cost"]
LIST_COLUMNS: tuple[tuple[Sort | None, Column], ...] = (
    ("run", Column("run", "The id of the run; it names its folder and its addresses.")),
    (None, Column("state", "How far the run is, and whether it met its gates.")),
    ("dataset", Column("dataset", "Dataset of the run.")),
    ("candidate", Column("candidate and judge", "The model that answered, and below it the models that graded its answers.")),
    (None, Column("records", "Records of the run; while it works, how many are done.", is_number=True)),
    ("pass_rate", Column("pass rate", f"Share of scored records that passed; {PASS_RATE_BAR}.", is_number=True)),
    ("score", Column("score", "The mean score on its scale, or the headline of a benchmark.", is_number=True)),
    ("cost", Column("cost", "US dollars of candidate and judges; > where some prices are not known.", is_number=True)),
    ("created", Column("started", "When the run was made.", is_number=True)),
)
"""Columns of the list on a page, with what it is sorted by; a terminal, which explains nothing, has others."""


# The list


class ListedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run of the list, in words."""

    state: Badge
    gate: Badge | None
    dataset_note: str
    """Its version, and its file where that is called otherwise."""
    records: DisplayValue
    pass_rate: Cell
    headline: Cell
    headline_name: str
    """Empty for a mean."""
    cost: DisplayValue
    created: Timestamp | None
    is_live: bool


def listed_run(listing: RunListing) -> ListedRun:
    """Return the state, the metrics and the cost of a run in words."""
    over, is_running = MetricBasis(listing.scored_records), is_live(listing)
    is_mean = listing.scored_by in ("", "mean")
    done, total = listing.done_records, listing.total_records
    return ListedRun(
        state=state_mark(listing.standing),
        gate=gate_mark(listing),
        # The page shows the dataset's id as a link of its own, and this note behind it.
        dataset_note=f"{listed_dataset(listing).removeprefix(listing.dataset)}{more_datasets(listing)}".strip(),
        records=DisplayValue(
            f"{done:,} of {total:,}" if is_running else f"{total:,}", f"{counted(done, 'record')} done of {total:,}"
        ),
        pass_rate=rate_value(listing.pass_rate, listing.pass_rate_interval, over=over),
        headline=score_value(
            listing.score,
            listing.score_interval,
            over=over,
            scale=listing.scale,
            name="mean score" if is_mean else listing.scored_by,
        ),
        headline_name="" if is_mean else listing.scored_by,
        cost=money(listing.cost_usd, unpriced=listing.unpriced_records),
        created=moment(listing.created_at),
        is_live=is_running,
    )


def run_list_sections(runs: Sequence[RunListing]) -> list[Section]:
    """Return a row for each run, the notes on some of them, and how many there are."""
    titles = ("run", "started", "state", "dataset", "candidate", "records", "pass rate", "score", "scored by", "gates")
    numbers = ("records", "pass rate", "score")
    rows = tuple(map(_list_row, runs))
    table = Table(
        columns=tuple(Column(title, is_number=title in numbers) for title in titles),
        rows=rows,
        compact=tuple(CompactRow(row[:3], _compact(*(cell.text for cell in row[3:]))) for row in rows),
    )
    # Runs that cannot be read are counted by that: "unfinished" would suggest that they can be resumed.
    states = Counter(run.state if run.state in UNREADABLE else "unfinished" for run in runs if run.state not in TERMINAL)
    counts = [f"{states[state]:,} {state}" for state in ("unfinished", *UNREADABLE) if states[state]]
    lines = (*(f"{run.run_id}: {run.note}" for run in runs if run.note), " · ".join([counted(len(runs), "run"), *counts]))
    return [*([Section(tables=(table,))] if runs else []), Section(lines=lines)]


def _list_row(run: RunListing) -> tuple[Cell, ...]:
    state, gate = state_mark(run.standing), gate_mark(run)
    head = Cell(run.run_id)
    if run.state in UNREADABLE:
        # Nothing but the name and the state of these is known; a count of 0 records would look like a
        # measurement.
        return (head, Cell(UNKNOWN), Cell(state.text, tone=state.kind), *[Cell(UNKNOWN)] * 7)
    is_done = run.done_records == run.total_records
    return (
        head,
        Cell(_minute(run.created_at)),
        Cell(state.text, tone=state.kind),
        Cell(cut(listed_dataset(run), NAME_LIMIT) + more_datasets(run)),
        Cell(cut(run.candidate, NAME_LIMIT)),
        Cell(f"{run.total_records:,}" if is_done else f"{run.done_records:,}/{run.total_records:,}"),
        Cell(rate(run.pass_rate)),
        Cell(decimal(run.score)),
        Cell(f"{run.scored_by}, {run.scale}" if run.scored_by else UNKNOWN),
        Cell(UNKNOWN) if gate is None else Cell(gate.text, tone=gate.kind),
    )


def _minute(iso: str) -> str:
    # Times in listings are ISO 8601 in UTC, whose first 16 characters are date and minute.
    return iso[:16].replace("T", " ")


def _compact(dataset: str, candidate: str, records: str, *metrics: str) -> str:
    """Return `assistant · small · records 6 · pass rate 83.3 % · score 4.33 (mean, 1-5) · gates met`, without what is unknown."""
    pass_rate, score, scored_by, gates = metrics
    named = (("pass rate", pass_rate), ("score", score if score == UNKNOWN else f"{score} ({scored_by})"), ("gates", gates))
    return " · ".join((dataset, candidate, f"records {records}", *(f"{name} {text}" for name, text in named if text != UNKNOWN)))


# Runs in the order of time

_DIRECTIONS: dict[str, Tone] = {"up": "good", "down": "bad", "none": "quiet"}


def trend_sections(found: api.RunTrend, *, chart: str = "") -> list[Section]:
    """Return a row for each run with its interval and a bar, then the direction."""
    is_rate = found.measure == "pass_rate"
    # Scores have no common maximum, so the longest bar is the best run.
    largest = 1.0 if is_rate else max((point.value for point in found.points), default=1.0)
    columns = (
        Column("run", is_name=True, limit=ID_LIMIT),
        Column("started"),
        Column("candidate", limit=ID_LIMIT),
        Column("n", is_number=True),
        Column("pass rate" if is_rate else "mean score" if found.scored_by == "mean" else found.scored_by, is_number=True),
        Column(""),
    )
    rows = tuple(
        (
            Cell(point.run_id),
            Cell(_minute(point.created_at)),
            Cell(point.candidate),
            Cell(f"{point.n:,}"),
            Cell(with_interval(point.value, ends_between(point.low, point.high), rate if is_rate else decimal)),
            # A bar takes whole counts, hence thousandths; scores of a profile may be negative, which no bar can
            # show.
            Cell(bar(max(0, round(1000 * point.value)), round(1000 * largest))),
        )
        for point in found.points
    )
    left_out = ", ".join(f"{count:,} {why}" for why, count in found.left_out.items())
    facts = (
        Fact("direction", direction_text(found), tone=_DIRECTIONS[found.trend.direction]),
        *([Fact("left out", left_out)] if left_out else []),
        *(Fact("note", note) for note in found.notes),
        *([Fact("chart", chart, is_whole=True)] if chart else []),
    )
    return [
        Section(heading=(Cell(found.dataset), Cell(found.candidate), Cell(counted(len(found.points), "run")))),
        Section(tables=(Table(columns=columns, rows=rows),)),
        Section(facts=facts),
    ]


def trend_chart(found: api.RunTrend) -> Chart:
    """Return the runs in the order of time."""
    is_rate = found.measure == "pass_rate"
    points = tuple(
        PlottedRun(point.run_id, PlottedEstimate(point.low, point.value, point.high, point.n, is_rate)) for point in found.points
    )
    title = f"{'Pass rate' if is_rate else 'Mean score'} of {found.dataset}"
    plot = TrendPlot(points=points, domain=(0.0, 1.0) if is_rate else None)
    return Chart(name="trend.svg", title=title, note=direction_text(found), plot=plot)


def direction_text(found: api.RunTrend) -> str:
    """Return `down by 2.0 pp per run (p 0.017)`, or why nothing can be said."""
    trend = found.trend
    if trend.p_value is None:
        return f"unknown: {trend.slope.reason}"
    if trend.direction == "none":
        return f"none that a test supports (p {trend.p_value:.3f})"
    slope = abs(trend.slope.value or 0.0)
    # A change of a mean per run is small; two decimals would often show 0.00.
    change = rate_change_text(slope, sign=False) if found.measure == "pass_rate" else score_text(slope, 3)
    return f"{trend.direction} by {change} per run (p {trend.p_value:.3f})"


# A run under way


def done_text(result: RunResult) -> str:
    """Return `3 of 12 records done`."""
    counts = result.counts
    if not counts.total_records:
        return "its records are not read yet"
    return f"{counts.evaluated_records + counts.failed_records:,} of {counted(counts.total_records, 'record')} done"


def progress_metrics(result: RunResult, snapshot: api.Snapshot | None) -> Iterator[KeyMetric]:
    """Return how many records are done; with a snapshot of the process that drives the run, also its calls and its cost."""
    counts = result.counts
    of = f"of {counts.total_records:,}"
    to_go = counts.total_records - counts.evaluated_records - counts.failed_records
    for label, count, says in (
        ("Graded", counts.evaluated_records, "Records with a grade."),
        ("Errors", counts.failed_records, "Records without a grade, invalid ones included."),
        ("To go", to_go, "Records without an end so far."),
    ):
        yield KeyMetric(label=label, figure=DisplayValue(f"{count:,}", says, of))
    if snapshot is None:
        return
    yield KeyMetric(label="Calls in flight", figure=DisplayValue(f"{snapshot.in_flight:,}", "Requests that wait for their reply."))
    median = DisplayValue(shown(latency(snapshot.p50_ms)), "Median time of the calls so far.", f"n {snapshot.calls:,}")
    yield KeyMetric(label="Time of a call", figure=median, note=most_took(snapshot.p95_ms))
    # 0 before the first priced call is not a price that is known.
    yield KeyMetric(label="Cost so far", figure=money(snapshot.cost or None, unpriced=snapshot.unknown_costs))


def pace_text(snapshot: api.Snapshot | None) -> str:
    """Return `12.5 records a second · about 3 min 05 s left`; empty while it is unknown."""
    if snapshot is None or snapshot.rate is None:
        return ""
    # Records of earlier processes are not in the rate: a resumed run would seem to end at once.
    left = (snapshot.total - snapshot.done) / snapshot.rate
    return f"{snapshot.rate:,.1f} records a second · about {duration(left)} left"


def failure_fact(line: FailureLine) -> Fact:
    """Return a record with an error and its reason."""
    name = f"record {line.index}" if line.record_id is None else line.record_id
    return Fact(name, f"{line.code}: {cut(without_code(line.code, line.message), MESSAGE_LIMIT + 1)}")
