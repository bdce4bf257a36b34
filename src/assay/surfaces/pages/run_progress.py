"""How a run goes that has not ended: counts, pace, the last failures, and what can be done about it."""

from collections.abc import Sequence

import msgspec

from assay import api
from assay.core.artifact_lines import FailureLine
from assay.core.run_result import RunResult
from assay.presentation import words
from assay.presentation.sections import Badge, DisplayValue, Fact, KeyMetric
from assay.presentation.words import counted, duration, latency, without_code
from assay.surfaces.pages.page_renderer import PageLinks

MESSAGE_LIMIT = 300


class RunActions(msgspec.Struct, frozen=True, kw_only=True):
    """What the reader may do with the run now."""

    may_cancel: bool = False
    may_resume: bool = False


class RunProgressView(msgspec.Struct, frozen=True, kw_only=True):
    """How a run goes that has not ended."""

    run_id: str
    state: Badge
    done: int
    total: int
    text: str
    counts: tuple[KeyMetric, ...]
    pace: str
    """How fast it goes and how long it will take; empty where nobody knows."""
    attempts: tuple[Fact, ...]
    """Failed attempts by code: most of them are tried again."""
    failures: tuple[Fact, ...]
    """The last records that failed, each with its reason."""
    problem: str
    """Why work on it has stopped."""
    live_address: str
    cancel_address: str
    """Where a form ends it; empty where nobody may."""
    resume_address: str
    """Where a form goes on with it; empty while somebody works on it."""


def standing(
    result: RunResult,
    *,
    place: PageLinks,
    snapshot: api.Snapshot | None,
    failures: Sequence[FailureLine],
    problem: str,
    actions: RunActions,
) -> RunProgressView:
    """A run at this moment; the snapshot is that of whoever works on it here."""
    counts = result.counts
    done = counts.evaluated_records + counts.failed_records
    return RunProgressView(
        run_id=result.run_id,
        state=words.state_mark(result.standing),
        done=done,
        total=counts.total_records,
        text=f"{done:,} of {counted(counts.total_records, 'record')} done"
        if counts.total_records
        else "its records are not read yet",
        counts=_counts(result, snapshot),
        pace=pace_text(snapshot),
        attempts=() if snapshot is None else tuple(Fact(code, f"{count:,}") for code, count in sorted(snapshot.errors.items())),
        failures=tuple(_failure(line) for line in failures),
        problem=problem,
        live_address="/live" + place.run(result.run_id) if place.is_server else "",
        cancel_address=place.run(result.run_id, "cancel") if actions.may_cancel else "",
        resume_address=place.run(result.run_id, "resume") if actions.may_resume else "",
    )


def _counts(result: RunResult, snapshot: api.Snapshot | None) -> tuple[KeyMetric, ...]:
    counts = result.counts
    done = counts.evaluated_records + counts.failed_records
    of = f"of {counts.total_records:,}"
    found = [
        KeyMetric(label="Graded", figure=DisplayValue(f"{counts.evaluated_records:,}", "Records with a grade.", of)),
        KeyMetric(
            label="Errors", figure=DisplayValue(f"{counts.failed_records:,}", "Records without a grade, invalid ones included.", of)
        ),
        KeyMetric(label="To go", figure=DisplayValue(f"{counts.total_records - done:,}", "Records without an end so far.", of)),
    ]
    if snapshot is None:
        return tuple(found)
    calls = f"n {snapshot.calls:,}"
    return (
        *found,
        KeyMetric(label="Calls in flight", figure=DisplayValue(f"{snapshot.in_flight:,}", "Requests that wait for their reply.")),
        KeyMetric(
            label="Time of a call",
            figure=DisplayValue(words.shown(latency(snapshot.p50_ms)), "Median time of the calls so far.", calls),
            note=words.most_took(snapshot.p95_ms),
        ),
        KeyMetric(label="Cost so far", figure=words.money(snapshot.cost or None, unpriced=snapshot.unknown_costs)),
    )


def pace_text(snapshot: api.Snapshot | None) -> str:
    """`12.5 records a second · 3 min 05 s left`; empty where nobody knows."""
    rate = None if snapshot is None else snapshot.rate
    if snapshot is None or rate is None:
        return ""
    return f"{rate:,.1f} records a second · about {duration((snapshot.total - snapshot.done) / rate)} left"


def _failure(line: FailureLine) -> Fact:
    name = f"record {line.index}" if line.record_id is None else line.record_id
    message = without_code(line.code, line.message)
    return Fact(name, f"{line.code}: {message[:MESSAGE_LIMIT]}{'…' if len(message) > MESSAGE_LIMIT else ''}")
