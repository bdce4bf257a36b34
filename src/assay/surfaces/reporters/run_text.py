"""The report on one run for people: what was asked, what came out, whether it is enough and why, and what to do next."""

from collections.abc import Iterator, Sequence

from rich.cells import cell_len

from assay.core.metrics_summary import latencies
from assay.core.record_query import STATUS_GROUPS
from assay.core.summary import Latency, RunKind
from assay.surfaces.printable import printable, printable_id
from assay.surfaces.reporters.paint import Paint, hanging, painter
from assay.surfaces.reporters.run_decision import NO_GATES, RunDecision, decision_note, decisions
from assay.surfaces.reporters.run_numbers import (
    UNKNOWN,
    bar,
    decimal,
    dollars,
    duration,
    ends_text,
    figure_text,
    latency,
    level_name,
    rate_ends_text,
)
from assay.surfaces.reporters.run_panel import judge_table, panel_lines
from assay.surfaces.reporters.run_profile import profile_text
from assay.surfaces.reporters.run_ranking import COMPARING, decided_text, ranking_notes, ranking_tables, result_word
from assay.surfaces.reporters.run_repeats import repeat_lines, sampled_name
from assay.surfaces.reporters.run_slices import SliceRow, slice_table
from assay.surfaces.reporters.run_subject import grading_word, subject
from assay.surfaces.reporters.run_table import Row, TextCell, TextColumn, table
from assay.surfaces.reporters.run_view import FailureGroup, Json, RunReport, WorstRecord
from assay.surfaces.reporters.settings import ReportSettings
from assay.surfaces.reporters.verdict_words import MET
from assay.surfaces.reporters.wording import ERROR, NOT_PASSED, PASSED, counted, error_text, price_unknown_text, without_code

LABEL = 12
"""Columns of the labels at the left."""
ID_LIMIT = 48
NAME_LIMIT = 120
TEXT_LIMIT = 400
SLICE_LIMIT = 32
WHY_LIMIT = 160
MAX_WORST = 8
"""Answers with the lowest scores that are listed; the artifacts have them all."""
MAX_GROUPS = 8
"""Reasons that are listed; the artifacts have them all."""

STATE_STYLES = {
    "completed": "accepted",
    "completed_with_failures": "warning",
    "failed": "error",
    "cancelled": "error",
}
_NAMED = ("dataset", "candidate", "judge")
"""Facts whose words are names that others gave, which may be of any length."""
_DECISION_STYLES = {MET: "accepted", "UNFINISHED": "warning"}


def run_text(view: RunReport, settings: ReportSettings, *, commands: Sequence[str] = ()) -> Iterator[str]:
    """The whole report; `commands` are what the reader may want to call next."""
    paint = painter(is_coloured=settings.is_coloured)
    yield _heading(view, paint)
    yield from subject_lines(view, settings, paint=paint)
    if view.cases:
        yield "\n"
        yield from _cases(view, settings, paint=paint)
    yield "\n"
    yield from _ranking(view, settings, paint=paint)
    yield from _figures(view, settings, paint=paint)
    if "judges" in view.result.metrics:
        yield "\n"
        yield from judge_table(view.result.metrics["judges"], settings, paint=paint)
    yield from slice_lines([view], settings, paint=paint)
    if view.failures:
        yield "\n"
        yield from failure_lines(view.failures, settings, paint=paint)
    if view.worst and not view.cases:
        yield "\n"
        yield from worst_lines(view, settings, paint=paint)
    yield "\n"
    yield from gate_lines(view, settings, paint=paint)
    yield from place_lines(view, settings, paint=paint)
    yield from command_lines(commands, paint=paint)


def command_lines(commands: Sequence[str], *, paint: Paint) -> Iterator[str]:
    """What the reader may want to call next."""
    for number, command in enumerate(commands):
        yield _labelled("" if number else "next", printable(command), paint=paint)


def _heading(view: RunReport, paint: Paint) -> str:
    result = view.result
    state = paint(result.standing.replace("_", " "), STATE_STYLES.get(result.state, "warning"))
    return f"{paint(printable(result.run_id), 'strong')} · {state}\n"


def place_lines(view: RunReport, settings: ReportSettings, *, paint: Paint) -> Iterator[str]:
    """Where the run is on the disk, and what is not there any more."""
    yield _labelled("artifacts" if view.result.is_finished else "stored in", printable(view.result.run_dir), paint=paint)
    for problem in view.missing:
        yield _labelled("missing", printable(problem, limit=TEXT_LIMIT), paint=paint, settings=settings)


def subject_lines(view: RunReport, settings: ReportSettings, *, paint: Paint, is_one: bool = True) -> Iterator[str]:
    """Dataset, candidate and who graded, each on a line."""
    for label, words in subject(view.plan, view.manifest, has_candidate=is_one):
        limit = NAME_LIMIT if label in _NAMED else None
        text = " · ".join(printable(word, limit=limit) for word in words)
        yield _labelled(label, text, paint=paint, settings=settings)


