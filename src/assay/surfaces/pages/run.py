"""Page of one run: whether it is good enough and why, what was counted, and the artifacts."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from assay import api
from assay.core.run_result import RunResult
from assay.core.summary import RankingSummary
from assay.presentation import run, run_details, words
from assay.presentation.decisions import decision_marks, decision_note
from assay.presentation.graders import grader_sections
from assay.presentation.run_details import run_charts
from assay.presentation.run_list import done_text, failure_fact, pace_text, progress_metrics
from assay.presentation.run_report import RunReport
from assay.presentation.sections import (
    Badge,
    BarSegment,
    Cell,
    DecisionView,
    DisplayValue,
    Fact,
    KeyMetric,
    Section,
    Table,
    Timestamp,
)
from assay.surfaces.pages.page_renderer import ChartPair, Format, PageLinks, chart_pair, text_cell

EXPORTED: tuple[Format, ...] = ("csv", "xlsx", "parquet", "jsonl", "json")
"""Formats that a page offers."""
MAX_DRAWN = 24
"""Values of slices in a chart."""
_NO_GATES = {words.NO_GATES: "The run was started without gates for pass rate, score or error rate."}
"""What a report names there are options of a command."""


class RunProgressView(msgspec.Struct, frozen=True, kw_only=True):
    """A run under way."""

    run_id: str
    state: Badge
    done: int
    total: int
    text: str
    counts: tuple[KeyMetric, ...]
    pace: str
    """How fast it goes and how long it will take; empty while it is unknown."""
    attempts: tuple[Fact, ...]
    """Failed attempts by code: most of them are retried."""
    failures: tuple[Fact, ...]
    """Last records that failed, each with its reason."""
    problem: str
    """Why work on it has stopped."""
    live_address: str
    cancel_address: str
    """Where a form cancels it; empty for a reader who may not."""
    resume_address: str
    """Where a form resumes it; empty while a process works on it."""


def progress_view(
    result: RunResult,
    *,
    place: PageLinks,
    snapshot: api.Snapshot | None,
    failures: Sequence[Any],
    problem: str,
    may_cancel: bool,
    may_resume: bool,
) -> RunProgressView:
    """Return a run at this moment; the snapshot is that of the process that drives it here."""
    counts = result.counts
    return RunProgressView(
        run_id=result.run_id,
        state=words.state_mark(result.standing),
        done=counts.evaluated_records + counts.failed_records,
        total=counts.total_records,
        text=done_text(result),
        counts=tuple(progress_metrics(result, snapshot)),
        pace=pace_text(snapshot),
        attempts=() if snapshot is None else tuple(Fact(code, f"{count:,}") for code, count in sorted(snapshot.errors.items())),
        failures=tuple(map(failure_fact, failures)),
        problem=problem,
        # Only a server can send parts of a page.
        live_address="/live" + place.run(result.run_id) if place.is_server else "",
        # An empty address hides the button; the server checks the permission again.
        cancel_address=place.run(result.run_id, "cancel") if may_cancel else "",
        resume_address=place.run(result.run_id, "resume") if may_resume else "",
    )


class RunPage(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the page of a run shows."""

    run_id: str
    state: Badge
    is_finished: bool
    verdicts: tuple[DecisionView, ...]
    verdict_note: str
    """What is said below the decision, in lesser weight; empty for nothing."""
    subject: tuple[Fact, ...]
    created: Timestamp | None
    key_figures: tuple[KeyMetric, ...]
    shares: tuple[BarSegment, ...]
    total: DisplayValue
    notes: tuple[Fact, ...]
    """What repeats, panels and rankings have to say."""
    rankings: tuple[Section, ...]
    drawings: tuple[ChartPair, ...]
    slices: Table | None
    errors: Table | None
    reasons: Table | None
    graders: tuple[Section, ...]
    """Checks and graders, a table each."""
    judges: Table | None
    tools: Table | None
    latencies: Table | None
    spending: Table | None
    settings: tuple[Fact, ...]
    plan_json: str
    hashes: tuple[Fact, ...]
    artifacts: Table | None
    missing: tuple[str, ...]
    standing: RunProgressView | None
    verified: Badge | None
    """What a verification of the files came to; None before one."""
    problems: tuple[str, ...]
    records_address: str
    compare_address: str
    group_address: str
    """Page of its group; empty for a run by itself."""
    exports: tuple[Cell, ...]


