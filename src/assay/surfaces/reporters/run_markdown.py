"""Runs as a comment on a pull request: the decision and why, a row for each candidate, slices, the worst records, the files."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from types import MappingProxyType
from urllib.parse import quote

import msgspec

from assay.core.contract import dataset_title
from assay.core.printable import encodable
from assay.core.summary import PanelSummary, RankingSummary
from assay.presentation.decisions import decision_note, decisions, word_for
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
    worst_table,
)
from assay.presentation.run_report import RunReport
from assay.presentation.subject import own_code
from assay.presentation.words import MET, MISSED, NO_GATES, NO_RESULT, UNFINISHED, bounds_text, counted, first_datasets
from assay.surfaces.reporters.markdown import code, inert, table_markdown
from assay.surfaces.reporters.settings import ReportSettings

NAME_LIMIT = 120
WHY_LIMIT = 240
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
    """The whole comment; `waiting` are candidates without a run, `folder` leads from where the text will be to the runs.

    `images` are files as seen from there, with the title of each. Where the text is read apart from the files, nothing is linked.
    """
    words = {word_for(view) for view in views} | ({UNFINISHED} if waiting else set())
    yield f"## Evaluation: {next((word for word in _WORDS if word in words), NO_GATES)}\n\n"
    yield from _reasons(views)
    yield "\n"
    titles = ("candidate", "run", "state", "graded", "errors", "pass rate", shared_mean(views).title, "p95", "cost")
    yield from table_markdown(candidate_table(views, waiting=waiting).only(*titles))
    yield from _subject(views[0])
    yield from _profiles(views)
    yield from _unscored(views)
    yield from _rankings(views)
    for path, title in images.items():
        yield f"\n![{inert(title, limit=NAME_LIMIT)}](<{quote(encodable(PurePath(path).as_posix()))}>)\n"
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
    datasets, more = first_datasets(view.plan.get("datasets", ()))
    names = [dataset_title(dataset) for dataset in datasets]
    judges = [judge["name"] for judge in view.plan.get("judges", ())]
    yield f"\nDatasets: {', '.join(inert(name, limit=NAME_LIMIT) for name in names)}{more and f' {more}'}."
    if judges:
        yield f" Judges: {', '.join(inert(name, limit=NAME_LIMIT) for name in judges)}."
    panel = None if view.summary is None else view.summary.panel
    if isinstance(panel, PanelSummary):
        yield f" They do not agree on {panel.n_disagree:,} of {counted(panel.n_records, 'record')}."
    for label, words in own_code(view.plan):
        yield f" {label.capitalize()}: {inert(' · '.join(words), limit=NAME_LIMIT)}."
    repeat = view.plan.get("repeat", 1)
    yield f" Every record has {repeat} answers, and each counts; intervals are by record." if repeat > 1 else ""
    yield " Numbers in brackets are 95 % intervals.\n"


def _profiles(views: Sequence[RunReport]) -> Iterator[str]:
    """The official score of each candidate, with what it rests on."""
    found = [(view, view.summary.profile) for view in views if view.summary is not None and view.summary.profile is not None]
    yield from ("\n",) if found else ()
    for view, profile in found:
        yield f"- Profile · {_name(view)}: {inert(profile_text(profile))} · version {inert(profile.version)}\n"


def _unscored(views: Sequence[RunReport]) -> Iterator[str]:
    """What the records without a score could change."""
    graded = [(view, view.summary) for view in views if view.summary is not None and not view.is_ranking]
    found = [(view, summary) for view, summary in graded if summary.n_unscored]
    yield from ("\n",) if found else ()
    for view, summary in found:
        rate = bounds_text(summary.pass_rate_bounds, is_rate=True)
        mean = bounds_text(summary.score_mean_bounds, scale=summary.scale)
        yield f"- {summary.n_unscored:,} unscored · {_name(view)}: pass rate {rate} · mean score {mean}\n"


def _rankings(views: Sequence[RunReport]) -> Iterator[str]:
    for ranking in (view.summary.ranking for view in views if view.summary is not None):
        if isinstance(ranking, RankingSummary):
            yield "\n### Ranking\n\n"
            yield from (f"- {fact.label}: {inert(fact.text)}\n" for fact in ranking_facts(ranking))
            for section in ranking_sections(ranking):
                yield "\n"
                yield from table_markdown(section.tables[0])


def _slices(views: Sequence[RunReport], settings: ReportSettings) -> Iterator[str]:
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
        names = _LINKED if is_linked and view.result.is_finished and not (view.missing or view.result.is_away) else ()
        links = (f"[{name}](<{quote(encodable(f'{place}/{name}'))}>)" for name in names)
        yield f"- {' · '.join((f'Files of {inert(view.result.run_id)}: {code(place)}', *links))}\n"
        yield from (f"  - {inert(problem)}\n" for problem in view.missing)


def _name(view: RunReport) -> str:
    return inert(view.name, limit=NAME_LIMIT)
