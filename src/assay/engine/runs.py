"""Operations on runs by name: start, resume, cancel, list, inspect, repeat."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from assay.core.canonical import JsonObject
from assay.core.contract import dataset_file
from assay.core.errors import (
    AssayError,
    LedgerUnavailable,
    MissingExtra,
    ProviderRejected,
    RunDamaged,
    RunNotFound,
    RunSealed,
    StoreUnavailable,
    UsageProblem,
)
from assay.core.manifest import Manifest
from assay.core.moment import iso
from assay.core.plan import DEFAULT_PROJECT, Plan, changed_settings, plan_sha256, read_plan
from assay.core.run_result import RunListing, RunResult
from assay.core.runs import TERMINAL, UNDER_WAY, RunCounts, count_records
from assay.core.secrets import is_redacted
from assay.core.stop_signals import raised_as_interrupt
from assay.core.summary import METRICS, GateResult, Interval, RunKind, Summary
from assay.engine.execution.engines import (
    PROBLEM,
    TEMPORAL,
    assigned_server,
    check_placement,
    check_reachable,
    ignore_if_sealed,
    temporal_engine,
)
from assay.engine.execution.retry_selection import has_failed_evaluations
from assay.engine.execution.run import open_or_create, prepare, run_to_completion
from assay.engine.execution.run_context import RunEnvironment, RunInterrupted
from assay.engine.execution.states import COUNTS, run_status
from assay.engine.records.redaction import RedactedPlan, is_uploaded, redactor_of
from assay.engine.storage.remote_store import (
    SEALED_IN,
    download_if_remote,
    fetch_same,
    not_here_error,
    note_store,
    publish_sealed,
    store_url,
)
from assay.engine.storage.run_failure import RunFailure, failure_of
from assay.engine.storage.run_paths import RunPaths, check_target_free, folders_of, run_ids
from assay.metrics.gates import cancelled_reason
from assay.store.batch_store import NOTE as BATCHES
from assay.store.batch_store import BatchRow
from assay.store.ledger import Ledger, RunRow
from assay.store.ledgers import LedgerOpener, is_own
from assay.store.lock import RunLock
from assay.store.published_run import PublishedRun, open_run_folder

T = TypeVar("T")


def start(plan: Plan, runs_dir: Path, environment: RunEnvironment) -> RunResult:
    """Run a plan to its end, or resume the unfinished run of that id; a finished one with the same settings stays as it is."""
    folders = folders_of(runs_dir, plan.run_id)
    store = environment.placement.store
    if not folders.exists:
        check_placement(plan, environment.placement)
    if store and not folders.exists:
        # Better now than when everything is paid for.
        check_target_free(folders)
        home = store_url(store, plan.run_id)
        fetch_same(home, plan_sha256=plan_sha256(plan), active=folders.active, sealed=folders.sealed)
    if folders.is_sealed:
        _check_same_as_sealed(folders, plan, environ=environment.environ)
    else:
        if not folders.has_ledger:
            check_reachable(plan.run_id, environment)
        open_or_create(plan, folders, at=environment.clock(), ledger=environment.placement.ledger)
    return resume(folders, environment, plan)


def _check_same_as_sealed(folders: RunPaths, plan: Plan, *, environ: Mapping[str, str]) -> None:
    run = open_run_folder(folders.sealed)
    if run.manifest.plan_sha256 == plan_sha256(plan):
        return
    # The plan in the manifest is redacted; of what is hidden in it, only the hash could say whether it is the same.
    redactor = redactor_of(plan, environ)
    shown = RedactedPlan(plan, redactor).members()
    changed = changed_settings(run.manifest.settings, msgspec.convert(shown, Plan))
    if changed or redactor.counts:
        names = f" ({', '.join(changed)})" if changed else ""
        raise RunSealed(
            f"run '{plan.run_id}' has ended, and was made with other settings{names}",
            hint="artifacts are written once: choose another --run-id",
        )


def resume(folders: RunPaths, environment: RunEnvironment, plan: Plan | None = None) -> RunResult:
    """Take a run to its sealed end, here or through the workers of a Temporal server; `plan` is its own, if the caller has it."""
    home, store = "", environment.placement.store
    # A crash between the last two steps leaves the working state of a run that has ended; it holds originals, so it is cleared.
    if folders.active.is_dir() or not folders.is_sealed:
        signals = raised_as_interrupt() if environment.takes_signals else nullcontext()
        # The result reports a rejected key, so that the other candidates of the caller are still evaluated.
        with suppress(RunInterrupted, ProviderRejected), ignore_if_sealed(folders), signals:
            home = _noted_home(folders, store)
            server = assigned_server(folders, environment)
            if server is None:
                run_to_completion(folders, environment, plan=plan, is_patient=environment.is_patient)
            else:
                prepare(folders, environment)
                client = temporal_engine("workflow_client")
                (client.start if environment.is_detached else client.follow)(folders, server, environment)
        home = download_if_remote(folders.active, folders.sealed) or home
    elif store:
        # The run may have ended before it was given a store.
        home = publish_sealed(folders.sealed, store)
    result = result_of(folders)
    if result.is_away and not environment.is_detached:
        # Only the machine that has the artifacts knows whether the gates were met.
        raise not_here_error(folders.run_id, {SEALED_IN: result.run_dir})
    return msgspec.structs.replace(result, store=home)


def _noted_home(folders: RunPaths, store: str) -> str:
    """Return the run's address in its store, noting a new store in the ledger; empty without one."""
    if not folders.has_ledger:
        return ""
    ledger = folders.open_ledger()
    try:
        return note_store(ledger, store, run_id=folders.run_id)
    finally:
        ledger.close()


