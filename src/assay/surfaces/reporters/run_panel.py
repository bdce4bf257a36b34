"""Several judges in words: what each of them said and cost, and where they do not agree."""

from collections.abc import Iterator, Sequence
from typing import Any

from assay.surfaces.printable import printable
from assay.surfaces.reporters.paint import Paint, painter
from assay.surfaces.reporters.run_numbers import UNKNOWN, decimal, dollars, latency, rate_with_interval, short_cost
from assay.surfaces.reporters.run_repeats import sampled_name
from assay.surfaces.reporters.run_table import Row, TextCell, TextColumn, table
from assay.surfaces.reporters.settings import ReportSettings
from assay.surfaces.reporters.wording import NOT_PASSED, PASSED, counted

Json = dict[str, Any]
NAME_LIMIT = 48
WHY_LIMIT = 160
MAX_SHOWN = 20
"""Disagreements that are listed unless all are called for."""
_COLUMNS = (
    TextColumn("judge"),
    TextColumn("votes", is_number=True),
    TextColumn("mean 0-1", is_number=True),
    TextColumn("agrees with panel", is_number=True),
    TextColumn("calls", is_number=True),
    TextColumn("failed calls", is_number=True),
    TextColumn("p50", is_number=True),
    TextColumn("tokens", is_number=True),
    TextColumn("cost", is_number=True),
)


def panel_lines(panel: Json) -> Iterator[tuple[str, str]]:
    """Labels and texts of a report's lines on its panel."""
    tied = f", {panel['n_tied']:,} of them tied" if panel["n_tied"] else ""
    lost = f" · {panel['n_vote_lost']:,} with a vote lost" if panel["n_vote_lost"] else ""
    yield "panel", f"{counted(panel['n_records'], 'record')} judged · {panel['n_disagree']:,} with different votes{tied}{lost}"
    if panel["escalate"]:
        saved = panel["cost_saved_usd"]
        cost = f", about {dollars(saved)}" if saved else ""
        yield "", f"{panel['n_escalated']:,} escalated to all judges · {counted(panel['n_calls_saved'], 'call')} saved{cost}"


def judge_table(judges: Sequence[Json], settings: ReportSettings, *, paint: Paint) -> Iterator[str]:
    """A row for each judge."""
    yield from table(_COLUMNS, [_judge_row(judge) for judge in judges], paint=paint, width=settings.width)


def _judge_row(judge: Json) -> Row:
    agreement, cost, tokens = judge["agreement"], judge["cost_usd"], judge["tokens"]["sum"]
    return (
        printable(judge["judge"], limit=NAME_LIMIT),
        f"{judge['n_votes']:,}",
        decimal(judge["score_mean"]),
        rate_with_interval(agreement["value"], agreement["interval"]),
        f"{judge['n_calls']:,}",
        f"{judge['n_failed_calls']:,}",
        latency(judge["latency_ms"]["p50"]),
        UNKNOWN if tokens is None else f"{tokens:,}",
        short_cost(cost),
    )


def disagreement_text(run_id: str, disagreements: Sequence[Json], settings: ReportSettings) -> Iterator[str]:
    """The list of what judges do not agree on, the widest apart first."""
    paint = painter(is_coloured=settings.is_coloured)
    if not disagreements:
        yield f"{printable(run_id)} · no judges disagree\n"
        return
    shown = disagreements if settings.is_verbose else disagreements[:MAX_SHOWN]
    yield f"{paint(printable(run_id), 'strong')} · {counted(len(disagreements), 'disagreement')}, the widest apart first\n"
    for entry in shown:
        yield "\n"
        yield from _entry(entry, settings, paint=paint)
    if len(shown) < len(disagreements):
        yield "\n" + paint(f"… and {len(disagreements) - len(shown):,} more (--verbose lists all)", "quiet") + "\n"


def _entry(entry: Json, settings: ReportSettings, *, paint: Paint) -> Iterator[str]:
    name = paint(printable(sampled_name(entry), limit=NAME_LIMIT), "strong")
    verdict = TextCell(PASSED, "accepted") if entry["passed"] else TextCell(NOT_PASSED, "error")
    yield f"{name} · {printable(entry['criterion'], limit=NAME_LIMIT)} · {printable(entry['words'])}"
    yield f" · record: {paint(verdict.text, verdict.style)}\n"
    columns = (TextColumn("judge"), TextColumn("score", is_number=True), TextColumn("why"))
    limit = None if settings.is_verbose else WHY_LIMIT
    rows = [
        (printable(vote["judge"], limit=NAME_LIMIT), f"{vote['score']:g}", printable(vote["justification"], limit=limit))
        for vote in entry["votes"]
    ]
    yield from table(columns, rows, paint=paint, width=settings.width, indent=2)
