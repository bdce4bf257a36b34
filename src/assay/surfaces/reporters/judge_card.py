"""A judge card for the terminal, and as the Markdown that is kept beside its JSON."""

from collections.abc import Iterator

from assay.core.judge_card import JudgeCard, ProbeResult, Soundness
from assay.presentation.sections import Cell, Column, Tone
from assay.presentation.words import UNKNOWN, counted, dollars, ends_between, price_unknown_text, rate, with_interval
from assay.surfaces.printable import printable
from assay.surfaces.reporters.markdown import inert, markdown_table, name
from assay.surfaces.reporters.settings import ReportSettings
from assay.surfaces.reporters.terminal import hanging, painter, table

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


def card_verdict(card: JudgeCard) -> str:
    """The verdict; a probe that was not tried could have found something."""
    untried = sum(probe.verdict == "not_tried" for probe in card.probes)
    is_open = untried and card.verdict in ("pass", "warn")
    return f"{_VERDICTS[card.verdict]}, as far as tried ({counted(untried, 'probe')} not)" if is_open else _VERDICTS[card.verdict]


def asked_text(card: JudgeCard) -> str:
    """`16 records of shipped questions · 272 calls · $0.12`."""
    left_out = f" ({card.records_left_out:,} left out)" if card.records_left_out else ""
    cost = [dollars(card.cost)] if card.cost or not card.unknown_costs else []
    cost += [price_unknown_text(card.unknown_costs, "call")] if card.unknown_costs else []
    failed = f", {card.failed_calls:,} without a reply" if card.failed_calls else ""
    where = "shipped questions" if card.source == "shipped" else card.source
    return f"{counted(card.records, 'record')} of {where}{left_out} · {counted(card.calls, 'call')}{failed} · {' · '.join(cost)}"


def slips_text(probe: ProbeResult) -> str:
    """`3/16`."""
    return f"{probe.slips}/{probe.n}" if probe.n else UNKNOWN


def rate_text(probe: ProbeResult) -> str:
    """`18.8 % [6.6 %, 43.0 %]`."""
    return with_interval(probe.rate, ends_between(probe.low, probe.high), rate)


def failed_text(probe: ProbeResult) -> str:
    """Calls without a judgment, by code."""
    return ", ".join(f"{code} {count:,}" for code, count in sorted(probe.failed.items())) or UNKNOWN


def _seen(probe: ProbeResult) -> str:
    more = f" and {probe.slips - len(probe.seen)} more" if probe.slips > len(probe.seen) else ""
    return f" Seen in {', '.join(map(printable, probe.seen))}{more}." if probe.seen else ""


def _pairs(members: dict[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in members.items() if value is not None) or "the provider's own"