def _labelled(label: str, text: str, *, paint: Paint, settings: ReportSettings | None = None) -> str:
    width = settings.width if settings else None
    return (
        f"{paint(f'{label:{LABEL}}', 'quiet') if label else ' ' * LABEL}{hanging(text, first=LABEL, width=width, indent=LABEL)}\n"
    )


# Cases


def _cases(view: RunReport, settings: ReportSettings, *, paint: Paint) -> Iterator[str]:
    columns = (TextColumn("record"), TextColumn("score", is_number=True), TextColumn("result"), TextColumn("why"))
    rows = [case_row(case, is_verbose=settings.is_verbose) for case in view.cases]
    yield from table(columns, rows, paint=paint, width=settings.width)
    if view.omitted_cases > 0:
        yield paint(f"… and {counted(view.omitted_cases, 'more record')} (--verbose lists all)", "quiet") + "\n"


def case_row(case: Json, *, is_verbose: bool) -> Row:
    """Id, score, verdict and the reason for it."""
    why = case["justification"] if case["error_code"] is None else error_text(case["error_code"], case["error_message"])
    if case.get("panel") and not is_verbose:
        # What each of several judges says is long; how they came to one score is what a line has room for.
        why = "; ".join(f"{decision['criterion']}: {decision['words']}" for decision in case["panel"] if decision.get("words"))
    limit = None if is_verbose else TEXT_LIMIT
    return (printable_id(sampled_name(case), limit=ID_LIMIT), score_text(case), verdict(case), printable(why or "", limit=limit))


def score_text(case: Json) -> str:
    """The score on its own scale; a dash without one."""
    raw = case["raw_score"]
    return UNKNOWN if raw is None else f"{raw:g}" if case["scale"] == "1-5" else decimal(raw)


def verdict(case: Json) -> TextCell:
    """passed, not passed, or the error that left the record without a grade; of a comparison, who won."""
    if case["status"] == "evaluated" and case.get("evaluator") in COMPARING:
        return TextCell(result_word(case), "accepted" if case["passed"] else "warning")
    if case["status"] == "evaluated":
        return TextCell(PASSED, "accepted") if case["passed"] else TextCell(NOT_PASSED, "error")
    return TextCell(ERROR if case["status"] in STATUS_GROUPS["error"] else case["status"], "warning")


# Figures


def _ranking(view: RunReport, settings: ReportSettings, *, paint: Paint) -> Iterator[str]:
    ranking = view.result.metrics.get("ranking")
    if ranking:
        yield from ranking_tables(ranking, settings, paint=paint)
        for label, text in ranking_notes(ranking):
            yield _labelled(label, printable(text, limit=TEXT_LIMIT), paint=paint, settings=settings)


def _figures(view: RunReport, settings: ReportSettings, *, paint: Paint) -> Iterator[str]:
    metrics = view.result.metrics
    yield _labelled("records", record_counts(view), paint=paint, settings=settings)
    if not metrics:
        return
    if view.result.kind is RunKind.RANKING:
        yield _labelled("decided", decided_text(metrics), paint=paint, settings=settings)
    else:
        yield from _grades(metrics, settings, paint=paint)
    for label, text in repeat_lines(metrics["repeats"]) if "repeats" in metrics else ():
        yield _labelled(label, text, paint=paint, settings=settings)
    for label, text in panel_lines(metrics["panel"]) if "panel" in metrics else ():
        yield _labelled(label, text, paint=paint, settings=settings)
    times = _times(view.seconds, latencies(metrics), graded_by=grading_word(view.plan))
    yield _labelled("time", times, paint=paint, settings=settings)
    if view.result.kind is not RunKind.RANKING:
        yield _labelled("tokens", _tokens(metrics["tokens"]), paint=paint, settings=settings)
    yield _labelled("cost", cost_text(metrics["cost_usd"]), paint=paint, settings=settings)


def _grades(metrics: Json, settings: ReportSettings, *, paint: Paint) -> Iterator[str]:
    n = metrics["n_scored"]
    rate = figure_text(metrics, "pass_rate")
    parts = [f"{rate} · {metrics['pass_count']:,} of {n:,}" if n else UNKNOWN]
    if metrics["n_unscored"]:
        parts.append(f"{metrics['n_unscored']:,} unscored: {rate_ends_text(metrics['pass_rate_bounds'])}")
    yield _labelled("pass rate", " · ".join(parts), paint=paint, settings=settings)
    if metrics.get("profile"):
        yield _labelled("profile", printable(profile_text(metrics["profile"])), paint=paint, settings=settings)
    yield from _scores(metrics, settings, paint=paint)


