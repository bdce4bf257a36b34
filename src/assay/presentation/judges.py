"""Judges in words: a judge card, and what labels of people say of the judge of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from assay import api
from assay.core.artifact_lines import JudgeDisagreement
from assay.core.judge_card import JudgeCard, ProbeResult, Soundness
from assay.presentation.charts import Chart, IntervalPlot, IntervalRow, PlottedEstimate, ReliabilityPlot, ScoreBin
from assay.presentation.sections import Badge, Cell, Column, DisplayValue, Fact, KeyMetric, Section, Table, Tone
from assay.presentation.words import (
    NO_VALUE,
    NOT_PASSED,
    PASSED,
    UNKNOWN,
    ExplainedEstimate,
    counted,
    cut,
    decimal,
    dollars,
    ends_between,
    ends_of,
    interval_text,
    price_unknown_text,
    rate,
    sampled_name,
    shown,
    whisker,
    with_interval,
)

SLICE_LIMIT = 32
ID_LIMIT = 48
NAME_LIMIT = 120
WHY_LIMIT = 160
MAX_SLICES = 12

TITLES: dict[str, str] = {
    "retest": "test and retest",
    "discernment": "right from wrong",
    "stray": "off the question",
    "empty": "empty answer",
    "length": "length",
    "injection": "injection",
    "reference": "exchanged reference",
    "position": "order of answers",
    "family": "same family",
}
WORDS: dict[Soundness, str] = {
    "pass": "passed",
    "warn": "warning",
    "fail": "NOT PASSED",
    "not_enough_evidence": "not enough evidence",
    "not_tried": "not tried",
}
_VERDICTS: dict[Soundness, str] = {
    "pass": "SOUND",
    "warn": "SOUND, with warnings",
    "fail": "NOT SOUND",
    "not_enough_evidence": "NOT ENOUGH EVIDENCE",
    "not_tried": "NOT TRIED",
}
TONES: dict[Soundness, Tone] = {
    "pass": "good",
    "warn": "warn",
    "fail": "bad",
    "not_enough_evidence": "warn",
    "not_tried": "quiet",
}


# Judge cards


def card_verdict(card: JudgeCard) -> str:
    """Return the verdict; a probe that was not tried could have found something."""
    untried = sum(probe.verdict == "not_tried" for probe in card.probes)
    # "not passed" stands however many probes are missing; a pass only as far as the probes went.
    is_open = untried and card.verdict in ("pass", "warn")
    return f"{_VERDICTS[card.verdict]}, as far as tried ({counted(untried, 'probe')} not)" if is_open else _VERDICTS[card.verdict]


def asked_text(card: JudgeCard) -> str:
    """Return `16 records of shipped questions · 272 calls · $0.12`."""
    left_out = f" ({card.records_left_out:,} left out)" if card.records_left_out else ""
    # A cost of 0 is shown where every price is known, since then it is true: scripted and local judges are free.
    cost = [dollars(card.cost)] if card.cost or not card.unknown_costs else []
    cost += [price_unknown_text(card.unknown_costs, "call")] if card.unknown_costs else []
    failed = f", {card.failed_calls:,} without a reply" if card.failed_calls else ""
    where = "shipped questions" if card.source == "shipped" else card.source
    return f"{counted(card.records, 'record')} of {where}{left_out} · {counted(card.calls, 'call')}{failed} · {' · '.join(cost)}"


def slips_text(probe: ProbeResult) -> str:
    """Return `3/16`."""
    return f"{probe.slips}/{probe.n}" if probe.n else UNKNOWN


def rate_text(probe: ProbeResult) -> str:
    """Return `18.8 % [6.6 %, 43.0 %]`."""
    return with_interval(probe.rate, ends_between(probe.low, probe.high), rate)


def failed_text(probe: ProbeResult) -> str:
    """Calls without a judgment, by code."""
    return ", ".join(f"{code} {count:,}" for code, count in sorted(probe.failed.items())) or UNKNOWN


PROBE_NOTE = "A rate has its 95 % interval (Wilson). By chance, a sound judge fails at most 1 in 20 probes."
SLIPS_SAYS = "Answers that a sound judge would have decided otherwise, of all that count."


def card_sections(card: JudgeCard, *, is_verbose: bool) -> list[Section]:
    """Return the verdict, a row for each probe, and what each of them found."""
    heading = (Cell(card_verdict(card), tone=TONES[card.verdict]), Cell(card.judge))
    found = (f"{TITLES[probe.id]}: {probe.words}.{seen_text(probe) if is_verbose else ''}" for probe in card.probes)
    table = msgspec.structs.replace(probe_table(card.probes), note="")
    return [Section(heading=heading, lines=(asked_text(card),)), Section(tables=(table,)), Section(lines=tuple(found))]


def probe_table(probes: Sequence[ProbeResult]) -> Table:
    """Return a row for each probe."""
    columns = (
        Column("probe"),
        Column("verdict"),
        Column("slips", SLIPS_SAYS, is_number=True),
        Column("rate"),
        Column("no verdict"),
    )
    rows = tuple(
        (
            Cell(TITLES[probe.id]),
            Cell(WORDS[probe.verdict], tone=TONES[probe.verdict]),
            Cell(slips_text(probe)),
            Cell(rate_text(probe)),
            Cell(failed_text(probe)),
        )
        for probe in probes
    )
    return Table(title="Probes", columns=columns, rows=rows, note=PROBE_NOTE)


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


def probe_view(probe: ProbeResult) -> ProbeView:
    """Return what one probe found, in words."""
    interval = ends_between(probe.low, probe.high)
    tolerated = "" if probe.tolerance is None else f"; up to {rate(probe.tolerance)} is tolerated"
    says = f"Share of slips among {probe.n:,}, with its 95 % interval {interval_text(interval, is_rate=True)}{tolerated}."
    return ProbeView(
        title=TITLES[probe.id],
        mark=Badge(WORDS[probe.verdict].lower(), TONES[probe.verdict]),
        slips=DisplayValue(shown(slips_text(probe)), SLIPS_SAYS),
        rate=Cell(shown(with_interval(probe.rate, interval, rate)), says if probe.n else "", bar=whisker(probe.rate, interval)),
        expectation=probe.expectation,
        words=probe.words,
        failed=shown(failed_text(probe)),
        seen=_seen_ids(probe),
    )


def seen_text(probe: ProbeResult) -> str:
    """Return ` Seen in q-1, q-2 and 3 more.`; empty for a probe without slips."""
    return f" Seen in {_seen_ids(probe)}." if probe.seen else ""


def _seen_ids(probe: ProbeResult) -> str:
    more = f" and {probe.slips - len(probe.seen):,} more" if probe.slips > len(probe.seen) else ""
    return f"{', '.join(probe.seen)}{more}" if probe.seen else ""


def card_facts(card: JudgeCard) -> Iterator[Fact]:
    """Return how a judge was probed."""
    if card.candidate:
        yield Fact("Is to judge", card.candidate)
    yield Fact("Parameters", parameters_text(card))
    yield Fact("Judgments of the same answer", str(card.repeats))
    yield Fact("Seed", str(card.seed))
    yield Fact("Made with", f"assay {card.product_version}")
    yield Fact("Records (SHA-256)", card.source_sha256, is_hash=True)


def parameters_text(card: JudgeCard) -> str:
    """Return the parameters of the judge's calls."""
    return ", ".join(f"{name} {value}" for name, value in card.parameters.items() if value is not None) or "the provider's own"


