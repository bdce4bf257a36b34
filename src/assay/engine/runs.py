"""Runs as their users name them: start, resume, cancel, list, look at, repeat."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from assay.core.dataset_title import dataset_file
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
from assay.core.metrics_summary import interval_of
from assay.core.moment import iso
from assay.core.plan import DEFAULT_PROJECT, Plan, changed_settings, plan_sha256, read_plan
from assay.core.run_result import GateResult, RunListing, RunResult
from assay.core.run_state import TERMINAL, UNDER_WAY, RunCounts, State, count_records
from assay.engine.places.folders import RunFolders, check_place, folders_of, run_ids
from assay.engine.places.homes import SEALED_IN, are_elsewhere, bring_home, fetch_same, home_of, note_store, publish_sealed
from assay.engine.places.run_failure import RunFailure, failure_of
from assay.engine.running.engines import PROBLEM, TEMPORAL, carry_out, check_placement, check_reachable, unless_sealed, wind_up
from assay.engine.running.run import open_or_create
from assay.engine.running.states import COUNTS, standing
from assay.engine.running.surroundings import Interrupted, Surroundings
from assay.engine.running.unevaluated import has_failed_evaluations
from assay.engine.sealing.shown import ShownPlan, is_uploaded, redactor_of
from assay.metrics.gates import cancelled_reason
from assay.store.batch_book import NOTE as BATCHES
from assay.store.batch_book import BatchRow
from assay.store.folder import RunFolder, open_run_folder
from assay.store.ledger import Ledger, RunRow
from assay.store.ledgers import Looks, is_own
from assay.store.lock import RunLock

T = TypeVar("T")

_METRICS = "metrics_summary.json"


def start(plan: Plan, runs_dir: Path, surroundings: Surroundings) -> RunResult:
    """Run a plan to its end, or go on with the unfinished run of that id; a finished one with the same settings stays as it is."""
    folders = folders_of(runs_dir, plan.run_id)
    store = surroundings.placement.store
    if not folders.exists:
        check_placement(plan, surroundings.placement)
    if store and not folders.exists:
        # Better now than when everything is paid for.
        check_place(folders)
        home = home_of(store, plan.run_id)
        fetch_same(home, plan_sha256=plan_sha256(plan), active=folders.active, sealed=folders.sealed)
    if folders.is_sealed:
        _check_same_as_sealed(folders, plan, environ=surroundings.environ)
    else:
        if not folders.has_ledger:
            check_reachable(plan.run_id, surroundings)
        open_or_create(plan, folders, at=surroundings.clock(), ledger=surroundings.placement.ledger)
    return _driven(folders, surroundings, plan)


def _check_same_as_sealed(folders: RunFolders, plan: Plan, *, environ: Mapping[str, str]) -> None:
    run = open_run_folder(folders.sealed)
    if run.manifest.get("plan_sha256") == plan_sha256(plan):
        return
    # The plan in the manifest is redacted; of what is hidden in it, only the hash could say whether it is the same.
    redactor = redactor_of(plan, environ)
    shown = ShownPlan(plan, redactor).members()
    changed = changed_settings(_sealed_plan(run), msgspec.convert(shown, Plan))
    if changed or redactor.counts:
        names = f" ({', '.join(changed)})" if changed else ""
        raise RunSealed(
            f"run '{plan.run_id}' has ended, and was made with other settings{names}",
            hint="artifacts are written once: choose another --run-id",
        )


def _sealed_plan(run: RunFolder) -> Plan:
    return read_plan(msgspec.json.encode(run.manifest.get("plan")))


def resume(folders: RunFolders, surroundings: Surroundings) -> RunResult:
    """Go on with an unfinished run under the settings that it was started with."""
    return _driven(folders, surroundings)


def _driven(folders: RunFolders, surroundings: Surroundings, plan: Plan | None = None) -> RunResult:
    # A crash between the last two steps leaves the working state of a run that has ended; it holds originals, so it is cleared.
    home, store = "", surroundings.placement.store
    if folders.active.is_dir() or not folders.is_sealed:
        # A rejected key is told by the result, as every end of a run is: other candidates have their turn all the same.
        with suppress(Interrupted, ProviderRejected), unless_sealed(folders):
            home = _noted_home(folders, store)
            carry_out(folders, surroundings, plan)
        home = bring_home(folders.active, folders.sealed) or home
    elif store:
        # It may have ended before anybody thought of a store.
        home = publish_sealed(folders.sealed, store)
    result = result_of(folders)
    if result.is_away and not surroundings.is_detached:
        # Whether its gates were reached is known there alone.
        raise are_elsewhere(folders.run_id, {SEALED_IN: result.run_dir})
    return msgspec.structs.replace(result, store=home)


def _noted_home(folders: RunFolders, store: str) -> str:
    """Where in a store the run has its home, which it is told where it is new; empty for nowhere."""
    if not folders.has_ledger:
        return ""
    ledger = folders.open_ledger()
    try:
        return note_store(ledger, store, run_id=folders.run_id)
    finally:
        ledger.close()


def cancel(folders: RunFolders, surroundings: Surroundings) -> RunResult:
    """Ask the process that works on the run to stop; without one, seal what there is. Raises RunSealed for a run that has ended."""
    result = result_of(folders)
    if result.is_finished:
        if result.state == "cancelled":
            return result
        raise RunSealed(f"run '{folders.run_id}' has ended: {result.state}", hint="there is nothing left to cancel")
    with unless_sealed(folders):
        _request_cancel(folders)
        wind_up(folders, surroundings)
    return result_of(folders)


def _request_cancel(folders: RunFolders) -> None:
    ledger = folders.open_ledger()
    try:
        ledger.request_cancel()
    finally:
        ledger.close()


def retry_plan(folders: RunFolders, run_id: str) -> Plan:
    """The plan of a new run over the records that a finished run could not evaluate."""
    if not folders.is_sealed:
        raise UsageProblem(f"run '{folders.run_id}' has not ended", hint=f"go on with it: assay resume {folders.run_id}")
    run = open_run_folder(folders.sealed)
    plan = _sealed_plan(run)
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
    if "[REDACTED:" in str(run.manifest["plan"]):
        raise UsageProblem(
            f"the settings of run '{folders.run_id}' were redacted, so it cannot be repeated from them",
            hint="start a new run with `assay run` and the same options",
        )
    return msgspec.structs.replace(plan, run_id=run_id, parent_run_id=folders.run_id)


def result_of(folders: RunFolders) -> RunResult:
    """The run as it stands."""
    return _sealed_or_active(folders, _sealed_result, _active_result)


def _sealed_or_active(folders: RunFolders, sealed: Callable[[RunFolders], T], active: Callable[[RunFolders], T]) -> T:
    if not folders.is_sealed:
        try:
            return active(folders)
        except (RunNotFound, StoreUnavailable):
            # Another process may have sealed it at this very moment.
            if not folders.is_sealed:
                raise
    return sealed(folders)


class _Candidate(msgspec.Struct):
    name: str


class _ShortDataset(msgspec.Struct):
    path: str = ""
    file: str = ""


class _ShortPlan(msgspec.Struct):
    datasets: tuple[_ShortDataset, ...] = ()
    gates: dict[str, float | None] = {}
    project: str = DEFAULT_PROJECT


class _Manifest(msgspec.Struct):
    """The members of a manifest that say how a run ended; it stays for good, whatever retention removes."""

    run_id: str
    status: State
    created_at: str
    dataset_id: str
    dataset_version: str
    candidate: _Candidate
    counts: RunCounts
    gate: GateResult
    plan: _ShortPlan
    judges: tuple[_Candidate, ...] = ()
    blocked: str | None = None


def read_manifest(run: RunFolder) -> _Manifest:
    """How a finished run ended; raises RunDamaged."""
    try:
        return msgspec.convert(run.manifest, _Manifest)
    except msgspec.ValidationError as problem:
        raise RunDamaged(f"the manifest of '{run.path}' is damaged: {problem}") from problem


def _gate(manifest: _Manifest) -> GateResult:
    """What was decided; the first versions let a cancelled run pass where the part that was evaluated reached the gates."""
    if manifest.status == "cancelled" and manifest.gate.passed:
        return GateResult(False, (cancelled_reason(manifest.counts.evaluated_records, manifest.counts.total_records),))
    return manifest.gate


def _metrics(run: RunFolder) -> dict[str, Any]:
    """The metrics summary; empty when it was removed by retention."""
    if any(tombstone.name == _METRICS for tombstone in run.removed()):
        return {}
    metrics: dict[str, Any] = run.document(_METRICS)
    return metrics


def _sealed_result(folders: RunFolders) -> RunResult:
    run = open_run_folder(folders.sealed)
    manifest = read_manifest(run)
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
    """A run that is not sealed here and its records by status, at this moment."""
    try:
        return standing(ledger)
    finally:
        ledger.close()


def _active_result(folders: RunFolders) -> RunResult:
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


def _open_reason(folders: RunFolders, row: RunRow, failure: RunFailure | None) -> str:
    if row.state in TERMINAL:
        return are_elsewhere(folders.run_id, row.notes).message
    return "the run has not ended" if failure is None else "the run has failed"


def _shown_problem(row: RunRow, failure: RunFailure | None, plan: Plan) -> str:
    """Why the run failed, or what keeps a worker from going on; without secrets that a provider repeats."""
    return row.notes.get(PROBLEM, "") if failure is None else redactor_of(plan, os.environ).text(failure.message)


def _blocked(row: RunRow, failure: RunFailure | None, plan: Plan) -> str:
    """Why a provider takes no more calls."""
    is_rejected = failure is not None and failure.code == ProviderRejected.code
    return _shown_problem(row, failure, plan) if is_rejected else row.notes.get("blocked", "")


def _driver(folders: RunFolders) -> int | None:
    lock = RunLock(folders.active)
    return lock.holder() if lock.is_held() else None


def _is_interrupted(row: RunRow, folders: RunFolders) -> bool:
    """True where nobody works on a run under way; False also where only another machine could know.

    What waits for a provider is where it should be, and whoever seals a run lets go of it only then.
    """
    is_under_way = row.state in UNDER_WAY and not _waiting(row) and is_own(folders.active)
    return is_under_way and not RunLock(folders.active).is_held() and not folders.is_sealed


def final_counts(notes: Mapping[str, str]) -> RunCounts:
    """The counts of a run that has ended, as a shared ledger remembers them."""
    return count_records(msgspec.json.decode(notes.get(COUNTS, "{}"), type=dict[str, int]))


def project_of(folders: RunFolders) -> str:
    """The project of a run that exists; raises RunDamaged, StoreUnavailable. Nothing is fetched from another machine for it."""
    return _sealed_or_active(folders, _sealed_project, _active_project)


def _sealed_project(folders: RunFolders) -> str:
    return read_manifest(open_run_folder(folders.sealed)).plan.project


def _active_project(folders: RunFolders) -> str:
    ledger = folders.open_ledger()
    try:
        return read_plan(ledger.run().plan).project
    finally:
        ledger.close()


def list_runs(runs_dir: Path) -> Iterator[RunListing]:
    """All runs, the newest first."""
    looks = Looks()
    for run_id in reversed(run_ids(runs_dir, looks)):
        yield listing_of(RunFolders(runs_dir, run_id), looks)


def listing_of(folders: RunFolders, looks: Looks) -> RunListing:
    """One run for a list. A run that cannot be read is listed too: it must not hide the others, nor be hidden itself."""
    try:
        return _sealed_or_active(folders, _sealed_listing, lambda folders: _active_listing(folders, looks))
    except (LedgerUnavailable, MissingExtra, RunNotFound) as problem:
        return RunListing(run_id=folders.run_id, state="unreachable", note=problem.message)
    except AssayError as problem:
        return RunListing(run_id=folders.run_id, state="damaged", note=problem.message)


def _sealed_listing(folders: RunFolders) -> RunListing:
    run = open_run_folder(folders.sealed)
    manifest = read_manifest(run)
    metrics, note = _listed_metrics(run)
    return RunListing(
        run_id=folders.run_id,
        state=manifest.status,
        created_at=manifest.created_at,
        dataset=manifest.dataset_id,
        dataset_version=manifest.dataset_version,
        dataset_file=dataset_file(msgspec.structs.asdict(next(iter(manifest.plan.datasets), _ShortDataset()))),
        candidate=manifest.candidate.name,
        judges=tuple(judge.name for judge in manifest.judges),
        total_records=manifest.counts.total_records,
        done_records=manifest.counts.total_records,
        **_listed_rate(metrics),
        **_listed_score(metrics),
        passed=manifest.gate.passed if manifest.plan.gates and manifest.status != "cancelled" else None,
        has_no_result=manifest.status == "cancelled" or not manifest.counts.evaluated_records,
        note=note,
        project=manifest.plan.project,
    )


def _listed_rate(metrics: dict[str, Any]) -> dict[str, Any]:
    """How many passed of how many, and what the calls cost."""
    cost = metrics.get("cost_usd") or {}
    return {
        "scored_records": metrics.get("n_scored", 0),
        "pass_rate": metrics.get("pass_rate"),
        "pass_rate_interval": _ends(interval_of(metrics, "pass_rate")),
        "cost_usd": cost.get("sum"),
        "unpriced_records": cost.get("n_unknown", 0),
    }


def _listed_score(metrics: dict[str, Any]) -> dict[str, Any]:
    """The figure that a run is known by: its profile's, or else the mean; a ranking has none."""
    profile = metrics.get("profile")
    if profile is not None:
        name = f"{profile['id']} (compat)" if profile["compat"] else profile["id"]
        interval = _ends(interval_of(profile, "headline"))
        return {"score": profile["headline"], "scored_by": name, "scale": profile["scale"], "score_interval": interval}
    if metrics.get("score_mean") is None or "ranking" in metrics:
        return {}
    # Scores of several scales have a mean only where each is brought to 0-1.
    member = "score_mean" if metrics["raw_score_mean"] is None else "raw_score_mean"
    shown = {"score": metrics[member], "score_interval": _ends(interval_of(metrics, member))}
    return {**shown, "scored_by": "mean", "scale": metrics["scale"] or "0-1"}


def _ends(interval: dict[str, Any] | None) -> tuple[float, float] | None:
    return None if interval is None else (interval["low"], interval["high"])


def _listed_metrics(run: RunFolder) -> tuple[dict[str, Any], str]:
    """The metrics summary where there is one, and else why there is none: the manifest says the rest."""
    removed = {tombstone.name for tombstone in run.removed()}
    if removed:
        what = "its metrics were" if _METRICS in removed else "its records were"
        return ({} if _METRICS in removed else _metrics(run)), f"{what} removed by retention"
    try:
        return _metrics(run), ""
    except (RunNotFound, StoreUnavailable) as problem:
        return {}, problem.message


def _active_listing(folders: RunFolders, looks: Looks) -> RunListing:
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
