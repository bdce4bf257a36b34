"""A judge beside people, for the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from assay import api
from assay.presentation.run import SLICE_LIMIT
from assay.presentation.run_subject import NAME_LIMIT
from assay.presentation.sections import Column
from assay.presentation.words import UNKNOWN, counted, decimal, ends_of, rate, with_interval
from assay.surfaces.printable import printable, printable_id
from assay.surfaces.reporters.settings import ReportSettings
from assay.surfaces.reporters.terminal import Paint, hanging, painter, table

LABEL = 19
"""Columns of the labels at the left."""
MAX_SLICES = 12


def calibration_text(found: api.Calibration, settings: ReportSettings, *, chart: str = "") -> Iterator[str]:
    """Who was compared, how far they agree, what the judge gets wrong, the corrected figures, slices."""
    paint = painter(is_coloured=settings.is_coloured)
    judges = ", ".join(found.judges) or "programmatic grading"
    yield f"{paint(printable(found.run_id), 'strong')} · {printable(judges, limit=NAME_LIMIT)}\n"
    yield from _lines(_subject(found), settings, paint=paint)
    yield "\n"
    yield from _lines(_agreement(found), settings, paint=paint)
    yield "\n"
    yield from _lines(_errors(found), settings, paint=paint)
    yield "\n"
    yield from _lines(_corrected(found), settings, paint=paint)
    yield from _slices(found, settings, paint=paint)
    closing = [*(("note", note) for note in found.notes), *([("chart", chart)] if chart else [])]
    if closing:
        yield "\n"
        yield from _lines(closing, settings, paint=paint)


def _lines(pairs: list[tuple[str, str]], settings: ReportSettings, *, paint: Paint) -> Iterator[str]:
    for label, text in pairs:
        shown = hanging(printable(text), first=LABEL, width=settings.width, indent=LABEL)
        yield f"{paint(f'{label:{LABEL}}', 'quiet')}{shown}\n"


def _subject(found: api.Calibration) -> list[tuple[str, str]]:
    raters = [rater for rater in found.raters if rater]
    who = f" by {', '.join(raters)}" if raters else ""
    ties = f" · {counted(found.n_ties, 'record')} on which raters are split evenly" if found.n_ties else ""
    return [("labels", f"{counted(found.n_labels, 'label')} on {counted(found.n_records, 'graded record')}{who}{ties}")]


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
    if _verdicts(found) + found.n_ties >= found.judged.n:
        return [*lines, ("by people", _by_people(found))]
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
    """What people say of a run of which every record is labelled; there is nothing to correct."""
    good, n = found.detection.true_positives + found.detection.false_negatives, _verdicts(found)
    return f"{rate(good / n) if n else UNKNOWN} · {good:,} of {n:,} pass"


def _verdicts(found: api.Calibration) -> int:
    """Answers of which people say whether they pass."""
    seen = found.detection
    return seen.true_positives + seen.false_negatives + seen.true_negatives + seen.false_positives


def corrected(correction: Any, *, is_rate: bool = False) -> str:
    """The corrected figure and how many labels would halve its interval, or why there is none."""
    if correction.corrected.value is None:
        return f"none: {correction.corrected.reason}"
    halve = f" · {correction.labels_to_halve:,} labels would halve the interval" if correction.labels_to_halve else ""
    return f"{(rate_figure if is_rate else figure)(correction.corrected)}{halve}"


def figure(estimate: Any) -> str:
    """A score or coefficient: `0.83 [0.78, 0.87]`, or a dash and why."""
    return _figure(estimate, decimal)


def rate_figure(estimate: Any) -> str:
    """A rate: `83.3 % [78.1 %, 87.4 %]`, or a dash and why."""
    return _figure(estimate, rate)


def _figure(estimate: Any, text: Callable[[float], str]) -> str:
    if estimate.value is None:
        return f"{UNKNOWN} ({estimate.reason})" if estimate.reason else UNKNOWN
    shown = with_interval(estimate.value, ends_of(estimate.interval), text)
    return f"{shown} ({estimate.reason})" if estimate.interval is None and estimate.reason else shown


def _slices(found: api.Calibration, settings: ReportSettings, *, paint: Paint) -> Iterator[str]:
    if not found.slices:
        return
    shown = found.slices if settings.is_verbose else found.slices[:MAX_SLICES]
    columns = (
        Column("slice"),
        Column("value"),
        Column("labels", is_number=True),
        Column("agreement", is_number=True),
        Column("sensitivity", is_number=True),
        Column("specificity", is_number=True),
    )
    rows = [
        (
            printable(row.slice, limit=SLICE_LIMIT),
            printable_id(row.value if row.value is not None else "(none)", limit=SLICE_LIMIT),
            f"{row.n:,}",
            *(_short(estimate) for estimate in (row.agreement, row.detection.sensitivity, row.detection.specificity)),
        )
        for row in shown
    ]
    yield "\n"
    yield from table(columns, rows, paint=paint, width=settings.width)
    if len(found.slices) > len(shown):
        yield paint(f"… and {counted(len(found.slices) - len(shown), 'more value')} (--json has them)", "quiet") + "\n"


def _short(estimate: Any) -> str:
    if estimate.value is None or estimate.interval is not None:
        return UNKNOWN if estimate.value is None else rate_figure(estimate)
    return f"{rate(estimate.value)} (no interval)"
