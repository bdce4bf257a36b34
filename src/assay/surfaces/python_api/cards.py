"""Runs and comparisons as a notebook shows them: the decision, what it rests on, and the first answers that did not pass.

It is HTML without scripts or anything from outside, in the colours of the notebook around it; every text is escaped.
"""

from collections.abc import Iterable, Sequence

import msgspec

from assay import api
from assay.core.dataset_title import dataset_title
from assay.core.errors import RunNotFound, StoreUnavailable
from assay.core.summary import RunKind
from assay.surfaces.pages.display_values import DASH, Badge, DecisionView, KeyMetric, Kind, state_mark
from assay.surfaces.pages.links import FileLinks
from assay.surfaces.pages.page_renderer import PageViewer, page
from assay.surfaces.pages.run_figures import key_figures
from assay.surfaces.reporters.comparison_words import conclusion, difference_rows, listed_records
from assay.surfaces.reporters.run_charts import Chart, run_charts
from assay.surfaces.reporters.run_decision import NO_GATES, RunDecision, decision_note, decisions
from assay.surfaces.reporters.run_numbers import figure_text, level_name
from assay.surfaces.reporters.run_repeats import sampled_name
from assay.surfaces.reporters.run_slices import shared_mean
from assay.surfaces.reporters.run_subject import own_code
from assay.surfaces.reporters.run_text import cost_text, record_counts, score_text
from assay.surfaces.reporters.run_view import FailureGroup, RunReport, WorstRecord, view_of
from assay.surfaces.reporters.verdict_words import MET, MISSED, NO_RESULT
from assay.surfaces.reporters.wording import counted, first_datasets

WORST = 5
"""Answers that did not pass which are shown; `failures()` has them all."""
FLIPS = 5
TEXT = 1_000
"""Characters of a text that are shown."""
WIDTH = 400
"""Pixels of a chart; two stand beside each other in most notebooks."""
LOOKED_UP = 2_000
"""Records of a run up to which the questions of the worst are looked up."""
_CHARTS = ("distribution", "slices.svg", "ranking")
_KINDS: dict[str, Kind] = {
    MET: "good",
    "IMPROVED": "good",
    MISSED: "bad",
    "BLOCKED": "bad",
    NO_RESULT: "bad",
    "WORSE": "bad",
    "UNFINISHED": "warn",
    "UNDECIDED": "warn",
}
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
    charts: tuple[Chart, ...]
    failures: tuple[FailureGroup, ...]
    worst: tuple[WorstAnswer, ...]
    more: str
    """How many answers did not pass and are not shown; empty for none."""
    missing: tuple[str, ...]
    is_finished: bool
    run_dir: str


class CandidateRow(msgspec.Struct, frozen=True, kw_only=True):
    """A run in a row beside others."""

    candidate: str
    verdict: Badge
    records: str
    pass_rate: str
    score: str
    cost: str


class RunCards(msgspec.Struct, frozen=True, kw_only=True):
    """Runs, and where there are several, first how they compare."""

    runs: tuple[RunCard, ...]
    sides: tuple[CandidateRow, ...]
    score_title: str
    charts: tuple[Chart, ...]


class ComparisonCard(msgspec.Struct, frozen=True, kw_only=True):
    """Two runs."""

    verdict: DecisionView
    before: str
    after: str
    records: str
    rows: tuple[tuple[str, ...], ...]
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
    """One run as a card; several beside each other, and each of them in a part that opens."""
    views = [view_of(run) for run in runs]
    several = views if len(views) > 1 else []
    shown = RunCards(
        runs=tuple(_card(run, view) for run, view in zip(runs, views, strict=True)),
        sides=tuple(_side(view) for view in several),
        score_title=shared_mean(views).title if views else "",
        charts=tuple(chart for chart in run_charts(several, width=WIDTH) if chart.name == "candidates.svg"),
    )
    return rendered("notebook_runs.html", shown)


def comparison_card(found: api.RunComparison) -> str:
    """What changed between two runs, and the first records that changed sides."""
    word, reason = conclusion(found)
    shown = ComparisonCard(
        verdict=DecisionView(_mark(word), reason),
        before=f"{found.before.candidate} · {found.before.run_id}",
        after=f"{found.after.candidate} · {found.after.run_id}",
        records=listed_records(found),
        rows=tuple(difference_rows(found)),
        notes=found.notes,
        flips=tuple(map(_flip, found.flips[:FLIPS])),
        more=_more(found.n_flips - FLIPS, "record"),
    )
    return rendered("notebook_comparison.html", shown)


