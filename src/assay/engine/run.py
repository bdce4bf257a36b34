"""One run: from its plan through its states to sealed artifacts, or to a ledger that another process goes on with."""

import asyncio
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path

import msgspec

from assay.core.ask import Reply
from assay.core.case import sample_of
from assay.core.errors import RunSealed, StoreUnavailable, UsageProblem
from assay.core.outcome import Cancelled
from assay.core.placement import HERE, Placement
from assay.core.plan import FUNCTIONS, ModelPlan, Plan, changed_settings, plan_sha256, read_plan
from assay.core.plugin import Plugin, uncomparable
from assay.core.run_state import RunCounts, State, count_records, final_state
from assay.engine.attachments import attachment_reader
from assay.engine.batches import Collecting, collect, has_open_batches
from assay.engine.case import PROVIDER_REFUSED, Room, Route
from assay.engine.crew import Crew
from assay.engine.evidence import failed_evaluations
from assay.engine.finalize import finalize
from assay.engine.folders import RunFolders, check_place
from assay.engine.garbage import rare_collection
from assay.engine.inputs import DatasetInput
from assay.engine.journal import Journal
from assay.engine.limits import Limits, make_room_for_handles
from assay.engine.local import run_local
from assay.engine.observing import Observer, Watcher
from assay.engine.pairs import compared_records
from assay.engine.plugins import OpenPlugins
from assay.engine.rankings import earlier_verdicts
from assay.engine.responses import open_responses
from assay.engine.selection import prepared_records
from assay.engine.shown import own_secrets
from assay.engine.stopping import Signals, run_loop
from assay.engine.tally import BatchProgress, Snapshot, Tally
from assay.grading import GradingSettings, settings_of
from assay.models import Model, open_models
from assay.models.address import request_addressing
from assay.models.prices import pricing
from assay.store.artifacts import remove_stale_staging
from assay.store.cache import ReplyCache
from assay.store.failures import disk_errors, sync_folder
from assay.store.folder import RunFolder, open_run_folder
from assay.store.ledger import Ledger, RecordRow
from assay.store.ledgers import create_ledger, empty_ledger, point_to, reachable
from assay.store.lock import RunLock
from assay.store.redact import Redactor
from assay.store.sqlite import SqliteLedger

LOCK_PATIENCE = 60.0
REFRESH = 0.25
"""Seconds between two snapshots for whoever watches."""


class Surroundings(msgspec.Struct, kw_only=True):
    """What a run takes from outside: environment, clock, somebody who watches, signals."""

    environ: Mapping[str, str]
    clock: Callable[[], float] = time.time
    watch: Callable[[Snapshot], None] | None = None
    on_busy: Callable[[int | None], None] | None = None
    """Told once, with a process id, when another process works on the run and this one waits."""
    inputs: Sequence[DatasetInput] | None = None
    """The datasets, where somebody has just read them."""
    takes_signals: bool = False
    """Ctrl-C and SIGTERM drain the run; a second one stops it at once."""
    answers: Callable[[str, int], Reply] | None = None
    """Given answers by case id and sample, where they are in no file."""
    judged: Callable[[str, str], Reply | None] | None = None
    """What judges said in an earlier run, by a record's hash and a call; None where they are to be asked."""
    observe: Observer | None = None
    """Told of each record that comes to its end."""
    is_stopping: Callable[[], bool] | None = None
    """Asked a few times a second: True drains the run, for a caller that has signals of its own."""
    plugins: Sequence[Plugin] = ()
    """Code of others that somebody has just loaded or given; what else the plan names is loaded."""
    is_detached: bool = False
    """Batches of a provider are handed in and looked at once, and not waited for."""
    placement: Placement = HERE


class Interrupted(Exception):
    """The run was stopped before its end and can be resumed."""


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
    if plan.batch is not None:
        raise UsageProblem("batches of a provider are kept in a run's own ledger", hint="leave out --ledger, or --batch")
    # Before anything is made, an address that cannot be kept is refused.
    reachable(ledger)
    _make_folder(folders)
    try:
        create_ledger(folders.active, plan=msgspec.json.encode(plan), plan_sha256=plan_sha256(plan), at=at, address=ledger)
    except UsageProblem:
        point_to(folders.active, ledger)
        _check_same(folders.open_ledger(), plan)
    else:
        point_to(folders.active, ledger)