def cancel(folders: RunPaths, environment: RunEnvironment) -> RunResult:
    """Ask the process that works on the run to stop; without one, seal what there is. Raises RunSealed for a run that has ended."""
    result = result_of(folders)
    if result.is_finished:
        if result.state == "cancelled":
            return result
        raise RunSealed(f"run '{folders.run_id}' has ended: {result.state}", hint="there is nothing left to cancel")
    with ignore_if_sealed(folders):
        _request_cancel(folders)
        # Another process that works on the run sees the request and seals the run itself: no waiting for it here.
        server = assigned_server(folders, environment)
        if server is None:
            run_to_completion(folders, environment, is_patient=False)
        elif prepare(folders, environment, is_patient=False):
            temporal_engine("workflow_client").start(folders, server, environment)
    return result_of(folders)


def _request_cancel(folders: RunPaths) -> None:
    ledger = folders.open_ledger()
    try:
        ledger.request_cancel()
    finally:
        ledger.close()


def retry_plan(folders: RunPaths, run_id: str) -> Plan:
    """Return the plan of a new run over the records that a finished run could not evaluate."""
    if not folders.is_sealed:
        raise UsageProblem(f"run '{folders.run_id}' is unfinished", hint=f"resume it: assay resume {folders.run_id}")
    run = open_run_folder(folders.sealed)
    plan = run.manifest.settings
    if not has_failed_evaluations(run):
        raise UsageProblem(f"run '{folders.run_id}' has no records with an error", hint="there is nothing to repeat")
    if plan.imported is not None:
        raise UsageProblem(
            f"run '{folders.run_id}' was made by {plan.imported.tool}, so that there is nobody here to ask again",
            hint="import its questions (assay import FILES -o DATASET) and run them: assay run DATASET --model provider/model",
        )
    if is_uploaded(plan) or any(not Path(dataset.path).is_absolute() for dataset in plan.datasets):
        raise UsageProblem(
            f"the dataset of run '{folders.run_id}' was uploaded to a server, which deletes it when the run has ended",
            hint="submit the records with an error again",
        )
    if is_redacted(run.manifest.plan):
        raise UsageProblem(
            f"the settings of run '{folders.run_id}' were redacted, so it cannot be repeated from them",
            hint="start a new run with `assay run` and the same options",
        )
    return msgspec.structs.replace(plan, run_id=run_id, parent_run_id=folders.run_id)


def result_of(folders: RunPaths) -> RunResult:
    """Return the run's present result."""
    return _sealed_or_active(folders, _sealed_result, _active_result)


def _sealed_or_active(folders: RunPaths, sealed: Callable[[RunPaths], T], active: Callable[[RunPaths], T]) -> T:
    if not folders.is_sealed:
        try:
            return active(folders)
        except (RunNotFound, StoreUnavailable):
            # Another process may have sealed it at this very moment.
            if not folders.is_sealed:
                raise
    return sealed(folders)


class _ListedDataset(msgspec.Struct):
    path: str = ""
    file: str = ""


class _ListedPlan(msgspec.Struct):
    datasets: tuple[_ListedDataset, ...] = ()
    gates: dict[str, float | None] = {}
    project: str = DEFAULT_PROJECT


def _listed_plan(run: PublishedRun) -> _ListedPlan:
    """Return the settings that a list of runs shows, of a run of any version; raises RunDamaged."""
    try:
        return msgspec.convert(run.manifest.plan, _ListedPlan)
    except msgspec.ValidationError as problem:
        raise RunDamaged(f"the manifest of '{run.path}' is damaged: {problem}") from problem


def _gate(manifest: Manifest) -> GateResult:
    """Return the gate result; the first versions let a cancelled run pass when its evaluated part met the gates."""
    if manifest.status == "cancelled" and manifest.gate.passed:
        return GateResult(False, (cancelled_reason(manifest.counts.evaluated_records, manifest.counts.total_records),))
    return manifest.gate


