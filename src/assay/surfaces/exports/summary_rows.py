"""Figures of a run as rows: value, interval, and the records that each is about."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from assay.api import RunReader
from assay.core.summary import (
    Interval,
    MeanBounds,
    MetricValue,
    ProfileSummary,
    RecordMetrics,
    SliceValues,
    Summary,
    TruncationSummary,
)
from assay.presentation.decisions import decision_note, decisions
from assay.presentation.run_report import RunReport
from assay.surfaces.exports.sheets import SheetColumn

Line = dict[str, Any]

SUMMARY = (
    *(SheetColumn("figure", width=30), SheetColumn("value"), SheetColumn("low"), SheetColumn("high"), SheetColumn("n")),
    *(SheetColumn("standard_error"), SheetColumn("meaning", width=100)),
)
SLICES = (
    *(
        SheetColumn("slice", width=20),
        SheetColumn("value", width=30),
        SheetColumn("n"),
        SheetColumn("pass_rate"),
        SheetColumn("pass_rate_low"),
    ),
    *(
        SheetColumn("pass_rate_high"),
        SheetColumn("score_mean"),
        SheetColumn("score_mean_low"),
        SheetColumn("score_mean_high"),
        SheetColumn("n_unscored"),
    ),
    *(SheetColumn("pass_rate_standard_error"), SheetColumn("score_mean_standard_error")),
)
_COUNTS = {
    "total_records": "all records",
    "valid_records": "those that kept to their contract",
    "evaluated_records": "those with a grade",
    "failed_records": "those with an error: invalid records, timeouts and errors of the evaluation",
    "skipped_records": "valid ones that were never evaluated",
    "invalid_records": "those that broke their contract",
    "cancelled_records": "those that were stopped",
}


def summary_rows(run: RunReader) -> Iterator[Line]:
    """Yield counts, rates with their intervals, the profile's score, times, tokens, costs, errors and the gate."""
    result, summary = run.result, run.result.summary
    for name, meaning in _COUNTS.items():
        yield {"figure": name, "value": getattr(result.counts, name), "meaning": meaning}
    if summary is None:
        return
    total = summary.total_records
    yield {
        "figure": "error_rate",
        "value": summary.error_rate,
        "n": total,
        "meaning": "errors and cancelled records, as a share of all records",
    }
    yield from _rates(summary)
    if summary.truncated is not None:
        yield from _truncated(summary.truncated)
    if summary.profile is not None:
        yield _profile(summary.profile)
    yield from _named(summary)
    yield from _spent(summary)
    for what, counts in (("error", summary.errors), ("label", summary.labels)):
        for name, count in counts.items():
            yield {"figure": f"{what}: {name}", "value": count, "n": total, "meaning": "records"}
    # The same words of the gate as in every report; the summary itself has only `passed`.
    view = RunReport(result=result, manifest=run.run_manifest)
    for decision in decisions(view):
        yield {"figure": "gate", "value": decision.word, "meaning": decision.reason}
    note = decision_note(view)
    if note:
        yield {"figure": "note", "meaning": note}


def _truncated(truncated: TruncationSummary) -> Iterator[Line]:
    yield {
        "figure": "truncated",
        "value": truncated.n,
        "n": truncated.n_answers,
        "meaning": "answers that were cut off at the output limit",
    }
    yield {"figure": "truncated_share", "value": truncated.share, "n": truncated.n_answers, "meaning": "their share of the answers"}
    for name, what in (("pass_rate", "pass rate"), ("score_mean", "mean score from 0 to 1"), ("raw_score_mean", "mean score")):
        meaning = f"{what} of the whole answers"
        yield {
            "figure": f"{name}_without_truncated",
            "value": getattr(truncated, f"{name}_without"),
            "n": truncated.n_without,
            "meaning": meaning,
        }


class _Rate(msgspec.Struct, frozen=True, kw_only=True):
    """A rate or a mean with both of its intervals."""

    name: str
    meaning: str
    value: float | None
    interval: Interval | None
    error: float | None
    cluster_interval: Interval | None
    cluster_error: float | None
    bounds: MeanBounds | None = None


def _rates(summary: Summary) -> Iterator[Line]:
    rates = (
        _Rate(
            name="pass_rate",
            meaning="share of the records with a score that passed",
            value=summary.pass_rate,
            interval=summary.pass_rate_interval,
            error=summary.pass_rate_standard_error,
            cluster_interval=summary.pass_rate_cluster_interval,
            cluster_error=summary.pass_rate_cluster_standard_error,
            bounds=summary.pass_rate_bounds,
        ),
        _Rate(
            name="score_mean",
            meaning="mean of the scores from 0 to 1",
            value=summary.score_mean,
            interval=summary.score_mean_interval,
            error=summary.score_mean_standard_error,
            cluster_interval=summary.score_mean_cluster_interval,
            cluster_error=summary.score_mean_cluster_standard_error,
            bounds=summary.score_mean_bounds,
        ),
        _Rate(
            name="raw_score_mean",
            meaning="mean on the scale that all records share",
            value=summary.raw_score_mean,
            interval=summary.raw_score_mean_interval,
            error=summary.raw_score_mean_standard_error,
            cluster_interval=summary.raw_score_mean_cluster_interval,
            cluster_error=summary.raw_score_mean_cluster_standard_error,
        ),
    )
    for found in rates:
        yield _row(found.name, found.value, _ends(found.interval, summary.n_scored, found.meaning), found.error)
        # Both intervals are listed: which one counts depends on whether clusters were declared.
        if found.cluster_interval is not None:
            ends = _ends(found.cluster_interval, summary.n_scored, "each cluster of records counts once")
            yield _row(f"{found.name}, by cluster", found.value, ends, found.cluster_error)
        if found.bounds is not None and summary.n_unscored:
            ends = {"low": found.bounds.worst, "high": found.bounds.best, "n": found.bounds.n}
            meaning = "if all records without a score had the worst, or the best one"
            yield {"figure": f"{found.name}, bounds", **ends, "meaning": meaning}


