"""One run on this machine: from its plan to sealed artifacts, or to a ledger from which another process resumes it."""

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from importlib import import_module
from math import inf

import msgspec

from assay.core.errors import LedgerLost, RunDamaged, RunNotFound, RunSealed, StoreRefused, StoreUnavailable, UsageProblem
from assay.core.plan import Plan, changed_settings, plan_sha256, read_plan
from assay.core.plugin import uncomparable
from assay.core.runs import RunBackend, State
from assay.engine.execution.run_context import LedgerWriter, RunContext, RunEnvironment, RunInterrupted, open_run_context
from assay.engine.execution.run_ownership import GracefulShutdown, exclusive_run
from assay.engine.execution.shard import run_local
from assay.engine.execution.states import RunStates, time_of_next
from assay.engine.records.run_metrics import earlier_verdicts
from assay.engine.storage.run_failure import failure_from, known_row, record_failure, reserve
from assay.engine.storage.run_paths import STORE, RunPaths, check_target_free
from assay.store.artifacts import remove_stale_staging
from assay.store.failures import disk_errors, sync_folder
from assay.store.ledger import Ledger
from assay.store.ledgers import create_ledger, empty_ledger, open_shared, point_to, pointed_to, reachable
from assay.store.lock import LEASE_SECONDS, RunLock

SEAL_PATIENCE = 1.5 * LEASE_SECONDS
"""Seconds that a sealing process waits for another owner of the run; the lease of a dead one has expired by then."""
LEDGER_RESTORED = "the ledger was removed or replaced while the run was in progress; it was put back with all its entries"
WATCH_RAISED = "the watch of a run raised this, which interrupts the run; it can be resumed"
"""A note on the exception."""
REFRESH = 0.25
"""Seconds between two progress snapshots."""


def open_or_create(plan: Plan, folders: RunPaths, *, at: float, ledger: str = "") -> None:
    """Make the run durable in state `queued`; an unfinished run with the same settings stays as it is.

    With the address of a shared `ledger` the run is stored there, unless it already has a local one.
    """
    check_target_free(folders)
    if folders.has_ledger:
        _check_same(folders.open_ledger(), plan)
    elif ledger:
        _open_or_create_shared(plan, folders, ledger, at=at)
    else:
        _open_or_create_own(plan, folders, at=at)


def _open_or_create_own(plan: Plan, folders: RunPaths, *, at: float) -> None:
    _make_folder(folders)
    try:
        create_ledger(folders.active, plan=msgspec.json.encode(plan), plan_sha256=plan_sha256(plan), at=at)
    except UsageProblem:
        # Another process created the ledger first, possibly for the same run.
        if not folders.has_ledger:
            raise
        _check_same(folders.open_ledger(), plan)


def _open_or_create_shared(plan: Plan, folders: RunPaths, ledger: str, *, at: float) -> None:
    """Create the run in a shared ledger, or check that an existing one is the same; then write the pointer to it.

    The pointer comes last: after a crash before it, the repeated call finds the run in the ledger.
    """
    check_shareable(plan)
    # Check the address before anything is created, so that a wrong one leaves nothing behind.
    reachable(ledger)
    _make_folder(folders)
    try:
        create_ledger(folders.active, plan=msgspec.json.encode(plan), plan_sha256=plan_sha256(plan), at=at, address=ledger)
    except UsageProblem:
        # The existing run may be a different one with the same id.
        _check_same(open_shared(ledger, folders.run_id), plan)
    point_to(folders.active, ledger)


def check_shareable(plan: Plan) -> None:
    """Raise UsageProblem for a run that cannot be stored in a shared ledger."""
    if plan.batch is not None:
        raise UsageProblem(
            "a run with provider batches needs a local ledger", hint="leave out --ledger (or ASSAY_LEDGER), or --batch"
        )


