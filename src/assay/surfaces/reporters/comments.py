"""Runs, comparisons, gates and judge cards as Markdown: comments on pull requests, and files that are kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from types import MappingProxyType
from urllib.parse import quote

import msgspec

from assay import api
from assay.core.judge_card import JudgeCard
from assay.core.summary import PanelSummary, RankingSummary
from assay.core.text import make_encodable
from assay.presentation.comparison import (
    CORRECTED,
    compared_datasets,
    conclusion,
    difference_table,
    flip_table,
    further_notes,
    group_word,
    listed_records,
    named_table,
    pair_table,
    suite_run_word,
    suite_word,
)
from assay.presentation.comparison import slice_table as slice_differences
from assay.presentation.decisions import decision_note, decisions, word_for
from assay.presentation.graders import grader_sections
from assay.presentation.judges import (
    PROBE_NOTE,
    TITLES,
    WORDS,
    asked_text,
    card_verdict,
    failed_text,
    parameters_text,
    rate_text,
    seen_text,
    slips_text,
)
from assay.presentation.run import (
    MAX_SLICE_ROWS,
    MIN_SLICE_VALUES,
    candidate_table,
    failure_table,
    omitted_slice_values,
    profile_text,
    ranking_facts,
    ranking_sections,
    shared_mean,
    slice_table,
    truncation_text,
    worst_table,
)
from assay.presentation.run_report import RunReport
from assay.presentation.subject import negotiated_words, own_code
from assay.presentation.words import (
    INTERVALS_NOTE,
    MET,
    MISSED,
    NO_GATES,
    NO_RESULT,
    UNFINISHED,
    bounds_text,
    change_word,
    counted,
    finding_word,
    first_datasets,
    gate_word,
)
from assay.surfaces.reporters.formats import ReportSettings
from assay.surfaces.reporters.markdown import code, inert, markdown_table, table_markdown
from assay.surfaces.reporters.markdown import name as inline_name

NAME_LIMIT = 120
WHY_LIMIT = 240
ANSWER_LIMIT = 240
_WORDS = (MISSED, NO_RESULT, UNFINISHED, MET)
"""What decides about several runs, the gravest first."""
_LINKED = ("run_manifest.json", "metrics_summary.json", "metrics_by_slice.json", "predictions.jsonl", "failures.jsonl")


def run_markdown(
    views: Sequence[RunReport],
    settings: ReportSettings,
    *,
    waiting: Sequence[str] = (),
    folder: str = "",
    images: Mapping[str, str] = MappingProxyType({}),
    is_linked: bool = True,
) -> Iterator[str]:
    """Write the whole comment; `waiting` are candidates without a run, `folder` leads from where the text will be to the runs.

    `images` are files as seen from there, with the title of each. Where the text is read apart from the files, nothing is linked.
    """
    # The gravest word of all candidates is the headline, as it is what a reviewer has to know.
    words = {word_for(view) for view in views} | ({UNFINISHED} if waiting else set())
    yield f"## Evaluation: {next((word for word in _WORDS if word in words), NO_GATES)}\n\n"
    yield from _reasons(views)
    yield "\n"
    titles = ("candidate", "run", "state", "graded", "errors", "pass rate", shared_mean(views).title, "p95", "cost")
    yield from table_markdown(candidate_table(views, waiting=waiting).only(*titles))
    yield from _subject(views[0])
    yield from _profiles(views)
    yield from _unscored(views)
    yield from _truncated(views)
    yield from _negotiated(views)
    for section in grader_sections(views):
        yield f"\n### {section.title}\n\n"
        yield from table_markdown(section.tables[0])
    yield from _rankings(views)
    for path, title in images.items():
        # A path may hold spaces and parentheses; in angle brackets and quoted it stays one link.
        yield f"\n![{inert(title, limit=NAME_LIMIT)}](<{quote(make_encodable(PurePath(path).as_posix()))}>)\n"
    yield from _slices(views, settings)
    for table in (failure_table(views), worst_table(views, why_limit=WHY_LIMIT)):
        if table.rows:
            yield f"\n<details><summary>{table.title}</summary>\n\n"
            yield from table_markdown(table)
            yield "\n</details>\n"
    yield from _files(views, folder, is_linked=is_linked)


def _reasons(views: Sequence[RunReport]) -> Iterator[str]:
    for view in views:
        for decision in decisions(view):
            yield f"- **{decision.word}** · {_name(view)}: {inert(decision.reason)}\n"
        note = decision_note(view)
        if note:
            yield f"- note · {_name(view)}: {inert(note)}\n"


def _subject(view: RunReport) -> Iterator[str]:
    datasets, more = first_datasets(view.plan.datasets)
    names = [dataset.title for dataset in datasets]
    judges = [judge.name for judge in view.plan.judges]
    yield f"\nDatasets: {', '.join(inert(name, limit=NAME_LIMIT) for name in names)}{more and f' {more}'}."
    if judges:
        yield f" Judges: {', '.join(inert(name, limit=NAME_LIMIT) for name in judges)}."
    panel = None if view.summary is None else view.summary.panel
    if isinstance(panel, PanelSummary):
        yield f" They do not agree on {panel.n_disagree:,} of {counted(panel.n_records, 'record')}."
    for label, words in own_code(view.plan):
        yield f" {label.capitalize()}: {inert(' · '.join(words), limit=NAME_LIMIT)}."
    repeat = view.plan.repeat
    yield f" Every record has {repeat} answers, and each counts; intervals are by record." if repeat > 1 else ""
    yield f" {INTERVALS_NOTE}.\n"


def _profiles(views: Sequence[RunReport]) -> Iterator[str]:
    """Write the official score of each candidate, with what it rests on."""
    found = [(view, view.summary.profile) for view in views if view.summary is not None and view.summary.profile is not None]
    yield from ("\n",) if found else ()
    for view, profile in found:
        yield f"- Profile · {_name(view)}: {inert(profile_text(profile))} · version {inert(profile.version)}\n"


def _unscored(views: Sequence[RunReport]) -> Iterator[str]:
    """Write what the records without a score could change."""
    graded = [(view, view.summary) for view in views if view.summary is not None and not view.is_ranking]
    found = [(view, summary) for view, summary in graded if summary.n_unscored]
    yield from ("\n",) if found else ()
    for view, summary in found:
        rate = bounds_text(summary.pass_rate_bounds, is_rate=True)
        mean = bounds_text(summary.score_mean_bounds, scale=summary.scale)
        yield f"- {summary.n_unscored:,} unscored · {_name(view)}: pass rate {rate} · mean score {mean}\n"


def _truncated(views: Sequence[RunReport]) -> Iterator[str]:
    """Write how many answers were cut off at the output limit."""
    graded = [(view, view.summary) for view in views if view.summary is not None and not view.is_ranking]
    found = [(view, summary, summary.truncated) for view, summary in graded if summary.truncated and summary.truncated.n]
    yield from ("\n",) if found else ()
    for view, summary, truncated in found:
        yield f"- Truncated · {_name(view)}: {truncation_text(truncated, scale=summary.scale)}\n"


def _negotiated(views: Sequence[RunReport]) -> Iterator[str]:
    """Write which parameters providers rejected, each line once: the candidates of a group share their judges."""
    lines = dict.fromkeys(
        f"- {label.capitalize()}: {inert(' · '.join(words))}\n"
        for view in views
        for label, words in negotiated_words(view.manifest)
    )
    yield from ("\n",) if lines else ()
    yield from lines


def _rankings(views: Sequence[RunReport]) -> Iterator[str]:
    for ranking in (view.summary.ranking for view in views if view.summary is not None):
        if isinstance(ranking, RankingSummary):
            yield "\n### Ranking\n\n"
            yield from (f"- {fact.label}: {inert(fact.text)}\n" for fact in ranking_facts(ranking))
            for section in ranking_sections(ranking):
                yield "\n"
                yield from table_markdown(section.tables[0])


def _slices(views: Sequence[RunReport], settings: ReportSettings) -> Iterator[str]:
    # The same length as in a terminal, for as many candidates.
    limit = None if settings.is_verbose else max(MIN_SLICE_VALUES, MAX_SLICE_ROWS // len(views))
    table, omitted = slice_table(views, limit=limit), omitted_slice_values(views, limit=limit)
    if table.rows:
        titles = ("slice", "value", "candidate", "n", "pass rate", shared_mean(views).title)
        note = f"… and {counted(omitted, 'more value')}." if omitted else ""
        yield "\n### Slices\n\n"
        yield from table_markdown(msgspec.structs.replace(table.only(*titles), note=note))


def _files(views: Sequence[RunReport], folder: str, *, is_linked: bool) -> Iterator[str]:
    yield "\n"
    for view in views:
        place = PurePath(folder, view.result.run_dir).as_posix()
        # A link to a file that retention has removed, or that is on another machine, would be dead.
        names = _LINKED if is_linked and view.result.is_finished and not (view.missing or view.result.is_away) else ()
        links = (f"[{name}](<{quote(make_encodable(f'{place}/{name}'))}>)" for name in names)
        yield f"- {' · '.join((f'Files of {inert(view.result.run_id)}: {code(place)}', *links))}\n"
        yield from (f"  - {inert(problem)}\n" for problem in view.missing)


def _name(view: RunReport) -> str:
    return inert(view.name, limit=NAME_LIMIT)


# Comparisons and gates


def comparison_markdown(found: api.RunComparison, *, is_verbose: bool = False) -> Iterator[str]:
    """Write the whole comment: the decision, both runs, slices, flips with both answers."""
    word, reason = conclusion(found)
    yield f"## Comparison: {word}\n\n- {inert(reason)}\n"
    yield from (f"- {inert(note)}\n" for note in further_notes(found))
    if found.n:
        yield "\n"
        titles = ("", inline_name(found.before.candidate), inline_name(found.after.candidate), "difference", "p")
        # Names of candidates as titles: they are what a reader of a pull request looks for.
        yield from table_markdown(difference_table(found).titled(*titles))
    yield f"\nBefore: {inline_name(found.before.run_id)}. After: {inline_name(found.after.run_id)}. "
    yield f"Dataset: {inert(compared_datasets(found))}. Compared: {inert(listed_records(found))}. "
    yield f"{INTERVALS_NOTE} of the paired difference; pp are percentage points.\n"
    if found.checks or found.graders:
        yield "\n### Checks and graders\n\n"
        yield from table_markdown(named_table(found))
    slices = slice_differences(found, is_verbose=is_verbose).only("slice", "value", "n", "pass rate", "p (Holm)")
    if slices.rows:
        yield "\n### Slices\n\n"
        yield from table_markdown(slices)
    if found.flips:
        table = flip_table(found, text_limit=ANSWER_LIMIT)
        yield f"\n<details><summary>{table.title}</summary>\n\n"
        yield from table_markdown(table)
        yield "\n</details>\n"


def group_comparison_markdown(found: api.GroupComparison) -> Iterator[str]:
    """Write the comparisons of several runs: a row for each pair."""
    yield f"## Comparison: {inline_name(found.title)}\n\n"
    yield from table_markdown(pair_table(found))
    notes = dict.fromkeys([CORRECTED, *(note for pair in found.pairs for note in pair.comparison.notes), *found.skipped])
    yield "\n"
    yield from (f"- {inert(note)}\n" for note in notes)


def verdict_markdown(verdict: api.GateDecision) -> Iterator[str]:
    """Write the same as a comment on a pull request."""
    against = f" against {inline_name(verdict.baseline)}" if verdict.baseline else ""
    yield f"## Gate: {gate_word(passed=verdict.passed)}\n\n{inline_name(verdict.run_id)}{against}{change_word(verdict)}\n\n"
    yield from (f"- **{finding_word(finding)}** · {inert(finding.reason)}\n" for finding in verdict.reasons)


def group_gate_markdown(found: api.GroupDecision) -> Iterator[str]:
    """Write the decision about a group, a row for each run, then the reasons of each."""
    yield f"## Gate of {inline_name(found.group)}: {group_word(found)}\n\n"
    yield "| candidate | run | gate |\n|---|---|---|\n"
    for one in found.runs:
        word = NO_RESULT if one.verdict is None else gate_word(passed=one.verdict.passed)
        yield f"| {inline_name(one.candidate)} | {inline_name(one.run_id)} | {word} |\n"
    for one in found.runs:
        if one.verdict is not None:
            yield "\n"
            yield from verdict_markdown(one.verdict)
        else:
            yield f"\n{inline_name(one.run_id)}: {inert(one.problem)}\n"


def suite_markdown(found: api.SuiteResult) -> Iterator[str]:
    """Write the same as a comment on a pull request: the decision, a row for each run, then the reasons of each."""
    yield f"## Suite {inline_name(found.suite)}: {suite_word(found)}\n\n"
    yield "| run | required | gate |\n|---|---|---|\n"
    for one in found.runs:
        yield f"| {inline_name(one.run_id)} | {'yes' if one.required else 'no'} | {suite_run_word(one)} |\n"
    for one in found.runs:
        if one.verdict is not None:
            yield "\n"
            yield from verdict_markdown(one.verdict)
        elif one.problem:
            yield f"\n{inline_name(one.run_id)}: {inert(one.problem)}\n"


# Judge cards


def judge_card_markdown(card: JudgeCard) -> Iterator[str]:
    """Write the whole card."""
    yield f"# Judge card: {card_verdict(card)}\n\n{inline_name(card.judge)} · {inert(asked_text(card))}\n\n"
    rows = [
        (TITLES[probe.id], f"**{WORDS[probe.verdict]}**", slips_text(probe), rate_text(probe), inert(failed_text(probe)))
        for probe in card.probes
    ]
    # Results are bold, and bold marks are ours; everything else is made inert.
    yield from markdown_table(("probe", "verdict", "slips", "rate", "no verdict"), rows, [False, False, True, True, True])
    yield f"\n{PROBE_NOTE}\n"
    for probe in card.probes:
        yield f"\n## {TITLES[probe.id][:1].upper()}{TITLES[probe.id][1:]}: {WORDS[probe.verdict]}\n\n"
        yield f"A sound judge {inert(probe.expectation)}.\n\nFound: {inert(probe.words)}.{inert(seen_text(probe))}\n"
    yield f"\n## How\n\n- judge: {inline_name(card.judge)}, parameters {inert(parameters_text(card))}\n"
    yield f"- records: {inert(card.source)} (SHA-256 {card.source_sha256}), seed {card.seed}\n"
    yield from (f"- prompt {name} (SHA-256 {sha256})\n" for name, sha256 in card.templates.items())
    yield f"- made by assay {card.product_version} at {card.created_at}\n"
