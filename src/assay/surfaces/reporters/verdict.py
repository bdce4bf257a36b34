"""A gate's verdict in words, for the terminal and for pull requests."""

from __future__ import annotations

from collections.abc import Iterator

from assay import api
from assay.surfaces.printable import printable
from assay.surfaces.reporters.paint import hanging, painter
from assay.surfaces.reporters.run_markdown import cell, inert
from assay.surfaces.reporters.run_text import LABEL, TEXT_LIMIT
from assay.surfaces.reporters.settings import ReportSettings
from assay.surfaces.reporters.verdict_words import MET, MISSED, NO_RESULT, NOTE, change_word, finding_word, gate_word
from assay.surfaces.reporters.wording import counted

_STYLES = {MISSED: "error", MET: "accepted", NOTE: "warning"}


def verdict_text(verdict: api.GateDecision, settings: ReportSettings) -> Iterator[str]:
    """The word, what was measured against what, and a line for each reason."""
    paint = painter(is_coloured=settings.is_coloured)
    against = f" against {printable(verdict.baseline)}" if verdict.baseline else ""
    word = gate_word(passed=verdict.passed)
    yield f"{paint(word, _STYLES[word])}{' ' * max(1, LABEL - len(word))}"
    yield f"{printable(verdict.run_id)}{against}{change_word(verdict)}\n"
    for finding in verdict.reasons:
        found = finding_word(finding)
        mark = paint(f"{found.lower():{LABEL}}", _STYLES[found])
        yield f"{mark}{hanging(printable(finding.reason, limit=TEXT_LIMIT), first=LABEL, width=settings.width, indent=LABEL)}\n"


def verdict_markdown(verdict: api.GateDecision) -> Iterator[str]:
    """The same as a comment on a pull request."""
    against = f" against {cell(verdict.baseline)}" if verdict.baseline else ""
    yield f"## Gate: {gate_word(passed=verdict.passed)}\n\n{cell(verdict.run_id)}{against}{change_word(verdict)}\n\n"
    yield from (f"- **{finding_word(finding)}** · {inert(finding.reason)}\n" for finding in verdict.reasons)


def suite_text(found: api.SuiteResult, settings: ReportSettings) -> Iterator[str]:
    """The verdict on each run with its reasons, then that on all of them."""
    paint = painter(is_coloured=settings.is_coloured)
    for one in found.runs:
        if one.verdict is None:
            word = NO_RESULT if one.problem else "UNFINISHED"
            yield f"{word:{LABEL}}{printable(one.run_id)}{f': {printable(one.problem)}' if one.problem else ''}\n"
        else:
            yield from verdict_text(one.verdict, settings)
        yield "\n"
    missed = sum(1 for one in found.runs if one.verdict is not None and not one.verdict.passed)
    word = _suite_word(found)
    yield f"{paint(word, _STYLES.get(word, 'warning'))}{' ' * max(1, LABEL - len(word))}suite {printable(found.suite)}: "
    yield f"{counted(len(found.runs), 'run')}, {missed:,} missed\n"


def suite_markdown(found: api.SuiteResult) -> Iterator[str]:
    """The same as a comment on a pull request: the decision, a row for each run, then the reasons of each."""
    yield f"## Suite {cell(found.suite)}: {_suite_word(found)}\n\n"
    yield "| run | required | gate |\n|---|---|---|\n"
    for one in found.runs:
        word = gate_word(passed=one.verdict.passed) if one.verdict is not None else NO_RESULT if one.problem else "UNFINISHED"
        yield f"| {cell(one.run_id)} | {'yes' if one.required else 'no'} | {word} |\n"
    for one in found.runs:
        if one.verdict is not None:
            yield "\n"
            yield from verdict_markdown(one.verdict)
        elif one.problem:
            yield f"\n{cell(one.run_id)}: {inert(one.problem)}\n"


def _suite_word(found: api.SuiteResult) -> str:
    return gate_word(passed=found.passed) if found.is_finished else "UNFINISHED"