def _make_folder(folders: RunPaths) -> None:
    with disk_errors(folders.active, is_new=True):
        folders.active.mkdir(mode=0o700, parents=True, exist_ok=True)
    for parent in (folders.active.parent, folders.runs_dir):
        sync_folder(parent)


def _check_same(ledger: Ledger, plan: Plan) -> None:
    try:
        row = ledger.run()
    finally:
        ledger.close()
    # Compare hashes, not plans: after its end a run's ledger keeps only the redacted plan.
    if row.plan_sha256 == plan_sha256(plan):
        return
    begun = read_plan(row.plan)
    changed = changed_settings(begun, plan)
    for plugin in begun.plugins:
        if plugin.imports is None and not plugin.reference:
            raise UsageProblem(
                f"run '{plan.run_id}' was begun by an earlier version of assay,"
                f" which identified the {plugin.kind} '{plugin.name}' in another way",
                hint="finish it with that version, or choose another --run-id",
            )
    tokens = {plugin.token for plugin in begun.plugins}
    for plugin in plan.plugins:
        if plugin.token and plugin.token not in tokens:
            raise UsageProblem(
                f"run '{plan.run_id}' cannot be resumed: {uncomparable(plugin)}",
                hint="choose another --run-id; code that holds plain values only, or has a `version`, is recognized",
            )
    if changed:
        raise UsageProblem(
            f"run '{plan.run_id}' was started with other settings ({', '.join(changed)})",
            hint="repeat it with the same settings, resume it with `assay resume`, or choose another --run-id",
        )


def run_to_completion(folders: RunPaths, environment: RunEnvironment, *, plan: Plan | None = None, is_patient: bool = True) -> None:
    """Take a run from its present state to the sealed end; after RunInterrupted or StoreUnavailable the run can be resumed.

    `plan` may differ from the run's own in settings that change no result, such as the concurrency. While another process works on
    the run this one waits, or returns at once when `is_patient` is false.
    """
    with _resumable(), exclusive_run(folders, environment, patience=inf if is_patient else 0.0) as owned:
        if owned is None:
            return
        if not folders.is_sealed:
            with _record_failures(folders, owned), _open_ledger(folders, owned) as ledger, _interruptible(owned):
                states = RunStates(ledger, folders, owned)
                states.prepare()
                used = plan or states.plan
                if states.state in ("running", "retrying"):
                    # Batches of a cancelled run too: they are paid for.
                    if used.batch is not None:
                        _collect_batches(states, used, ledger=ledger, folders=folders, environment=owned)
                    if states.has_work:
                        with disk_errors(folders.active):
                            is_complete = evaluate(ledger, used, _with_earlier_verdicts(owned, used, states))
                        if not is_complete and not ledger.run().is_cancel_requested:
                            raise RunInterrupted
                states.seal()
        _remove_working_state(folders, owned)


@contextmanager
def _interruptible(environment: RunEnvironment) -> Iterator[None]:
    """Raise RunInterrupted for Ctrl-C: outside the event loop no call is in flight, so that a signal ends the work at once."""
    try:
        yield
    except KeyboardInterrupt as end:
        if not environment.takes_signals:
            raise
        raise RunInterrupted from end


def _collect_batches(states: RunStates, plan: Plan, *, ledger: Ledger, folders: RunPaths, environment: RunEnvironment) -> None:
    """Collect answers from provider batches into the ledger; raises RunInterrupted when it was stopped before their end."""
    # Imported here because most runs have no batches, and start faster without it.
    batches = import_module("assay.engine.execution.batch_collector")
    with disk_errors(folders.active), _cancelled_as_interrupted():
        is_complete = batches.collect_batches(
            ledger, plan, folder=folders.active, environment=environment, has_work=states.has_work
        )
    if not is_complete:
        raise RunInterrupted


def _with_earlier_verdicts(environment: RunEnvironment, plan: Plan, states: RunStates) -> RunEnvironment:
    """Let a repeated ranking take the verdicts that the run before it has paid for."""
    if plan.comparison is None or not plan.parent_run_id:
        return environment
    return msgspec.structs.replace(environment, earlier_judge_reply=earlier_verdicts(states.parent()))


