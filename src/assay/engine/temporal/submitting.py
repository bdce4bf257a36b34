"""Runs into workflows: start one, follow it through the ledger, and say why it has ended."""

import asyncio
import time
from datetime import timedelta
from typing import NamedTuple

import msgspec
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from assay.core.errors import AssayError, MissingExtra, ProviderRejected, StoreUnavailable, UsageProblem
from assay.core.placement import TemporalServer
from assay.core.plan import Plan
from assay.engine.places.folders import RunFolders
from assay.engine.running.engines import PROBLEM
from assay.engine.running.local import worker_name
from assay.engine.running.states import standing
from assay.engine.running.stopping import run_loop
from assay.engine.running.surroundings import Interrupted, Surroundings
from assay.engine.tally import Snapshot, Tally
from assay.engine.temporal.connection import connect, unreachable
from assay.engine.temporal.workflow import RUN_WORKFLOW, shard_queue
from assay.store.ledger import Ledger

REFRESH = 0.5
"""Seconds between two looks at the ledger for whoever watches, at least; a look at a large run may take up a tenth of the time."""
_LONGEST_REFRESH = 5.0
_TASK_TIMEOUT = timedelta(seconds=5)
"""After which a workflow that a worker has fallen silent over is given to another; what it does takes milliseconds."""
_Handle = WorkflowHandle[object, object]
_ERRORS = {problem.code: problem for problem in (UsageProblem, MissingExtra, StoreUnavailable, ProviderRejected)}


class _Started(NamedTuple):
    """A workflow that is under way, and the way to its server."""

    client: Client
    handle: _Handle


def check_placeable(plan: Plan) -> None:
    """Raises UsageProblem for a run that workers elsewhere could not evaluate."""
    if plan.comparison is not None:
        raise UsageProblem("a ranking is made on one machine", hint="leave out --engine temporal (or ASSAY_ENGINE)")
    given = [plugin.name for plugin in plan.plugins if not plugin.reference or plugin.token]
    if given:
        raise UsageProblem(
            f"'{given[0]}' was given in Python, and workers elsewhere cannot load it",
            hint="name it as module:function, and install its module where the workers are",
        )


def start(folders: RunFolders, server: TemporalServer, surroundings: Surroundings) -> None:
    """Let workers go on with a run whose records are in the ledger; nothing happens when they do already."""
    run_loop(_started(folders.run_id, server, surroundings))


async def _started(run_id: str, server: TemporalServer, surroundings: Surroundings) -> "_Started":
    client = await connect(server, environ=surroundings.environ, identity=worker_name())
    try:
        handle: _Handle = await client.start_workflow(
            RUN_WORKFLOW,
            run_id,
            id=run_id,
            task_queue=server.task_queue,
            task_timeout=_TASK_TIMEOUT,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
        )
    except RPCError as problem:
        raise unreachable(server, problem) from problem
    return _Started(client, handle)


def follow(folders: RunFolders, server: TemporalServer, surroundings: Surroundings) -> None:
    """Let workers go on with a run and watch until it is sealed; raises Interrupted when somebody stops watching.

    What ends the workflow without an end of the run is raised as it was on the worker.
    """
    ledger = folders.open_ledger()
    try:
        run_loop(Following(folders.run_id, ledger, surroundings).to_the_end(server))
    except (KeyboardInterrupt, asyncio.CancelledError) as end:
        raise Interrupted from end
    finally:
        ledger.close()


class Following:
    """One run that is under way elsewhere."""

    def __init__(self, run_id: str, ledger: Ledger, surroundings: Surroundings) -> None:
        self._run_id = run_id
        self._ledger = ledger
        self._surroundings = surroundings
        self._started = surroundings.clock()
        self._done_before = _done(standing(ledger)[1])
        self._done = -1

    async def to_the_end(self, server: TemporalServer) -> None:
        """Returns when the workflow has ended well."""
        started = await _started(self._run_id, server, self._surroundings)
        ended = asyncio.create_task(_ended(started.handle))
        try:
            while not ended.done():
                pause = await self._show(started.client, server)
                await asyncio.wait([ended], timeout=pause)
                if self._surroundings.is_stopping is not None and self._surroundings.is_stopping():
                    raise Interrupted
        finally:
            ended.cancel()
        ended.result()
        if self._surroundings.watch is not None:
            self._surroundings.watch(await asyncio.to_thread(self.snapshot))

    async def _show(self, client: Client, server: TemporalServer) -> float:
        """Show how the run stands; returns when to look again."""
        watch = self._surroundings.watch
        if watch is None:
            return REFRESH
        before = time.perf_counter()
        snapshot = await asyncio.to_thread(self.snapshot)
        pause = min(max(REFRESH, 9 * (time.perf_counter() - before)), _LONGEST_REFRESH)
        if not snapshot.problem and snapshot.done == self._done:
            snapshot = msgspec.structs.replace(snapshot, problem=await _missing_workers(client, server))
        self._done = snapshot.done
        watch(snapshot)
        return pause

    def snapshot(self) -> Snapshot:
        """How the run stands; only the workers know of their calls."""
        row, counts = standing(self._ledger)
        opened = counts.pop("open", 0)
        tally = Tally(sum(counts.values()) + opened, counts, started=self._started, done_before=self._done_before)
        snapshot = tally.snapshot(row.state, self._surroundings.clock(), knows_calls=False)
        problem = row.notes.get(PROBLEM, "")
        return msgspec.structs.replace(snapshot, problem=f"a worker cannot go on: {problem}" if problem else "")


def _done(counts: dict[str, int]) -> int:
    return sum(count for status, count in counts.items() if status != "open")


async def _missing_workers(client: Client, server: TemporalServer) -> str:
    """That nobody takes the shards, where it is so: a run without workers waits without a word."""
    queue = TaskQueue(name=shard_queue(server.task_queue))
    question = DescribeTaskQueueRequest(
        namespace=server.namespace, task_queue=queue, task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY
    )
    try:
        answer = await client.workflow_service.describe_task_queue(question)
    except RPCError as problem:
        return f"the Temporal server at {server.address} does not answer: {problem.message}"
    return "" if answer.pollers else f"no worker takes work from the task queue '{server.task_queue}' at {server.address}"


async def _ended(handle: _Handle) -> None:
    """Returns when the run is sealed, whatever becomes of the server meanwhile; raises what the workflow ended with."""
    while True:
        try:
            await handle.result()
        except WorkflowFailureError as problem:
            raise _told(problem, handle.id) from None
        except RPCError:
            # A server that is away comes back: the run waits for it too.
            await asyncio.sleep(REFRESH)
        else:
            return


def _told(problem: WorkflowFailureError, run_id: str) -> AssayError:
    """The error of a worker, with its hint."""
    cause: BaseException = problem
    while cause.__cause__ is not None:
        cause = cause.__cause__
    if not isinstance(cause, ApplicationError):
        return UsageProblem(f"the workflow of the run has ended: {cause}", hint=f"go on with the run: assay resume {run_id}")
    hint = str(cause.details[0]) if cause.details else ""
    return _ERRORS.get(cause.type or "", UsageProblem)(cause.message, hint=hint)
