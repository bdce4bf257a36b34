"""Runs into the sections of their reports: results, candidates, slices, judges, rankings, failures, times, costs and files.

Each table has every column that some report shows; a renderer takes those that it has room for with `Table.only`.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from assay.core.artifact_lines import FailureLine, PredictionLine, SampleResult
from assay.core.record_query import STATUS_GROUPS
from assay.core.summary import (
    CandidateSummary,
    JudgeSummary,
    MetricValue,
    PairSummary,
    PanelSummary,
    PassAtK,
    PositionBias,
    ProfileSummary,
    RankingSummary,
    RecordMetrics,
    RepeatSummary,
    ScoreCount,
    Summary,
    TokenAmounts,
    ToolCallSummary,
    ToolMetrics,
    TruncationSummary,
    VarianceParts,
)
from assay.presentation import words
from assay.presentation.decisions import decision_facts, decisions
from assay.presentation.graders import grader_sections
from assay.presentation.run_report import FailureGroup, RunReport, WorstRecord
from assay.presentation.sections import (
    NO_LINKS,
    Cell,
    Column,
    Fact,
    RecordLinks,
    Section,
    Table,
    Tone,
    command_facts,
)
from assay.presentation.subject import grading_word, subject_facts
from assay.presentation.words import (
    DASH,
    ERROR,
    NO_VALUE,
    NOT_PASSED,
    PASSED,
    TONES,
    UNKNOWN,
    bounds_text,
    counted,
    decimal,
    dollars,
    duration,
    ends_of,
    error_text,
    latency,
    level_name,
    metric_text,
    money,
    one_line,
    pass_rate_value,
    profile_value,
    rate,
    record_score,
    sampled_name,
    score_value,
    without_code,
)

ID_LIMIT = 48
"""Characters of a record's id, or of a name in a table, that a report in text shows."""
CANDIDATE_LIMIT = 32
SLICE_LIMIT = 32
TEXT_LIMIT = 400
WHY_LIMIT = 160
MAX_WORST = 8
"""Answers with the lowest scores that are listed; the artifacts have them all."""
MAX_WORST_OF_SEVERAL = 3
"""Answers with the lowest scores that are listed of each of several candidates."""
MAX_GROUPS = 8
"""Reasons that are listed; the artifacts have them all."""
MAX_SLICE_ROWS = 12
"""Rows that are shown unless all are called for."""
MIN_SLICE_VALUES = 4
"""Values that are shown however many candidates have a row for each."""
MAX_PAGE_SLICES = 60
_NO_METRIC = MetricValue(value=None, interval=None, n=0)
_COMPARING = ("judge_pairwise/1",)
"""Ways of grading that say which of two answers is better."""
_WINNERS = {1.0: "first won", 0.5: "tie", 0.0: "second won"}
_SHOWN_K = frozenset({1, 2, 3, 5, 10, 20, 50, 100, 200, 500})
"""Numbers of answers that a report names, in addition to the largest; the artifacts have them all."""


def run_sections(view: RunReport, *, is_verbose: bool = False, commands: Sequence[str] = ()) -> list[Section]:
    """Return the report on one run in reading order; `commands` are what the reader may want to call next."""
    # The standing, not the state: an unfinished run without a process is interrupted, regardless of the state that its ledger
    # has.
    state = words.state_mark(view.result.standing)
    heading = (Cell(view.result.run_id), Cell(state.text, tone=state.kind))
    summary = view.summary
    rankings = ranking_sections(summary.ranking) if summary is not None and isinstance(summary.ranking, RankingSummary) else []
    found = [
        msgspec.structs.replace(subject_section(view), heading=heading),
        case_section(view, is_verbose=is_verbose) if view.cases else None,
        *rankings,
        Section(title="Results", facts=tuple(result_facts(view))),
        *grader_sections([view]),
        Section(title="Judges", tables=(judge_table(summary.judges),))
        if summary is not None and isinstance(summary.judges, tuple)
        else None,
        Section(title="Tools", tables=(tool_table(summary.tool_calls),))
        if summary is not None and summary.tool_calls is not msgspec.UNSET and summary.tool_calls.tools
        else None,
        slice_section([view], is_verbose=is_verbose),
        *failure_sections(view, is_verbose=is_verbose),
        # Listed cases come worst first, so a list of the worst records would repeat them.
        worst_section(view, limit=MAX_WORST) if view.worst and not view.cases else None,
        Section(title="Decision", facts=(*decision_facts(view), *place_facts(view), *command_facts(commands))),
    ]
    return [section for section in found if section is not None]


def candidate_sections(
    views: Sequence[RunReport],
    *,
    is_verbose: bool = False,
    waiting: Sequence[str] = (),
    commands: Sequence[str] = (),
    records: Section | None = None,
) -> list[Section]:
    """Return the records side by side, one table over all candidates, the slices, then the decisions on each candidate.

    `waiting` are the candidates that were to follow and have no run, `commands` what the reader may want to call next. Without
    `records` those of golden datasets are listed without answers.
    """
    # Only what decides between candidates; the report on each run has the rest.
    titles = ("candidate", "state", "graded", "errors", "pass rate", shared_mean(views).title, "p95", "cost")
    found = [
        subject_section(views[0], has_candidate=False),
        records or (Section(title="Records", tables=(case_table(views),)) if any(view.cases for view in views) else None),
        Section(title="Candidates", tables=(candidate_table(views, waiting=waiting).only(*titles),)),
        *grader_sections(views),
        slice_section(views, is_verbose=is_verbose),
        *(section for view in views for section in _candidate_sections(view, is_verbose=is_verbose)),
        Section(facts=command_facts(commands)) if commands else None,
    ]
    return [section for section in found if section is not None]