def rate_chart(probes: Sequence[ProbeResult]) -> Chart:
    """Return how often the judge slipped under each probe."""
    rows = tuple(
        IntervalRow(TITLES[probe.id], PlottedEstimate(probe.low, probe.rate, probe.high, probe.n, is_rate=True)) for probe in probes
    )
    note = "share of slips by probe, lower is better · 95 % intervals"
    plot = IntervalPlot(rows=rows, domain=(0.0, 1.0))
    return Chart(name="probes.svg", title="How often the judge slipped", note=note, plot=plot)


def reliability_chart(found: api.Calibration) -> Chart:
    """Return the judge's scores against the verdicts of people."""
    bins = tuple(ScoreBin(one.given, _plotted(one.observed)) for one in found.reliability)
    note = f"{counted(found.n_records, 'labelled record')} of {found.run_id} · whiskers are 95 % intervals"
    plot = ReliabilityPlot(bins=bins, axes=("judge's score", "share that people pass"))
    return Chart(name="reliability.svg", title="Judge's score, people's verdict", note=note, plot=plot)


def _plotted(estimate: ExplainedEstimate) -> PlottedEstimate:
    low, high = ends_of(estimate.interval) or (None, None)
    return PlottedEstimate(low, estimate.value, high, estimate.n, is_rate=True)


# Disagreements of judges

MAX_DISAGREEMENTS = 20
"""Disagreements that are listed unless all are called for."""


def disagreement_sections(run_id: str, disagreements: Sequence[JudgeDisagreement], *, is_verbose: bool) -> list[Section]:
    """Return the criteria that judges disagree on, the largest spread first."""
    if not disagreements:
        return [Section(heading=(Cell(run_id), Cell("no judges disagree")))]
    found = disagreements if is_verbose else disagreements[:MAX_DISAGREEMENTS]
    omitted = len(disagreements) - len(found)
    return [
        Section(heading=(Cell(run_id), Cell(f"{counted(len(disagreements), 'disagreement')}, the widest apart first"))),
        *(_disagreement(entry, why_limit=0 if is_verbose else WHY_LIMIT) for entry in found),
        *([Section(more=f"… and {omitted:,} more (--verbose lists all)")] if omitted else []),
    ]


