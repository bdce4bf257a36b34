"""Two runs side by side and what a gate decided, for the terminal and as comments on a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assay import api
from assay.core.text import printable
from assay.presentation.comparison import (
    compared_datasets,
    comparison_sections,
    conclusion,
    difference_table,
    flip_table,
    listed_records,
    slice_table,
    told_notes,
    verdict_facts,
)
from assay.presentation.words import NO_RESULT, TONES, UNFINISHED, change_word, counted, finding_word, gate_word
from assay.surfaces.reporters.markdown import inert, name, table_markdown
from assay.surfaces.reporters.run_text import command_lines
from assay.surfaces.reporters.settings import ReportSettings
from assay.surfaces.reporters.terminal import LABEL, fact_line, painter, report_lines

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


def verdict_text(verdict: api.GateDecision, settings: ReportSettings) -> Iterator[str]:
    """The word, what was measured against what, and a line for each reason."""
    for fact in verdict_facts(verdict):
        yield fact_line(fact, settings, paint=painter(is_coloured=settings.is_coloured))


def verdict_markdown(verdict: api.GateDecision) -> Iterator[str]:
    """The same as a comment on a pull request."""
    against = f" against {name(verdict.baseline)}" if verdict.baseline else ""
    yield f"## Gate: {gate_word(passed=verdict.passed)}\n\n{name(verdict.run_id)}{against}{change_word(verdict)}\n\n"
    yield from (f"- **{finding_word(finding)}** · {inert(finding.reason)}\n" for finding in verdict.reasons)


def suite_text(found: api.SuiteResult, settings: ReportSettings) -> Iterator[str]:
    """The verdict on each run with its reasons, then that on all of them."""
    paint = painter(is_coloured=settings.is_coloured)
    for one in found.runs:
        if one.verdict is None:
            word = NO_RESULT if one.problem else UNFINISHED
            yield f"{word:{LABEL}}{printable(one.run_id)}{f': {printable(one.problem)}' if one.problem else ''}\n"
        else:
            yield from verdict_text(one.verdict, settings)
        yield "\n"
    missed = sum(1 for one in found.runs if one.verdict is not None and not one.verdict.passed)
    word = _suite_word(found)
    yield f"{paint(word, TONES[word])}{' ' * max(1, LABEL - len(word))}suite {printable(found.suite)}: "
    yield f"{counted(len(found.runs), 'run')}, {missed:,} missed\n"


def suite_markdown(found: api.SuiteResult) -> Iterator[str]:
    """The same as a comment on a pull request: the decision, a row for each run, then the reasons of each."""
    yield f"## Suite {name(found.suite)}: {_suite_word(found)}\n\n"
    yield "| run | required | gate |\n|---|---|---|\n"
    for one in found.runs:
        word = gate_word(passed=one.verdict.passed) if one.verdict is not None else NO_RESULT if one.problem else UNFINISHED
        yield f"| {name(one.run_id)} | {'yes' if one.required else 'no'} | {word} |\n"
    for one in found.runs:
        if one.verdict is not None:
            yield "\n"
            yield from verdict_markdown(one.verdict)
        elif one.problem:
            yield f"\n{name(one.run_id)}: {inert(one.problem)}\n"


def _suite_word(found: api.SuiteResult) -> str:
    return gate_word(passed=found.passed) if found.is_finished else UNFINISHED
