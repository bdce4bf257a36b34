"""Judges for the terminal: a judge card, which is also kept as Markdown, and a judge beside people."""

from __future__ import annotations

from collections.abc import Iterator

from assay import api
from assay.core.judge_card import JudgeCard, ProbeResult
from assay.core.text import printable
from assay.presentation.judges import (
    TITLES,
    TONES,
    WORDS,
    asked_text,
    calibration_sections,
    card_verdict,
    failed_text,
    rate_text,
    slips_text,
)
from assay.presentation.sections import Cell, Column
from assay.surfaces.reporters.markdown import inert, markdown_table, name
from assay.surfaces.reporters.settings import ReportSettings
from assay.surfaces.reporters.terminal import hanging, painter, report_lines, table

LABEL = 19
"""Columns of the labels at the left of a calibration."""
NAME_LIMIT = 120


def judge_card_text(card: JudgeCard, settings: ReportSettings) -> Iterator[str]:
    """The verdict, a line for each probe, and what each of them found."""
    paint = painter(is_coloured=settings.is_coloured)
    yield f"{paint(card_verdict(card), TONES[card.verdict])} · {printable(card.judge)}\n"
    yield f"{printable(asked_text(card))}\n\n"
    columns = (
        Column("probe"),
        Column("verdict"),
        Column("slips", is_number=True),
        Column("rate"),
        Column("no verdict"),
    )
    rows = [
        (
            TITLES[probe.id],
            Cell(WORDS[probe.verdict], tone=TONES[probe.verdict]),
            slips_text(probe),
            rate_text(probe),
            printable(failed_text(probe)),
        )
        for probe in card.probes
    ]
    yield from table(columns, rows, paint=paint, width=settings.width)
    yield "\n"
    for probe in card.probes:
        text = f"{TITLES[probe.id]}: {printable(probe.words)}.{_seen(probe) if settings.is_verbose else ''}"
        yield f"{hanging(text, first=0, width=settings.width, indent=2)}\n"


def judge_card_markdown(card: JudgeCard) -> Iterator[str]:
    """The whole card."""
    yield f"# Judge card: {card_verdict(card)}\n\n{name(card.judge)} · {inert(asked_text(card))}\n\n"
    rows = [
        (TITLES[probe.id], f"**{WORDS[probe.verdict]}**", slips_text(probe), rate_text(probe), inert(failed_text(probe)))
        for probe in card.probes
    ]
    yield from markdown_table(("probe", "verdict", "slips", "rate", "no verdict"), rows, [False, False, True, True, True])
    yield "\nA rate has its 95 % interval (Wilson). By chance, a sound judge fails at most 1 in 20 probes.\n"
    for probe in card.probes:
        yield f"\n## {TITLES[probe.id][:1].upper()}{TITLES[probe.id][1:]}: {WORDS[probe.verdict]}\n\n"
        yield f"A sound judge {inert(probe.expectation)}.\n\nFound: {inert(probe.words)}.{inert(_seen(probe))}\n"
    yield f"\n## How\n\n- judge: {name(card.judge)}, parameters {inert(_pairs(card.parameters))}\n"
    yield f"- records: {inert(card.source)} (SHA-256 {card.source_sha256}), seed {card.seed}\n"
    yield from (f"- prompt {name} (SHA-256 {sha256})\n" for name, sha256 in card.templates.items())
    yield f"- made by assay {card.product_version} at {card.created_at}\n"


def _seen(probe: ProbeResult) -> str:
    more = f" and {probe.slips - len(probe.seen)} more" if probe.slips > len(probe.seen) else ""
    return f" Seen in {', '.join(map(printable, probe.seen))}{more}." if probe.seen else ""


def _pairs(members: dict[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in members.items() if value is not None) or "the provider's own"


def calibration_text(found: api.Calibration, settings: ReportSettings, *, chart: str = "") -> Iterator[str]:
    """A judge beside people."""
    paint = painter(is_coloured=settings.is_coloured)
    judges = ", ".join(found.judges) or "programmatic grading"
    yield f"{paint(printable(found.run_id), 'strong')} · {printable(judges, limit=NAME_LIMIT)}\n"
    sections = calibration_sections(found, is_verbose=settings.is_verbose, chart=chart)
    yield from report_lines(sections, settings, paint=paint, label=LABEL)