def _disagreement(entry: JudgeDisagreement, *, why_limit: int) -> Section:
    heading = (
        Cell(cut(sampled_name(entry), ID_LIMIT)),
        Cell(cut(entry.criterion, ID_LIMIT)),
        Cell(entry.words),
        Cell(f"record: {PASSED}", tone="good") if entry.passed else Cell(f"record: {NOT_PASSED}", tone="bad"),
    )
    columns = (Column("judge", is_name=True, limit=ID_LIMIT), Column("score", is_number=True), Column("why", limit=why_limit))
    rows = tuple((Cell(vote.judge), Cell(f"{vote.score:g}"), Cell(vote.justification)) for vote in entry.votes)
    return Section(heading=heading, tables=(Table(columns=columns, rows=rows, indent=2),))


# Labels of people


def calibration_sections(found: api.Calibration, *, is_verbose: bool, chart: str = "") -> list[Section]:
    """Return who was compared, how far they agree, what the judge gets wrong, the corrected figures, slices."""
    groups = (_subject(found), _agreement(found), _errors(found), _corrected(found))
    sections = [Section(facts=tuple(Fact(label, text) for label, text in group)) for group in groups]
    judges = ", ".join(found.judges) or "programmatic grading"
    # A heading belongs to the report, and its first section is where renderers put it.
    sections[0] = msgspec.structs.replace(sections[0], heading=(Cell(found.run_id), Cell(cut(judges, NAME_LIMIT))))
    if found.slices:
        table, omitted = calibration_slices(found, limit=None if is_verbose else MAX_SLICES)
        note = f"… and {counted(omitted, 'more value')} (--json has them)" if omitted else ""
        sections.append(Section(tables=(msgspec.structs.replace(table, note=note),)))
    closing = [*(("note", note) for note in found.notes), *([("chart", chart)] if chart else [])]
    return [*sections, Section(facts=tuple(Fact(label, text) for label, text in closing))] if closing else sections


def labels_text(found: api.Calibration) -> str:
    """Return `40 labels on 20 graded records by Ann, Ben`."""
    raters = [rater for rater in found.raters if rater]
    who = f" by {', '.join(raters)}" if raters else ""
    return f"{counted(found.n_labels, 'label')} on {counted(found.n_records, 'graded record')}{who}"


def _subject(found: api.Calibration) -> list[tuple[str, str]]:
    ties = f" · {counted(found.n_ties, 'record')} on which raters are split evenly" if found.n_ties else ""
    return [("labels", f"{labels_text(found)}{ties}")]


def _agreement(found: api.Calibration) -> list[tuple[str, str]]:
    lines = [
        ("agreement", rate_figure(found.agreement)),
        ("kappa", f"{figure(found.kappa)} · Cohen's, beyond chance"),
    ]
    if found.weighted_kappa.n:
        lines.append(("weighted kappa", f"{figure(found.weighted_kappa)} · of scores, quadratic weights"))
    for label, alphas in (("alpha, people", found.people), ("alpha, with judge", found.everybody)):
        if alphas is not None:
            parts = (("nominal", alphas.nominal), ("ordinal", alphas.ordinal), ("interval", alphas.interval))
            lines.append((label, " · ".join(f"{figure(estimate)} {kind}" for kind, estimate in parts if estimate.n)))
    return [line for line in lines if line[1]]


def _errors(found: api.Calibration) -> list[tuple[str, str]]:
    detection = found.detection
    good, bad = detection.true_positives + detection.false_negatives, detection.true_negatives + detection.false_positives
    return [
        ("sensitivity", f"{rate_figure(detection.sensitivity)} · passes {detection.true_positives:,} of {good:,} that people pass"),
        (
            "specificity",
            f"{rate_figure(detection.specificity)} · does not pass {detection.true_negatives:,} of {bad:,} that people do not pass",
        ),
    ]


def _corrected(found: api.Calibration) -> list[tuple[str, str]]:
    lines = [
        (
            "pass rate",
            f"{rate_figure(found.judged)} · as judged, {counted(found.judged.n, 'answer' if found.n_clusters else 'record')}",
        ),
    ]
    # Labels for all answers leave nothing to estimate: people's own rate is exact, and a correction of it would
    # only add noise.
    if _verdicts(found) + found.n_ties >= found.judged.n:
        return [*lines, ("by people", _by_people(found))]
    # Two corrections, since each has an assumption the other lacks: PPI++ needs labels drawn at random, Rogan-
    # Gladen the same error rates on labelled and unlabelled answers.
    lines += [
        ("corrected", f"{corrected(found.mean_passes, is_rate=True)} · PPI++"),
        ("", f"{corrected(found.pass_rate, is_rate=True)} · Rogan-Gladen"),
    ]
    if found.mean_score is not None:
        lines += [
            ("mean score", f"{figure(found.mean_score.raw)} · as judged"),
            ("corrected", f"{corrected(found.mean_score)} · PPI++"),
        ]
    return lines


