"""Details of a run: key metrics, shares of all records, errors by code, times, spending, settings, hashes, files and charts."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath

import msgspec

from assay import api
from assay.core.gate_text import gate_texts
from assay.core.manifest import Manifest
from assay.core.number_text import plain_number
from assay.core.plan import Plan
from assay.core.summary import (
    AmountSummary,
    CandidateSummary,
    LatencySummary,
    MetricValue,
    PanelSummary,
    RankingSummary,
    RecordMetrics,
    RepeatSummary,
    ScoreCount,
    Summary,
    ToolCallSummary,
    TruncationSummary,
)
from assay.presentation import words
from assay.presentation.charts import (
    Chart,
    DistributionPlot,
    IntervalPlot,
    IntervalRow,
    PlottedEstimate,
    ReferenceLine,
    ScoreLevel,
)
from assay.presentation.run import (
    MeanKind,
    panel_facts,
    profile_text,
    ranking_facts,
    repeat_facts,
    shared_mean,
    tool_calls_text,
    truncation_text,
)
from assay.presentation.run_report import RunReport
from assay.presentation.sections import (
    NO_LINKS,
    Badge,
    BarSegment,
    Cell,
    Column,
    DisplayValue,
    Fact,
    KeyMetric,
    RecordLinks,
    Table,
    Tone,
)
from assay.presentation.subject import grading_word
from assay.presentation.words import (
    ERROR,
    NO_VALUE,
    NOT_PASSED,
    PASSED,
    UNKNOWN,
    bounds_text,
    counted,
    decimal,
    domain,
    duration,
    ends_of,
    first_datasets,
    latency,
    money,
    pass_rate_value,
    price_unknown_text,
    rate,
    share,
)


def error_table(view: RunReport, links: RecordLinks = NO_LINKS) -> Table | None:
    """Return records without a grade, by the code of what kept them from one; None where all have theirs."""
    # Where the records were removed, the summary still has the codes.
    errors = view.errors or ({} if view.summary is None else view.summary.errors)
    total, run_id = view.result.counts.total_records if view.summary is None else view.summary.total_records, view.result.run_id
    columns = (
        Column("error", "The code of what left a record without a grade. An error is never a score."),
        Column("records", "How many records ended with it.", is_number=True),
        Column("share", "Of all records of the run.", is_number=True),
    )
    rows = tuple(
        (
            Cell(code, link=links.records(run_id, code=code), is_code=True),
            Cell(f"{count:,}", f"{counted(count, 'record')} of {total:,}"),
            _share_cell(count, total),
        )
        for code, count in _by_count(errors)
    )
    return Table(title="Errors by code", columns=columns, rows=rows) if rows else None


def reason_table(view: RunReport) -> Table | None:
    """Return answers that did not pass, by reason; None where all passed."""
    total = sum(view.reasons.values())
    columns = (
        Column("reason", "What is wrong with an answer, in the words of the contract."),
        Column("records", "Answers that did not pass.", is_number=True),
        Column("share", "Of all answers that did not pass.", is_number=True),
    )
    rows = tuple(
        (Cell(reason.replace("_", " ")), Cell(f"{count:,}", f"of {total:,}"), _share_cell(count, total))
        for reason, count in _by_count(view.reasons)
    )
    return Table(title="Not passed, by reason", columns=columns, rows=rows) if rows else None


def _by_count(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _share_cell(count: int, total: int) -> Cell:
    found = share(count, total)
    return Cell(found.text, found.says)


# Key metrics


def key_metrics(view: RunReport) -> Iterator[KeyMetric]:
    """Yield pass rate and score, or the headline of a profile; time and cost."""
    summary = view.summary
    if summary is None:
        return
    if view.is_ranking:
        yield _pass_rate_key(summary, label="Decided", name="share of comparisons that are the same in both orders")
    else:
        yield _pass_rate_key(summary, label="Pass rate", name="pass rate")
        yield _score_key(view, summary)
        if summary.truncated is not None and summary.truncated.n:
            yield _truncated_key(summary.truncated, scale=summary.scale)
        if summary.tool_calls is not msgspec.UNSET:
            yield _tool_calls_key(summary.tool_calls)
    yield _cost_key(summary.cost_usd)
    whole = summary.latency_ms.end_to_end
    yield KeyMetric(
        label="Time for a record",
        figure=DisplayValue(
            words.shown(latency(whole.p50)),
            "Median time in which calls of a record were under way, waits left out: half of the records took less.",
            f"n {whole.n:,}",
        ),
        note=words.most_took(whole.p95),
    )
    if view.seconds is not None:
        yield KeyMetric(label="Duration", figure=DisplayValue(duration(view.seconds), "From the first call of the run to its end."))


def _pass_rate_key(summary: Summary, *, label: str, name: str) -> KeyMetric:
    ends, unscored = ends_of(summary.pass_rate_metric.interval), summary.n_unscored
    # Unscored records could have passed or not: the bounds say what they would make of the rate.
    bounds = f"; {unscored:,} unscored: {bounds_text(summary.pass_rate_bounds, is_rate=True)}" if unscored else ""
    figure = pass_rate_value(summary, name=name)
    note = f"95 % interval {words.interval_text(ends, is_rate=True)}{bounds}" if ends else "no record has a score"
    return KeyMetric(label=label, figure=figure, note=note, bar=figure.bar)


def _score_key(view: RunReport, summary: Summary) -> KeyMetric:
    mean = shared_mean([view])
    figure, is_profile = mean.value(summary), mean.source == "profile"
    several = "" if is_profile or summary.scale or not summary.n_scored else "mixed scales, normalized to 0-1 · "
    ends = ends_of(mean.metric(summary).interval)
    known = f"{several}scale {mean.scale(summary)}" if summary.n_scored or is_profile else "no record has a score"
    note = f"{known} · 95 % interval {words.interval_text(ends)}" if ends or is_profile else known
    label = mean.title if is_profile else mean.title.capitalize()
    return KeyMetric(label=label, figure=figure, note=note, bar=figure.bar)


def _tool_calls_key(calls: ToolCallSummary) -> KeyMetric:
    figure = DisplayValue(
        words.shown(rate(calls.correct_rate)),
        "Share of the expected tool calls that were made with the right arguments.",
        f"n {calls.scored:,}",
    )
    return KeyMetric(label="Tool calls", figure=figure, note=tool_calls_text(calls))


def _truncated_key(truncated: TruncationSummary, *, scale: str | None) -> KeyMetric:
    figure = DisplayValue(
        f"{truncated.n:,}",
        "Answers that ended at the output limit of the model or of the run: what they lack is unknown.",
        f"n {truncated.n_answers:,}",
    )
    return KeyMetric(label="Truncated answers", figure=figure, note=truncation_text(truncated, scale=scale))


def _cost_key(cost: AmountSummary) -> KeyMetric:
    found = money(cost.sum, unpriced=cost.n_unknown)
    # Calls of unknown price are not free: the mean is over the records with a known price.
    each = f"{money(cost.mean).text} for a record" if cost.sum is not None else price_unknown_text(cost.n_unknown, "record")
    n = f"n {cost.n_known:,}" if cost.sum is not None else ""
    return KeyMetric(label="Cost", figure=msgspec.structs.replace(found, n=n), note=each)


_GRADED = ("Graded and passed.", "Graded and not passed.")
_DECIDED = ("Comparisons with the same winner in both orders.", "Comparisons whose two orders disagree.")


def shares(view: RunReport, links: RecordLinks = NO_LINKS) -> tuple[BarSegment, ...]:
    """Return what came of all records of a finished run; the counts add up to their number."""
    counts, run_id = view.result.counts, view.result.run_id
    total, graded = counts.total_records, counts.evaluated_records
    passed = 0 if view.summary is None else view.summary.pass_count
    good, poor = ("decided", "not decided") if view.is_ranking else (PASSED, NOT_PASSED)
    says_good, says_poor = _DECIDED if view.is_ranking else _GRADED
    invalid = f"; {counts.invalid_records:,} of them invalid, and not sent" if counts.invalid_records else ""
    cancelled = "Not evaluated: the run was cancelled, its budget was spent, or its provider took no more calls."
    parts: tuple[tuple[str, Tone, int, str, dict[str, str]], ...] = (
        (good, "good", passed, says_good, {"passed": "true"}),
        (poor, "bad", graded - passed, says_poor, {"passed": "false"}),
        (
            ERROR,
            "warn",
            counts.failed_records,
            f"Without a grade because of an error, which is never a score{invalid}.",
            {"status": "error"},
        ),
        ("cancelled", "quiet", counts.cancelled_records, cancelled, {"status": "cancelled"}),
        # Cancelled records are among the skipped ones; the bar has each record once.
        ("skipped", "quiet", counts.skipped_records - counts.cancelled_records, "Never evaluated.", {"status": "skipped"}),
    )
    found, start = [], 0.0
    for label, kind, count, says, query in parts:
        width = 100 * count / total if total else 0.0
        figure = DisplayValue(f"{count:,}", f"{says} {count:,} of {counted(total, 'record')}.", share(count, total).text)
        address = links.records(run_id, **query) if count else ""
        # These three are always named, so that a run without errors says so.
        if count or label in (good, poor, ERROR):
            found.append(
                BarSegment(label=label, kind=kind, count=figure, start=round(start, 3), width=round(width, 3), address=address)
            )
        # Added up before rounding, so that rounding errors do not leave a gap before the last segment.
        start += width
    return tuple(found)


# Times, spending, settings, hashes and files

_TIMES = {
    "p50": ("half below", "The median (p50): half of the records took less."),
    "p95": ("95 % below", "The 95th percentile (p95)."),
    "mean": ("mean", "The arithmetic mean."),
    "max": ("longest", "The largest value."),
}


def latency_table(view: RunReport, summary: Summary) -> Table:
    """Return how long the calls took."""
    is_grader = grading_word(view.plan) == "grader"
    names = {
        "model": ("Candidate", "The candidate's call that was answered."),
        "judge": ("Grader", "Time that the run's own grader took on a record.")
        if is_grader
        else ("Judges", "Time with at least one judge call in flight for a record."),
        "end_to_end": (
            "Whole record",
            "Time in which at least one call of a record was under way, calls without a reply included.",
        ),
    }
    rows = tuple(
        (
            Cell(*names[name]),
            Cell(f"{found.n:,}"),
            *(Cell(latency(value)) for value in found.figures().values()),
        )
        # A stage that was never called (no judge, a prefilled candidate) has no row.
        for name, found in summary.latency_ms.by_name().items()
        if found.n
    )
    columns = (
        Column("latency", "How long calls took; waits between attempts are left out."),
        Column("records", "Records with a known time.", is_number=True),
        # In the order of the struct, which is that of `figures`.
        *(Column(*_TIMES[member], is_number=True) for member in LatencySummary.__struct_fields__ if member != "n"),
    )
    return Table(title="Latency", columns=columns, rows=rows)


def spending_table(summary: Summary) -> Table:
    """Return what was used and paid."""
    cost = summary.cost_usd
    head = (
        Cell("Cost", "US dollars of candidate and judges."),
        money(cost.sum, unpriced=cost.n_unknown),
        money(cost.mean),
        Cell(f"{cost.n_known:,}"),
        Cell(f"{cost.n_unknown:,}"),
    )
    rows = tuple(
        (
            Cell("Tokens of judges" if name == "judge" else f"Tokens, {name}"),
            Cell(f"{found.sum:,}"),
            Cell(UNKNOWN if found.mean is None else f"{found.mean:,.1f}"),
            Cell(f"{found.n_known:,}"),
            Cell(f"{found.n_unknown:,}"),
        )
        for name, found in summary.tokens.by_name().items()
        if found.sum is not None
    )
    columns = (
        Column("spending", "Tokens are those of the candidate, but for the row of the judges."),
        Column("sum", "Over all records with a known value.", is_number=True),
        Column("each", "Mean of the records with a known value.", is_number=True),
        Column("known", "Records with a known value.", is_number=True),
        Column("unknown", "Records without a value from the provider, or of unknown price.", is_number=True),
    )
    return Table(title="Spending", columns=columns, rows=(head, *rows))


def note_facts(summary: Summary) -> Iterator[Fact]:
    """Yield what repeats, panels, rankings and profiles say, each under its label."""
    facts: list[Fact] = [
        *(repeat_facts(summary.repeats) if isinstance(summary.repeats, RepeatSummary) else ()),
        *(panel_facts(summary.panel) if isinstance(summary.panel, PanelSummary) else ()),
        *(ranking_facts(summary.ranking) if isinstance(summary.ranking, RankingSummary) else ()),
        *([Fact("profile", profile_text(summary.profile))] if summary.profile is not None else ()),
    ]
    label = ""
    # A fact without a label continues the one before it; in a list of notes each needs its own.
    for fact in facts:
        label = fact.label or label
        if fact.text != UNKNOWN:
            yield msgspec.structs.replace(fact, label=label)


def setting_facts(plan: Plan) -> Iterator[Fact]:
    """Yield the settings that decide what the numbers mean."""
    yield Fact("gates", ", ".join(gate.asked for gate in gate_texts(plan.gates, None)) or "none")
    yield Fact("concurrency", str(plan.concurrency))
    yield Fact("attempts", f"at most {plan.retry.max_attempts} at each record")
    yield Fact("answers to a record", str(plan.repeat))
    yield Fact("seed", str(plan.seed))
    cost = None if plan.max_cost is None else plain_number(plan.max_cost)
    for label, value in (("sample", plan.sample), ("limit", plan.limit), ("largest cost", cost), ("profile", plan.profile)):
        if value is not None:
            yield Fact(label, str(value))
    yield Fact("passing score", f"{plan.case_pass_score} on 1-5, {plain_number(plan.pass_threshold)} on 0-1")


_PATHS = frozenset(("path", "folder", "reference", "responses_path", "cache_dir"))
"""Members of a plan and of its sections that hold a path."""


def plan_text(members: Mapping[str, object]) -> str:
    """Format the plan in a manifest as JSON, with names of files in place of their paths, which are for no other machine."""
    shown: dict[str, object] = {name: _file_name(name, value) for name, value in members.items()}
    shown |= {section: _without_folders(members[section]) for section in ("datasets", "plugins") if section in members}
    if isinstance(comparison := members.get("comparison"), dict):
        shown["comparison"] = {**comparison, "runs": _without_folders(comparison.get("runs"))}
    return msgspec.json.format(msgspec.json.encode(shown), indent=2).decode()


def _without_folders(parts: object) -> list[dict[str, object]]:
    return [{name: _file_name(name, value) for name, value in part.items()} for part in parts] if isinstance(parts, list) else []


def _file_name(name: str, value: object) -> object:
    return PurePath(value).name if name in _PATHS and isinstance(value, str) else value


def hash_facts(manifest: Manifest) -> Iterator[Fact]:
    """Yield the hashes that identify a run."""
    named = (
        ("manifest", manifest.own_hash),
        ("plan", manifest.plan_sha256),
        ("records (Merkle root)", manifest.records_merkle_root),
        ("attempts (hash chain)", manifest.attempt_chain_sha256),
    )
    yield from (Fact(label, digest, is_hash=True) for label, digest in named if digest)
    datasets, more = first_datasets(manifest.plan.datasets)
    for dataset in datasets:
        if dataset.sha256:
            yield Fact(f"dataset {dataset.title}", dataset.sha256, is_hash=True)
    if more:
        yield Fact("datasets", f"{more}; all hashes are in manifest.json")
    if manifest.assay_version:
        yield Fact("made with", f"assay {manifest.assay_version}")


def artifact_table(
    manifest: Manifest, *, run_id: str, links: RecordLinks, files: Iterable[str], problems: Sequence[api.FileProblem] | None
) -> Table:
    """Return the files of a finished run, of which `files` are there; `problems` is what a verification found, None before one."""
    known = manifest.files
    there = set(files)
    columns = (
        Column("file", "A file of the run's folder."),
        Column("size", "A KB has 1024 bytes.", is_number=True),
        Column("lines", "Lines of the file.", is_number=True),
        Column("state", "Whether the file is as it was published; verifying reads it and compares its hash."),
        Column("SHA-256", "From the manifest."),
    )
    rows = []
    # The manifest is not among the files that it names: it holds the hash of every other one and its own.
    for name in dict.fromkeys(("run_manifest.json", *sorted(known))):
        is_there, entry = name in there, known.get(name)
        head = Cell(name, link=links.artifact(run_id, name) if is_there else "", is_code=True)
        state = _condition(name, is_there=is_there, problems=problems)
        if entry is None:
            rows.append((head, Cell(UNKNOWN), Cell(UNKNOWN), state, Cell("names and hashes all others")))
        else:
            size, lines = words.size(entry.bytes), f"{entry.lines:,}"
            rows.append((head, Cell(size), Cell(lines), state, Cell(entry.sha256, is_code=True)))
    return Table(title="Artifacts", columns=columns, rows=tuple(rows))


def _condition(name: str, *, is_there: bool, problems: Sequence[api.FileProblem] | None) -> Cell:
    found = [str(problem) for problem in problems or () if problem.name == name]
    if found:
        # Only artifacts that retention has removed may be absent, so absence alone is not damage; a verification
        # tells the difference.
        return Cell("not as published", "; ".join(found), tone="bad")
    if not is_there:
        return Cell("removed", "Retention has removed it; its hash stays.", tone="quiet")
    if problems is None:
        return Cell("not checked", "Verify the files to compare it with its hash.", tone="quiet")
    return Cell("as published", "Its SHA-256, bytes and lines are those of the manifest.", tone="good")


def verification_mark(problems: Sequence[api.FileProblem]) -> Badge:
    """Return what a verification of all files came to."""
    if problems:
        return Badge("not as published", "bad", "Some files do not match the manifest; they are listed below.")
    return Badge("verified", "good", "Every file is as it was published, and the hashes of records and attempts fit together.")


# Charts: scores of each run, slices, and candidates side by side

_INTERVALS = "95 % intervals"
_UNIT = (0.0, 1.0)


def run_charts(views: Sequence[RunReport]) -> list[Chart]:
    """Return all charts of runs that have metrics; what the runs have nothing for is left out."""
    shown = [view for view in views if view.summary is not None]
    is_one = len(shown) == 1
    rankings = [chart for view in shown if view.is_ranking for chart in _ranking(view, is_one=is_one)]
    graded = [view for view in shown if not view.is_ranking]
    if not graded:
        return rankings
    # Where all runs are rankings there is nothing else to draw.
    names, mean, is_one = _names(graded), shared_mean(graded), len(graded) == 1
    return [
        *rankings,
        *(() if is_one else _candidates(graded, names, mean=mean)),
        *(chart for view, name in zip(graded, names, strict=True) for chart in _distributions(view, name, is_one=is_one)),
        *(_slice_charts(graded, names, mean=mean) if any(view.slices for view in graded) else ()),
    ]


def _summary(view: RunReport) -> Summary:
    """Return the metrics of a run that has some; raises ValueError otherwise."""
    if view.summary is None:
        raise ValueError("only runs with metrics are drawn")
    return view.summary


def _ranking(view: RunReport, *, is_one: bool) -> Iterator[Chart]:
    """Yield the chance of each candidate to beat the average one; nothing if the comparisons order no candidates."""
    ranking = _summary(view).ranking
    candidates = ranking.candidates if isinstance(ranking, RankingSummary) else ()
    rows = tuple(
        IntervalRow(one.name, _estimate(one.win_chance, n=_met(one), is_rate=True)) for one in candidates if one.win_chance
    )
    if rows:
        yield Chart(
            name="ranking.svg" if is_one else f"ranking-{view.result.run_id}.svg",
            title="Chance of beating the average candidate",
            note=f"{_datasets(view)} · consistent wins in both orders · {_INTERVALS}",
            plot=IntervalPlot(rows=rows, domain=_UNIT, reference=ReferenceLine(0.5, "average")),
        )


def _met(candidate: CandidateSummary) -> int:
    return candidate.wins + candidate.losses + candidate.ties + candidate.inconsistent


def _names(views: Sequence[RunReport]) -> list[str]:
    """Return the candidates; where one has several runs, with the id of each."""
    # A candidate that was run twice would otherwise be two rows of the same name.
    counts = Counter(view.name for view in views)
    return [view.name if counts[view.name] == 1 else f"{view.name} · {view.result.run_id}" for view in views]


def _candidates(views: Sequence[RunReport], names: Sequence[str], *, mean: MeanKind) -> Iterator[Chart]:
    note = f"{_datasets(views[0])} · {_INTERVALS}"
    for name, title, estimate, span, gate in (
        ("candidates.svg", "Pass rate by candidate", _pass_rate, _UNIT, "pass_rate"),
        ("candidates-score.svg", f"{mean.title.capitalize()} by candidate", _mean(mean), _domain(views, mean), "min_score"),
    ):
        rows = tuple(IntervalRow(label, estimate(_summary(view))) for label, view in zip(names, views, strict=True))
        yield Chart(name=name, title=title, note=note, plot=IntervalPlot(rows=rows, domain=span, reference=_gate(views, gate)))


def _distributions(view: RunReport, name: str, *, is_one: bool) -> Iterator[Chart]:
    summary = _summary(view)
    found = summary.score_distribution
    for scale, levels in found.items():
        # The files of a single run are called the same for every run, so that links to them last; `/` cannot be
        # in a file name.
        parts = ["distribution", *([] if is_one else [view.result.run_id]), *([scale.replace("/", "_")] if len(found) > 1 else [])]
        unscored = f" · {counted(summary.n_unscored, 'record')} without a score" if summary.n_unscored else ""
        n = sum(level.count for level in levels)
        mean = _estimate(summary.raw_score_mean_metric, n=summary.n_scored) if summary.scale == scale else None
        yield Chart(
            name=f"{'-'.join(parts)}.svg",
            title="How often each score was given",
            note=f"{name} · scale {scale} · {counted(n, 'score')}{unscored}",
            plot=DistributionPlot(levels=tuple(map(_level, levels)), domain=domain(scale), mean=mean),
            subject="" if is_one else name,
        )


def _level(level: ScoreCount) -> ScoreLevel:
    if level.score is not msgspec.UNSET:
        return ScoreLevel(level.score, level.score, level.count)
    low, high = (0.0 if end is msgspec.UNSET else end for end in (level.start, level.end))
    return ScoreLevel(low, high, level.count)


def _slice_charts(views: Sequence[RunReport], names: Sequence[str], *, mean: MeanKind) -> Iterator[Chart]:
    note = f"{names[0]} · {_INTERVALS}" if len(views) == 1 else f"{_datasets(views[0])} · {_INTERVALS}"
    omitted = max(view.omitted_slice_values for view in views)
    for name, title, estimate, span in (
        ("slices.svg", "Pass rate by slice", _pass_rate, _UNIT),
        ("slices-score.svg", f"{mean.title.capitalize()} by slice", _mean(mean), _domain(views, mean)),
    ):
        rows = tuple(_slice_rows(views, names, estimate))
        yield Chart(name=name, title=title, note=note, plot=IntervalPlot(rows=rows, domain=span, omitted=omitted))


def _slice_rows(
    views: Sequence[RunReport], names: Sequence[str], estimate: Callable[[RecordMetrics], PlottedEstimate]
) -> list[IntervalRow]:
    """Return the rows of the slices: grouped by slice for one run, by slice and value for several."""
    if len(views) == 1:
        return [IntervalRow(_slice_value(found.value), estimate(found.figures), found.name) for found in views[0].slices]
    values: dict[str, list[IntervalRow]] = {}
    for view, name in zip(views, names, strict=True):
        for found in view.slices:
            group = f"{found.name}: {_slice_value(found.value)}"
            values.setdefault(group, []).append(IntervalRow(name, estimate(found.figures), group))
    return [row for rows in values.values() for row in rows]


def _slice_value(value: str | None) -> str:
    return NO_VALUE if value is None else value


def _pass_rate(metrics: RecordMetrics) -> PlottedEstimate:
    return _estimate(metrics.pass_rate_metric, n=metrics.n_scored, is_rate=True)


def _mean(mean: MeanKind) -> Callable[[RecordMetrics], PlottedEstimate]:
    def estimate(metrics: RecordMetrics) -> PlottedEstimate:
        found = mean.metric(metrics)
        return _estimate(found, n=metrics.n_scored if mean.source != "profile" else found.n)

    return estimate


def _estimate(metric: MetricValue, *, n: int, is_rate: bool = False) -> PlottedEstimate:
    low, high = (None, None) if metric.interval is None else (metric.interval.low, metric.interval.high)
    return PlottedEstimate(low, metric.value, high, n, is_rate)


def _domain(views: Sequence[RunReport], mean: MeanKind) -> tuple[float, float]:
    return domain(mean.scale(_summary(views[0])))


def _gate(views: Sequence[RunReport], member: str) -> ReferenceLine | None:
    """Return the gate, where all runs have the same."""
    # Runs with different gates have no line that is true for all rows.
    gates = {getattr(view.plan.gates, member) for view in views}
    value = gates.pop() if len(gates) == 1 else None
    return None if value is None else ReferenceLine(value, f"gate {rate(value) if member == 'pass_rate' else decimal(value)}")


def _datasets(view: RunReport) -> str:
    datasets, more = first_datasets(view.plan.datasets)
    return ", ".join(dataset.title for dataset in datasets) + (more and f" {more}")