def _candidate_sections(view: RunReport, *, is_verbose: bool) -> Iterator[Section]:
    """Yield the decisions on one of several candidates and what went wrong, as one block."""
    heading = (Cell(words.cut(view.name, CANDIDATE_LIMIT)), Cell(view.result.run_id))
    yield Section(title=view.name, heading=heading, facts=tuple(decision_facts(view)))
    for number, section in enumerate(failure_sections(view, is_verbose=is_verbose)):
        # Errors and reasons are one block below the decision; only the first continues it without an empty line.
        yield msgspec.structs.replace(section, is_joined=not number)
    if view.worst and not view.cases:
        yield msgspec.structs.replace(worst_section(view, limit=MAX_WORST_OF_SEVERAL), is_joined=True)
    yield Section(facts=tuple(place_facts(view)), is_joined=True)


def subject_section(view: RunReport, *, has_candidate: bool = True) -> Section:
    """Return what was asked, who answered and who graded."""
    return Section(title="Dataset and models", facts=subject_facts(view.plan, view.manifest, has_candidate=has_candidate))


def place_facts(view: RunReport) -> list[Fact]:
    """Return where the run is on the disk, and what is not there any more."""
    label = "artifacts" if view.result.is_finished else "stored in"
    return [
        Fact(label, view.result.run_dir, is_whole=True),
        *(Fact("missing", problem, limit=TEXT_LIMIT) for problem in view.missing),
    ]


# Records one by one


def case_section(view: RunReport, *, is_verbose: bool) -> Section:
    """Return a row for each record that is listed."""
    columns = (
        Column("record", is_name=True, limit=ID_LIMIT),
        Column("score", is_number=True),
        Column("result"),
        Column("why", limit=0 if is_verbose else TEXT_LIMIT),
    )
    rows = tuple(
        (Cell(sampled_name(case)), Cell(score_of(case)), result_cell(case), Cell(_why(case, is_verbose=is_verbose)))
        for case in view.cases
    )
    note = f"… and {counted(view.omitted_cases, 'more record')} (--verbose lists all)" if view.omitted_cases > 0 else ""
    return Section(title="Records", tables=(Table(columns=columns, rows=rows, note=note),))


def _why(case: PredictionLine, *, is_verbose: bool) -> str:
    if case.panel and not is_verbose:
        # What each of several judges says is long; how they came to one score is what a line has room for.
        return "; ".join(f"{decision.criterion}: {decision.words}" for decision in case.panel if decision.words)
    why = case.justification if case.error_code is None else error_text(case.error_code, case.error_message)
    return why or ""


def score_of(case: PredictionLine | SampleResult) -> str:
    """Return the score of a prediction on its own scale; a dash without one."""
    return record_score(case.raw_score, case.scale or "")


def result_cell(case: PredictionLine | FailureLine | SampleResult) -> Cell:
    """passed, not passed, or the error that left the record without a grade; of a comparison, who won."""
    if case.status != "evaluated" or isinstance(case, FailureLine):
        return Cell(ERROR if case.status in STATUS_GROUPS["error"] else case.status, tone="warn")
    # In a comparison "passed" means that both orders agree, and the score says on whom.
    if isinstance(case, PredictionLine) and case.evaluator in _COMPARING and case.score is not None:
        return Cell(_WINNERS[case.score] if case.passed else "no winner", tone="good" if case.passed else "warn")
    return Cell(PASSED, tone="good") if case.passed else Cell(NOT_PASSED, tone="bad")


# Results


def result_facts(view: RunReport) -> Iterator[Fact]:
    """Yield counts, rates, scores, what repeats and panels say, times, tokens and costs."""
    summary = view.summary
    if summary is not None and isinstance(summary.ranking, RankingSummary):
        yield from ranking_facts(summary.ranking)
    yield Fact("records", record_counts(view))
    if summary is None:
        return
    if isinstance(summary.ranking, RankingSummary):
        yield Fact("decided", _decided(summary, summary.ranking))
    else:
        yield from _grades(summary)
    if isinstance(summary.repeats, RepeatSummary):
        yield from repeat_facts(summary.repeats)
    if isinstance(summary.panel, PanelSummary):
        yield from panel_facts(summary.panel)
    yield Fact("time", _times(view, summary))
    if not view.is_ranking:
        yield Fact("tokens", _tokens(summary.tokens))
    yield Fact("cost", words.cost_text(summary.cost_usd))


