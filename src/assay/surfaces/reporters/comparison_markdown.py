"""Two runs beside each other as a comment on a pull request."""

from __future__ import annotations

from collections.abc import Iterator

from assay import api
from assay.surfaces.reporters.comparison_words import (
    compared_datasets,
    conclusion,
    difference_rows,
    listed_records,
    p_text,
    rate_change,
    shown_slices,
    told_notes,
)
from assay.surfaces.reporters.run_markdown import cell, inert, markdown_table
from assay.surfaces.reporters.run_numbers import UNKNOWN, level_name

TEXT_LIMIT = 240


def comparison_markdown(found: api.RunComparison, *, is_verbose: bool = False) -> Iterator[str]:
    """The whole comment: the decision, both runs, slices, flips with both answers."""
    word, reason = conclusion(found)
    yield f"## Comparison: {word}\n\n- {inert(reason)}\n"
    yield from (f"- {inert(note)}\n" for note in told_notes(found))
    yield from _differences(found)
    yield f"\nBefore: {cell(found.before.run_id)}. After: {cell(found.after.run_id)}. "
    yield f"Dataset: {inert(compared_datasets(found))}. Compared: {inert(listed_records(found))}. "
    yield "Numbers in brackets are 95 % intervals of the paired difference; pp are percentage points.\n"
    yield from _slices(found, is_verbose=is_verbose)
    yield from _flips(found)


def _differences(found: api.RunComparison) -> Iterator[str]:
    titles = ("", cell(found.before.candidate), cell(found.after.candidate), "difference", "p")
    rows = [[_figure(text) for text in row] for row in difference_rows(found)]
    if rows:
        yield "\n"
        yield from markdown_table(titles, rows, n_texts=1)


def _slices(found: api.RunComparison, *, is_verbose: bool) -> Iterator[str]:
    shown, omitted = shown_slices(found, is_verbose=is_verbose)
    if not shown:
        return
    yield "\n### Slices\n\n"
    rows = [
        (cell(row.slice), cell(row.value or "(none)"), f"{row.n:,}", rate_change(row.passes), _figure(p_text(row.p_adjusted)))
        for row in shown
    ]
    yield from markdown_table(("slice", "value", "n", "pass rate", "p (Holm)"), rows, n_texts=2)
    if omitted:
        yield f"\n… and {omitted:,} more.\n"


def _flips(found: api.RunComparison) -> Iterator[str]:
    if not found.flips:
        return
    yield f"\n<details><summary>Flips: {found.n_flips:,}</summary>\n\n"
    rows = [
        (
            flip.direction,
            cell(flip.record_id),
            _said(flip.before),
            _said(flip.after),
            inert(flip.after.justification or "", limit=TEXT_LIMIT),
        )
        for flip in found.flips
    ]
    yield from markdown_table(("flip", "record", "before", "after", "why"), rows, n_texts=4)
    yield "\n</details>\n"


def _said(said: object) -> str:
    score: float | None = getattr(said, "score", None)
    answer: str | None = getattr(said, "answer", None)
    return f"{UNKNOWN if score is None else level_name(score)} · {inert(answer or '', limit=TEXT_LIMIT)}"


def _figure(text: str) -> str:
    return text.replace("<", "&lt;")
