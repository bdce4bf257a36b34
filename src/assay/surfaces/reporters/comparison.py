"""Two runs beside each other, for the terminal and as a comment on a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assay import api
from assay.presentation.comparison import (
    compared_datasets,
    comparison_sections,
    conclusion,
    difference_table,
    flip_table,
    listed_records,
    slice_table,
    told_notes,
)
from assay.surfaces.reporters.markdown import inert, name, table_markdown
from assay.surfaces.reporters.run_text import command_lines
from assay.surfaces.reporters.settings import ReportSettings
from assay.surfaces.reporters.terminal import painter, report_lines

TEXT_LIMIT = 240


def comparison_text(found: api.RunComparison, settings: ReportSettings, *, commands: Sequence[str] = ()) -> Iterator[str]:
    """The whole report; `commands` are what the reader may want to call next."""
    paint = painter(is_coloured=settings.is_coloured)
    yield from report_lines(comparison_sections(found, is_verbose=settings.is_verbose), settings, paint=paint)
    yield from command_lines(commands, settings)


def comparison_markdown(found: api.RunComparison, *, is_verbose: bool = False) -> Iterator[str]:
    """The whole comment: the decision, both runs, slices, flips with both answers."""
    word, reason = conclusion(found)
    yield f"## Comparison: {word}\n\n- {inert(reason)}\n"
    yield from (f"- {inert(note)}\n" for note in told_notes(found))
    if found.n:
        yield "\n"
        titles = ("", name(found.before.candidate), name(found.after.candidate), "difference", "p")
        yield from table_markdown(difference_table(found).titled(*titles))
    yield f"\nBefore: {name(found.before.run_id)}. After: {name(found.after.run_id)}. "
    yield f"Dataset: {inert(compared_datasets(found))}. Compared: {inert(listed_records(found))}. "
    yield "Numbers in brackets are 95 % intervals of the paired difference; pp are percentage points.\n"
    slices = slice_table(found, is_verbose=is_verbose).only("slice", "value", "n", "pass rate", "p (Holm)")
    if slices.rows:
        yield "\n### Slices\n\n"
        yield from table_markdown(slices)
    if found.flips:
        table = flip_table(found, text_limit=TEXT_LIMIT)
        yield f"\n<details><summary>{table.title}</summary>\n\n"
        yield from table_markdown(table)
        yield "\n</details>\n"
