"""The figures of a run as rows: value, interval, and the records that each is about."""

from collections.abc import Iterator
from typing import Any

from assay.api import RunReader
from assay.core.metrics_summary import cluster_interval_of, error_of, interval_of, latencies
from assay.surfaces.exports.sheets import SheetColumn
from assay.surfaces.reporters.run_decision import decision_note, decisions
from assay.surfaces.reporters.run_view import RunReport

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
_RATES = {
    "pass_rate": "share of the records with a score that passed",
    "score_mean": "mean of the scores from 0 to 1",
    "raw_score_mean": "mean on the scale that all records share",
}


def summary_rows(run: RunReader) -> Iterator[Line]:
    """Counts, rates with their intervals, the profile's score, times, tokens, costs, errors and the gate."""
    result = run.result
    metrics = result.metrics
    for name, meaning in _COUNTS.items():
        yield {"figure": name, "value": getattr(result.counts, name), "meaning": meaning}
    if not metrics:
        return
    total = metrics["total_records"]
    yield {
        "figure": "error_rate",
        "value": metrics["error_rate"],
        "n": total,
        "meaning": "errors and cancelled records, as a share of all records",
    }
    for name, meaning in _RATES.items():
        yield from _rates(metrics, name, meaning)
    yield from _profile(metrics.get("profile"))
    yield from _spent(metrics)
    for what, counts in (("error", metrics["errors"]), ("label", metrics["labels"])):
        for name, count in counts.items():
            yield {"figure": f"{what}: {name}", "value": count, "n": total, "meaning": "records"}
    view = RunReport(result=result, manifest=run.run_manifest)
    for decision in decisions(view):
        yield {"figure": "gate", "value": decision.word, "meaning": decision.reason}
    note = decision_note(view)
    if note:
        yield {"figure": "note", "meaning": note}


def _rates(metrics: Line, name: str, meaning: str) -> Iterator[Line]:
    ends = _ends(metrics[f"{name}_interval"], metrics["n_scored"], meaning)
    yield {"figure": name, "value": metrics[name], **ends, "standard_error": metrics.get(f"{name}_standard_error")}
    clustered = cluster_interval_of(metrics, name)
    if clustered:
        ends = _ends(clustered, metrics["n_scored"], "records that hang together count once")
        error = metrics.get(f"{name}_cluster_standard_error")
        yield {"figure": f"{name}, by cluster", "value": metrics[name], **ends, "standard_error": error}
    bounds = metrics.get(f"{name}_bounds")
    if bounds and metrics["n_unscored"]:
        ends = {"low": bounds["worst"], "high": bounds["best"], "n": bounds["n"]}
        yield {"figure": f"{name}, bounds", **ends, "meaning": "if all records without a score had the worst, or the best one"}


def _ends(interval: Line | None, n: int, meaning: str) -> Line:
    """The interval of a figure about n answers; where several belong together, it counts fewer."""
    if interval is None:
        return {"n": n, "meaning": meaning}
    fewer = f"; the interval counts {interval['n']:,} that stand for themselves" if interval["n"] != n else ""
    return {"low": interval["low"], "high": interval["high"], "n": n, "meaning": meaning + fewer}


def _profile(profile: Line | None) -> Iterator[Line]:
    if profile:
        ends = _ends(profile["headline_interval"], profile["n"], f"official score, {profile['scale']}")
        name = f"{profile['id']}{' (compat)' if profile['compat'] else ''}"
        yield {"figure": f"profile {name}", "value": profile["headline"], **ends, "standard_error": error_of(profile, "headline")}


def _spent(metrics: Line) -> Iterator[Line]:
    for name, times in latencies(metrics).items():
        for part, value in times.figures().items():
            yield {"figure": f"latency_ms, {name}, {part}", "value": value, "n": times.n, "meaning": "milliseconds"}
    for name, tokens in metrics["tokens"].items():
        yield {"figure": f"tokens, {name}", "value": tokens["sum"], "n": tokens["n_known"], "meaning": "sum where it is known"}
    cost = metrics["cost_usd"]
    unknown = f"; of {cost['n_unknown']:,} records the price is not known" if cost["n_unknown"] else ""
    yield {"figure": "cost_usd", "value": cost["sum"], "n": cost["n_known"], "meaning": f"US dollars, judges included{unknown}"}


def slice_rows(slices: Line) -> Iterator[Line]:
    """A row for each value of each slice."""
    for name, found in slices.items():
        for figures in found["values"]:
            rate, mean = (interval_of(figures, figure) or {} for figure in ("pass_rate", "score_mean"))
            yield {
                "slice": name,
                "value": figures["value"],
                "n": figures["n_scored"],
                "n_unscored": figures["n_unscored"],
                "pass_rate": figures["pass_rate"],
                "pass_rate_low": rate.get("low"),
                "pass_rate_high": rate.get("high"),
                "score_mean": figures["score_mean"],
                "score_mean_low": mean.get("low"),
                "score_mean_high": mean.get("high"),
                "pass_rate_standard_error": error_of(figures, "pass_rate"),
                "score_mean_standard_error": error_of(figures, "score_mean"),
            }
        if found["n_values_omitted"]:
            yield {"slice": name, "value": f"and {found['n_values_omitted']:,} more values that the run does not list"}