def progress_card(name: str, now: api.Snapshot, line: str, *, is_over: bool) -> str:
    """A bar, and how it is going in words."""
    shown = ProgressCard(name=name, done=now.done, total=now.total, line=line, is_over=is_over)
    return rendered("notebook_progress.html", shown)


def rendered(template: str, view: msgspec.Struct) -> str:
    """What a template of a notebook makes of a view."""
    return page(template, view, place=_PLACE, reader=_READER)


def _card(run: api.RunReader, view: RunReport) -> RunCard:
    result, metrics = view.result, view.result.metrics
    return RunCard(
        run_id=result.run_id,
        state=state_mark(result.standing),
        verdicts=tuple(DecisionView(_mark(found.word), _reason(found)) for found in decisions(view)),
        verdict_note=decision_note(view),
        subject=tuple(_subject(view)),
        keys=tuple(key_figures(view)) if metrics else (),
        counts=record_counts(view),
        charts=tuple(_charts(view)),
        failures=view.failures,
        worst=tuple(_worst(run, found) for found in view.worst[:WORST]),
        more=_more(_not_passed(view) - len(view.worst[:WORST]), "answer"),
        missing=view.missing,
        is_finished=result.is_finished,
        run_dir=result.run_dir,
    )


def _charts(view: RunReport) -> Iterable[Chart]:
    """Those that say something: a run without any score has none."""
    drawn = run_charts([view], width=WIDTH) if view.result.counts.evaluated_records else []
    return (chart for chart in drawn if chart.name.startswith(_CHARTS))


def _reason(found: RunDecision) -> str:
    """The reason, in the words of Python and not of the command line."""
    words = {
        NO_GATES: "pass_rate, min_score and max_error_rate set them",
        "UNFINISHED": f"{found.reason}: continue with run.resume()",
    }
    return words.get(found.word, found.reason)


def _mark(word: str) -> Badge:
    return Badge(word, _KINDS.get(word, "quiet"))


def _subject(view: RunReport) -> Iterable[str]:
    datasets, more = first_datasets(view.plan.get("datasets", ()))
    yield from map(dataset_title, datasets)
    yield from filter(None, (more,))
    yield view.result.candidate
    yield from (f"judged by {judge['name']}" for judge in view.plan.get("judges", ()))
    yield from (f"{label} {words[0]}" for label, words in own_code(view.plan))


def _not_passed(view: RunReport) -> int:
    metrics = view.result.metrics
    return metrics["n_scored"] - metrics["pass_count"] if metrics and view.result.kind is not RunKind.RANKING else len(view.worst)


def _more(count: int, noun: str) -> str:
    return counted(count, f"more {noun}") if count > 0 else ""


def _worst(run: api.RunReader, found: WorstRecord) -> WorstAnswer:
    line = found.prediction
    return WorstAnswer(
        name=sampled_name(line),
        score=score_text(line),
        label=found.label.replace("_", " "),
        why=_cut(found.why),
        question=_cut(_question(run, line["record_id"])),
        answer=_cut(line["model_response"] or ""),
    )


def _question(run: api.RunReader, record_id: str) -> str:
    """What was asked; empty where it would take long to find, or is gone."""
    if run.result.counts.total_records > LOOKED_UP:
        return ""
    try:
        return api.question_of(run.record(record_id).get("input", {}))
    except (RunNotFound, StoreUnavailable):
        return ""


def _cut(text: str) -> str:
    return text if len(text) <= TEXT else f"{text[: TEXT - 1]}…"


def _side(view: RunReport) -> CandidateRow:
    metrics = view.result.metrics
    mean = shared_mean([view])
    return CandidateRow(
        candidate=view.result.candidate or view.result.run_id,
        verdict=_mark(decisions(view)[0].word),
        records=f"{view.result.counts.evaluated_records:,} of {view.result.counts.total_records:,}",
        pass_rate=figure_text(metrics, "pass_rate") if metrics else DASH,
        score=mean.text(metrics) if metrics else DASH,
        cost=cost_text(metrics["cost_usd"]) if metrics else DASH,
    )


def _flip(flip: api.Flip) -> FlipRow:
    scores = (flip.before.score, flip.after.score)
    return FlipRow(
        name=flip.record_id,
        mark=Badge("better", "good") if flip.direction == "better" else Badge("worse", "bad"),
        scores=" → ".join(DASH if score is None else level_name(score) for score in scores),
        before=_cut(flip.before.answer or ""),
        after=_cut(flip.after.answer or ""),
    )