def record_counts(view: RunReport) -> str:
    """Return `500 in total · 490 graded · 430 passed · 60 not passed · 8 errors · 2 skipped`."""
    counts, repeat = view.result.counts, view.plan.repeat
    # Every answer counts as a record of its own, so that the counts add up.
    total = f"{counts.total_records:,} in total" + (f" ({repeat} answers to a record, each counted)" if repeat > 1 else "")
    # Before the end nothing is known but how many are done: the ledger has no grades to count.
    done = counts.evaluated_records + counts.failed_records
    if not view.result.is_finished:
        return f"{total} · {done:,} done · {counts.total_records - done:,} to go"
    parts = [total, f"{counts.evaluated_records:,} graded"]
    if view.summary is not None and not view.is_ranking:
        # Of comparisons another line says how many were decided.
        passed = view.summary.pass_count
        parts += [f"{passed:,} {PASSED}", f"{view.summary.n_scored - passed:,} {NOT_PASSED}"]
    # The counts of batch_v1 are nested: invalid records are failed ones, and cancelled records are skipped ones.
    parts += [counted(counts.failed_records, ERROR)]
    parts += [f"{counts.invalid_records:,} of them invalid"] if counts.invalid_records else []
    parts += [f"{counts.skipped_records:,} skipped"] if counts.skipped_records else []
    parts += [f"{counts.cancelled_records:,} of them cancelled"] if counts.cancelled_records else []
    return " · ".join(parts)


def _grades(summary: Summary) -> Iterator[Fact]:
    # Without a score for every record the rate is one of those that have one; the bounds show how far the others
    # could move it.
    n, unscored = summary.n_scored, summary.n_unscored
    parts = [f"{metric_text(summary.pass_rate_metric, is_rate=True)} · {summary.pass_count:,} of {n:,}" if n else UNKNOWN]
    parts += [f"{unscored:,} unscored: {bounds_text(summary.pass_rate_bounds, is_rate=True)}"] if unscored else []
    yield Fact("pass rate", " · ".join(parts))
    if summary.profile is not None:
        yield Fact("profile", profile_text(summary.profile))
    ends = f" · {bounds_text(summary.score_mean_bounds, scale=summary.scale)}" if unscored else ""
    if summary.scale:
        yield Fact("mean score", f"{metric_text(summary.raw_score_mean_metric)} · scale {summary.scale}{ends}")
    # Means of several scales have no common unit, so only the normalized one is defined.
    elif n:
        yield Fact("mean score", f"{metric_text(summary.score_mean_metric)} · mixed scales, normalized to 0-1{ends}")
    if summary.truncated is not None and summary.truncated.n:
        yield Fact("truncated", truncation_text(summary.truncated, scale=summary.scale))
    if summary.tool_calls is not msgspec.UNSET:
        yield Fact("tool calls", tool_calls_text(summary.tool_calls))
    for scale, levels in summary.score_distribution.items():
        yield from _distribution(f"scores {scale}" if len(summary.score_distribution) > 1 else "scores", levels)


def _distribution(title: str, levels: Sequence[ScoreCount]) -> Iterator[Fact]:
    names = [_level_name(level) for level in levels]
    largest = max((level.count for level in levels), default=0)
    longest = max(map(len, names), default=0)
    for number, (name, level) in enumerate(zip(names, levels, strict=True)):
        bar = words.bar(level.count, largest)
        yield Fact("" if number else title, f"{name:>{longest}}  {bar}{' ' if bar else ''}{level.count:,}", is_whole=True)


def _level_name(level: ScoreCount) -> str:
    if level.score is not msgspec.UNSET:
        return level_name(level.score)
    low, high = ((None if end is msgspec.UNSET else end) for end in (level.start, level.end))
    return f"{decimal(low)}-{decimal(high)}"


def tool_calls_text(calls: ToolCallSummary) -> str:
    """Return `143 of 282 correct (50.7 %) · 12 wrong arguments · 90 not made · 3 extra`."""
    wrong = calls.name_correct - calls.arguments_correct
    not_made = calls.scored - calls.name_correct
    counts = ((wrong, "wrong arguments"), (not_made, "not made"), (_unwanted(calls), "not expected"))
    parts = [
        f"{calls.arguments_correct:,} of {calls.scored:,} correct ({rate(calls.correct_rate)})" if calls.scored else "none expected"
    ]
    parts += [f"{count:,} {name}" for count, name in counts if count]
    if calls.unknown:
        bounds = calls.correct_rate_bounds
        parts.append(f"{calls.unknown:,} unknown ({rate(bounds.worst)} to {rate(bounds.best)})")
    return " · ".join(parts)


def _unwanted(calls: ToolMetrics) -> int:
    return calls.made - round((calls.wanted_rate or 0) * calls.made)


def truncation_text(truncated: TruncationSummary, *, scale: str | None) -> str:
    """Return `12 of 400 answers (3.0 %) ended at the output limit · without them: pass rate 71.0 % · ...`."""
    share = f"{truncated.n:,} of {counted(truncated.n_answers, 'answer')} ({rate(truncated.share)}) ended at the output limit"
    if not truncated.n_without:
        return f"{share} · no answer is whole"
    mean = truncated.raw_score_mean_without if scale else truncated.score_mean_without
    without = f"pass rate {rate(truncated.pass_rate_without)} · mean score {decimal(mean)}"
    return f"{share} · without them: {without} · {counted(truncated.n_without, 'record')}"