def _make_folder(folders: RunFolders) -> None:
    with disk_errors(folders.active):
        folders.active.mkdir(mode=0o700, parents=True, exist_ok=True)
    for parent in (folders.active.parent, folders.runs_dir):
        sync_folder(parent)


def _check_same(ledger: Ledger, plan: Plan) -> None:
    try:
        row = ledger.run()
    finally:
        ledger.close()
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
    lock = RunLock(folders.active)
    try:
        is_ours = _take(lock, surroundings, is_patient=is_patient)
    except StoreUnavailable:
        if folders.is_sealed:
            # Whoever had the lock has brought the run to its end and cleared the folder away.
            return
        raise
    try:
        if is_ours and not folders.is_sealed:
            _drive_locked(folders, surroundings, plan)
        if is_ours:
            _clear(folders)
    finally:
        lock.release()


def _take(lock: RunLock, surroundings: Surroundings, *, is_patient: bool) -> bool:
    if lock.try_acquire():
        return True
    if not is_patient:
        return False
    if surroundings.on_busy is not None:
        surroundings.on_busy(lock.holder())
    while not lock.wait(LOCK_PATIENCE):
        pass
    return True


def _drive_locked(folders: RunFolders, surroundings: Surroundings, plan: Plan | None) -> None:
    check_place(folders)
    remove_stale_staging(folders.active)
    ledger = folders.open_ledger()
    try:
        _Drive(ledger, folders, surroundings).to_the_end(plan)
    except KeyboardInterrupt as end:
        # Before and after the calls a signal is not drained, but the run is interrupted all the same, and can go on.
        if not surroundings.takes_signals:
            raise
        raise Interrupted from end
    finally:
        ledger.close()


def _clear(folders: RunFolders) -> None:
    """A sealed run needs its working state no more; the originals in it are gone with it.

    The folder above stays even when it is empty: another run may be about to begin in it.
    """
    empty_ledger(folders.active)
    shutil.rmtree(folders.active, ignore_errors=True)


