"""The numbers at the top of a run's page: what it is known by, and what they are counted over."""

from collections.abc import Iterator

import msgspec

from assay.core.metrics_summary import latencies
from assay.core.summary import RunKind
from assay.surfaces.pages import display_values
from assay.surfaces.pages.display_values import DisplayValue, IntervalBar, KeyMetric, Kind
from assay.surfaces.pages.links import PageLinks
from assay.surfaces.reporters.run_numbers import duration, latency, rate_ends_text
from assay.surfaces.reporters.run_slices import shared_mean
from assay.surfaces.reporters.run_view import Json, RunReport
from assay.surfaces.reporters.wording import ERROR, NOT_PASSED, PASSED, counted, price_unknown_text


class BarSegment(msgspec.Struct, frozen=True, kw_only=True):
    """A part of all records, as a piece of one bar from 0 to 100."""

    label: str
    kind: Kind
    count: DisplayValue
    start: float
    width: float
    address: str = ""


def key_figures(view: RunReport) -> Iterator[KeyMetric]:
    """Pass rate and score, or the headline of a profile; time and cost."""
    metrics = view.result.metrics
    if view.result.kind is RunKind.RANKING:
        yield _pass_rate(metrics, label="Decided", name="share of comparisons that are the same in both orders")
    else:
        yield _pass_rate(metrics, label="Pass rate", name="pass rate")
        yield _score(view)
    yield KeyMetric(label="Cost", figure=_cost(metrics["cost_usd"]), note=_each(metrics["cost_usd"]))
    whole = latencies(metrics)["end_to_end"]
    yield KeyMetric(
        label="Time for a record",
        figure=DisplayValue(
            display_values.shown(latency(whole.p50)),
            "Median time in which calls of a record were under way, waits left out: half of the records took less.",
            f"n {whole.n:,}",
        ),
        note=display_values.most_took(whole.p95),
    )
    if view.seconds is not None:
        yield KeyMetric(label="Duration", figure=DisplayValue(duration(view.seconds), "From the first call of the run to its end."))


def _pass_rate(metrics: Json, *, label: str, name: str) -> KeyMetric:
    interval = display_values.ends(metrics, "pass_rate")
    unscored = metrics.get("n_unscored", 0)
    bounds = f"; {unscored:,} unscored: {rate_ends_text(metrics['pass_rate_bounds'])}" if unscored else ""
    return KeyMetric(
        label=label,
        figure=display_values.rate(
            metrics["pass_rate"], interval, over=display_values.basis(metrics["n_scored"], metrics, "pass_rate"), name=name
        ),
        note=f"95 % interval {display_values.rate_interval_text(interval)}{bounds}" if interval else "no record has a score",
        bar=display_values.whisker(metrics["pass_rate"], interval),
    )


def _score(view: RunReport) -> KeyMetric:
    metrics, mean = view.result.metrics, shared_mean([view])
    profile = metrics.get("profile")
    if profile:
        interval = display_values.ends(profile, "headline")
        found = display_values.score(
            profile["headline"],
            interval,
            over=display_values.basis(profile["n"], profile, "headline"),
            scale=profile["scale"],
            name=mean.title,
        )
        note = f"scale {profile['scale']} · 95 % interval {display_values.interval_text(interval)}"
        return KeyMetric(label=mean.title, figure=found, note=note, bar=_bar(profile["headline"], interval, profile["scale"]))
    scale = metrics["scale"] or "0-1"
    interval = display_values.ends(metrics, mean.member)
    over = display_values.basis(metrics["n_scored"], metrics, mean.member)
    found = display_values.score(metrics[mean.member], interval, over=over, scale=scale, name=mean.title)
    several = "" if metrics["scale"] or not metrics["n_scored"] else "mixed scales, normalized to 0-1 · "
    known = f"{several}scale {scale}" if metrics["n_scored"] else "no record has a score"
    note = f"{known} · 95 % interval {display_values.interval_text(interval)}" if interval else known
    return KeyMetric(label=mean.title.capitalize(), figure=found, note=note, bar=_bar(metrics[mean.member], interval, scale))


def _bar(value: float | None, interval: tuple[float, float] | None, scale: str) -> IntervalBar | None:
    return display_values.whisker(value, interval, domain=display_values.domain(scale))


def _cost(cost: Json) -> DisplayValue:
    found = display_values.money(cost["sum"], unpriced=cost["n_unknown"])
    return msgspec.structs.replace(found, n=f"n {cost['n_known']:,}" if cost["sum"] is not None else "")


def _each(cost: Json) -> str:
    if cost["sum"] is None:
        return price_unknown_text(cost["n_unknown"], "record")
    return f"{display_values.money(cost['mean']).text} for a record"


_GRADED = ("Graded and passed.", "Graded and not passed.")
_DECIDED = ("Comparisons with the same winner in both orders.", "Comparisons whose two orders disagree.")


def shares(view: RunReport, place: PageLinks) -> tuple[BarSegment, ...]:
    """What came of all records of a finished run; the counts add up to their number."""
    counts, metrics, run_id = view.result.counts, view.result.metrics, view.result.run_id
    total = counts.total_records
    passed = metrics.get("pass_count", 0)
    graded = counts.evaluated_records
    good, poor = ("decided", "not decided") if view.result.kind is RunKind.RANKING else (PASSED, NOT_PASSED)
    words = _DECIDED if view.result.kind is RunKind.RANKING else _GRADED
    invalid = f"; {counts.invalid_records:,} of them invalid, and not sent" if counts.invalid_records else ""
    parts: tuple[tuple[str, Kind, int, str, dict[str, str]], ...] = (
        (good, "good", passed, words[0], {"passed": "true"}),
        (
            poor,
            "bad",
            graded - passed,
            words[1],
            {"passed": "false"},
        ),
        (
            ERROR,
            "warn",
            counts.failed_records,
            f"Without a grade because of an error, which is never a score{invalid}.",
            {"status": "error"},
        ),
        (
            "cancelled",
            "quiet",
            counts.cancelled_records,
            "Not evaluated: the run was cancelled, its budget was spent, or its provider took no more calls.",
            {"status": "cancelled"},
        ),
        (
            "skipped",
            "quiet",
            counts.skipped_records - counts.cancelled_records,
            "Never evaluated.",
            {"status": "skipped"},
        ),
    )
    found, start = [], 0.0
    for label, kind, count, says, query in parts:
        width = 100 * count / total if total else 0.0
        address = place.records(run_id, **query) if query and count else ""
        figure = DisplayValue(
            f"{count:,}", f"{says} {count:,} of {counted(total, 'record')}.", display_values.share(count, total).text
        )
        found.append(
            BarSegment(label=label, kind=kind, count=figure, start=round(start, 3), width=round(width, 3), address=address)
        )
        start += width
    return tuple(share for share in found if share.count.text != "0" or share.label in (good, poor, ERROR))