def _metrics(run: PublishedRun) -> JsonObject:
    """The metrics summary; empty when it was removed by retention."""
    if any(tombstone.name == METRICS for tombstone in run.removed()):
        return {}
    metrics: JsonObject = run.document(METRICS)
    return metrics


def _sealed_result(folders: RunPaths) -> RunResult:
    run = open_run_folder(folders.sealed)
    manifest = run.manifest
    return RunResult(
        run_id=manifest.run_id,
        state=manifest.status,
        run_dir=str(folders.sealed),
        counts=manifest.counts,
        metrics=_metrics(run),
        gate=_gate(manifest),
        candidate=manifest.candidate.name,
        blocked=manifest.blocked or "",
    )


def _looked_at(ledger: Ledger) -> tuple[RunRow, dict[str, int]]:
    """Return the row of an unsealed run and its records by status."""
    try:
        return run_status(ledger)
    finally:
        ledger.close()


def _active_result(folders: RunPaths) -> RunResult:
    row, by_status = _looked_at(folders.open_ledger())
    plan = read_plan(row.plan)
    is_away = row.state in TERMINAL
    failure = failure_of(row, folders.active)
    opened = by_status.pop("open", 0)
    counts = count_records({**by_status, "skipped": by_status.get("skipped", 0) + opened})
    return RunResult(
        run_id=plan.run_id,
        state=row.state if failure is None else "failed",
        run_dir=row.notes.get(SEALED_IN, "") if is_away else str(folders.active),
        counts=counts,
        metrics={},
        gate=GateResult(False, (_open_reason(folders, row, failure),)),
        candidate=plan.candidate.name,
        is_elsewhere=TEMPORAL in row.notes,
        is_away=is_away,
        problem=_shown_problem(row, failure, plan),
        blocked=_blocked(row, failure, plan),
        is_resumable=failure is not None,
        waiting=_waiting(row),
        driver=_driver(folders),
        is_interrupted=failure is None and _is_interrupted(row, folders),
    )


def _open_reason(folders: RunPaths, row: RunRow, failure: RunFailure | None) -> str:
    if row.state in TERMINAL:
        return not_here_error(folders.run_id, row.notes).message
    return "the run has not ended" if failure is None else "the run has failed"


def _shown_problem(row: RunRow, failure: RunFailure | None, plan: Plan) -> str:
    """Return why the run failed, or what keeps workers from continuing, without secrets that a provider may echo."""
    return row.notes.get(PROBLEM, "") if failure is None else redactor_of(plan, os.environ).text(failure.message)


def _blocked(row: RunRow, failure: RunFailure | None, plan: Plan) -> str:
    """Return why a provider rejects all calls."""
    is_rejected = failure is not None and failure.code == ProviderRejected.code
    return _shown_problem(row, failure, plan) if is_rejected else row.notes.get("blocked", "")


def _driver(folders: RunPaths) -> int | None:
    lock = RunLock(folders.active)
    return lock.holder() if lock.is_held() else None


def _is_interrupted(row: RunRow, folders: RunPaths) -> bool:
    """True where nobody works on a run under way; False also where only another machine could know.

    What waits for a provider is where it should be, and whoever seals a run lets go of it only then.
    """
    is_under_way = row.state in UNDER_WAY and not _waiting(row) and is_own(folders.active)
    return is_under_way and not RunLock(folders.active).is_held() and not folders.is_sealed


def final_counts(notes: Mapping[str, str]) -> RunCounts:
    """Return the counts of a finished run from a shared ledger's notes."""
    return count_records(msgspec.json.decode(notes.get(COUNTS, "{}"), type=dict[str, int]))


def project_of(folders: RunPaths) -> str:
    """Return a run's project without fetching the run from another machine; raises RunDamaged, StoreUnavailable."""
    return _sealed_or_active(folders, _sealed_project, _active_project)


def _sealed_project(folders: RunPaths) -> str:
    return _listed_plan(open_run_folder(folders.sealed)).project


def _active_project(folders: RunPaths) -> str:
    ledger = folders.open_ledger()
    try:
        return read_plan(ledger.run().plan).project
    finally:
        ledger.close()


def list_runs(runs_dir: Path) -> Iterator[RunListing]:
    """Return all runs, the newest first."""
    looks = LedgerOpener()
    for run_id in reversed(run_ids(runs_dir, looks)):
        yield listing_of(RunPaths(runs_dir, run_id), looks)


