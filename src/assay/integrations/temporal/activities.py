"""The runs of which a worker evaluates shards: each is opened once, and closed after its last shard."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

import msgspec
from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from assay.core.case import Case
from assay.core.errors import (
    AssayError,
    LedgerUnavailable,
    ProviderRejected,
    RunDamaged,
    StoreRefused,
    StoreUnavailable,
    UsageProblem,
)
from assay.core.outcome import GradingFailure
from assay.core.plan import Plan, read_plan
from assay.engine.execution.run_context import RunContext, RunEnvironment, open_run_context
from assay.engine.execution.shard import run_shard, stop_on_error
from assay.engine.execution.states import time_of_next
from assay.engine.readers.run_list import PROBLEM
from assay.engine.storage.run_failure import RunFailure, enter_failure, failure_from
from assay.integrations.temporal.workflow import EVALUATE_SHARD, HEARTBEAT_TIMEOUT, OPEN_SHARDS, PAGE, REQUEST_CANCEL, SEAL
from assay.models import check_models
from assay.store.ledger import Ledger
from assay.store.ledgers import open_shared

LINGER = 2.0
"""Seconds that a run without shards stays open for its next one, since opening models and plugins is slow."""
POLL_INTERVAL = 1.0
"""Seconds between two polls for what other workers did to the run: a cancel, cost, finished shards."""


class StopEvent(asyncio.Event):
    """Event that forbids new calls; setting it sets the events of its parts, such as the shards of a run."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: set[StopEvent] = set()

    def set(self) -> None:
        """Set this event and those of all parts."""
        super().set()
        for part in self._parts:
            part.set()

    def add(self, part: "StopEvent") -> None:
        """Add a part; it is set at once when this event is set already."""
        self._parts.add(part)
        if self.is_set():
            part.set()

    def remove(self, part: "StopEvent") -> None:
        """Remove a part."""
        self._parts.discard(part)


class ShardReleased(Exception):
    """Set when the shard is unfinished, and another worker must continue it."""


class OpenRuns:
    """Open runs of one worker, by run id."""

    def __init__(self, ledger: str, environment: RunEnvironment, *, owner: str) -> None:
        self.ledger = ledger
        self.owner = owner
        self._environment = environment
        self._runs: dict[str, OpenRun] = {}
        self._open_runs: set[OpenRun] = set()
        """All that are not closed yet; a run that is opened again while it is being closed has two entries."""
        self.is_stopping = False

    @asynccontextmanager
    async def open_run(self, run_id: str) -> AsyncIterator["OpenRun"]:
        """Open the run, or join it when it is open, for the length of the block; raises what prevents it."""
        # A run that is being closed accepts no more shards, so a second one is opened next to it.
        run = self._runs.get(run_id)
        if run is None or run.is_over:
            run = self._runs[run_id] = OpenRun(run_id, self.ledger, self._environment, owner=self.owner)
            self._open_runs.add(run)
            run.on_closed(self._forget)
        run.users += 1
        linger = LINGER
        try:
            yield run
        except ProviderRejected:
            # An open run and its leases remember the rejection; a run that is resumed at once must not find it.
            linger = 0.0
            raise
        finally:
            run.users -= 1
            # Not closed at once: the next shard of the same run is usually on its way.
            asyncio.get_running_loop().call_later(linger, run.close_when_empty)

    def stop(self) -> None:
        """Make no new calls: calls in flight finish, and the shards are handed back."""
        self.is_stopping = True
        for run in self._open_runs:
            run.stop.set()

    async def close(self) -> None:
        """Close all runs, after all shards have left."""
        # Those that linger would otherwise hold up the end.
        for run in self._open_runs:
            run.close_when_empty()
        await asyncio.gather(*(run.closed() for run in self._open_runs))

    def _forget(self, run: "OpenRun") -> None:
        """Drop every reference to a closed run: a worker sees thousands."""
        self._open_runs.discard(run)
        # Only if it is this one: a new run may have taken its place.
        if self._runs.get(run.run_id) is run:
            del self._runs[run.run_id]