def _named(summary: Summary) -> Iterator[Line]:
    """Yield the rates and means of checks and graders, by name."""
    for name, check in summary.checks.items() if isinstance(summary.checks, dict) else ():
        passed, mean = check.pass_rate_metric, check.score_mean_metric
        yield _metric(f"checks.{name}", passed, "share of the answers with a result of the check that pass it")
        if check.type == "similarity":
            yield _metric(f"checks.{name}, score_mean", mean, "mean similarity from 0 to 1")
        if check.n_unknown:
            yield {"figure": f"checks.{name}, n_unknown", "value": check.n_unknown, "meaning": "answers without a result of it"}
    for name, grader in summary.graders.items() if isinstance(summary.graders, dict) else ():
        yield _metric(f"graders.{name}", grader.pass_rate_metric, "share of the answers graded by it that pass")
        scale = f"mean score on the scale {grader.scale}" if grader.scale else "mean score from 0 to 1"
        yield _metric(f"graders.{name}, score_mean", grader.score_mean_metric, scale)
        for part, score in grader.scores.items():
            yield _metric(f"graders.{name}.{part}", score.metric, "mean of a further score, from 0 to 1")
        yield {"figure": f"graders.{name}, n_not_assessed", "value": grader.n_not_assessed, "meaning": "answers it cannot assess"}
        yield {"figure": f"graders.{name}, n_errors", "value": grader.n_errors, "meaning": "answers on which it ended in an error"}


def _metric(name: str, found: MetricValue, meaning: str) -> Line:
    return _row(name, found.value, _ends(found.interval, found.n, meaning), found.standard_error)


def _row(name: str, value: float | None, ends: Line, error: float | None) -> Line:
    return {"figure": name, "value": value, **ends, "standard_error": error}


def _ends(interval: Interval | None, n: int, meaning: str) -> Line:
    """Return the interval of a figure about n answers; where several belong together, it counts fewer."""
    if interval is None:
        return {"n": n, "meaning": meaning}
    # Answers to one record and records of one cluster are not independent, so the interval is over fewer.
    fewer = f"; the interval counts {interval.n:,} that stand for themselves" if interval.n != n else ""
    return {"low": interval.low, "high": interval.high, "n": n, "meaning": meaning + fewer}


def _profile(profile: ProfileSummary) -> Line:
    ends = _ends(profile.headline_interval, profile.n, f"official score, {profile.scale}")
    return _row(f"profile {profile.name}", profile.headline, ends, profile.metric.standard_error)


def _spent(summary: Summary) -> Iterator[Line]:
    for name, times in summary.latency_ms.by_name().items():
        for part, value in times.figures().items():
            yield {"figure": f"latency_ms, {name}, {part}", "value": value, "n": times.n, "meaning": "milliseconds"}
    for name, tokens in summary.tokens.by_name().items():
        yield {"figure": f"tokens, {name}", "value": tokens.sum, "n": tokens.n_known, "meaning": "sum where it is known"}
    cost = summary.cost_usd
    unknown = f"; of {cost.n_unknown:,} records the price is not known" if cost.n_unknown else ""
    yield {"figure": "cost_usd", "value": cost.sum, "n": cost.n_known, "meaning": f"US dollars, judges included{unknown}"}


def slice_columns(slices: Mapping[str, SliceValues]) -> tuple[SheetColumn, ...]:
    """Return the columns of slices: the usual ones, and the pass rate of each check and grader."""
    named = dict.fromkeys(name for found in slices.values() for metrics in found.values for name in _named_rates(metrics))
    return (*SLICES, *(SheetColumn(name, width=20) for name in named))


def _named_rates(metrics: RecordMetrics) -> Line:
    found: Line = {}
    for member in ("checks", "graders"):
        named = getattr(metrics, member)
        for name, one in named.items() if isinstance(named, dict) else ():
            found[f"{member}.{name}"] = one.pass_rate
    return found


def slice_rows(slices: Mapping[str, SliceValues]) -> Iterator[Line]:
    """Yield a row for each value of each slice."""
    for name, found in slices.items():
        for metrics in found.values:
            passed, mean = metrics.pass_rate_metric, metrics.score_mean_metric
            yield {
                "slice": name,
                "value": metrics.value,
                "n": metrics.n_scored,
                "n_unscored": metrics.n_unscored,
                "pass_rate": passed.value,
                "pass_rate_low": None if passed.interval is None else passed.interval.low,
                "pass_rate_high": None if passed.interval is None else passed.interval.high,
                "score_mean": mean.value,
                "score_mean_low": None if mean.interval is None else mean.interval.low,
                "score_mean_high": None if mean.interval is None else mean.interval.high,
                "pass_rate_standard_error": passed.standard_error,
                "score_mean_standard_error": mean.standard_error,
                **_named_rates(metrics),
            }
        if found.n_values_omitted:
            yield {"slice": name, "value": f"and {found.n_values_omitted:,} more values that the run does not list"}