def run_page(
    view: RunReport,
    *,
    place: PageLinks,
    moments: Mapping[str, Any],
    files: Mapping[str, Path],
    standing: RunProgressView | None = None,
    problems: Sequence[api.FileProblem] | None = None,
) -> RunPage:
    """Return the page of a run.

    `files` are its artifacts by name, `standing` is how it goes while it is under way, and `problems` what a verification of
    its files found, None before one.
    """
    result, summary = view.result, view.summary
    run_id = result.run_id
    ranking = None if summary is None else summary.ranking
    judges = None if summary is None else summary.judges
    calls = msgspec.UNSET if summary is None else summary.tool_calls
    artifacts = run_details.artifact_table(view.manifest, run_id=run_id, links=place, files=files, problems=problems)
    return RunPage(
        run_id=run_id,
        state=words.state_mark(result.standing),
        is_finished=result.is_finished,
        verdicts=tuple(_lower(found) for found in decision_marks(view, _NO_GATES)),
        verdict_note=decision_note(view),
        subject=run.subject_section(view).facts,
        created=words.moment(moments["created_at"] or ""),
        key_figures=tuple(run_details.key_metrics(view)),
        # Before its end the counts do not add up to all records.
        shares=run_details.shares(view, place) if result.is_finished else (),
        total=_total(view),
        notes=() if summary is None else tuple(run_details.note_facts(summary)),
        rankings=tuple(run.ranking_sections(ranking)) if isinstance(ranking, RankingSummary) else (),
        drawings=_drawings(view),
        slices=_slices(view, place) if view.slices else None,
        errors=None if summary is None else run_details.error_table(view, place),
        reasons=None if summary is None else run_details.reason_table(view),
        graders=tuple(grader_sections([view])),
        judges=run.judge_table(judges) if isinstance(judges, tuple) else None,
        tools=None if calls is msgspec.UNSET or not calls.tools else run.tool_table(calls),
        latencies=None if summary is None else run_details.latency_table(view, summary),
        spending=None if summary is None else run_details.spending_table(summary),
        settings=tuple(run_details.setting_facts(view.plan)),
        plan_json=run_details.plan_text(view.manifest.plan_members),
        hashes=tuple(run_details.hash_facts(view.manifest)),
        # Without a file there is nothing to list: the run is unfinished, or on another machine.
        artifacts=artifacts if files else None,
        missing=view.missing,
        standing=standing,
        verified=None if problems is None else run_details.verification_mark(problems),
        problems=tuple(map(str, problems or ())),
        records_address=place.records(run_id),
        compare_address=place.compare(after=run_id) if result.is_finished else "",
        group_address=place.group(view.plan.group) if view.plan.group else "",
        exports=tuple(text_cell(kind.upper(), address=place.export(run_id, kind)) for kind in EXPORTED),
    )


def _slices(view: RunReport, place: PageLinks) -> Table:
    mean = run.shared_mean([view]).title
    table = run.slice_table([view], links=place).only("slice", "value", "n", "pass rate", mean, "errors")
    return table.titled("slice", "value", "records", "pass rate", mean, "errors")


def _lower(found: DecisionView) -> DecisionView:
    return DecisionView(Badge(found.mark.text.lower(), found.mark.kind), found.reason)


def _total(view: RunReport) -> DisplayValue:
    repeat = view.plan.repeat
    each = f"; each of {repeat} answers to a record counts" if repeat > 1 else ""
    return DisplayValue(
        words.counted(view.result.counts.total_records, "record"), f"All records of the input, invalid ones included{each}."
    )


def _drawings(view: RunReport) -> tuple[ChartPair, ...]:
    # The table below them has more.
    shown = msgspec.structs.replace(
        view,
        slices=view.slices[:MAX_DRAWN],
        # A chart with hundreds of rows is not readable as a picture.
        omitted_slice_values=view.omitted_slice_values + max(len(view.slices) - MAX_DRAWN, 0),
    )
    return tuple(map(chart_pair, run_charts([shown])))