def prepare(folders: RunPaths, environment: RunEnvironment, *, is_patient: bool = True) -> bool:
    """Write a run's records into its ledger for workers on other machines; return False when another process owns the run."""
    with _resumable(), exclusive_run(folders, environment, patience=inf if is_patient else 0.0) as owned:
        if owned is not None and not folders.is_sealed:
            with _record_failures(folders, owned), _open_ledger(folders, owned) as ledger:
                RunStates(ledger, folders, owned).prepare()
        return owned is not None


def seal(folders: RunPaths, environment: RunEnvironment, *, patience: float = SEAL_PATIENCE) -> None:
    """Publish the artifacts of a run that workers have evaluated, and end it; a finished run stays as it is.

    Raises StoreUnavailable when another process owns the run for longer than `patience` and does not end it.
    """
    if not folders.exists:
        _adopt(folders, environment.placement)
    with _resumable(), exclusive_run(folders, environment, patience=patience) as owned:
        if owned is None and not folders.is_sealed:
            raise _occupied_error(folders)
        if owned is not None and not folders.is_sealed:
            with _open_ledger(folders, owned) as ledger:
                RunStates(ledger, folders, owned).seal()
        if owned is not None:
            _remove_working_state(folders, owned)


@contextmanager
def _record_failures(folders: RunPaths, environment: RunEnvironment) -> Iterator[None]:
    """Record an error raised in the block, which makes the run `failed` unless another process owns it by now."""
    known = known_row(folders)
    reserve(folders.active)
    try:
        yield
    except (RunSealed, RunNotFound, RunInterrupted):
        raise
    except Exception as problem:
        # Our own defects count as failures. Signals such as Ctrl-C (no Exception) and errors of the caller's `watch` do not.
        is_from_watch = WATCH_RAISED in getattr(problem, "__notes__", ())
        is_outage = isinstance(problem, StoreUnavailable) and not isinstance(problem, StoreRefused | RunDamaged | LedgerLost)
        if not is_from_watch and not (is_outage and environment.is_retried):
            record_failure(folders, failure_from(problem, at=environment.clock()), known=known)
        raise


@contextmanager
def _resumable() -> Iterator[None]:
    """Adapt the hints of storage errors raised in the block: the run exists, so that the way to retry is to resume it."""
    try:
        yield
    except StoreUnavailable as problem:
        problem.ask_to_resume()
        raise


def _occupied_error(folders: RunPaths) -> StoreUnavailable:
    process = RunLock(folders.active).holder()
    return StoreUnavailable(
        f"another worker has run '{folders.run_id}' and does not end it" + (f" (process {process})" if process else ""),
        hint="sealing is retried; if that worker hangs, stop it",
    )


def _adopt(folders: RunPaths, placement: RunBackend) -> None:
    """Prepare to seal a run that another machine started; raises StoreUnavailable when its artifacts go to no shared store."""
    ledger = open_shared(placement.ledger, folders.run_id)
    try:
        has_store = bool(placement.store) or STORE in ledger.run().notes
    finally:
        ledger.close()
    if not has_store:
        raise StoreUnavailable(
            f"'{folders.runs_dir}' is not the folder of runs in which run '{folders.run_id}' was started",
            hint="let all machines share one folder of runs, or start runs with --store",
        )
    _make_folder(folders)
    point_to(folders.active, placement.ledger)


@contextmanager
def _open_ledger(folders: RunPaths, environment: RunEnvironment) -> Iterator[Ledger]:
    """Open the ledger of a run that this process has locked; raises LedgerLost when its file was removed meanwhile."""
    check_target_free(folders)
    remove_stale_staging(folders.active)
    ledger = folders.open_ledger(driver=environment.driver)

    try:
        yield ledger
    except Exception as problem:
        # The cause of a strange error may be that the ledger's file is gone; SQLite still has its content open.
        if _is_restored(ledger):
            raise LedgerLost(LEDGER_RESTORED, hint="see who removed it, then resume the run") from problem
        raise
    finally:
        ledger.close()