class _Drive:
    """The states of one run, from whichever it is in."""

    def __init__(self, ledger: Ledger, folders: RunFolders, surroundings: Surroundings) -> None:
        self._ledger = ledger
        self._folders = folders
        self._surroundings = surroundings
        self.plan = read_plan(ledger.run().plan)

    def to_the_end(self, plan: Plan | None) -> None:
        """Through all states that are left; evaluates under `plan` where it is given."""
        if self._state == "queued":
            self._enter("validating")
        if self._state == "validating":
            with rare_collection():
                self._ledger.replace_records(self._records())
            self._enter("running")
        if self._state in ("running", "retrying"):
            self._collect(plan or self.plan)
            if self._has_work():
                self._evaluate(plan or self.plan)
        if self._state != "finalizing":
            self._decide()
        finalize(self._ledger, self._folders, secrets=own_secrets(self.plan, self._surroundings.environ))
        self._enter(_final_of(self._ledger))

    def _records(self) -> Iterator[RecordRow]:
        """The input of the run; a retry takes the records that its parent could not evaluate, but a ranking is made of all."""
        if self.plan.comparison is not None:
            return compared_records(self.plan)
        records = prepared_records(self.plan, self._surroundings.inputs)
        return _among(records, failed_evaluations(self._parent())) if self.plan.parent_run_id else records

    def _parent(self) -> RunFolder:
        return open_run_folder(self._folders.runs_dir / self.plan.parent_run_id)

    @property
    def _state(self) -> State:
        return self._ledger.run().state

    def _enter(self, state: State, at: float | None = None) -> None:
        if not self._ledger.set_state(self._state, state, at=self._now() if at is None else at):
            raise self._taken_over()

    def _now(self) -> float:
        """Never before the last state was entered, whatever became of the clock."""
        return max(self._surroundings.clock(), self._ledger.run().states[-1][1])

    def _has_work(self) -> bool:
        """Without it no model is opened: a run that is only to be sealed needs no key."""
        return not self._ledger.run().is_cancel_requested and bool(self._ledger.shards())

    def _collect(self, plan: Plan) -> None:
        """Bring answers from batches into the ledger; those of a cancelled run too, as far as they are paid for."""
        if plan.batch is None:
            return
        assert isinstance(self._ledger, SqliteLedger), "a run with batches has a ledger of its own"
        if not (self._has_work() or has_open_batches(self._ledger)):
            return
        around = self._surroundings
        collecting = Collecting(
            ledger=self._ledger,
            plan=plan,
            settings=_settings(plan, OpenPlugins(plan, around.plugins)),
            folder=self._folders.active,
            environ=around.environ,
            clock=around.clock,
            attachments=around.inputs[0].attachments if around.inputs else None,
            spent=lambda: _spent(self._ledger) if plan.max_cost is not None else 0.0,
            show=self._batch_display(),
            is_stopping=around.is_stopping,
            takes_signals=around.takes_signals,
            is_detached=around.is_detached,
        )
        with disk_errors(self._folders.active), _as_interrupted():
            is_complete = collect(collecting)
        if not is_complete:
            raise Interrupted

    def _batch_display(self) -> Callable[[BatchProgress], None] | None:
        """What shows the run while it waits for its batches; None where nobody looks."""
        watch, started = self._surroundings.watch, self._surroundings.clock()
        if watch is None:
            return None
        counts = self._ledger.counts()
        opened = counts.pop("open", 0)
        tally = Tally(sum(counts.values()) + opened, counts, started=started)

        def show(progress: BatchProgress) -> None:
            snapshot = tally.snapshot("running", self._surroundings.clock(), is_stopping=progress.is_stopping)
            watch(msgspec.structs.replace(snapshot, batch=progress))

        return show

    def _evaluate(self, plan: Plan) -> None:
        """Evaluate what is open; raises Interrupted when it was stopped with something left."""
        surroundings = self._surroundings
        if plan.comparison is not None and plan.parent_run_id:
            surroundings = msgspec.structs.replace(surroundings, judged=earlier_verdicts(self._parent()))
        with disk_errors(self._folders.active):
            is_complete = evaluate(self._ledger, plan, surroundings)
        if not is_complete and not self._ledger.run().is_cancel_requested:
            raise Interrupted

    def _decide(self) -> None:
        """Fix the final state and its time before anything is published, so that a repetition publishes the same."""
        is_cancelled = self._ledger.run().is_cancel_requested
        if is_cancelled:
            self._ledger.close_open(Cancelled(message="the run was cancelled"))
        elif self._ledger.shards():
            raise self._taken_over()
        counts = count_records(self._ledger.counts())
        blocked = _refusal(self._ledger, counts)
        is_blocked = bool(blocked) and not counts.evaluated_records
        self._ledger.set_note("final_state", final_state(counts, is_cancelled=is_cancelled, is_blocked=is_blocked))
        # The time of the decision ends the run and begins its publication: what follows must not seem to come before it.
        at = self._now()
        self._ledger.set_note("completed_at", repr(at))
        if blocked:
            redactor = Redactor(own_secrets(self.plan, self._surroundings.environ))
            self._ledger.set_note("blocked", redactor.text(blocked))
        self._enter("finalizing", at)

    def _taken_over(self) -> RunSealed:
        return RunSealed(f"run '{self.plan.run_id}' was taken over by another process", hint="look at it with: assay runs")


def evaluate(ledger: Ledger, plan: Plan, surroundings: Surroundings) -> bool:
    """Bring the open records of a ledger to their outcomes; False when somebody stopped it. Raises Interrupted at a second stop."""
    make_room_for_handles(plan.concurrency)
    evaluation = Evaluation(ledger, plan, surroundings)
    with _as_interrupted():
        run_loop(evaluation.run())
    return not evaluation.is_interrupted


def _refusal(ledger: Ledger, counts: RunCounts) -> str:
    """Why a provider took no more calls; the outcomes say it, so that a crash in between changes nothing."""
    if not counts.cancelled_records:
        return ""
    outcomes = (record.outcome for record in ledger.finished())
    refused = (outcome.message for outcome in outcomes if isinstance(outcome, Cancelled) and outcome.code == PROVIDER_REFUSED)
    return next(refused, "")