def profile_text(profile: ProfileSummary) -> str:
    """Return `prbench 0.42 [0.30, 0.55] · scale 0-1 · 38 records · 2 unscored (timeout 2): 0.40 at worst, 0.45 at best`."""
    parts = [f"{profile.name} {metric_text(profile.metric)}", f"scale {profile.scale}", counted(profile.n, "record")]
    if profile.n_unscored:
        why = ", ".join(f"{reason} {count:,}" for reason, count in profile.unscored.items())
        ends = bounds_text(profile.headline_bounds)
        parts.append(f"{profile.n_unscored:,} unscored ({why})" + (f": {ends}" if ends else ""))
    return " · ".join(parts)


def repeat_facts(repeats: RepeatSummary) -> Iterator[Fact]:
    """Yield how many answers to a record pass, pass@k, pass^k and how much scores vary."""
    records = [entry.records for entry in repeats.passes]
    # Entries go from no passing answer to all of them.
    passes = f"{records[-1]:,} pass always, {sum(records[1:-1]):,} sometimes, {records[0]:,} never"
    yield Fact("repeats", f"{counted(repeats.n_records, 'record')}, {repeats.repeat} answers each · {passes}")
    if repeats.n_left_out:
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in repeats.left_out.items())
        yield Fact("", f"{counted(repeats.n_left_out, 'record')} left out here, without a score for every answer: {reasons}")
    yield Fact("pass@k", _by_k(repeats.pass_at_k))
    yield Fact("pass^k", _by_k(repeats.pass_hat_k))
    yield Fact("variance", _variance(repeats.variance.score))


def _by_k(entries: Sequence[PassAtK]) -> str:
    # With 500 answers to a record a line for each k would be unreadable; the largest is always shown.
    found = [entry for entry in entries if entry.k in _SHOWN_K or entry is entries[-1]]
    return " · ".join(f"k={entry.k} {metric_text(entry, is_rate=True)}" for entry in found)


def _variance(variance: VarianceParts) -> str:
    named = ((variance.within, "within a record"), (variance.between, "between records"))
    known = [f"{value:.4f} {where}" for value, where in named if value is not None]
    return f"of scores from 0 to 1: {', '.join(known)}" if known else UNKNOWN


def panel_facts(panel: PanelSummary) -> Iterator[Fact]:
    """Yield where several judges do not agree, and what escalating saved."""
    tied = f", {panel.n_tied:,} of them tied" if panel.n_tied else ""
    lost = f" · {panel.n_vote_lost:,} with a vote lost" if panel.n_vote_lost else ""
    yield Fact("panel", f"{counted(panel.n_records, 'record')} judged · {panel.n_disagree:,} with different votes{tied}{lost}")
    if panel.escalate:
        cost = f", about {dollars(panel.cost_saved_usd)}" if panel.cost_saved_usd else ""
        saved = counted(panel.n_calls_saved or 0, "call")
        yield Fact("", f"{panel.n_escalated:,} escalated to all judges · {saved} saved{cost}")


def _times(view: RunReport, summary: Summary) -> str:
    parts = [] if view.seconds is None else [duration(view.seconds)]
    names = {"judge": grading_word(view.plan)}
    parts += [
        f"{names.get(name, name.replace('_', ' '))} p50 {latency(found.p50)}, p95 {latency(found.p95)}"
        for name, found in summary.latency_ms.by_name().items()
        if found.n
    ]
    return " · ".join(parts) or UNKNOWN


def _tokens(tokens: TokenAmounts) -> str:
    """Return those of the candidate, then those of all judges, which runs of earlier versions do not count."""
    counts = [(name, found.sum) for name, found in tokens.by_name().items() if name != "judge"]
    parts = [f"{total:,} {name}" for name, total in counts if total is not None]
    parts += [f"{counted(tokens.total.n_unknown, 'record')} without a count"] if tokens.total.n_unknown else []
    parts += ["of the candidate"] if parts else []
    parts += [f"{tokens.judge.sum:,} of judges"] if tokens.judge.sum is not None else []
    return " · ".join(parts) or UNKNOWN


# Candidates


class MeanKind(msgspec.Struct, frozen=True):
    """Which mean of the scores is shown, and what it is called."""

    source: Literal["profile", "raw", "normalized"]
    title: str

    def metric(self, metrics: RecordMetrics) -> MetricValue:
        """Return the mean with the interval that is meant with it."""
        # A slice without a record of the profile has no headline, and a mean in its place would be on another
        # scale.
        if self.source == "profile":
            return _NO_METRIC if metrics.profile is None else metrics.profile.metric
        return metrics.raw_score_mean_metric if self.source == "raw" else metrics.score_mean_metric

    def value(self, metrics: RecordMetrics) -> Cell:
        """Return the mean as a cell, with what it is counted over."""
        if self.source == "profile":
            return Cell(DASH) if metrics.profile is None else profile_value(metrics.profile)
        plain = metrics.raw_score_mean_interval if self.source == "raw" else metrics.score_mean_interval
        over = words.basis(metrics.n_scored, plain, metrics.score_mean_cluster_interval)
        found = self.metric(metrics)
        return score_value(found.value, ends_of(found.interval), over=over, scale=self.scale(metrics), name=self.title)

    def scale(self, metrics: RecordMetrics) -> str:
        """Return the scale of the mean."""
        if self.source == "profile":
            return "" if metrics.profile is None else metrics.profile.scale
        return (metrics.scale or "0-1") if self.source == "raw" else "0-1"


