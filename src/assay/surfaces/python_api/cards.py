"""Runs and comparisons as a notebook shows them: the decision, what it rests on, and the first answers that did not pass.

It is HTML without scripts or anything from outside, in the colours of the notebook around it; every text is escaped.
"""

from collections.abc import Iterable, Sequence

import msgspec

from assay import api
from assay.core.artifact_lines import RecordDetails
from assay.core.errors import RunNotFound, StoreUnavailable
from assay.core.issue import Issue
from assay.core.report import ValidationReport
from assay.presentation.comparison import conclusion_mark, difference_table, flip_mark, flip_scores, listed_records
from assay.presentation.decisions import decision_marks, decision_note
from assay.presentation.matrix import matrix_table
from assay.presentation.run import candidate_table, failure_table, record_counts, score_of, shared_mean
from assay.presentation.run_details import key_metrics, run_charts
from assay.presentation.run_report import RunReport, WorstRecord, view_of
from assay.presentation.sections import Badge, DecisionView, KeyMetric, Table
from assay.presentation.subject import own_code
from assay.presentation.validation import (
    OUTCOME_TONES,
    OUTCOME_WORDS,
    ShownIssue,
    accepted_counts,
    contract_name,
    in_order,
    shown_issue,
)
from assay.presentation.words import NO_GATES, UNFINISHED, counted, cut, first_datasets, sampled_name, state_mark
from assay.surfaces.charts import draw
from assay.surfaces.pages.page_renderer import FileLinks, PageViewer, page

WORST = 5
"""Answers that did not pass which are shown; `failures()` has them all."""
FLIPS = 5
TEXT = 1_000
"""Characters of a text that are shown."""
MATRIX_ROWS = 20
"""Records of a matrix that are shown."""
CELL_TEXT = 200
"""Characters of an answer in a matrix."""
WIDTH = 400
"""Pixels of a chart; most notebooks show two side by side."""
LOOKED_UP = 2_000
"""Records of a run up to which the questions of the worst are looked up."""
MAX_GROUPS = 8
"""Reasons that are shown."""
_CHARTS = ("distribution", "slices.svg", "ranking")
# A notebook has no command line, so hints that name options are given in its own words.
_REASONS = {
    NO_GATES: "pass_rate, min_score, max_error_rate and max_truncated set them",
    UNFINISHED: "{}: continue with run.resume()",
}
"""Reasons in the words of Python and not of the command line."""
ISSUES = 20
"""Issues that are shown; the report has them all."""
MESSAGE_LIMIT = 600
"""Characters of a message."""
_PLACE, _READER = FileLinks(), PageViewer()


class WorstAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer that did not pass."""

    name: str
    score: str
    label: str
    why: str
    question: str
    answer: str


class RunCard(msgspec.Struct, frozen=True, kw_only=True):
    """One run."""

    run_id: str
    state: Badge
    verdicts: tuple[DecisionView, ...]
    verdict_note: str
    subject: tuple[str, ...]
    keys: tuple[KeyMetric, ...]
    counts: str
    charts: tuple[str, ...]
    failures: Table
    worst: tuple[WorstAnswer, ...]
    more: str
    """How many answers did not pass and are not shown; empty for none."""
    missing: tuple[str, ...]
    is_finished: bool
    run_dir: str


class RunCards(msgspec.Struct, frozen=True, kw_only=True):
    """Runs, and where there are several, first how they compare."""

    runs: tuple[RunCard, ...]
    candidates: Table | None
    charts: tuple[str, ...]
    matrix: Table | None = None
    """Records by candidate."""


class ComparisonCard(msgspec.Struct, frozen=True, kw_only=True):
    """Two runs."""

    verdict: DecisionView
    before: str
    after: str
    records: str
    differences: Table
    notes: tuple[str, ...]
    flips: tuple["FlipRow", ...]
    more: str
    """How many records changed sides and are not shown; empty for none."""


class FlipRow(msgspec.Struct, frozen=True, kw_only=True):
    """A record that changed sides."""

    name: str
    mark: Badge
    scores: str
    before: str
    after: str


class ProgressCard(msgspec.Struct, frozen=True, kw_only=True):
    """A run under way, or its last moment."""

    name: str
    done: int
    total: int
    line: str
    is_over: bool


def run_cards(runs: Sequence[api.RunReader]) -> str:
    """Return one run as a card; several side by side, and each of them in a part that opens."""
    views = [view_of(run) for run in runs]
    is_several = len(views) > 1
    titles = ("candidate", "gates", "graded", "errors", "pass rate", shared_mean(views).title, "cost")
    shown = RunCards(
        runs=tuple(_card(run, view) for run, view in zip(runs, views, strict=True)),
        candidates=candidate_table(views).only(*titles) if is_several else None,
        charts=_drawn(views, ("candidates.svg",)) if is_several else (),
        matrix=_matrix(runs) if is_several else None,
    )
    return rendered("notebook_runs.html", shown)


def _matrix(runs: Sequence[api.RunReader]) -> Table | None:
    """Return the records that tell most about the candidates; None where none can be read."""
    try:
        found = api.run_matrix(runs)
    except (RunNotFound, StoreUnavailable):
        return None
    if not len(found):
        return None
    positions = found.telling(MATRIX_ROWS)
    more = len(found) - len(positions)
    note = f"… and {counted(more, 'more record')} on which the candidates differ less: runs.matrix() has them all" if more else ""
    return msgspec.structs.replace(matrix_table(found, positions, text_limit=CELL_TEXT), note=note)


def comparison_card(found: api.RunComparison) -> str:
    """Return what changed between two runs, and the first records that changed sides."""
    shown = ComparisonCard(
        verdict=conclusion_mark(found),
        before=f"{found.before.candidate} · {found.before.run_id}",
        after=f"{found.after.candidate} · {found.after.run_id}",
        records=listed_records(found),
        differences=difference_table(found),
        notes=found.notes,
        flips=tuple(map(_flip, found.flips[:FLIPS])),
        more=_more(found.n_flips - FLIPS, "record"),
    )
    return rendered("notebook_comparison.html", shown)


def progress_card(name: str, now: api.Snapshot, line: str, *, is_over: bool) -> str:
    """Return a bar and the progress in words."""
    shown = ProgressCard(name=name, done=now.done, total=now.total, line=line, is_over=is_over)
    return rendered("notebook_progress.html", shown)


def rendered(template: str, view: msgspec.Struct) -> str:
    """Render a template of a notebook."""
    return page(template, view, place=_PLACE, reader=_READER)


def _card(run: api.RunReader, view: RunReport) -> RunCard:
    result, shown = view.result, view.worst[:WORST]
    return RunCard(
        run_id=result.run_id,
        state=state_mark(result.standing),
        verdicts=decision_marks(view, _REASONS),
        verdict_note=decision_note(view),
        subject=tuple(_subject(view)),
        keys=tuple(key_metrics(view)),
        counts=record_counts(view),
        # A run without any score has no chart that says something.
        charts=_drawn([view], _CHARTS) if result.counts.evaluated_records else (),
        failures=failure_table([view]).first(MAX_GROUPS).only("records", "result", "reason", "first records"),
        worst=tuple(_worst(run, found) for found in shown),
        more=_more(_not_passed(view) - len(shown), "answer"),
        missing=view.missing,
        is_finished=result.is_finished,
        run_dir=result.run_dir,
    )


def _drawn(views: Sequence[RunReport], names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(draw(chart, width=WIDTH) for chart in run_charts(views) if chart.name.startswith(names))


def _subject(view: RunReport) -> Iterable[str]:
    datasets, more = first_datasets(view.plan.datasets)
    yield from (dataset.title for dataset in datasets)
    yield from filter(None, (more,))
    yield view.result.candidate
    yield from (f"judged by {judge.name}" for judge in view.plan.judges)
    yield from (f"{label} {words[0]}" for label, words in own_code(view.plan))


def _not_passed(view: RunReport) -> int:
    # Without metrics the answers at hand are all that is known.
    summary = view.summary
    return len(view.worst) if summary is None or view.is_ranking else summary.n_scored - summary.pass_count


def _more(count: int, noun: str) -> str:
    return counted(count, f"more {noun}") if count > 0 else ""


def _worst(run: api.RunReader, found: WorstRecord) -> WorstAnswer:
    line = found.prediction
    return WorstAnswer(
        name=sampled_name(line),
        score=score_of(line),
        label=found.label.replace("_", " "),
        why=cut(found.why, TEXT),
        question=cut(_question(run, line.record_id), TEXT),
        answer=cut(line.model_response or "", TEXT),
    )


def _question(run: api.RunReader, record_id: str) -> str:
    """Return what was asked; empty where it would take long to find, or is gone."""
    # A record is found by reading the artifact up to it, and a card is drawn in the middle of a session.
    if run.result.counts.total_records > LOOKED_UP:
        return ""
    try:
        record = run.record(record_id)
    except (RunNotFound, StoreUnavailable):
        return ""
    return api.question_of(record.input) if isinstance(record, RecordDetails) else ""


def _flip(flip: api.Flip) -> FlipRow:
    return FlipRow(
        name=flip.record_id,
        mark=flip_mark(flip),
        scores=flip_scores(flip),
        before=cut(flip.before.answer or "", TEXT),
        after=cut(flip.after.answer or "", TEXT),
    )


# Reports on datasets


class ReportCard(msgspec.Struct, frozen=True, kw_only=True):
    """One report."""

    name: str
    contract: str
    outcome: Badge
    counts: str
    issues: tuple[ShownIssue, ...]
    more: str
    """How many issues are not shown; empty for none."""


def report_card(report: ValidationReport) -> str:
    """Return the outcome, and every issue with its place and what to do, the first ones of many."""
    more = report.issue_counts.total() - ISSUES
    card = ReportCard(
        name=report.path,
        contract=contract_name(report),
        outcome=Badge(OUTCOME_WORDS[report.outcome], OUTCOME_TONES[report.outcome]),
        counts=accepted_counts(report),
        issues=tuple(_issue_row(issue) for issue in in_order(report)[:ISSUES]),
        more=counted(more, "more issue") if more > 0 else "",
    )
    return rendered("notebook_report.html", card)


def _issue_row(issue: Issue) -> ShownIssue:
    found = shown_issue(issue)
    return msgspec.structs.replace(found, message=cut(found.message, MESSAGE_LIMIT), hint=cut(found.hint, MESSAGE_LIMIT))
