"""A gate's verdict in words, for the terminal and for pull requests."""

from __future__ import annotations

from collections.abc import Iterator

from assay import api
from assay.surfaces.printable import printable
from assay.surfaces.reporters.paint import hanging, painter
from assay.surfaces.reporters.run_markdown import cell, inert
from assay.surfaces.reporters.run_text import LABEL, TEXT_LIMIT
from assay.surfaces.reporters.settings import Settings

_STYLES = {"REGRESSION": "error", "WARNING": "warning", "PASS": "accepted", "IMPROVED": "accepted"}


def verdict_text(verdict: api.Verdict, settings: Settings) -> Iterator[str]:
    """The word, what was measured against what, and a line for each reason."""
    paint = painter(is_coloured=settings.is_coloured)
    against = f" against {printable(verdict.baseline)}" if verdict.baseline else ""
    failed = "" if verdict.passed else " · the gate failed"
    yield f"{paint(verdict.word, _STYLES[verdict.word])}{' ' * max(1, LABEL - len(verdict.word))}"
    yield f"{printable(verdict.run_id)}{against}{failed}\n"
    for finding in verdict.reasons:
        mark = paint(f"{finding.word.lower():{LABEL}}", _STYLES[finding.word])
        yield f"{mark}{hanging(printable(finding.reason, limit=TEXT_LIMIT), first=LABEL, width=settings.width, indent=LABEL)}\n"


def verdict_markdown(verdict: api.Verdict) -> Iterator[str]:
    """The same as a comment on a pull request."""
    against = f" against {cell(verdict.baseline)}" if verdict.baseline else ""
    yield f"## Gate: {verdict.word}\n\n{cell(verdict.run_id)}{against}: {'passed' if verdict.passed else 'failed'}.\n\n"
    yield from (f"- **{finding.word}** · {inert(finding.reason)}\n" for finding in verdict.reasons)


def suite_text(found: api.SuiteResult, settings: Settings) -> Iterator[str]:
    """The verdict on each run with its reasons, then that on all of them."""
    paint = painter(is_coloured=settings.is_coloured)
    for one in found.runs:
        if one.verdict is None:
            word = "NO RESULT" if one.problem else "UNFINISHED"
            yield f"{word:{LABEL}}{printable(one.run_id)}{f': {printable(one.problem)}' if one.problem else ''}\n"
        else:
            yield from verdict_text(one.verdict, settings)
        yield "\n"
    failed = sum(1 for one in found.runs if one.verdict is not None and not one.verdict.passed)
    word = found.word if found.is_finished else "UNFINISHED"
    style = _STYLES.get(word, "warning")
    yield f"{paint(word, style)}{' ' * max(1, LABEL - len(word))}suite {printable(found.suite)}: "
    yield f"{len(found.runs):,} runs, {failed:,} failed{'' if found.passed or not found.is_finished else ' · the gate failed'}\n"


def suite_markdown(found: api.SuiteResult) -> Iterator[str]:
    """The same as a comment on a pull request: the decision, a row for each run, then the reasons of each."""
    yield f"## Suite {cell(found.suite)}: {found.word if found.is_finished else 'UNFINISHED'}\n\n"
    yield "| run | required | verdict |\n|---|---|---|\n"
    for one in found.runs:
        word = one.verdict.word if one.verdict is not None else "NO RESULT" if one.problem else "UNFINISHED"
        yield f"| {cell(one.run_id)} | {'yes' if one.required else 'no'} | {word} |\n"
    for one in found.runs:
        if one.verdict is not None:
            yield "\n"
            yield from verdict_markdown(one.verdict)
        elif one.problem:
            yield f"\n{cell(one.run_id)}: {inert(one.problem)}\n"
