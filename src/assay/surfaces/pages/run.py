"""One run: whether it is good enough and why, what was counted, and the evidence."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from assay.core.dataset_title import dataset_title
from assay.core.gate_text import gate_texts
from assay.core.manifest import Manifest
from assay.core.summary import RunKind, kind_of_metrics
from assay.surfaces.pages import display_values
from assay.surfaces.pages.display_values import Badge, DecisionView, DisplayValue, Fact, KeyMetric, Timestamp
from assay.surfaces.pages.links import Format, PageLinks
from assay.surfaces.pages.run_figures import BarSegment, key_figures, shares
from assay.surfaces.pages.run_progress import RunProgressView
from assay.surfaces.pages.run_tables import (
    artifact_table,
    error_table,
    judge_table,
    latency_table,
    ranking_tables,
    reason_table,
    slice_table,
    spending_table,
)
from assay.surfaces.pages.tables import NARROW, WIDE, ChartPair, PageCell, PageTable, text_cell
from assay.surfaces.reporters.run_charts import run_charts
from assay.surfaces.reporters.run_decision import NO_GATES, decision_note, decisions
from assay.surfaces.reporters.run_numbers import UNKNOWN, duration
from assay.surfaces.reporters.run_panel import panel_lines
from assay.surfaces.reporters.run_profile import profile_text
from assay.surfaces.reporters.run_ranking import ranking_notes
from assay.surfaces.reporters.run_repeats import repeat_lines
from assay.surfaces.reporters.run_subject import grading_word, subject
from assay.surfaces.reporters.run_view import Json, RunReport
from assay.surfaces.reporters.verdict_words import MET, MISSED, NO_RESULT
from assay.surfaces.reporters.wording import counted, first_datasets

EXPORTED: tuple[Format, ...] = ("csv", "xlsx", "parquet", "jsonl", "json")
"""Formats that a page offers."""
MAX_DRAWN = 24
"""Values of slices in a chart."""
_VERDICTS: dict[str, display_values.Kind] = {MET: "good", MISSED: "bad", NO_RESULT: "bad", "BLOCKED": "bad", "UNFINISHED": "live"}


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
    started: Timestamp | None
    completed: Timestamp | None
    took: str
    key_figures: tuple[KeyMetric, ...]
    shares: tuple[BarSegment, ...]
    total: DisplayValue
    notes: tuple[Fact, ...]
    """What repeats, panels and rankings have to say."""
    rankings: tuple[PageTable, ...]
    drawings: tuple[ChartPair, ...]
    slices: PageTable | None
    errors: PageTable | None
    reasons: PageTable | None
    judges: PageTable | None
    latencies: PageTable | None
    spending: PageTable | None
    settings: tuple[Fact, ...]
    plan_json: str
    hashes: tuple[Fact, ...]
    artifacts: PageTable | None
    missing: tuple[str, ...]
    standing: RunProgressView | None
    verified: Badge | None
    """What a verification of the files came to; None before one."""
    problems: tuple[str, ...]
    records_address: str
    compare_address: str
    exports: tuple[PageCell, ...]


def run_page(
    view: RunReport,
    *,
    place: PageLinks,
    moments: Mapping[str, Any],
    files: Mapping[str, Path],
    standing: RunProgressView | None = None,
    problems: Sequence[str] | None = None,
) -> RunPage:
    """The page of a run.

    `files` are its artifacts by name, `standing` is how it goes while it is under way, and `problems` what a verification of
    its files found, None before one.
    """
    result, metrics = view.result, view.result.metrics
    run_id = result.run_id
    return RunPage(
        run_id=run_id,
        state=display_values.state_mark(result.standing),
        is_finished=result.is_finished,
        verdicts=tuple(_verdict(decision.word, decision.reason) for decision in decisions(view)),
        verdict_note=decision_note(view),
        subject=tuple(_subject(view)),
        created=display_values.moment(moments["created_at"] or ""),
        started=display_values.moment(moments["started_at"] or ""),
        completed=display_values.moment(moments["completed_at"] or ""),
        took="" if view.seconds is None else duration(view.seconds),
        key_figures=tuple(key_figures(view)) if metrics else (),
        shares=shares(view, place) if result.is_finished else (),
        total=_total(view),
        notes=tuple(_notes(metrics)),
        rankings=ranking_tables(metrics["ranking"]) if view.result.kind is RunKind.RANKING else (),
        drawings=_drawings(view) if metrics else (),
        slices=slice_table(view, place) if view.slices else None,
        errors=error_table(view, place) if metrics else None,
        reasons=reason_table(view) if metrics else None,
        judges=judge_table(metrics["judges"]) if metrics.get("judges") else None,
        latencies=latency_table(metrics, graded_by=grading_word(view.plan)) if metrics else None,
        spending=spending_table(metrics) if metrics else None,
        settings=tuple(_settings(view.plan)),
        plan_json=msgspec.json.format(msgspec.json.encode(view.plan), indent=2).decode(),
        hashes=tuple(_hashes(view.manifest)),
        artifacts=artifact_table(view.manifest, run_id=run_id, place=place, files=files, problems=problems) if files else None,
        missing=view.missing,
        standing=standing,
        verified=None if problems is None else _verification(problems),
        problems=tuple(problems or ()),
        records_address=place.records(run_id),
        compare_address=place.compare(after=run_id) if result.is_finished else "",
        exports=tuple(text_cell(kind.upper(), address=place.export(run_id, kind)) for kind in EXPORTED),
    )


def _verdict(word: str, reason: str) -> DecisionView:
    # What a report names there are options of a command.
    said = "The run was started without gates for pass rate, score or error rate." if word == NO_GATES else reason
    return DecisionView(Badge(word.lower(), _VERDICTS.get(word, "quiet")), said)


def _subject(view: RunReport) -> Iterator[Fact]:
    for label, words in subject(view.plan, view.manifest):
        yield Fact(label.capitalize(), " · ".join(words))


def _total(view: RunReport) -> DisplayValue:
    repeat = view.plan.get("repeat", 1)
    each = f"; each of {repeat} answers to a record counts" if repeat > 1 else ""
    return DisplayValue(
        counted(view.result.counts.total_records, "record"), f"All records of the input, invalid ones included{each}."
    )


def _notes(metrics: Json) -> Iterator[Fact]:
    """The labels of a line that goes on with the one before are empty in a report."""
    label = ""
    lines = [
        *(repeat_lines(metrics["repeats"]) if "repeats" in metrics else ()),
        *(panel_lines(metrics["panel"]) if "panel" in metrics else ()),
        *(ranking_notes(metrics["ranking"]) if kind_of_metrics(metrics) is RunKind.RANKING else ()),
        *([("profile", profile_text(metrics["profile"]))] if metrics.get("profile") else ()),
    ]
    for name, text in lines:
        label = name or label
        if text != UNKNOWN:
            yield Fact(label.capitalize(), text)


def _verification(problems: Sequence[str]) -> Badge:
    if problems:
        return Badge("not as published", "bad", "Some files do not match the manifest; they are listed below.")
    return Badge("verified", "good", "Every file is as it was published, and the hashes of records and attempts fit together.")


def _drawings(view: RunReport) -> tuple[ChartPair, ...]:
    # The table below them has more.
    shown = msgspec.structs.replace(
        view,
        slices=view.slices[:MAX_DRAWN],
        omitted_slice_values=view.omitted_slice_values + max(len(view.slices) - MAX_DRAWN, 0),
    )
    wide, narrow = run_charts([shown], width=WIDE), run_charts([shown], width=NARROW)
    return tuple(ChartPair(title=one.title, wide=one.svg, narrow=other.svg) for one, other in zip(wide, narrow, strict=True))


def _settings(plan: Json) -> Iterator[Fact]:
    yield Fact("Gates", ", ".join(gate.asked for gate in gate_texts(plan.get("gates") or {}, None)) or "none")
    yield Fact("Concurrency", str(plan["concurrency"]))
    yield Fact("Attempts", f"at most {plan['retry']['max_attempts']} at each record")
    yield Fact("Answers to a record", str(plan.get("repeat", 1)))
    yield Fact("Seed", str(plan["seed"]))
    for label, member in (("Sample", "sample"), ("Limit", "limit"), ("Largest cost", "max_cost"), ("Profile", "profile")):
        if plan.get(member) is not None:
            yield Fact(label, str(plan[member]))
    yield Fact("Passing score", f"{plan['case_pass_score']} on 1-5, {plan['pass_threshold']} on 0-1")


def _hashes(manifest: Manifest) -> Iterator[Fact]:
    named = (
        ("Manifest", manifest.own_hash),
        ("Plan", manifest.plan_sha256),
        ("Records (Merkle root)", manifest.records_merkle_root),
        ("Attempts (hash chain)", manifest.attempt_chain_sha256),
    )
    yield from (Fact(label, digest, is_hash=True) for label, digest in named if digest)
    datasets, more = first_datasets(manifest.plan.get("datasets", ()))
    for dataset in datasets:
        if dataset.get("sha256"):
            yield Fact(f"Dataset {dataset_title(dataset)}", dataset["sha256"], is_hash=True)
    if more:
        yield Fact("Datasets", f"{more}; all hashes are in manifest.json")
    if manifest.assay_version:
        yield Fact("Made with", f"assay {manifest.assay_version}")