def _among(records: Iterable[RecordRow], failed: frozenset[tuple[str, int]]) -> Iterator[RecordRow]:
    kept = (record for record in records if record.case is not None and (record.sha256, sample_of(record.case)) in failed)
    return (msgspec.structs.replace(record, position=position) for position, record in enumerate(kept))


def _final_of(ledger: Ledger) -> State:
    state: State = msgspec.convert(ledger.run().notes["final_state"], State)
    return state


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
        self._plugins = OpenPlugins(plan, surroundings.plugins)
        self._cache = ReplyCache(Path(plan.cache_dir)) if plan.cache_dir else None
        self.is_interrupted = False

    async def run(self) -> None:
        """Returns when no record is open or the run is to stop."""
        loop = asyncio.get_running_loop()
        stop = asyncio.Event()
        journal = Journal(self._ledger, on_cancel=partial(loop.call_soon_threadsafe, stop.set))
        try:
            functions = self._plugins.functions()
            async with open_models(self._plan, environ=self._surroundings.environ, functions=functions) as models:
                room = await self._room(journal, models, stop)
                with Signals(self, stop) if self._surroundings.takes_signals else nullcontext():
                    await self._work(room)
        finally:
            journal.close()
            if self._cache is not None:
                self._cache.close()

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

    async def _room(self, journal: Journal, models: Mapping[str, Model], stop: asyncio.Event) -> Room:
        plan, surroundings, inputs = self._plan, self._surroundings, self._surroundings.inputs
        limits = Limits(plan, clock=surroundings.clock, stop=stop)
        counts = await journal.call(self._ledger.counts)
        spent = await journal.call(_spent, self._ledger) if plan.max_cost is not None or plan.batch is not None else 0.0
        opened = counts.pop("open", 0)
        observe = surroundings.observe
        watcher = None if observe is None else Watcher(observe, plan, environ=surroundings.environ, clock=surroundings.clock)
        tally = Tally(sum(counts.values()) + opened, counts, started=surroundings.clock(), cost=spent)
        return Room(
            plan=plan,
            settings=_settings(plan, self._plugins),
            routes={
                model.name: _route(plan, model, models[model.name], limits=limits, environ=surroundings.environ)
                for model in (*plan.models(), *filter(None, (plan.called_grader(),)))
                if model.name in models
            },
            journal=journal,
            limits=limits,
            tally=tally,
            crew=Crew(plan.concurrency),
            stop=stop,
            attachments=attachment_reader(plan, inputs[0].attachments if inputs else None, stop=stop),
            responses=surroundings.answers or open_responses(plan),
            judged=surroundings.judged,
            cache=self._cache,
            watcher=watcher,
            clock=surroundings.clock,
        )

    async def _enter_retrying(self, journal: Journal) -> None:
        if await journal.call(self._ledger.set_state, "running", "retrying", at=self._surroundings.clock()):
            self._state = "retrying"

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
            self._surroundings.watch(room.tally.snapshot(self._state, now, waiting=room.crew.waiting, is_stopping=is_stopping))


def _settings(plan: Plan, plugins: OpenPlugins) -> GradingSettings:
    """What cases are asked and graded by, the same one by one and in batches."""
    return plugins.into(settings_of(plan))


def _route(plan: Plan, model: ModelPlan, opened: Model, *, limits: Limits, environ: Mapping[str, str]) -> Route:
    provider = next(provider for provider in plan.providers if provider.name == model.provider)
    return Route(
        model=opened,
        gate=limits.gate(model.provider, "candidate" if model is plan.candidate else "judge"),
        address=request_addressing(provider, model),
        cost=pricing(provider, model, environ=environ) if model != plan.called_grader() else _free,
        # What a function says depends on its code, which an address does not cover.
        is_kept=provider.kind != FUNCTIONS,
    )


def _free(_: Reply) -> float:
    """A grader of one's own has no price."""
    return 0.0


def _spent(ledger: Ledger) -> float:
    """What the run has cost before it was interrupted."""
    return sum(attempt.cost or 0.0 for record in ledger.finished() for attempt in record.attempts)