class OpenRun:
    """One run while this worker evaluates shards of it."""

    def __init__(self, run_id: str, ledger: str, environment: RunEnvironment, *, owner: str) -> None:
        self.run_id = run_id
        self.users = 0
        self.stop = StopEvent()
        """Set when no shard of the run may make another call on this worker."""
        self._address = ledger
        self._environment = environment
        self._owner = owner
        self._shards: set[int] = set()
        self._context: asyncio.Future[RunContext] = asyncio.get_running_loop().create_future()
        self._should_close = asyncio.Event()
        # One task both opens and closes the context, as async context managers require; shards come and go in their own tasks.
        self._task = asyncio.create_task(self._hold_open())
        self._task.add_done_callback(self._on_closed)

    @property
    def is_over(self) -> bool:
        """True when the run accepts no more shards here: it was stopped, or is being closed."""
        return self.stop.is_set() or self._should_close.is_set() or self._task.done()

    def close_when_empty(self) -> None:
        """Close the run unless a shard uses it."""
        if not self.users:
            self._should_close.set()

    def on_closed(self, act: Callable[["OpenRun"], None]) -> None:
        """Call a function when the run is closed."""
        self._task.add_done_callback(lambda _: act(self))

    async def closed(self) -> None:
        """Wait until the run is closed."""
        await asyncio.wait([self._task])

    async def evaluate(self, shard: int, stop: StopEvent) -> bool:
        """Evaluate the open records of a shard; return True when the run was cancelled. Raises ShardReleased when stopped."""
        # Joined before anything is awaited, so that a stop of the run in between reaches the shard.
        self.stop.add(stop)
        # Shielded: a shard that is cancelled while the run opens must not cancel the opening for the others.
        context = msgspec.structs.replace(await asyncio.shield(self._context), stop=stop)
        stopping = asyncio.create_task(_wake_on_stop(context))
        try:
            await self._reserve(context)
            self._shards.add(shard)
            if await run_shard(shard, context, owner=self._owner):
                # A shard that ended well shows that the last problem is over.
                await context.ledger_writer.call(clear_problem, context.ledger_writer.ledger)
                return False
            if context.rejection.problem is not None:
                raise context.rejection.problem
        except AssayError:
            # Errors of the ledger, the plan or a provider concern all shards of the run.
            self.stop.set()
            raise
        finally:
            stopping.cancel()
            self._shards.discard(shard)
            self.stop.remove(stop)
        # A stopped shard is either cancelled for good, or to be continued by another worker; the ledger knows.
        if await context.ledger_writer.call(_is_cancelled, context.ledger_writer.ledger):
            return True
        raise ShardReleased

    async def _reserve(self, context: RunContext) -> None:
        """Wait until this worker has capacity for one more shard."""
        reserved, stopped = asyncio.ensure_future(context.in_flight.reserve()), asyncio.ensure_future(context.stop.wait())
        # Whichever comes first: capacity, or the end of this worker.
        try:
            await asyncio.wait([reserved, stopped], return_when=asyncio.FIRST_COMPLETED)
            if not reserved.done():
                raise ShardReleased
        finally:
            reserved.cancel()
            stopped.cancel()

    async def _hold_open(self) -> None:
        """Open the run context, poll the ledger while it is open, and close it."""
        # Connections block, so they are opened and closed in threads.
        ledger = await asyncio.to_thread(open_shared, self._address, self.run_id)
        try:
            plan = read_plan((await asyncio.to_thread(ledger.run)).plan)
            # Before the context is opened, which would load models and plugins.
            _check(plan, self._environment)
            async with open_run_context(ledger, plan, self._environment, stop=self.stop) as context:
                context.attachments = _require_attachments(context.attachments)
                self._context.set_result(context)
                polling = asyncio.create_task(stop_on_error(self._poll, context))
                await self._should_close.wait()
                polling.cancel()
                # Awaited, so that the poll does not use the ledger after it is closed.
                await asyncio.wait([polling])
        finally:
            await asyncio.to_thread(ledger.close)

    def _on_closed(self, task: asyncio.Task[None]) -> None:
        """Pass an error of opening to the waiting shards, and log an unexpected one that no shard would receive."""
        self.stop.set()
        problem = task.exception()
        if not self._context.done():
            # Shards that wait for the context get the error, or are handed back if there was none.
            self._context.set_exception(problem or ShardReleased())
            # Mark the exception as retrieved: the shard that waited for it may be gone.
            self._context.exception()
        elif problem is not None and not isinstance(problem, AssayError):
            asyncio.get_running_loop().call_exception_handler({"message": "a run cannot be kept open", "exception": problem})

    async def _poll(self, context: RunContext) -> None:
        """Poll the ledger for what other workers did to the run."""
        ledger_writer, counters = context.ledger_writer, context.counters
        while True:
            await asyncio.sleep(POLL_INTERVAL)
            if await ledger_writer.call(_is_cancelled, ledger_writer.ledger):
                context.stop.set()
            if context.plan.max_cost is not None:
                # Workers share their cost through leases; the ledger also has the cost of workers that died before reporting it.
                spent = await ledger_writer.call(ledger_writer.ledger.spent)
                # The larger of the two: this worker may know of calls that are not written yet.
                counters.cost = max(counters.cost, spent)
            if context.in_flight.is_retrying_all:
                await ledger_writer.call(partial(_mark_retrying, ledger_writer.ledger, frozenset(self._shards), at=context.clock()))