def _is_restored(ledger: Ledger) -> bool:
    with suppress(StoreUnavailable):
        return ledger.rescue()
    return False


def _remove_working_state(folders: RunPaths, environment: RunEnvironment) -> None:
    """Delete the working state of a sealed run, including the unredacted originals.

    The parent folder stays even when it is empty: another process may be creating a run in it.
    """
    if pointed_to(folders.active):
        with _open_ledger(folders, environment) as ledger:
            RunStates(ledger, folders, environment).end()
    empty_ledger(folders.active, folders.sealed)
    shutil.rmtree(folders.active, ignore_errors=True)


def evaluate(ledger: Ledger, plan: Plan, environment: RunEnvironment) -> bool:
    """Evaluate the open records of a ledger; return False when a stop interrupted it. Raises RunInterrupted at a second signal."""
    evaluation = RunEvaluation(ledger, plan, environment)
    with _cancelled_as_interrupted(), asyncio.Runner(loop_factory=environment.loop) as runner:
        runner.run(evaluation.run())
    return not evaluation.is_interrupted


@contextmanager
def _cancelled_as_interrupted() -> Iterator[None]:
    """Raise RunInterrupted for the CancelledError with which a second signal ends the event loop."""
    try:
        yield
    except asyncio.CancelledError as end:
        raise RunInterrupted from end


class RunEvaluation:
    """Asynchronous part of a run: evaluates every open record of the ledger."""

    def __init__(self, ledger: Ledger, plan: Plan, environment: RunEnvironment) -> None:
        self._ledger = ledger
        self._plan = plan
        self._environment = environment
        self._state: State = ledger.run().state
        self.is_interrupted = False

    async def run(self) -> None:
        """Evaluate until no record is open or the run is stopped."""
        async with open_run_context(self._ledger, self._plan, self._environment, stop=asyncio.Event()) as context:
            with GracefulShutdown(self, context.stop) if self._environment.takes_signals else nullcontext():
                await self._run_shards(context)
            if context.rejection.problem is not None:
                raise context.rejection.problem

    async def _run_shards(self, context: RunContext) -> None:
        reporter = asyncio.create_task(self._report(context))
        # An error in the caller's `watch` stops the run, which can be resumed: it would otherwise spend money unobserved.
        reporter.add_done_callback(lambda finished: None if finished.cancelled() else context.stop.set())
        try:
            await run_local(context, on_retrying=partial(self._enter_retrying, context.ledger_writer))
        finally:
            if reporter.done():
                reporter.result()
            reporter.cancel()
            self._send_snapshot(context)

    async def _enter_retrying(self, ledger_writer: LedgerWriter) -> None:
        if await ledger_writer.call(self._set_retrying):
            self._state = "retrying"

    def _set_retrying(self) -> bool:
        return self._ledger.set_state("running", "retrying", at=time_of_next(self._ledger, self._environment.clock()))

    async def _report(self, context: RunContext) -> None:
        while True:
            self._send_snapshot(context)
            if self._environment.is_stopping is not None and self._environment.is_stopping():
                self.is_interrupted = True
                context.stop.set()
            await asyncio.sleep(REFRESH)

    def _send_snapshot(self, context: RunContext) -> None:
        if self._environment.watch is not None:
            now, is_stopping = self._environment.clock(), context.stop.is_set()
            snapshot = context.counters.snapshot(self._state, now, waiting=context.in_flight.waiting, is_stopping=is_stopping)
            try:
                self._environment.watch(snapshot)
            except BaseException as problem:
                # `_record_failures` recognizes by the note that the run itself has not failed.
                problem.add_note(WATCH_RAISED)
                raise
