"""One run on this machine: from its plan to sealed artifacts, or to a ledger that another process goes on with."""

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from importlib import import_module
from math import inf

import msgspec

from assay.core.errors import LedgerLost, RunDamaged, RunNotFound, RunSealed, StoreRefused, StoreUnavailable, UsageProblem
from assay.core.placement import Placement
from assay.core.plan import Plan, changed_settings, plan_sha256, read_plan
from assay.core.plugin import uncomparable
from assay.core.run_state import State
from assay.engine.places.folders import RunFolders, check_place
from assay.engine.places.homes import STORE
from assay.engine.places.run_failure import failure_from, known_row, record_failure, reserve
from assay.engine.running.case import Room
from assay.engine.running.holding import held
from assay.engine.running.journal import Journal
from assay.engine.running.local import run_local
from assay.engine.running.rooms import opened_room
from assay.engine.running.states import RunStates, time_of_next
from assay.engine.running.stopping import Signals, run_loop
from assay.engine.running.surroundings import Interrupted, Surroundings
from assay.engine.sealing.rankings import earlier_verdicts
from assay.store.artifacts import remove_stale_staging
from assay.store.failures import AGAIN, disk_errors, sync_folder
from assay.store.ledger import Ledger
from assay.store.ledgers import create_ledger, empty_ledger, open_shared, point_to, pointed_to, reachable
from assay.store.lock import LEASE_SECONDS, RunLock

SEAL_PATIENCE = 1.5 * LEASE_SECONDS
"""Seconds that whoever seals waits for another who has the run; one that is dead has lost it by then."""
PUT_BACK = "the ledger was removed or replaced while the run was under way; it was put back with all that was in it"
WATCH_RAISED = "the watch of a run raised this, which interrupts the run; it can be resumed"
"""A note on the exception."""
REFRESH = 0.25
"""Seconds between two snapshots for whoever watches."""


def open_or_create(plan: Plan, folders: RunFolders, *, at: float, ledger: str = "") -> None:
    """Make the run durable in state `queued`; an unfinished run with the same settings is left as it is.

    With the address of a shared `ledger` it is kept there, unless it has begun here.
    """
    check_place(folders)
    if folders.has_ledger:
        _check_same(folders.open_ledger(), plan)
    elif ledger:
        _open_or_create_shared(plan, folders, ledger, at=at)
    else:
        _open_or_create_own(plan, folders, at=at)


def _open_or_create_own(plan: Plan, folders: RunFolders, *, at: float) -> None:
    _make_folder(folders)
    try:
        create_ledger(folders.active, plan=msgspec.json.encode(plan), plan_sha256=plan_sha256(plan), at=at)
    except UsageProblem:
        # Another process was quicker; it may have had the same in mind.
        if not folders.has_ledger:
            raise
        _check_same(folders.open_ledger(), plan)


def _open_or_create_shared(plan: Plan, folders: RunFolders, ledger: str, *, at: float) -> None:
    """The pointer comes last: without it, a run that another machine or an earlier process has made is found again."""
    check_shareable(plan)
    # Before anything is made, an address that cannot be kept is refused.
    reachable(ledger)
    _make_folder(folders)
    try:
        create_ledger(folders.active, plan=msgspec.json.encode(plan), plan_sha256=plan_sha256(plan), at=at, address=ledger)
    except UsageProblem:
        # It is somebody else's until it is known to be the same.
        _check_same(open_shared(ledger, folders.run_id), plan)
    point_to(folders.active, ledger)


def check_shareable(plan: Plan) -> None:
    """Raises UsageProblem for a run that cannot be kept in a shared ledger."""
    if plan.batch is not None:
        raise UsageProblem(
            "batches of a provider are kept in a run's own ledger", hint="leave out --ledger (or ASSAY_LEDGER), or --batch"
        )


def _make_folder(folders: RunFolders) -> None:
    with disk_errors(folders.active, is_new=True):
        folders.active.mkdir(mode=0o700, parents=True, exist_ok=True)
    for parent in (folders.active.parent, folders.runs_dir):
        sync_folder(parent)


def _check_same(ledger: Ledger, plan: Plan) -> None:
    try:
        row = ledger.run()
    finally:
        ledger.close()
    # Of a run that has ended the ledger keeps the plan as it may be shown, which is no longer what was hashed.
    if row.plan_sha256 == plan_sha256(plan):
        return
    begun = read_plan(row.plan)
    changed = changed_settings(begun, plan)
    tokens = {plugin.token for plugin in begun.plugins}
    for plugin in plan.plugins:
        if plugin.token and plugin.token not in tokens:
            raise UsageProblem(
                f"run '{plan.run_id}' cannot go on: {uncomparable(plugin)}",
                hint="choose another --run-id; code that holds plain values only, or says its own `version`, is known again",
            )
    if changed:
        raise UsageProblem(
            f"run '{plan.run_id}' was started with other settings ({', '.join(changed)})",
            hint="repeat it with the same settings, go on with `assay resume`, or choose another --run-id",
        )


