"""Runs as a comment on a pull request: the decision and why, a row for each candidate, slices, the worst records, the files."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from types import MappingProxyType
from urllib.parse import quote

from assay.core.dataset_title import dataset_title
from assay.core.summary import RunKind
from assay.surfaces.printable import encodable
from assay.surfaces.reporters.markdown import code, plain
from assay.surfaces.reporters.run_candidates import candidate_figures
from assay.surfaces.reporters.run_decision import NO_GATES, decision_note, decisions, word_for
from assay.surfaces.reporters.run_numbers import UNKNOWN, ends_text, rate_ends_text
from assay.surfaces.reporters.run_profile import profile_text
from assay.surfaces.reporters.run_ranking import ranking_notes, ranking_rows
from assay.surfaces.reporters.run_repeats import sampled_name
from assay.surfaces.reporters.run_slices import shared_mean, slice_table
from assay.surfaces.reporters.run_subject import own_code
from assay.surfaces.reporters.run_text import ID_LIMIT, NAME_LIMIT, one_line, worst_score
from assay.surfaces.reporters.run_view import RunReport
from assay.surfaces.reporters.settings import ReportSettings
from assay.surfaces.reporters.verdict_words import MET, MISSED, NO_RESULT
from assay.surfaces.reporters.wording import ERROR, NOT_PASSED, counted, first_datasets

WHY_LIMIT = 240
_WORDS = (MISSED, NO_RESULT, "UNFINISHED", MET)
"""What decides about several runs, the gravest first."""
_LINKED = ("run_manifest.json", "metrics_summary.json", "metrics_by_slice.json", "predictions.jsonl", "failures.jsonl")
_NOTIFYING = re.compile(r"@|[#!](?=\w)|:(?=//)|(?<=www)(?=\.)|(?<=\bgh)-(?=\d)", re.IGNORECASE)
_NOTHING = "&#8203;"
"""A space without width: code hosts look for names, numbers and addresses in the finished text, where an escape is gone."""


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
    yield f"## Evaluation: {_headline(views, waiting)}\n\n"
    yield from _reasons(views)
    yield "\n"
    yield from _candidates(views, waiting)
    yield from _subject(views[0])
    yield from _profiles(views)
    yield from _unscored(views)
    yield from _rankings(views)
    yield from _images(images)
    yield from _slices(views, settings)
    yield from _failures(views)
    yield from _worst(views)
    yield from _files(views, folder, is_linked=is_linked)


def inert(text: str, *, limit: int | None = None) -> str:
    """Text from outside as one line that no code host reads as markup, a mention, a reference or an address."""
    line = one_line(text)
    cut = line if limit is None or len(line) <= limit else line[: limit - 1] + "…"
    return _NOTIFYING.sub(lambda match: match[0] + _NOTHING, plain(cut))


def _headline(views: Sequence[RunReport], waiting: Sequence[str]) -> str:
    words = {word_for(view) for view in views} | ({"UNFINISHED"} if waiting else set())
    return next((word for word in _WORDS if word in words), NO_GATES)


def _reasons(views: Sequence[RunReport]) -> Iterator[str]:
    for view in views:
        for decision in decisions(view):
            yield f"- **{decision.word}** · {inert(_name(view), limit=NAME_LIMIT)}: {inert(decision.reason)}\n"
        note = decision_note(view)
        if note:
            yield f"- note · {inert(_name(view), limit=NAME_LIMIT)}: {inert(note)}\n"


def _candidates(views: Sequence[RunReport], waiting: Sequence[str]) -> Iterator[str]:
    mean = shared_mean(views)
    titles = ("candidate", "run", "state", "graded", "errors", "pass rate", mean.title, "p95", "cost")
    rows = [
        (
            cell(_name(view)),
            cell(view.result.run_id),
            view.result.standing.replace("_", " "),
            *map(_figure, candidate_figures(view, mean)),
        )
        for view in views
    ]
    rows += [(cell(name), UNKNOWN, "not started", *[UNKNOWN] * 6) for name in waiting]
    yield from markdown_table(titles, rows, n_texts=3)


def _subject(view: RunReport) -> Iterator[str]:
    datasets, more = first_datasets(view.plan.get("datasets", ()))
    names = [dataset_title(dataset) for dataset in datasets]
    judges = [judge["name"] for judge in view.plan.get("judges", ())]
    yield f"\nDatasets: {', '.join(inert(name, limit=NAME_LIMIT) for name in names)}{more and f' {more}'}."
    if judges:
        yield f" Judges: {', '.join(inert(name, limit=NAME_LIMIT) for name in judges)}."
    panel = view.result.metrics.get("panel")
    yield f" They do not agree on {panel['n_disagree']:,} of {counted(panel['n_records'], 'record')}." if panel else ""
    for label, words in own_code(view.plan):
        yield f" {label.capitalize()}: {inert(' · '.join(words), limit=NAME_LIMIT)}."
    repeat = view.plan.get("repeat", 1)
    yield f" Every record has {repeat} answers, and each counts; intervals are by record." if repeat > 1 else ""
    yield " Numbers in brackets are 95 % intervals.\n"


def _profiles(views: Sequence[RunReport]) -> Iterator[str]:
    """The official score of each candidate, with what it rests on."""
    found = [(view, view.result.metrics["profile"]) for view in views if view.result.metrics.get("profile")]
    yield from ("\n",) if found else ()
    for view, profile in found:
        name, version = inert(_name(view), limit=NAME_LIMIT), inert(profile["version"])
        yield f"- Profile · {name}: {inert(profile_text(profile))} · version {version}\n"


def _unscored(views: Sequence[RunReport]) -> Iterator[str]:
    """What the records without a score could change."""
    found = [view for view in views if view.result.metrics.get("n_unscored") and view.result.kind is not RunKind.RANKING]
    yield from ("\n",) if found else ()
    for view in found:
        metrics = view.result.metrics
        rate, mean = rate_ends_text(metrics["pass_rate_bounds"]), ends_text(metrics["score_mean_bounds"], scale=metrics["scale"])
        name = inert(_name(view), limit=NAME_LIMIT)
        yield f"- {metrics['n_unscored']:,} unscored · {name}: pass rate {rate} · mean score {mean}\n"


def _rankings(views: Sequence[RunReport]) -> Iterator[str]:
    for ranking in (view.result.metrics["ranking"] for view in views if view.result.kind is RunKind.RANKING):
        yield "\n### Ranking\n\n"
        yield from (f"- {label}: {inert(text)}\n" for label, text in ranking_notes(ranking))
        for titles, rows in ranking_rows(ranking):
            texts = sum(title in ("rank", "candidate", "first", "second", "judge") for title in titles)
            yield "\n"
            yield from markdown_table(titles, [(*map(cell, row[:texts]), *row[texts:]) for row in rows], n_texts=texts)


def _images(images: Mapping[str, str]) -> Iterator[str]:
    for path, title in images.items():
        yield f"\n![{inert(title, limit=NAME_LIMIT)}](<{quote(encodable(PurePath(path).as_posix()))}>)\n"


def _slices(views: Sequence[RunReport], settings: ReportSettings) -> Iterator[str]:
    found = slice_table(views, is_verbose=settings.is_verbose)
    if not found.rows:
        return
    titles = ("slice", "value", "candidate", "n", "pass rate", found.mean.title)
    rows = [(cell(row.name), cell(row.value), cell(row.candidate), row.n, row.pass_rate, row.mean) for row in found.rows]
    yield "\n### Slices\n\n"
    yield from markdown_table(titles, rows, n_texts=3)
    if found.omitted:
        yield f"\n… and {counted(found.omitted, 'more value')}.\n"


def _failures(views: Sequence[RunReport]) -> Iterator[str]:
    rows = [
        (
            cell(_name(view)),
            ERROR if group.is_error else NOT_PASSED,
            cell(group.word),
            f"{group.count:,}",
            ", ".join(cell(record_id) for record_id in group.record_ids),
        )
        for view in views
        for group in view.failures
    ]
    if rows:
        yield "\n<details><summary>Errors, and what did not pass, by reason</summary>\n\n"
        yield from markdown_table(("candidate", "result", "reason", "records", "first records"), rows, n_texts=3)
        yield "\n</details>\n"


def _worst(views: Sequence[RunReport]) -> Iterator[str]:
    rows = [
        (
            cell(_name(view)),
            cell(sampled_name(worst.prediction)),
            cell(worst.label),
            worst_score(worst, view),
            inert(worst.why, limit=WHY_LIMIT),
        )
        for view in views
        for worst in view.worst
    ]
    if rows:
        yield "\n<details><summary>Worst records</summary>\n\n"
        yield from markdown_table(("candidate", "record", "reason", "score", "why"), rows, n_texts=3)
        yield "\n</details>\n"


def _files(views: Sequence[RunReport], folder: str, *, is_linked: bool) -> Iterator[str]:
    yield "\n"
    for view in views:
        place = PurePath(folder, view.result.run_dir).as_posix()
        names = _LINKED if is_linked and view.result.is_finished and not (view.missing or view.result.is_away) else ()
        links = (f"[{name}](<{quote(encodable(f'{place}/{name}'))}>)" for name in names)
        yield f"- {' · '.join((f'Files of {inert(view.result.run_id)}: {code(place)}', *links))}\n"
        yield from (f"  - {inert(problem)}\n" for problem in view.missing)


def markdown_table(titles: Sequence[str], rows: Iterable[Sequence[str]], *, n_texts: int) -> Iterator[str]:
    """The first columns hold texts; a column after them numbers, unless it is a last one of longer text."""
    numbers = {title for title in titles[n_texts:] if title not in ("why", "first records")}
    yield f"| {' | '.join(titles)} |\n"
    yield f"|{'|'.join('---:' if title in numbers else '---' for title in titles)}|\n"
    yield from (f"| {' | '.join(row)} |\n" for row in rows)


def cell(text: str) -> str:
    """Names and ids as code, in which nothing is read as markup or as a mention."""
    line = one_line(text)
    return code(line if len(line) <= ID_LIMIT else line[: ID_LIMIT - 1] + "…")


def _figure(text: str) -> str:
    """A figure of ours; `<1 ms` is no tag, and two amounts in dollars are no formula."""
    return text.replace("<", "&lt;").replace(">", "&gt;").replace("$", "\\$")


def _name(view: RunReport) -> str:
    return view.result.candidate or view.result.run_id