def _by_people(found: api.Calibration) -> str:
    """Return what people say of a run of which every record is labelled; there is nothing to correct."""
    good, n = found.detection.true_positives + found.detection.false_negatives, _verdicts(found)
    return f"{rate(good / n) if n else UNKNOWN} · {good:,} of {n:,} pass"


def _verdicts(found: api.Calibration) -> int:
    """Return how many answers people have a verdict on."""
    seen = found.detection
    return seen.true_positives + seen.false_negatives + seen.true_negatives + seen.false_positives


def corrected(correction: api.CorrectedEstimate, *, is_rate: bool = False) -> str:
    """Return the corrected figure and how many labels would halve its interval, or why there is none."""
    if correction.corrected.value is None:
        return f"none: {correction.corrected.reason}"
    halve = f" · {correction.labels_to_halve:,} labels would halve the interval" if correction.labels_to_halve else ""
    return f"{(rate_figure if is_rate else figure)(correction.corrected)}{halve}"


def figure(estimate: ExplainedEstimate) -> str:
    """Return a score or coefficient: `0.83 [0.78, 0.87]`, or a dash and why."""
    return _figure(estimate, decimal)


def rate_figure(estimate: ExplainedEstimate) -> str:
    """Return a rate: `83.3 % [78.1 %, 87.4 %]`, or a dash and why."""
    return _figure(estimate, rate)


def _figure(estimate: ExplainedEstimate, text: Callable[[float], str]) -> str:
    if estimate.value is None:
        return f"{UNKNOWN} ({estimate.reason})" if estimate.reason else UNKNOWN
    shown = with_interval(estimate.value, ends_of(estimate.interval), text)
    return f"{shown} ({estimate.reason})" if estimate.interval is None and estimate.reason else shown


def calibration_slices(found: api.Calibration, *, limit: int | None) -> tuple[Table, int]:
    """Return a row for each value of each slice, and how many values are left out."""
    columns = (
        Column("slice", is_name=True, limit=SLICE_LIMIT),
        Column("value", is_name=True, limit=SLICE_LIMIT),
        Column("labels", "Labelled answers with this value.", is_number=True),
        Column("agreement", "With its 95 % interval.", is_number=True),
        Column("sensitivity", "With its 95 % interval.", is_number=True),
        Column("specificity", "With its 95 % interval.", is_number=True),
    )
    first = found.slices[:limit]
    rows = tuple(
        (
            Cell(row.slice),
            Cell(NO_VALUE if row.value is None else row.value),
            Cell(f"{row.n:,}"),
            *(_short(estimate) for estimate in (row.agreement, row.detection.sensitivity, row.detection.specificity)),
        )
        for row in first
    )
    return Table(title="By slice", columns=columns, rows=rows), len(found.slices) - len(first)


def _short(estimate: ExplainedEstimate) -> Cell:
    # An estimate may have a value and no interval (too few labels); the reason then has to be reachable from the
    # cell.
    if estimate.value is None or estimate.interval is not None:
        return Cell(UNKNOWN if estimate.value is None else rate_figure(estimate), estimate.reason or "")
    return Cell(f"{rate(estimate.value)} (no interval)", estimate.reason or "")


def agreement_metrics(found: api.Calibration) -> Iterator[KeyMetric]:
    """Agreement, kappa, sensitivity and specificity."""
    detection = found.detection
    named: tuple[tuple[str, ExplainedEstimate, str, tuple[float, float]], ...] = (
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
        text, ends = rate if is_rate else decimal, interval_text(interval, is_rate=is_rate)
        yield KeyMetric(
            label=label,
            figure=DisplayValue(shown(text(estimate.value)), f"{says} n {estimate.n:,}.", f"n {estimate.n:,}"),
            note=f"95 %: {ends}" if interval else estimate.reason or "no interval",
            bar=whisker(estimate.value, interval, domain=domain),
        )


def correction_table(found: api.Calibration) -> Table:
    """Return the figures as judged, and corrected by the labels."""
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
    cells = tuple(tuple(Cell(text) for text in row) for row in rows)
    return Table(title="Corrected figures", columns=columns, rows=cells)


def alpha_table(found: api.Calibration) -> Table:
    """Krippendorff's alpha of people, and of people with the judge."""
    named: tuple[tuple[str, api.Alphas | None], ...] = (
        ("People among themselves", found.people),
        ("People and the judge", found.everybody),
    )
    rows = tuple(
        (
            Cell(label),
            *(Cell(figure(estimate)) for estimate in (of.nominal, of.ordinal, of.interval)),
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
