"""Judges as pages: how each behaved under probe, and how far the judge of a run agrees with people."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from assay import api
from assay.core.judge_card import JudgeCard, ProbeResult
from assay.core.run_result import RunListing
from assay.presentation import words
from assay.presentation.judges import (
    TITLES,
    TONES,
    WORDS,
    agreement_metrics,
    alpha_table,
    asked_text,
    calibration_slices,
    card_verdict,
    correction_table,
    failed_text,
    labels_text,
    slips_text,
)
from assay.presentation.sections import Badge, Cell, DisplayValue, Fact, KeyMetric, Table, Timestamp
from assay.presentation.words import counted, rate
from assay.surfaces.charts import Caption, IntervalRow, PlottedEstimate, ScoreBin, interval_plot, reliability_diagram
from assay.surfaces.pages.page_renderer import PageLinks
from assay.surfaces.pages.tables import ChartPair, drawing, text_cell

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
    """The judge pages of its newest runs."""


class JudgesPage(msgspec.Struct, frozen=True, kw_only=True):
    """Everybody who judges here."""

    rows: tuple[JudgeRow, ...]
    problems: tuple[str, ...]


def judges_page(listings: Sequence[RunListing], kept: api.KeptCards, *, place: PageLinks) -> JudgesPage:
    """The judges of all runs and cards; those that were probed last come first."""
    runs: dict[str, list[RunListing]] = {}
    for listing in listings:
        for judge in listing.judges:
            runs.setdefault(judge, []).append(listing)
    counts = Counter(kept_card.card.judge for kept_card in kept.cards)
    newest: dict[str, api.KeptCard] = {}
    for kept_card in kept.cards:
        newest.setdefault(kept_card.card.judge, kept_card)
    rows = (
        _judge_row(judge, newest.get(judge), runs.get(judge, []), cards=counts[judge], place=place)
        for judge in dict.fromkeys((*newest, *runs))
    )
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


class ProbeView(msgspec.Struct, frozen=True, kw_only=True):
    """What one probe found."""

    title: str
    mark: Badge
    slips: DisplayValue
    rate: Cell
    expectation: str
    words: str
    failed: str
    seen: str


class CardPage(msgspec.Struct, frozen=True, kw_only=True):
    """One judge card."""

    judge: str
    mark: Badge
    made: Timestamp | None
    asked: str
    probes: tuple[ProbeView, ...]
    drawing: ChartPair | None
    facts: tuple[Fact, ...]
    templates: tuple[Fact, ...]
    others: tuple[Cell, ...]
    """Other cards of the same judge."""


def card_page(kept: api.KeptCard, others: Sequence[api.KeptCard]) -> CardPage:
    """The page of a card."""
    card = kept.card
    measured = [probe for probe in card.probes if probe.rate is not None]
    return CardPage(
        judge=card.judge,
        mark=_card_mark(card),
        made=words.moment(card.created_at),
        asked=asked_text(card),
        probes=tuple(_probe(probe) for probe in card.probes),
        drawing=_rates(measured) if measured else None,
        facts=tuple(_card_facts(card)),
        templates=tuple(Fact(name, sha256, is_hash=True) for name, sha256 in card.templates.items()),
        others=tuple(
            text_cell(f"{other.card.created_at[:10]}: {card_verdict(other.card).lower()}", address=f"/judges/{other.id}")
            for other in others
            if other.id != kept.id
        ),
    )


def _probe(probe: ProbeResult) -> ProbeView:
    interval = words.ends_between(probe.low, probe.high)
    tolerated = "" if probe.tolerance is None else f"; up to {rate(probe.tolerance)} is tolerated"
    says = f"Share of slips among {probe.n:,}, with its 95 % interval {words.interval_text(interval, is_rate=True)}{tolerated}."
    shown = words.shown(words.with_interval(probe.rate, interval, rate))
    more = f" and {probe.slips - len(probe.seen):,} more" if probe.slips > len(probe.seen) else ""
    return ProbeView(
        title=TITLES[probe.id],
        mark=Badge(WORDS[probe.verdict].lower(), TONES[probe.verdict]),
        slips=DisplayValue(
            words.shown(slips_text(probe)), "Answers that a sound judge would have decided otherwise, of all that count."
        ),
        rate=Cell(shown, says if probe.n else "", bar=words.whisker(probe.rate, interval)),
        expectation=probe.expectation,
        words=probe.words,
        failed=words.shown(failed_text(probe)),
        seen=f"{', '.join(probe.seen)}{more}" if probe.seen else "",
    )


def _rates(probes: Sequence[ProbeResult]) -> ChartPair:
    title = "How often the judge slipped"
    rows = [
        IntervalRow(TITLES[probe.id], PlottedEstimate(probe.low, probe.rate, probe.high, probe.n, is_rate=True)) for probe in probes
    ]
    caption = "share of slips by probe, lower is better · 95 % intervals"
    return drawing(title, lambda width: interval_plot(rows, Caption(title, caption, width), domain=(0.0, 1.0)))


def _card_facts(card: JudgeCard) -> Iterator[Fact]:
    if card.candidate:
        yield Fact("Is to judge", card.candidate)
    yield Fact("Parameters", ", ".join(f"{name} {value}" for name, value in card.parameters.items()) or "the provider's own")
    yield Fact("Judgments of the same answer", str(card.repeats))
    yield Fact("Seed", str(card.seed))
    yield Fact("Made with", f"assay {card.product_version}")
    yield Fact("Records (SHA-256)", card.source_sha256, is_hash=True)


class CalibrationView(msgspec.Struct, frozen=True, kw_only=True):
    """A judge beside people."""

    subject: str
    key_figures: tuple[KeyMetric, ...]
    corrections: Table
    alphas: Table
    drawing: ChartPair | None
    slices: Table | None
    notes: tuple[str, ...]


class RunJudgePage(msgspec.Struct, frozen=True, kw_only=True):
    """The judge of a run: its card, and what the labels of people say of it."""

    run_id: str
    judges: tuple[JudgeRow, ...]
    source: str
    """Where the labels come from; empty without any."""
    calibration: CalibrationView | None = None
    problems: tuple[str, ...] = ()
    records_address: str = ""
    labels_address: str = ""


def calibration_view(found: api.Calibration) -> CalibrationView:
    """What labels say of the judge of a run."""
    return CalibrationView(
        subject=labels_text(found),
        key_figures=tuple(agreement_metrics(found)),
        corrections=correction_table(found),
        alphas=alpha_table(found),
        drawing=_reliability(found) if found.reliability else None,
        slices=_slices(found) if found.slices else None,
        notes=found.notes,
    )


def _reliability(found: api.Calibration) -> ChartPair:
    bins = [ScoreBin(one.given, _drawn(one.observed)) for one in found.reliability]
    title, note = (
        "Judge's score, people's verdict",
        f"{counted(found.n_records, 'labelled record')} · whiskers are 95 % intervals",
    )
    axes = ("judge's score", "share that people pass")
    return drawing(title, lambda width: reliability_diagram(bins, Caption(title, note, width), axes=axes))


def _drawn(estimate: Any) -> PlottedEstimate:
    interval = estimate.interval
    return PlottedEstimate(
        interval.low if interval else None, estimate.value, interval.high if interval else None, estimate.n, is_rate=True
    )


def _slices(found: api.Calibration) -> Table:
    table, omitted = calibration_slices(found, limit=MAX_SLICES)
    return msgspec.structs.replace(table, note=f"… and {counted(omitted, 'more value')}" if omitted else "")