def shared_mean(views: Sequence[RunReport]) -> MeanKind:
    """Return the headline of a profile that all runs share, otherwise means, normalized to 0-1 for different scales."""
    summaries = [view.summary for view in views if view.summary is not None]
    names = {"" if summary.profile is None else summary.profile.name for summary in summaries}
    if len(names) == 1 and names != {""}:
        return MeanKind("profile", names.pop())
    scales = {summary.scale for summary in summaries if summary.n_scored}
    # One run without a common scale makes the raw means of all of them incomparable.
    return MeanKind("normalized", "mean of 0-1") if None in scales or len(scales) > 1 else MeanKind("raw", "mean score")


def candidate_table(views: Sequence[RunReport], *, waiting: Sequence[str] = ()) -> Table:
    """Return a row for each run, and for each candidate in `waiting`, which was to follow and has no run."""
    mean = shared_mean(views)
    numbers = ("graded", "errors", "pass rate", mean.title, "p95", "cost")
    columns = (
        Column("candidate", is_name=True, limit=CANDIDATE_LIMIT),
        Column("run", is_name=True),
        Column("state"),
        Column("gates"),
        *(Column(title, is_number=True) for title in numbers),
    )
    rows = tuple(_candidate_row(view, mean) for view in views)
    open_rows = tuple(
        (Cell(name), Cell(UNKNOWN), Cell("not started", tone="warn"), *[Cell(UNKNOWN)] * (len(numbers) + 1)) for name in waiting
    )
    return Table(title="Candidates", columns=columns, rows=(*rows, *open_rows))


def _candidate_row(view: RunReport, mean: MeanKind) -> tuple[Cell, ...]:
    result, summary = view.result, view.summary
    state, word = words.state_mark(result.standing), decisions(view)[0].word
    head = (
        Cell(view.name),
        Cell(result.run_id),
        Cell(state.text, tone=state.kind),
        Cell(word, tone=TONES.get(word, "quiet")),
        Cell(f"{result.counts.evaluated_records:,}"),
        Cell(f"{result.counts.failed_records:,}"),
    )
    if summary is None:
        # As many cells as the row of a run has below the counts.
        return (*head, *[Cell(UNKNOWN)] * 4)
    time = latency(summary.latency_ms.model.p95)
    # A total with unpriced records is a lower bound, and is marked as one.
    cost = money(summary.cost_usd.sum, unpriced=summary.cost_usd.n_unknown)
    return (*head, pass_rate_value(summary), mean.value(summary), Cell(time), cost)


def case_table(views: Sequence[RunReport]) -> Table:
    """Return a row for each record that is listed, with what each candidate came to."""
    by_candidate = [{sampled_name(case): case for case in view.cases} for view in views]
    record_ids = dict.fromkeys(record_id for cases in by_candidate for record_id in cases)
    columns = (Column("record", is_name=True, limit=ID_LIMIT), *(Column(words.cut(view.name, CANDIDATE_LIMIT)) for view in views))
    rows = tuple((Cell(record_id), *(_scored_result(cases.get(record_id)) for cases in by_candidate)) for record_id in record_ids)
    return Table(columns=columns, rows=rows)


def _scored_result(case: PredictionLine | None) -> Cell:
    if case is None:
        return Cell(UNKNOWN)
    found = result_cell(case)
    return Cell(f"{score_of(case)} {found.text}", tone=found.tone)


# Slices


