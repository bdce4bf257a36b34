"""Reports on runs for people in a terminal: what was asked, what came out, whether it is enough and why, and what to do next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from assay import api
from assay.core.printable import printable
from assay.presentation.decisions import decision_facts
from assay.presentation.run import (
    CANDIDATE_LIMIT,
    ID_LIMIT,
    WHY_LIMIT,
    candidate_table,
    case_table,
    failure_sections,
    place_facts,
    run_sections,
    shared_mean,
    slice_section,
    subject_section,
    worst_section,
)
from assay.presentation.run_report import RunReport
from assay.presentation.sections import Cell, Column, Fact, Section, Table
from assay.presentation.subject import plan_section
from assay.presentation.words import NOT_PASSED, PASSED, counted, cut, sampled_name, state_mark
from assay.surfaces.reporters.settings import ReportSettings
from assay.surfaces.reporters.terminal import fact_line, painter, report_lines, section_lines, table_lines

MAX_WORST = 3
"""Answers with the lowest scores that are listed of each of several candidates."""
MAX_DISAGREEMENTS = 20
"""Disagreements that are listed unless all are called for."""

Json = dict[str, Any]


def run_text(view: RunReport, settings: ReportSettings, *, commands: Sequence[str] = ()) -> Iterator[str]:
    """The whole report; `commands` are what the reader may want to call next."""
    paint = painter(is_coloured=settings.is_coloured)
    state = state_mark(view.result.standing)
    yield f"{paint(printable(view.result.run_id), 'strong')} · {paint(state.text, state.kind)}\n"
    yield from section_lines(subject_section(view), settings, paint=paint)
    yield "\n"
    yield from report_lines(run_sections(view, is_verbose=settings.is_verbose), settings, paint=paint)
    yield from command_lines(commands, settings)


def command_lines(commands: Sequence[str], settings: ReportSettings) -> Iterator[str]:
    """What the reader may want to call next."""
    paint = painter(is_coloured=settings.is_coloured)
    for number, command in enumerate(commands):
        yield fact_line(Fact("" if number else "next", command, is_whole=True), settings, paint=paint)


def candidates_text(
    views: Sequence[RunReport], settings: ReportSettings, *, waiting: Sequence[str] = (), commands: Sequence[str] = ()
) -> Iterator[str]:
    """One table over all candidates, the cases of golden datasets and the slices with the scores of each, then the decisions.

    `waiting` are the candidates that were to follow and have no run, `commands` what the reader may want to call next.
    """
    paint = painter(is_coloured=settings.is_coloured)
    titles = ("candidate", "state", "graded", "errors", "pass rate", shared_mean(views).title, "p95", "cost")
    found = [
        subject_section(views[0], has_candidate=False),
        Section(tables=(case_table(views),)) if any(view.cases for view in views) else None,
        Section(tables=(candidate_table(views, waiting=waiting).only(*titles),)),
        slice_section(views, is_verbose=settings.is_verbose),
    ]
    yield from report_lines([section for section in found if section], settings, paint=paint)
    for view in views:
        yield f"\n{paint(printable(view.name, limit=CANDIDATE_LIMIT), 'strong')} · {printable(view.result.run_id)}\n"
        yield from section_lines(Section(facts=tuple(decision_facts(view))), settings, paint=paint)
        yield from report_lines(failure_sections(view, is_verbose=settings.is_verbose), settings, paint=paint)
        if view.worst and not view.cases:
            yield from section_lines(worst_section(view, limit=MAX_WORST), settings, paint=paint)
        yield from section_lines(Section(facts=tuple(place_facts(view))), settings, paint=paint)
    if commands:
        yield "\n"
        yield from command_lines(commands, settings)


def plan_text(planned: api.PlannedRuns, estimate: api.CostEstimate, settings: ReportSettings) -> Iterator[str]:
    """What a run would do."""
    paint = painter(is_coloured=settings.is_coloured)
    yield paint("dry run", "strong") + " · no model was called\n"
    yield from section_lines(plan_section(planned, estimate), settings, paint=paint)


def disagreement_text(run_id: str, disagreements: Sequence[Json], settings: ReportSettings) -> Iterator[str]:
    """The list of what judges do not agree on, the widest apart first."""
    paint = painter(is_coloured=settings.is_coloured)
    if not disagreements:
        yield f"{printable(run_id)} · no judges disagree\n"
        return
    found = disagreements if settings.is_verbose else disagreements[:MAX_DISAGREEMENTS]
    yield f"{paint(printable(run_id), 'strong')} · {counted(len(disagreements), 'disagreement')}, the widest apart first\n"
    columns = (
        Column("judge", is_name=True, limit=ID_LIMIT),
        Column("score", is_number=True),
        Column("why", limit=0 if settings.is_verbose else WHY_LIMIT),
    )
    for entry in found:
        name = paint(printable(sampled_name(entry), limit=ID_LIMIT), "strong")
        word = paint(PASSED, "good") if entry["passed"] else paint(NOT_PASSED, "bad")
        criterion = printable(cut(entry["criterion"], ID_LIMIT))
        yield f"\n{name} · {criterion} · {printable(entry['words'])} · record: {word}\n"
        rows = tuple((Cell(vote["judge"]), Cell(f"{vote['score']:g}"), Cell(vote["justification"])) for vote in entry["votes"])
        yield from table_lines(Table(columns=columns, rows=rows), settings, paint=paint, indent=2)
    if len(found) < len(disagreements):
        yield "\n" + paint(f"… and {len(disagreements) - len(found):,} more (--verbose lists all)", "quiet") + "\n"
