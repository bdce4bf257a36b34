"""A gate's verdict in words, for the terminal and for pull requests."""

from __future__ import annotations

from collections.abc import Iterator

from assay import api
from assay.presentation.run import TEXT_LIMIT
from assay.presentation.sections import Fact
from assay.presentation.words import NO_RESULT, TONES, UNFINISHED, change_word, counted, finding_word, gate_word
from assay.surfaces.printable import printable
from assay.surfaces.reporters.markdown import inert, name
from assay.surfaces.reporters.settings import ReportSettings
from assay.surfaces.reporters.terminal import LABEL, fact_line, painter


def verdict_text(verdict: api.GateDecision, settings: ReportSettings) -> Iterator[str]:
    """The word, what was measured against what, and a line for each reason."""
    for fact in verdict_facts(verdict):
        yield fact_line(fact, settings, paint=painter(is_coloured=settings.is_coloured))


def verdict_facts(verdict: api.GateDecision) -> Iterator[Fact]:
    """The word with what was measured against what, and a fact for each reason."""
    against = f" against {verdict.baseline}" if verdict.baseline else ""
    word = gate_word(passed=verdict.passed)
    yield Fact(word, f"{verdict.run_id}{against}{change_word(verdict)}", tone=TONES[word], is_whole=True)
    for finding in verdict.reasons:
        found = finding_word(finding)
        yield Fact(found.lower(), finding.reason, tone=TONES[found], limit=TEXT_LIMIT)


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