def record_counts(view: RunReport) -> str:
    """`500 in total · 490 graded · 430 passed · 60 not passed · 8 errors · 2 skipped`."""
    counts, repeat = view.result.counts, view.plan.get("repeat", 1)
    # Every answer counts as a record of its own, so that the counts add up.
    total = f"{counts.total_records:,} in total" + (f" ({repeat} answers to a record, each counted)" if repeat > 1 else "")
    done = counts.evaluated_records + counts.failed_records
    if not view.result.is_finished:
        return f"{total} · {done:,} done · {counts.total_records - done:,} to go"
    parts = [total, f"{counts.evaluated_records:,} graded", *_results(view), counted(counts.failed_records, ERROR)]
    parts += [f"{counts.invalid_records:,} of them invalid"] if counts.invalid_records else []
    parts += [f"{counts.skipped_records:,} skipped"] if counts.skipped_records else []
    parts += [f"{counts.cancelled_records:,} of them cancelled"] if counts.cancelled_records else []
    return " · ".join(parts)


def _results(view: RunReport) -> list[str]:
    """How many graded records passed; of comparisons another line says how many were decided."""
    metrics = view.result.metrics
    if not metrics or view.result.kind is RunKind.RANKING:
        return []
    passed = metrics["pass_count"]
    return [f"{passed:,} {PASSED}", f"{metrics['n_scored'] - passed:,} {NOT_PASSED}"]


def _scores(metrics: Json, settings: ReportSettings, *, paint: Paint) -> Iterator[str]:
    mean = figure_text(metrics, "raw_score_mean")
    ends = f" · {ends_text(metrics['score_mean_bounds'], scale=metrics['scale'])}" if metrics["n_unscored"] else ""
    if metrics["scale"]:
        yield _labelled("mean score", f"{mean} · scale {metrics['scale']}{ends}", paint=paint, settings=settings)
    elif metrics["n_scored"]:
        mean = figure_text(metrics, "score_mean")
        yield _labelled("mean score", f"{mean} · mixed scales, normalized to 0-1{ends}", paint=paint, settings=settings)
    for scale, levels in metrics["score_distribution"].items():
        title = f"scores {scale}" if len(metrics["score_distribution"]) > 1 else "scores"
        yield from _distribution(title, levels, paint)


def _distribution(title: str, levels: Sequence[Json], paint: Paint) -> Iterator[str]:
    names = [
        level_name(level["score"]) if "score" in level else f"{decimal(level['from'])}-{decimal(level['to'])}" for level in levels
    ]
    largest = max((level["count"] for level in levels), default=0)
    longest = max(map(len, names), default=0)
    for number, (name, level) in enumerate(zip(names, levels, strict=True)):
        shown = bar(level["count"], largest)
        line = f"{name:>{longest}}  {shown}{' ' if shown else ''}{level['count']:,}"
        yield _labelled("" if number else title, line, paint=paint)


def _times(seconds: float | None, times: dict[str, Latency], *, graded_by: str) -> str:
    parts = [] if seconds is None else [duration(seconds)]
    parts += [
        f"{graded_by if name == 'judge' else name.replace('_', ' ')} p50 {latency(found.p50)}, p95 {latency(found.p95)}"
        for name, found in times.items()
        if found.n
    ]
    return " · ".join(parts) or UNKNOWN


def _tokens(tokens: Json) -> str:
    """Those of the candidate, then those of all judges, which runs of earlier versions do not count."""
    judged = tokens.get("judge", {}).get("sum")
    known = [f"{found['sum']:,} {name}" for name, found in tokens.items() if name != "judge" and found["sum"] is not None]
    unknown = tokens["total"]["n_unknown"]
    parts = [*known, *([f"{counted(unknown, 'record')} without a count"] if unknown else [])]
    parts = [f"{' · '.join(parts)} · of the candidate"] if parts else []
    return " · ".join([*parts, *([] if judged is None else [f"{judged:,} of judges"])]) or UNKNOWN


def cost_text(cost: Json) -> str:
    """What the calls cost, and how many records have no known price."""
    unknown = price_unknown_text(cost["n_unknown"], "record")
    known = dollars(cost["sum"]) if cost["sum"] is not None else ""
    return " · ".join(part for part in (known, unknown) if part) or UNKNOWN


# Slices


def slice_lines(views: Sequence[RunReport], settings: ReportSettings, *, paint: Paint) -> Iterator[str]:
    """An empty line, and a row for each value of each slice; nothing where no slice has two values."""
    found = slice_table(views, is_verbose=settings.is_verbose)
    if not found.rows:
        return
    names = (TextColumn("slice"), TextColumn("value"), *([TextColumn("candidate")] if len(views) > 1 else []))
    numbers = (
        TextColumn("n", is_number=True),
        TextColumn("pass rate", is_number=True),
        TextColumn(found.mean.title, is_number=True),
    )
    yield "\n"
    rows = [_slice_row(row, is_one=len(views) == 1) for row in found.rows]
    yield from table((*names, *numbers), rows, paint=paint, width=settings.width)
    if found.omitted:
        where = "metrics_by_slice.json has them" if settings.is_verbose else "--verbose lists them"
        yield paint(f"… and {counted(found.omitted, 'more value')} ({where})", "quiet") + "\n"