def drive(folders: RunFolders, surroundings: Surroundings, *, plan: Plan | None = None, is_patient: bool = True) -> None:
    """Bring the run to its sealed end; raises Interrupted or StoreUnavailable, and then it can be resumed.

    `plan` may differ from the run's own in what changes no result, such as the concurrency. While another process works on the
    run this one waits, or returns at once when it is not patient.
    """
    with _resumable(), held(folders, surroundings, patience=inf if is_patient else 0.0) as around:
        if around is not None and not folders.is_sealed:
            with _failing(folders, around):
                _drive_locked(folders, around, plan)
        if around is not None:
            _clear(folders, around)


def prepare(folders: RunFolders, surroundings: Surroundings, *, is_patient: bool = True) -> bool:
    """Write the records of a run into its ledger, so that workers elsewhere can evaluate them; False where another process does."""
    with _resumable(), held(folders, surroundings, patience=inf if is_patient else 0.0) as around:
        if around is not None and not folders.is_sealed:
            with _failing(folders, around), _opened(folders, around) as ledger:
                RunStates(ledger, folders, around).prepare()
        return around is not None


def seal(folders: RunFolders, surroundings: Surroundings, *, patience: float = SEAL_PATIENCE) -> None:
    """Publish the artifacts of a run that workers have evaluated, and end it; a run that has ended stays as it is.

    Raises StoreUnavailable when another process has the run and does not end it.
    """
    if not folders.exists:
        _adopt(folders, surroundings.placement)
    with _resumable(), held(folders, surroundings, patience=patience) as around:
        if around is None and not folders.is_sealed:
            raise _occupied(folders)
        if around is not None and not folders.is_sealed:
            with _opened(folders, around) as ledger:
                RunStates(ledger, folders, around).seal()
        if around is not None:
            _clear(folders, around)


@contextmanager
def _failing(folders: RunFolders, surroundings: Surroundings) -> Iterator[None]:
    """Inside, an error that ends the work makes the run `failed`, unless the run belongs to another process by now."""
    known = known_row(folders)
    reserve(folders.active)

    def record(_: object, problem: BaseException | None, __: object) -> None:
        # Defects of ours too; what stops a process, such as Ctrl-C, is no failure, nor is a watch that stops the run.
        if not isinstance(problem, Exception) or isinstance(problem, RunSealed | RunNotFound | Interrupted):
            return
        if WATCH_RAISED in getattr(problem, "__notes__", ()):
            return
        is_outage = isinstance(problem, StoreUnavailable) and not isinstance(problem, StoreRefused | RunDamaged | LedgerLost)
        if not (is_outage and surroundings.is_retried):
            record_failure(folders, failure_from(problem, at=surroundings.clock()), known=known)

    with ExitStack() as stack:
        stack.push(record)
        yield


@contextmanager
def _resumable() -> Iterator[None]:
    """Inside there is a run, so that to try again is to resume it."""
    try:
        yield
    except StoreUnavailable as problem:
        problem.hint = problem.hint.replace(AGAIN, "then resume the run")
        raise


def _occupied(folders: RunFolders) -> StoreUnavailable:
    process = RunLock(folders.active).holder()
    return StoreUnavailable(
        f"another worker has run '{folders.run_id}' and does not end it" + (f" (process {process})" if process else ""),
        hint="it is tried again; if that one stands still, stop it",
    )


def _adopt(folders: RunFolders, placement: Placement) -> None:
    """Let a machine seal a run that it did not start, where artifacts go to a store; raises StoreUnavailable where they do not."""
    ledger = open_shared(placement.ledger, folders.run_id)
    try:
        has_home = bool(placement.store) or STORE in ledger.run().notes
    finally:
        ledger.close()
    if not has_home:
        raise StoreUnavailable(
            f"'{folders.runs_dir}' is not the folder of runs in which run '{folders.run_id}' was started",
            hint="let workers and whoever starts runs share one folder of runs, or give them a --store",
        )
    _make_folder(folders)
    point_to(folders.active, placement.ledger)


def _drive_locked(folders: RunFolders, surroundings: Surroundings, plan: Plan | None) -> None:
    with _opened(folders, surroundings) as ledger:
        try:
            _Drive(ledger, folders, surroundings).to_the_end(plan)
        except KeyboardInterrupt as end:
            # Before and after the calls a signal is not drained, but the run is interrupted all the same, and can go on.
            if not surroundings.takes_signals:
                raise
            raise Interrupted from end


@contextmanager
def _opened(folders: RunFolders, surroundings: Surroundings) -> Iterator[Ledger]:
    """The ledger of a run that this process has the lock of."""
    check_place(folders)
    remove_stale_staging(folders.active)
    ledger = folders.open_ledger(driver=surroundings.driver)

    def rescue(_: object, problem: BaseException | None, __: object) -> None:
        if isinstance(problem, Exception) and _is_put_back(ledger):
            raise LedgerLost(PUT_BACK, hint="see who removed it, then resume the run") from problem

    with ExitStack() as stack:
        stack.callback(ledger.close)
        stack.push(rescue)
        yield ledger