async def _wake_on_stop(context: RunContext) -> None:
    """Wake a stopped shard's records that wait for slots held by other shards or workers."""
    await context.stop.wait()
    context.scheduler.wake_stopped()


def clear_problem(ledger: Ledger) -> None:
    """Remove the noted problem once a worker has finished a shard in spite of it."""
    if ledger.run().notes.get(PROBLEM):
        ledger.set_note(PROBLEM, "")


def _is_cancelled(ledger: Ledger) -> bool:
    return ledger.run().is_cancel_requested


def _mark_retrying(ledger: Ledger, shards: frozenset[int], *, at: float) -> None:
    """Enter state `retrying` when all remaining shards are on this worker; otherwise others may still make first attempts."""
    if ledger.run().state == "running" and shards.issuperset(ledger.shards()):
        ledger.set_state("running", "retrying", at=time_of_next(ledger, at))


def _check(plan: Plan, environment: RunEnvironment) -> None:
    """Raise UsageProblem for what this worker lacks, such as a key, before records fail as if a model were to blame."""
    problems = check_models(plan, environ=environment.environ)
    if problems:
        raise UsageProblem("; ".join(problems), hint="fix it on that worker")


def _require_attachments(read: Callable[[Case], Awaitable[Mapping[str, str]]]) -> Callable[[Case], Awaitable[Mapping[str, str]]]:
    """Wrap the reader of attachments: a worker that cannot see a pinned file raises UsageProblem instead of failing the record."""

    async def texts(case: Case) -> Mapping[str, str]:
        try:
            return await read(case)
        except GradingFailure as failure:
            # Only pinned files are the worker's fault: the plan has a hash, so the file was there when the run
            # was planned.
            if not all(attachment.sha256 for attachment in case.attachments):
                raise
            raise UsageProblem(failure.message, hint="let that worker see the folder of the dataset, at the same path") from failure

    return texts


HEARTBEAT_INTERVAL = 1.0
"""Seconds between two heartbeats."""
_AT_ONCE = timedelta(milliseconds=1)

T = TypeVar("T")