def _slice_row(row: SliceRow, *, is_one: bool) -> Row:
    texts = (row.name, row.value, *(() if is_one else (row.candidate,)))
    return (*(printable_id(text, limit=SLICE_LIMIT) for text in texts), row.n, row.pass_rate, row.mean)


# Errors, and answers that did not pass


def failure_lines(groups: Sequence[FailureGroup], settings: ReportSettings, *, paint: Paint) -> Iterator[str]:
    """How many records have which error or reason, with the first records of each."""
    errors, others = [group for group in groups if group.is_error], [group for group in groups if not group.is_error]
    yield from _group_table("errors", errors, settings, paint=paint)
    for group in _shown_groups(errors, settings):
        if group.message:
            said = f"{group.word} ({group.record_ids[0]}): {one_line(without_code(group.word, group.message))}"
            yield _labelled("error", printable(said, limit=WHY_LIMIT), paint=paint, settings=settings)
    yield from ("\n",) if errors and others else ()
    yield from _group_table(NOT_PASSED, others, settings, paint=paint)


def _group_table(title: str, groups: Sequence[FailureGroup], settings: ReportSettings, *, paint: Paint) -> Iterator[str]:
    if not groups:
        return
    shown = _shown_groups(groups, settings)
    columns = (TextColumn(title, is_number=True), TextColumn("reason"), TextColumn("records"))
    yield from table(columns, [_group_row(group) for group in shown], paint=paint, width=settings.width)
    omitted = sum(group.count for group in groups[len(shown) :])
    if omitted:
        yield paint(f"… and {counted(omitted, 'more record')} (--verbose lists all reasons)", "quiet") + "\n"


def _shown_groups(groups: Sequence[FailureGroup], settings: ReportSettings) -> Sequence[FailureGroup]:
    return groups if settings.is_verbose else groups[:MAX_GROUPS]


def _group_row(group: FailureGroup) -> Row:
    ids = ", ".join(printable_id(record_id, limit=ID_LIMIT) for record_id in group.record_ids)
    more = group.count - len(group.record_ids)
    return (
        f"{group.count:,}",
        TextCell(printable(group.word, limit=ID_LIMIT), "warning" if group.is_error else "error"),
        f"{ids} and {more:,} more" if more else ids,
    )


def worst_lines(view: RunReport, settings: ReportSettings, *, paint: Paint, limit: int = MAX_WORST) -> Iterator[str]:
    """The answers with the lowest scores, and what was said about them."""
    rows = [_worst_row(worst, view) for worst in view.worst[:limit]]
    columns = (TextColumn("worst", is_number=True), TextColumn("record"), TextColumn("why"))
    yield from table(columns, rows, paint=paint, width=settings.width)


def _worst_row(worst: WorstRecord, view: RunReport) -> Row:
    record_id = printable_id(sampled_name(worst.prediction), limit=ID_LIMIT)
    return (worst_score(worst, view), record_id, printable(one_line(worst.why), limit=WHY_LIMIT))


def worst_score(worst: WorstRecord, view: RunReport) -> str:
    """The score on its own scale, or brought to 0-1 where the run has several scales."""
    return score_text(worst.prediction) if view.result.metrics.get("scale") else decimal(worst.prediction["score"])


def one_line(text: str) -> str:
    """The text with every stretch of white space as one space."""
    return " ".join(text.split())


# The decision


def gate_lines(view: RunReport, settings: ReportSettings, *, paint: Paint) -> Iterator[str]:
    """Whether the run is good enough, and every reason for it."""
    for decision in decisions(view):
        if decision.word == NO_GATES and view.result.kind is RunKind.RANKING:
            continue
        if decision.word == NO_GATES:
            yield _labelled("gates", f"none set ({decision.reason})", paint=paint, settings=settings)
        else:
            yield _decision(decision, settings, paint=paint)
    note = decision_note(view)
    if note:
        yield _labelled("note", printable(note, limit=TEXT_LIMIT), paint=paint, settings=settings)


def _decision(decision: RunDecision, settings: ReportSettings, *, paint: Paint) -> str:
    word, style = decision.word, _DECISION_STYLES.get(decision.word, "error")
    text = hanging(printable(decision.reason, limit=TEXT_LIMIT), first=LABEL, width=settings.width, indent=LABEL)
    return f"{paint(word, style)}{' ' * max(1, LABEL - cell_len(word))}{text}\n"
