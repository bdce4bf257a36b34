"""Judges as pages: how each behaved under probe, and how far the judge of a run agrees with people."""

from collections import Counter
from collections.abc import Sequence

import msgspec

from assay import api
from assay.core.judge_card import JudgeCard
from assay.core.run_result import RunListing
from assay.presentation import words
from assay.presentation.judges import (
    PROBE_NOTE,
    TONES,
    ProbeView,
    agreement_metrics,
    alpha_table,
    asked_text,
    calibration_slices,
    card_facts,
    card_verdict,
    correction_table,
    labels_text,
    probe_view,
    rate_chart,
    reliability_chart,
)
from assay.presentation.sections import Badge, Cell, Fact, KeyMetric, Table, Timestamp
from assay.presentation.words import counted
from assay.surfaces.pages.page_renderer import ChartPair, PageLinks, chart_pair, text_cell

SHOWN_RUNS = 3
MAX_SLICES = 40


class JudgeRow(msgspec.Struct, frozen=True, kw_only=True):
    """One judge: what its newest card says, and where it was used."""

    judge: str
    mark: Badge | None
    card_address: str
    probed: Timestamp | None
    cards: int
    runs: int
    newest: tuple[Cell, ...]
    """Judge pages of its newest runs."""


class JudgesPage(msgspec.Struct, frozen=True, kw_only=True):
    """List of all judges."""

    rows: tuple[JudgeRow, ...]
    problems: tuple[str, ...]


def judges_page(listings: Sequence[RunListing], kept: api.KeptCards, *, place: PageLinks) -> JudgesPage:
    """Return the judges of all runs and cards; those that were probed last come first."""
    runs: dict[str, list[RunListing]] = {}
    for listing in listings:
        for judge in listing.judges:
            runs.setdefault(judge, []).append(listing)
    counts = Counter(kept_card.card.judge for kept_card in kept.cards)
    # The first of each judge is its newest, since cards come newest first.
    newest: dict[str, api.KeptCard] = {}
    for kept_card in kept.cards:
        newest.setdefault(kept_card.card.judge, kept_card)
    rows = (
        _judge_row(judge, newest.get(judge), runs.get(judge, []), cards=counts[judge], place=place)
        # Judges with a card first, then those that only runs name.
        for judge in dict.fromkeys((*newest, *runs))
    )
    # A damaged card must not take the page of all judges with it.
    problems = tuple(f"the judge card {name} cannot be read" for name in kept.damaged)
    return JudgesPage(rows=tuple(rows), problems=problems)


def _judge_row(judge: str, card: api.KeptCard | None, runs: list[RunListing], *, cards: int, place: PageLinks) -> JudgeRow:
    finished = [listing for listing in runs if listing.is_finished]
    return JudgeRow(
        judge=judge,
        mark=None if card is None else _card_mark(card.card),
        card_address="" if card is None else f"/judges/{card.id}",
        probed=None if card is None else words.moment(card.card.created_at),
        cards=cards,
        runs=len(runs),
        newest=tuple(text_cell(run.run_id, address=place.run(run.run_id, "judge"), is_code=True) for run in finished[:SHOWN_RUNS]),
    )


def _card_mark(card: JudgeCard) -> Badge:
    return Badge(card_verdict(card).lower(), TONES[card.verdict], "Result of `assay probe`; see the card.")


class CardPage(msgspec.Struct, frozen=True, kw_only=True):
    """One judge card."""

    judge: str
    mark: Badge
    made: Timestamp | None
    asked: str
    probes: tuple[ProbeView, ...]
    note: str
    """What is true of all rates."""
    drawing: ChartPair | None
    facts: tuple[Fact, ...]
    templates: tuple[Fact, ...]
    others: tuple[Cell, ...]
    """Other cards of the same judge."""


def card_page(kept: api.KeptCard, others: Sequence[api.KeptCard]) -> CardPage:
    """Return the page of a card."""
    card = kept.card
    measured = [probe for probe in card.probes if probe.rate is not None]
    return CardPage(
        judge=card.judge,
        mark=_card_mark(card),
        made=words.moment(card.created_at),
        asked=asked_text(card),
        probes=tuple(map(probe_view, card.probes)),
        note=PROBE_NOTE,
        drawing=chart_pair(rate_chart(measured)) if measured else None,
        facts=tuple(card_facts(card)),
        templates=tuple(Fact(name, sha256, is_hash=True) for name, sha256 in card.templates.items()),
        # Its date tells cards of one judge apart.
        others=tuple(
            text_cell(f"{other.card.created_at[:10]}: {card_verdict(other.card).lower()}", address=f"/judges/{other.id}")
            for other in others
            if other.id != kept.id
        ),
    )


class CalibrationView(msgspec.Struct, frozen=True, kw_only=True):
    """Agreement of a judge with people."""

    subject: str
    key_figures: tuple[KeyMetric, ...]
    corrections: Table
    alphas: Table
    drawing: ChartPair | None
    slices: Table | None
    notes: tuple[str, ...]


class RunJudgePage(msgspec.Struct, frozen=True, kw_only=True):
    """Judge of a run: its card, and what the labels of people say of it."""

    run_id: str
    judges: tuple[JudgeRow, ...]
    source: str
    """Where the labels come from; empty without any."""
    calibration: CalibrationView | None = None
    problems: tuple[str, ...] = ()
    records_address: str = ""
    labels_address: str = ""


def calibration_view(found: api.Calibration) -> CalibrationView:
    """Return what labels say of the judge of a run."""
    return CalibrationView(
        subject=labels_text(found),
        key_figures=tuple(agreement_metrics(found)),
        corrections=correction_table(found),
        alphas=alpha_table(found),
        drawing=chart_pair(reliability_chart(found)) if found.reliability else None,
        slices=_slices(found) if found.slices else None,
        notes=found.notes,
    )


def _slices(found: api.Calibration) -> Table:
    table, omitted = calibration_slices(found, limit=MAX_SLICES)
    return msgspec.structs.replace(table, note=f"… and {counted(omitted, 'more value')}" if omitted else "")