def _is_put_back(ledger: Ledger) -> bool:
    with suppress(StoreUnavailable):
        return ledger.rescue()
    return False


def _clear(folders: RunFolders, surroundings: Surroundings) -> None:
    """A sealed run needs its working state no more; the originals in it are gone with it.

    The folder above stays even when it is empty: another run may be about to begin in it.
    """
    if pointed_to(folders.active):
        with _opened(folders, surroundings) as ledger:
            RunStates(ledger, folders, surroundings).end()
    empty_ledger(folders.active, folders.sealed)
    shutil.rmtree(folders.active, ignore_errors=True)


class _Drive:
    """One run on this machine, from whichever state it is in."""

    def __init__(self, ledger: Ledger, folders: RunFolders, surroundings: Surroundings) -> None:
        self._ledger = ledger
        self._folders = folders
        self._surroundings = surroundings
        self._states = RunStates(ledger, folders, surroundings)

    def to_the_end(self, plan: Plan | None) -> None:
        """Through all states that are left; evaluates under `plan` where it is given."""
        states = self._states
        states.prepare()
        if states.state in ("running", "retrying"):
            self._collect(plan or states.plan)
            if states.has_work:
                self._evaluate(plan or states.plan)
        states.seal()

    def _collect(self, plan: Plan) -> None:
        """Bring answers from batches into the ledger; those of a cancelled run too, as far as they are paid for."""
        if plan.batch is None:
            return
        # Loaded here: most runs have no batches.
        batches = import_module("assay.engine.running.batch_round")
        with disk_errors(self._folders.active), _as_interrupted():
            is_complete = batches.collect_batches(
                self._ledger, plan, folder=self._folders.active, around=self._surroundings, has_work=self._states.has_work
            )
        if not is_complete:
            raise Interrupted

    def _evaluate(self, plan: Plan) -> None:
        """Evaluate what is open; raises Interrupted when it was stopped with something left."""
        surroundings = self._surroundings
        if plan.comparison is not None and plan.parent_run_id:
            surroundings = msgspec.structs.replace(surroundings, judged=earlier_verdicts(self._states.parent()))
        with disk_errors(self._folders.active):
            is_complete = evaluate(self._ledger, plan, surroundings)
        if not is_complete and not self._ledger.run().is_cancel_requested:
            raise Interrupted


def evaluate(ledger: Ledger, plan: Plan, surroundings: Surroundings) -> bool:
    """Bring the open records of a ledger to their outcomes; False when somebody stopped it. Raises Interrupted at a second stop."""
    evaluation = Evaluation(ledger, plan, surroundings)
    with _as_interrupted():
        run_loop(evaluation.run(), surroundings.loop)
    return not evaluation.is_interrupted


@contextmanager
def _as_interrupted() -> Iterator[None]:
    try:
        yield
    except asyncio.CancelledError as end:
        raise Interrupted from end


class Evaluation:
    """The asynchronous part of a run: every open record of the ledger to its outcome."""

    def __init__(self, ledger: Ledger, plan: Plan, surroundings: Surroundings) -> None:
        self._ledger = ledger
        self._plan = plan
        self._surroundings = surroundings
        self._state: State = ledger.run().state
        self.is_interrupted = False

    async def run(self) -> None:
        """Returns when no record is open or the run is to stop."""
        async with opened_room(self._ledger, self._plan, self._surroundings, stop=asyncio.Event()) as room:
            with Signals(self, room.stop) if self._surroundings.takes_signals else nullcontext():
                await self._work(room)
            if room.rejection.problem is not None:
                raise room.rejection.problem

    async def _work(self, room: Room) -> None:
        watcher = asyncio.create_task(self._report(room))
        # A watch that raises ends the run, which can go on: it would ask and pay with nobody looking.
        watcher.add_done_callback(lambda ended: None if ended.cancelled() else room.stop.set())
        try:
            await run_local(room, on_retrying=partial(self._enter_retrying, room.journal))
        finally:
            if watcher.done():
                watcher.result()
            watcher.cancel()
            self._show(room)

    async def _enter_retrying(self, journal: Journal) -> None:
        if await journal.call(self._is_retrying):
            self._state = "retrying"

    def _is_retrying(self) -> bool:
        return self._ledger.set_state("running", "retrying", at=time_of_next(self._ledger, self._surroundings.clock()))

    async def _report(self, room: Room) -> None:
        while True:
            self._show(room)
            if self._surroundings.is_stopping is not None and self._surroundings.is_stopping():
                self.is_interrupted = True
                room.stop.set()
            await asyncio.sleep(REFRESH)

    def _show(self, room: Room) -> None:
        if self._surroundings.watch is not None:
            now, is_stopping = self._surroundings.clock(), room.stop.is_set()
            snapshot = room.tally.snapshot(self._state, now, waiting=room.crew.waiting, is_stopping=is_stopping)
            with ExitStack() as stack:
                stack.push(_note_watch)
                self._surroundings.watch(snapshot)


def _note_watch(_: object, problem: BaseException | None, __: object) -> None:
    if problem is not None:
        problem.add_note(WATCH_RAISED)
