"""Operations on runs by name: start, resume, cancel, retry; here, or through the workers of a Temporal server."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from types import ModuleType

import msgspec

from assay.core.contract import INPUT
from assay.core.errors import (
    MissingExtra,
    ProviderRejected,
    RunNotFound,
    RunSealed,
    StoreUnavailable,
    UsageProblem,
)
from assay.core.integrations import load_integration
from assay.core.plan import Plan, changed_settings, plan_sha256, read_plan
from assay.core.run_result import RunResult
from assay.core.runs import TERMINAL, RunBackend, TemporalServer
from assay.core.secrets import is_redacted
from assay.core.stop_signals import raised_as_interrupt
from assay.engine.execution.run import check_shareable, open_or_create, prepare, run_to_completion
from assay.engine.execution.run_context import RunEnvironment, RunInterrupted
from assay.engine.execution.states import has_failed_evaluations
from assay.engine.planning.dataset_inputs import DatasetInput
from assay.engine.readers.run_list import PROBLEM, TEMPORAL, result_of
from assay.engine.records.redaction import RedactedPlan, is_uploaded, redactor_of
from assay.engine.storage.run_paths import (
    SEALED_IN,
    RunPaths,
    check_target_free,
    download_if_remote,
    fetch_same,
    folders_of,
    not_here_error,
    note_store,
    publish_sealed,
    store_url,
)
from assay.store.failures import disk_errors, sync_folder
from assay.store.ledger import Ledger
from assay.store.ledgers import pointed_to
from assay.store.published_run import open_run_folder


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
            keep_given(plan, folders, environment.inputs or ())
        open_or_create(plan, folders, at=environment.clock(), ledger=environment.placement.ledger)
    return resume(folders, environment, plan)


def keep_given(plan: Plan, folders: RunPaths, inputs: Sequence[DatasetInput]) -> None:
    """Write datasets in memory to the run's working state, so that another process can begin with its records after a crash."""
    given = [
        (Path(planned.path), dataset.source) for planned, dataset in zip(plan.datasets, inputs, strict=False) if dataset.is_given
    ]
    if not given:
        return
    with disk_errors(folders.active, is_new=True):
        folders.given.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path, source in given:
            with path.open("wb") as file:
                file.write(source.buffer())
                file.flush()
                os.fsync(file.fileno())
            source.release()
    sync_folder(folders.given)


def _check_same_as_sealed(folders: RunPaths, plan: Plan, *, environ: Mapping[str, str]) -> None:
    run = open_run_folder(folders.sealed)
    if run.manifest.plan_sha256 == plan_sha256(plan):
        return
    # The plan in the manifest is redacted; only the hash could show whether its hidden parts are the same.
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
        # Before and after the event loop, whose own handlers drain the run, a signal ends the work at once.
        signals = raised_as_interrupt() if environment.takes_signals else nullcontext()
        # The result reports a rejected key, so that the other candidates of the caller are still evaluated.
        with suppress(RunInterrupted, ProviderRejected), ignore_if_sealed(folders), signals:
            home = _note_store_url(folders, store)
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


def _note_store_url(folders: RunPaths, store: str) -> str:
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
            f"run '{folders.run_id}' was made by {plan.imported.tool}, so that no model of this machine can answer again",
            hint="import its questions (assay import FILES -o DATASET) and run them: assay run DATASET --model provider/model",
        )
    if is_uploaded(plan) or any(not Path(dataset.path).is_absolute() for dataset in plan.datasets):
        raise UsageProblem(
            f"the dataset of run '{folders.run_id}' was uploaded to a server or given in memory, and deleted when the run ended",
            hint=f"submit the records with an error again; '{folders.sealed / INPUT}' is the run's copy of them",
        )
    if is_redacted(run.manifest.plan_members):
        raise UsageProblem(
            f"the settings of run '{folders.run_id}' were redacted, so it cannot be repeated from them",
            hint="start a new run with `assay run` and the same options",
        )
    # In the group of its parent, the few records that it repeats would stand beside whole runs.
    return msgspec.structs.replace(plan, run_id=run_id, parent_run_id=folders.run_id, group=msgspec.UNSET)


def check_placement(plan: Plan, placement: RunBackend) -> None:
    """Raise UsageProblem or MissingExtra when a new run cannot be stored or evaluated on this backend."""
    if placement.ledger:
        check_shareable(plan)
    if placement.temporal is not None:
        temporal_engine("workflow_client").check_placeable(plan)


def check_reachable(run_id: str, environment: RunEnvironment) -> None:
    """Raise when the Temporal server of a new run cannot be reached, before the run's records are written."""
    server = environment.placement.temporal
    if server is not None:
        temporal_engine("connection").check_server(run_id, server, environ=environment.environ)


@contextmanager
def ignore_if_sealed(folders: RunPaths) -> Iterator[None]:
    """Ignore a missing run inside the block when another process has sealed it and removed its ledger meanwhile."""
    try:
        yield
    except (RunNotFound, StoreUnavailable):
        if not folders.is_sealed:
            raise


def temporal_engine(part: str) -> ModuleType:
    """Import a module of the Temporal engine; raises MissingExtra."""
    try:
        return load_integration("temporal", part, user="the engine")
    except ModuleNotFoundError as problem:
        package = (problem.name or "").partition(".")[0]
        raise MissingExtra(f"the engine needs {package}", hint="pip install 'assay[temporal,postgres]'") from problem


def assigned_server(folders: RunPaths, environment: RunEnvironment) -> TemporalServer | None:
    """Return the server whose workers evaluate the run, noting a new one in the ledger; raises UsageProblem."""
    if not folders.has_ledger:
        return None
    wanted = environment.placement.temporal
    if wanted is not None and not pointed_to(folders.active):
        raise UsageProblem(
            f"run '{folders.run_id}' has a local ledger, which workers on other machines cannot reach",
            hint="start a new run with --ledger postgresql://user@host/database, or resume this one without --temporal",
        )
    ledger = folders.open_ledger()
    try:
        return _read_or_set_server(ledger, wanted, run_id=folders.run_id, environ=environment.environ)
    finally:
        ledger.close()


def _read_or_set_server(
    ledger: Ledger, wanted: TemporalServer | None, *, run_id: str, environ: Mapping[str, str]
) -> TemporalServer | None:
    row = ledger.run()
    note = row.notes.get(TEMPORAL, "")
    known = msgspec.json.decode(note, type=TemporalServer) if note else None
    if row.state in TERMINAL:
        return None
    if row.notes.get(PROBLEM):
        # The cause may be fixed by now; if not, the next worker notes it again.
        ledger.set_note(PROBLEM, "")
    if wanted is None or wanted == known:
        return known
    temporal_engine("workflow_client").check_placeable(read_plan(row.plan))
    is_other = known is not None and (known.address, known.namespace) != (wanted.address, wanted.namespace)
    if is_other and not temporal_engine("connection").check_left(run_id, known, wanted, environ=environ):
        return wanted
    ledger.set_note(TEMPORAL, msgspec.json.encode(wanted).decode())
    return wanted