def slice_section(views: Sequence[RunReport], *, is_verbose: bool) -> Section | None:
    """Return a row for each value and run, those of one value below each other; None where no slice has two values."""
    # Each value takes a row for every candidate: the table stays about as long however many there are.
    limit = None if is_verbose else max(MIN_SLICE_VALUES, MAX_SLICE_ROWS // len(views))
    table, omitted = slice_table(views, limit=limit), omitted_slice_values(views, limit=limit)
    if not table.rows:
        return None
    titles = ("slice", "value", *(["candidate"] if len(views) > 1 else []), "n", "pass rate", shared_mean(views).title)
    where = "metrics_by_slice.json has them" if is_verbose else "--verbose lists them"
    note = f"… and {counted(omitted, 'more value')} ({where})" if omitted else ""
    return Section(title="Slices", tables=(msgspec.structs.replace(table.only(*titles), note=note),))


def slice_table(views: Sequence[RunReport], *, limit: int | None = MAX_PAGE_SLICES, links: RecordLinks = NO_LINKS) -> Table:
    """Return the first values of all slices, with a row for each run."""
    # By value first, so that candidates can be compared on the lines below each other.
    values: dict[tuple[str, str | None], list[tuple[RunReport, RecordMetrics]]] = {}
    for view in views:
        for found in view.slices:
            values.setdefault((found.name, found.value), []).append((view, found.figures))
    mean, omitted = shared_mean(views), omitted_slice_values(views, limit=limit)
    columns = (
        Column(
            "slice",
            "What the records of a row have in common: a tag, a dataset, a member of metadata.",
            is_name=True,
            limit=SLICE_LIMIT,
        ),
        Column("value", "The value of the slice that the records have.", is_name=True, limit=SLICE_LIMIT),
        Column("candidate", is_name=True, limit=SLICE_LIMIT),
        Column("n", "Scored records of the slice.", is_number=True),
        Column("pass rate", f"Share of them that passed; {words.PASS_RATE_BAR}.", is_number=True),
        Column(mean.title, "Their mean, with its 95 % interval.", is_number=True),
        Column("errors", "Records of the slice without a grade.", is_number=True),
    )
    rows = tuple(
        _slice_row(view, name, value, metrics, mean=mean, links=links)
        for (name, value), same in list(values.items())[:limit]
        for view, metrics in same
    )
    note = f"{counted(omitted, 'more value')} in metrics_by_slice.json" if omitted else ""
    return Table(title="Slices", columns=columns, rows=rows, note=note)


def omitted_slice_values(views: Sequence[RunReport], *, limit: int | None) -> int:
    """Return how many values of slices have no row where only the first are shown."""
    values = len({(found.name, found.value) for view in views for found in view.slices})
    # Values that the artifacts leave out are counted there and not named, so the runs may leave out different
    # ones: the largest count is the number that is certain.
    return (0 if limit is None else max(values - limit, 0)) + max(view.omitted_slice_values for view in views)


def _slice_row(
    view: RunReport, name: str, value: str | None, metrics: RecordMetrics, *, mean: MeanKind, links: RecordLinks
) -> tuple[Cell, ...]:
    total, passed = metrics.total_records, pass_rate_value(metrics)
    # A slice filter cannot ask for the absence of a value.
    link = "" if value is None else links.records(view.result.run_id, slice=f"{name}:{value}")
    over = words.basis(metrics.n_scored, metrics.pass_rate_interval, metrics.pass_rate_cluster_interval)
    return (
        Cell(name),
        Cell(NO_VALUE if value is None else value, link=link),
        Cell(view.name),
        Cell(f"{metrics.n_scored:,}", f"{over.says} of {total:,}"),
        # n has a column of its own.
        msgspec.structs.replace(passed, n=""),
        msgspec.structs.replace(mean.value(metrics), n=""),
        Cell(f"{metrics.failed_records:,}", f"of {counted(total, 'record')}"),
    )


# Judges


def judge_table(judges: Sequence[JudgeSummary]) -> Table:
    """Return a row for each judge of a panel."""
    columns = (
        Column("judge", "A model that graded the answers.", is_name=True, limit=ID_LIMIT),
        Column("votes", "Criteria of records that it graded.", is_number=True),
        Column("mean 0-1", "Mean of its scores, normalized to 0-1.", is_number=True),
        Column(
            "agrees with panel",
            "Share of its votes that are what the panel decided; the bar is its 95 % interval.",
            is_number=True,
        ),
        Column("calls", "Requests that were made.", is_number=True),
        Column("failed calls", "Requests without a reply.", is_number=True),
        Column("p50", "Median time of a call.", is_number=True),
        Column("tokens", "Of its requests and replies.", is_number=True),
        Column("cost", "US dollars; > where some prices are not known.", is_number=True),
    )
    return Table(title="Judges", columns=columns, rows=tuple(map(_judge_row, judges)))


MAX_TOOLS = 20
"""Tools that a table lists; the artifacts have all of them."""


def tool_table(calls: ToolCallSummary) -> Table:
    """Return a row for each tool: called when it should be, with the right arguments, and not when it should not be."""
    columns = (
        Column("tool", is_name=True, limit=ID_LIMIT),
        Column("expected", "Calls that were expected and compared.", is_number=True),
        Column("called", "Share of the expected calls for which the tool was called.", is_number=True),
        Column("correct", "Share of the expected calls that were made with the right arguments.", is_number=True),
        Column("made", "Calls that were made.", is_number=True),
        Column("wanted", "Share of the calls made that were expected.", is_number=True),
        Column("not JSON", "Calls whose arguments are not a JSON object.", is_number=True),
    )
    # The most used first: a dataset may have thousands of tools.
    listed = sorted(calls.tools.items(), key=lambda tool: (-max(tool[1].expected, tool[1].made), tool[0]))
    more = len(listed) - MAX_TOOLS
    note = f"… and {counted(more, 'more tool')} (metrics_summary.json has them)" if more > 0 else ""
    return Table(title="Tools", columns=columns, rows=tuple(_tool_row(*tool) for tool in listed[:MAX_TOOLS]), note=note)


def _tool_row(name: str, tool: ToolMetrics) -> tuple[Cell, ...]:
    expected, made = words.MetricBasis(tool.scored), words.MetricBasis(tool.made)
    return (
        Cell(name),
        Cell(f"{tool.scored:,}"),
        words.rate_value(tool.called_rate, ends_of(tool.called_rate_interval), over=expected, name="called"),
        words.rate_value(tool.correct_rate, ends_of(tool.correct_rate_interval), over=expected, name="correct"),
        Cell(f"{tool.made:,}"),
        words.rate_value(tool.wanted_rate, ends_of(tool.wanted_rate_interval), over=made, name="wanted"),
        Cell(f"{tool.not_json:,}"),
    )


def _judge_row(judge: JudgeSummary) -> tuple[Cell, ...]:
    agreement, tokens, cost = judge.agreement, judge.tokens.sum, judge.cost_usd
    over = words.MetricBasis(agreement.n)
    # Agreement is a share of votes: they are the denominator, not the records.
    return (
        Cell(judge.judge),
        Cell(f"{judge.n_votes:,}"),
        Cell(decimal(judge.score_mean), "", f"n {judge.n_votes:,}"),
        words.rate_value(agreement.value, ends_of(agreement.interval), over=over, name="agreement with the panel"),
        Cell(f"{judge.n_calls:,}"),
        Cell(f"{judge.n_failed_calls:,}"),
        Cell(latency(judge.latency_ms.p50)),
        Cell(UNKNOWN if tokens is None else f"{tokens:,}"),
        money(cost.sum, unpriced=cost.n_unknown),
    )


# Rankings

_RANKING = {
    "rank": "Rank by strength; none if the comparisons order no candidates.",
    "beats the average": "Chance of winning against the average candidate, with its 95 % interval.",
    "ahead of next": "How much stronger than the next candidate, with its 95 % interval; surely where that leaves 0 out.",
    "wins": "Comparisons won in both orders.",
    "losses": "Comparisons lost in both orders.",
    "ties": "Comparisons in which both answers were called equal in both orders.",
    "inconsistent": "Comparisons whose two orders disagree; neither candidate wins.",
    "first wins": "Comparisons that the first candidate won in both orders.",
    "second wins": "Comparisons that the second candidate won in both orders.",
    "no grade": "Comparisons without a verdict.",
    "share of first": "Share of the comparisons that went to the first, a tie counting half, with its 95 % interval.",
    "comparisons": "Comparisons that the judge made in both orders.",
    "first place": "Inconsistent comparisons in which it preferred the first answer.",
    "second place": "Inconsistent comparisons in which it preferred the second answer.",
    "rate": "Share of its comparisons in which the order decided, with its 95 % interval.",
}
_CANDIDATES = ("rank", "candidate", "beats the average", "ahead of next", "wins", "losses", "ties", "inconsistent")
_PAIRS = ("first", "second", "first wins", "second wins", "ties", "inconsistent", "no grade", "share of first")
_BIAS = ("judge", "comparisons", "inconsistent", "first place", "second place", "rate")
_NAMES = ("candidate", "first", "second", "judge")


def ranking_sections(ranking: RankingSummary) -> list[Section]:
    """Return the candidates, the pairs and the judges of a ranking, each as a section; an empty one is left out."""
    found = (
        ("Candidates, the strongest first", _CANDIDATES, [_ranked(at, one) for at, one in enumerate(ranking.candidates, 1)]),
        ("Pairs", _PAIRS, list(map(_pair, ranking.pairs))),
        ("Judges and places", _BIAS, list(map(_bias, ranking.position_bias))),
    )
    return [
        Section(
            title=title,
            tables=(
                Table(
                    title=title,
                    columns=tuple(_ranking_column(name) for name in columns),
                    rows=tuple(tuple(map(Cell, row)) for row in rows),
                ),
            ),
        )
        for title, columns, rows in found
        if rows
    ]


def _ranking_column(title: str) -> Column:
    is_name = title in _NAMES
    return Column(title, _RANKING.get(title, ""), is_number=not is_name, is_name=is_name, limit=ID_LIMIT if is_name else 0)


def _ranked(place: int, candidate: CandidateSummary) -> tuple[str, ...]:
    chance, ahead = candidate.win_chance, candidate.ahead_of_next
    counts = (candidate.wins, candidate.losses, candidate.ties, candidate.inconsistent)
    return (
        UNKNOWN if candidate.strength is None else str(place),
        candidate.name,
        UNKNOWN if chance is None else metric_text(chance, is_rate=True),
        UNKNOWN if ahead is None else metric_text(ahead),
        *(f"{count:,}" for count in counts),
    )


def _pair(pair: PairSummary) -> tuple[str, ...]:
    counts = (pair.first_wins, pair.second_wins, pair.ties, pair.inconsistent, pair.unscored)
    return (pair.first, pair.second, *(f"{count:,}" for count in counts), metric_text(pair.first_share, is_rate=True))


def _bias(judge: PositionBias) -> tuple[str, ...]:
    counts = (judge.n, judge.n_inconsistent, judge.n_first_place, judge.n_second_place)
    return (judge.judge, *(f"{count:,}" for count in counts), metric_text(judge.rate, is_rate=True))


def ranking_facts(ranking: RankingSummary) -> list[Fact]:
    """Return who is ahead, which candidates cannot be ordered, and what was left out."""
    # The reason explains why candidates cannot be ordered; where even the first has no strength, the line on the
    # leader says it.
    reasons = [("note", ranking.reason)] if ranking.reason and ranking.candidates[0].strength is not None else []
    pairs = [("ranking", _leader(ranking)), *reasons, *(("left out", note) for note in ranking.notes)]
    return [Fact(label, text, limit=TEXT_LIMIT) for label, text in pairs]


def _leader(ranking: RankingSummary) -> str:
    first, *others = ranking.candidates
    ahead = first.ahead_of_next
    if first.strength is None or ahead is None:
        return f"none: {ranking.reason}"
    if ahead.interval is None:
        return f"'{first.name}' leads, but nothing is known of how surely: {ahead.reason}"
    # 0 inside the interval means that a tie is not excluded, however large the difference looks.
    if ahead.interval.low > 0:
        return f"'{first.name}' is ahead of '{others[0].name}'"
    return f"'{first.name}' and '{others[0].name}' do not differ significantly: the interval of the difference contains 0"


def _decided(summary: Summary, ranking: RankingSummary) -> str:
    """Return how many comparisons both orders, and most judges, agree on."""
    of_all = counted(ranking.n_comparisons, "comparison")
    rate_text = metric_text(summary.pass_rate_metric, is_rate=True)
    return f"{rate_text} · {summary.pass_count:,} of {of_all} the same in both orders"


# Errors, and answers that did not pass


def failure_sections(view: RunReport, *, is_verbose: bool) -> Iterator[Section]:
    """Yield how many records have which error, and then which reason, with the first records of each."""
    # Errors first: they say that something has to be repeated, the others that an answer was poor.
    errors, others = [group for group in view.failures if group.is_error], [group for group in view.failures if not group.is_error]
    if errors:
        messages = tuple(
            Fact(
                "error",
                f"{group.word} ({group.record_ids[0]}): {one_line(without_code(group.word, group.message))}",
                limit=WHY_LIMIT,
            )
            for group in (errors if is_verbose else errors[:MAX_GROUPS])
            if group.message
        )
        yield Section(title="Errors", tables=(_group_table("errors", view, errors, is_verbose=is_verbose),), facts=messages)
    if others:
        yield Section(title="Not passed", tables=(_group_table(NOT_PASSED, view, others, is_verbose=is_verbose),))


def _group_table(title: str, view: RunReport, groups: Sequence[FailureGroup], *, is_verbose: bool) -> Table:
    limit = None if is_verbose else MAX_GROUPS
    omitted = 0 if limit is None else sum(group.count for group in groups[limit:])
    note = f"… and {counted(omitted, 'more record')} (--verbose lists all reasons)" if omitted else ""
    # Built from the table of several runs, so that both name and cut reasons in the same way.
    shown = failure_table([msgspec.structs.replace(view, failures=tuple(groups[:limit]))]).only(
        "records", "reason", "first records"
    )
    return msgspec.structs.replace(shown.titled(title, "reason", "records"), note=note)


def _failure_row(view: RunReport, group: FailureGroup) -> tuple[Cell, ...]:
    word = ERROR if group.is_error else NOT_PASSED
    tone: Tone = "warn" if group.is_error else "bad"
    return (Cell(view.name), Cell(word, tone=tone), Cell(group.word, tone=tone), Cell(f"{group.count:,}"), _first_records(group))


def _first_records(group: FailureGroup) -> Cell:
    more = group.count - len(group.record_ids)
    return Cell(f"and {more:,} more" if more else "", names=group.record_ids)


def failure_table(views: Sequence[RunReport]) -> Table:
    """Return a row for each run and group of records that failed in the same way."""
    columns = (
        Column("candidate", is_name=True, limit=ID_LIMIT),
        Column("result"),
        Column("reason", is_name=True, limit=ID_LIMIT),
        Column("records", is_number=True),
        Column("first records", limit=ID_LIMIT),
    )
    rows = tuple(_failure_row(view, group) for view in views for group in view.failures)
    return Table(title="Errors, and what did not pass, by reason", columns=columns, rows=rows)


def worst_section(view: RunReport, *, limit: int) -> Section:
    """Return the answers with the lowest scores, and what was said about them."""
    table = worst_table([view], why_limit=WHY_LIMIT).first(limit).only("score", "record", "why")
    return Section(title="Worst records", tables=(table.titled("worst", "record", "why"),))


def worst_table(views: Sequence[RunReport], *, why_limit: int) -> Table:
    """Return the answers with the lowest scores of each candidate."""
    columns = (
        Column("candidate", is_name=True, limit=ID_LIMIT),
        Column("record", is_name=True, limit=ID_LIMIT),
        Column("reason", is_name=True, limit=ID_LIMIT),
        Column("score", is_number=True),
        Column("why", limit=why_limit),
    )
    rows = tuple(
        (
            Cell(view.name),
            Cell(sampled_name(worst.prediction)),
            Cell(worst.label),
            Cell(_worst_score(worst, view)),
            Cell(one_line(worst.why)),
        )
        for view in views
        for worst in view.worst
    )
    return Table(title="Worst records", columns=columns, rows=rows)


def _worst_score(worst: WorstRecord, view: RunReport) -> str:
    """Return the score on its own scale, or normalized to 0-1 where the run has several scales."""
    # Scores on several scales are only comparable after they are normalized to 0-1, and the list is ordered by that.
    has_scale = view.summary is not None and view.summary.scale
    return score_of(worst.prediction) if has_scale else decimal(worst.prediction.score)