class Activities:
    """Activities that a worker offers to the workflows of runs."""

    def __init__(self, runs: OpenRuns, seal: Callable[[str], str]) -> None:
        self._runs = runs
        self._seal = seal

    def run_activities(self) -> list[Callable[..., Awaitable[Any]]]:
        """Return the activities for a run as a whole."""
        return [self.open_shards, self.seal, self.request_cancel]

    def shard_activities(self) -> list[Callable[..., Awaitable[Any]]]:
        """Return the activities for a shard."""
        return [self.evaluate_shard]

    @activity.defn(name=OPEN_SHARDS)
    async def open_shards(self, run_id: str) -> list[int]:
        """Return the first shards with open records; none for a cancelled run."""
        return await self._in_thread(run_id, _open_shards)

    @activity.defn(name=EVALUATE_SHARD)
    async def evaluate_shard(self, run_id: str, shard: int) -> bool:
        """Evaluate the open records of a shard; return True when the run was cancelled."""
        stop = StopEvent()
        return await with_heartbeat(self._as_application_error(run_id, self._evaluate_shard(run_id, shard, stop)), stop)

    async def _evaluate_shard(self, run_id: str, shard: int, stop: StopEvent) -> bool:
        # A worker that is stopping may still be given tasks that waited for it.
        if self._runs.is_stopping:
            raise ShardReleased
        async with self._runs.open_run(run_id) as run:
            return await run.evaluate(shard, stop)

    @activity.defn(name=SEAL)
    async def seal(self, run_id: str) -> str:
        """Publish the artifacts and end the run; return its final state."""
        # Any StoreUnavailable is retried here: a full disk or a missing folder may be fixed, and nothing is paid for twice.
        return await with_heartbeat(
            self._as_application_error(run_id, asyncio.to_thread(self._seal, run_id), transient=StoreUnavailable), StopEvent()
        )

    @activity.defn(name=REQUEST_CANCEL)
    async def request_cancel(self, run_id: str) -> None:
        """Cancel the run whose workflow was cancelled."""
        await self._in_thread(run_id, lambda ledger: ledger.request_cancel())

    async def _in_thread(self, run_id: str, use_ledger: Callable[[Ledger], T]) -> T:
        return await with_heartbeat(
            self._as_application_error(run_id, asyncio.to_thread(_use_ledger, use_ledger, self._runs.ledger, run_id)), StopEvent()
        )

    async def _as_application_error(
        self, run_id: str, work: Coroutine[Any, Any, T], *, transient: type[AssayError] = LedgerUnavailable
    ) -> T:
        """Return the result of the work; convert an error for Temporal, to be retried when `transient` and final otherwise."""
        try:
            return await work
        except ShardReleased:
            raise ApplicationError(
                f"handed back by {self._runs.owner}",
                type="handed_back",
                # At once: nothing is wrong, and any other worker may take it.
                next_retry_delay=_AT_ONCE,
                category=ApplicationErrorCategory.BENIGN,
            ) from None
        except AssayError as problem:
            # Damage and a refusal by the store do not pass, although they are kinds of unavailability.
            is_transient = isinstance(problem, transient) and not isinstance(problem, RunDamaged | StoreRefused)
            message, hint = _encodable(f"{problem.message} (worker {self._runs.owner})"), _encodable(problem.hint)
            note = "; ".join(filter(None, (message, hint)))
            failure = None if is_transient else failure_from(problem, at=time.time())
            # Noted in the ledger, where followers look; the history of the workflow is not for them.
            await asyncio.to_thread(_note_problem, note, self._runs.ledger, run_id, failure=failure)
            # The message only: the cause may hold a prompt, and would be stored in Temporal's history.
            raise ApplicationError(message, hint, type=problem.code, non_retryable=not is_transient) from None


async def with_heartbeat(work: Coroutine[Any, Any, T], stop: StopEvent) -> T:
    """Return the result of the work, sending heartbeats while it lasts.

    Once the activity is cancelled, on request or because its heartbeats were lost, no new call is made. Calls in flight finish and
    are recorded unless another worker has claimed the shard. The same happens when this process was suspended for longer than the
    heartbeat timeout.
    """
    task, clock = asyncio.create_task(work), asyncio.get_running_loop().time
    cancelled: asyncio.CancelledError | None = None
    # Measured by the loop's clock, which shows that this process was suspended.
    missed_at = clock() + HEARTBEAT_TIMEOUT.total_seconds()
    while not task.done():
        if clock() > missed_at:
            stop.set()
        missed_at = clock() + HEARTBEAT_TIMEOUT.total_seconds()
        activity.heartbeat()
        try:
            await asyncio.wait([task], timeout=HEARTBEAT_INTERVAL)
        except asyncio.CancelledError as end:
            cancelled = end
            stop.set()
    if cancelled is not None:
        # The results are in the ledger. Retrieve the exception, since asyncio would log one that is not retrieved.
        task.exception()
        raise cancelled
    return task.result()


def _open_shards(ledger: Ledger) -> list[int]:
    # A workflow that gets a full page continues as a new one; for a cancelled run there is nothing to hand out.
    return [] if ledger.run().is_cancel_requested else list(ledger.shards())[:PAGE]


def _encodable(note: str) -> str:
    """Return a message that can be encoded: names of files may contain bytes that are not text."""
    return note.encode("utf-8", "replace").decode()


def _note_problem(problem: str, address: str, run_id: str, *, failure: RunFailure | None) -> None:
    """Note in the ledger why the run does not continue, and the failure if no worker will retry."""
    # The note is for people; the error itself is reported in any case.
    with suppress(AssayError):
        _use_ledger(lambda ledger: ledger.set_note(PROBLEM, problem), address, run_id)
        if failure is not None:
            _use_ledger(lambda ledger: enter_failure(ledger, failure), address, run_id)


def _use_ledger(use_ledger: Callable[[Ledger], T], address: str, run_id: str) -> T:
    ledger = open_shared(address, run_id)
    try:
        return use_ledger(ledger)
    finally:
        ledger.close()
