"""Judges as pages: how each behaved under probe, and how far the judge of a run agrees with people."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from assay import api
from assay.core.judge_card import JudgeCard, ProbeResult, Soundness
from assay.core.run_result import RunListing
from assay.presentation import words
from assay.presentation.sections import Badge, Cell, Column, DisplayValue, Fact, KeyMetric, Table, Timestamp, Tone
from assay.presentation.words import DASH, counted, decimal, rate
from assay.surfaces.charts import Caption, IntervalRow, PlottedEstimate, ScoreBin, interval_plot, reliability_diagram
from assay.surfaces.pages.links import PageLinks
from assay.surfaces.pages.tables import ChartPair, drawing, text_cell
from assay.surfaces.reporters.calibration import corrected, figure, rate_figure
from assay.surfaces.reporters.judge_card import TITLES, WORDS, asked_text, card_verdict, failed_text, slips_text

SHOWN_RUNS = 3
MAX_SLICES = 40
_KINDS: dict[Soundness, Tone] = {
    "pass": "good",
    "warn": "warn",
    "fail": "bad",
    "not_enough_evidence": "warn",
    "not_tried": "quiet",
}


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
    return Badge(card_verdict(card).lower(), _KINDS[card.verdict], "Result of `assay probe`; see the card.")


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
    interval = None if probe.low is None or probe.high is None else (probe.low, probe.high)
    tolerated = "" if probe.tolerance is None else f"; up to {rate(probe.tolerance)} is tolerated"
    says = f"Share of slips among {probe.n:,}, with its 95 % interval {words.interval_text(interval, is_rate=True)}{tolerated}."
    shown = words.shown(words.with_interval(probe.rate, interval, rate))
    more = f" and {probe.slips - len(probe.seen):,} more" if probe.slips > len(probe.seen) else ""
    return ProbeView(
        title=TITLES[probe.id],
        mark=Badge(WORDS[probe.verdict].lower(), _KINDS[probe.verdict]),
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
    raters = [rater for rater in found.raters if rater]
    who = f" by {', '.join(raters)}" if raters else ""
    return CalibrationView(
        subject=f"{counted(found.n_labels, 'label')} on {counted(found.n_records, 'graded record')}{who}",
        key_figures=tuple(_agreement(found)),
        corrections=_corrections(found),
        alphas=_alphas(found),
        drawing=_reliability(found) if found.reliability else None,
        slices=_slices(found) if found.slices else None,
        notes=found.notes,
    )


def _agreement(found: api.Calibration) -> Iterator[KeyMetric]:
    detection = found.detection
    named: tuple[tuple[str, Any, str, tuple[float, float]], ...] = (
        ("Agreement", found.agreement, "Share of labelled answers on which judge and people agree.", (0.0, 1.0)),
        ("Cohen's kappa", found.kappa, "Agreement beyond chance; 1 is perfect, 0 is chance.", (-1.0, 1.0)),
        ("Sensitivity", detection.sensitivity, "Of the answers that people pass, the share that the judge passes.", (0.0, 1.0)),
        (
            "Specificity",
            detection.specificity,
            "Of the answers that people do not pass, the share that the judge does not pass.",
            (0.0, 1.0),
        ),
    )
    for label, estimate, says, domain in named:
        interval = None if estimate.interval is None else (estimate.interval.low, estimate.interval.high)
        # Kappa is a coefficient; the others are shares.
        is_rate = domain == (0.0, 1.0)
        text, ends = rate if is_rate else decimal, words.interval_text(interval, is_rate=is_rate)
        yield KeyMetric(
            label=label,
            figure=DisplayValue(words.shown(text(estimate.value)), f"{says} n {estimate.n:,}.", f"n {estimate.n:,}"),
            note=f"95 %: {ends}" if interval else estimate.reason or "no interval",
            bar=words.whisker(estimate.value, interval, domain=domain),
        )


def _corrections(found: api.Calibration) -> Table:
    rows = [
        ("Pass rate", rate_figure(found.judged), corrected(found.mean_passes, is_rate=True), "PPI++, of all answers"),
        (
            "Pass rate",
            rate_figure(found.pass_rate.raw),
            corrected(found.pass_rate, is_rate=True),
            "Rogan and Gladen, of the answers without labels",
        ),
    ]
    if found.mean_score is not None:
        rows.append(("Mean score", figure(found.mean_score.raw), corrected(found.mean_score), "PPI++, of all answers"))
    columns = (
        Column("Figure"),
        Column("As judged", "By the judge's grades, with a 95 % interval."),
        Column("Corrected", "Corrected for the judge's errors by the labels; not shown with too few labels."),
        Column("By"),
    )
    cells = tuple(tuple(text_cell(words.shown(text)) for text in row) for row in rows)
    return Table(title="Corrected figures", columns=columns, rows=cells)


def _alphas(found: api.Calibration) -> Table:
    named: tuple[tuple[str, Any], ...] = (("People among themselves", found.people), ("People and the judge", found.everybody))
    rows = tuple(
        (
            text_cell(label),
            *(text_cell(words.shown(figure(estimate))) for estimate in (of.nominal, of.ordinal, of.interval)),
        )
        for label, of in named
        if of is not None
    )
    columns = (
        Column("Krippendorff's alpha"),
        Column("Nominal", "Of passed and not passed."),
        Column("Ordinal", "Of scores, by their order."),
        Column("Interval", "Of scores, by their distance."),
    )
    return Table(title="Krippendorff's alpha", columns=columns, rows=rows)


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
    shown = found.slices[:MAX_SLICES]
    rows = tuple(
        (
            text_cell(f"{row.slice}: {'(none)' if row.value is None else row.value}"),
            text_cell(f"{row.n:,}"),
            *(_short(estimate) for estimate in (row.agreement, row.detection.sensitivity, row.detection.specificity)),
        )
        for row in shown
    )
    columns = (
        Column("Slice"),
        Column("Labels", "Labelled answers with this value.", is_number=True),
        Column("Agreement", "With its 95 % interval.", is_number=True),
        Column("Sensitivity", "With its 95 % interval.", is_number=True),
        Column("Specificity", "With its 95 % interval.", is_number=True),
    )
    omitted = len(found.slices) - len(shown)
    note = f"… and {counted(omitted, 'more value')}" if omitted else ""
    return Table(title="By slice", columns=columns, rows=rows, note=note)


def _short(estimate: Any) -> Cell:
    return text_cell(DASH if estimate.value is None else rate_figure(estimate), estimate.reason or "")