def listing_of(folders: RunPaths, looks: LedgerOpener) -> RunListing:
    """Return the list entry of a run; an unreadable run gets one too, so that it hides neither itself nor others."""
    try:
        return _sealed_or_active(folders, _sealed_listing, lambda folders: _active_listing(folders, looks))
    except (LedgerUnavailable, MissingExtra, RunNotFound) as problem:
        return RunListing(run_id=folders.run_id, state="unreachable", note=problem.message)
    except AssayError as problem:
        return RunListing(run_id=folders.run_id, state="damaged", note=problem.message)


def _sealed_listing(folders: RunPaths) -> RunListing:
    run = open_run_folder(folders.sealed)
    manifest, plan = run.manifest, _listed_plan(run)
    summary, note = _listed_summary(run)
    return RunListing(
        run_id=folders.run_id,
        state=manifest.status,
        created_at=manifest.created_at,
        dataset=manifest.dataset_id,
        dataset_version=manifest.dataset_version,
        dataset_file=dataset_file(msgspec.structs.asdict(next(iter(plan.datasets), _ListedDataset()))),
        dataset_count=len(plan.datasets),
        candidate=manifest.candidate.name,
        judges=tuple(judge.name for judge in manifest.judges),
        total_records=manifest.counts.total_records,
        done_records=manifest.counts.total_records,
        **({} if summary is None else {**_listed_rate(summary), **_listed_score(summary)}),
        passed=manifest.gate.passed if plan.gates and manifest.status != "cancelled" else None,
        has_no_result=manifest.status == "cancelled" or not manifest.counts.evaluated_records,
        note=note,
        project=plan.project,
    )


def _listed_rate(summary: Summary) -> JsonObject:
    """Return the pass rate with its interval and the cost of the calls, as members of a list entry."""
    rate = summary.pass_rate_metric
    return {
        "scored_records": rate.n,
        "pass_rate": rate.value,
        "pass_rate_interval": _ends(rate.interval),
        "cost_usd": summary.cost_usd.sum,
        "unpriced_records": summary.cost_usd.n_unknown,
    }


def _listed_score(summary: Summary) -> JsonObject:
    """Return the headline metric of a run: its profile's, or else the mean; a ranking has none."""
    profile = summary.profile
    if profile is not None:
        interval = _ends(profile.metric.interval)
        return {"score": profile.headline, "scored_by": profile.name, "scale": profile.scale, "score_interval": interval}
    if summary.score_mean is None or summary.kind is RunKind.RANKING:
        return {}
    # Scores of several scales have a mean only where each is brought to 0-1.
    mean = summary.score_mean_metric if summary.raw_score_mean is None else summary.raw_score_mean_metric
    return {"score": mean.value, "score_interval": _ends(mean.interval), "scored_by": "mean", "scale": summary.scale or "0-1"}


def _ends(interval: Interval | None) -> tuple[float, float] | None:
    return None if interval is None else (interval.low, interval.high)


def _listed_summary(run: PublishedRun) -> tuple[Summary | None, str]:
    """Return the metrics if there are any, with the reason why they or the records are missing."""
    removed = {tombstone.name for tombstone in run.removed()}
    if removed:
        what = "its metrics were" if METRICS in removed else "its records were"
        return (None if METRICS in removed else run.summary()), f"{what} removed by retention"
    try:
        return run.summary(), ""
    except (RunNotFound, StoreUnavailable) as problem:
        return None, problem.message


def _active_listing(folders: RunPaths, looks: LedgerOpener) -> RunListing:
    row, by_status = _looked_at(looks.open(folders.active))
    plan = read_plan(row.plan)
    failure = failure_of(row, folders.active)
    total = sum(by_status.values())
    return RunListing(
        run_id=plan.run_id,
        state=row.state if failure is None else "failed",
        created_at=iso(row.states[0][1]),
        dataset=plan.datasets[0].dataset_id,
        dataset_version=plan.datasets[0].dataset_version,
        dataset_file=dataset_file(msgspec.structs.asdict(plan.datasets[0])),
        dataset_count=len(plan.datasets),
        candidate=plan.candidate.name,
        judges=tuple(judge.name for judge in plan.judges),
        total_records=total,
        done_records=total - by_status.get("open", 0),
        is_interrupted=failure is None and _is_interrupted(row, folders),
        is_resumable=failure is not None,
        note=_shown_problem(row, failure, plan) or _waiting(row),
        project=plan.project,
    )


def _waiting(row: RunRow) -> str:
    """What an unfinished run waits for at a provider, as it was when somebody last looked."""
    rows = msgspec.json.decode(row.notes.get(BATCHES, "[]"), type=list[BatchRow])
    waiting = [batch for batch in rows if batch.state in ("submitting", "submitted")]
    if not waiting:
        return ""
    requests = sum(batch.requests for batch in waiting)
    return f"waits for {'1 batch' if len(waiting) == 1 else f'{len(waiting)} batches'} with {requests:,} requests"
