"""Workflows of runs: start one, follow it through the ledger, and report why it has ended."""

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
from assay.core.plan import Plan
from assay.core.runs import TemporalServer
from assay.engine.execution.run_context import RunEnvironment, RunInterrupted
from assay.engine.execution.states import run_status
from assay.engine.readers.run_list import PROBLEM
from assay.engine.records.run_counters import RunCounters, Snapshot
from assay.engine.storage.run_paths import RunPaths
from assay.integrations.temporal.connection import connect, unreachable
from assay.integrations.temporal.workflow import RUN_WORKFLOW, shard_queue
from assay.store.ledger import Ledger
from assay.store.lock import worker_name

REFRESH = 0.5
"""Minimum seconds between two reads of the ledger for progress; reading a large run may use a tenth of the time."""
_LONGEST_REFRESH = 5.0
_TASK_TIMEOUT = timedelta(seconds=5)
"""Time after which a workflow task of a silent worker goes to another; the task itself takes milliseconds."""
_Handle = WorkflowHandle[object, object]
_ERRORS = {problem.code: problem for problem in (UsageProblem, MissingExtra, StoreUnavailable, ProviderRejected)}


class _WorkflowHandle(NamedTuple):
    """A workflow in progress, with the client of its server."""

    client: Client
    handle: _Handle


def check_placeable(plan: Plan) -> None:
    """Raise UsageProblem for a run that workers on other machines could not evaluate."""
    if plan.comparison is not None:
        raise UsageProblem("a ranking is made on one machine", hint="leave out --engine temporal (or ASSAY_ENGINE)")
    # A token stands for code that only this process has.
    given = [plugin.name for plugin in plan.plugins if not plugin.reference or plugin.token]
    if given:
        raise UsageProblem(
            f"'{given[0]}' was given in Python, and workers on other machines cannot load it",
            hint="name it as module:function, and install its module on the workers' machines",
        )


def start(folders: RunPaths, server: TemporalServer, environment: RunEnvironment) -> None:
    """Start the workflow of a run whose records are in the ledger; a no-op when it is already in progress."""
    asyncio.run(_start_workflow(folders.run_id, server, environment))


async def _start_workflow(run_id: str, server: TemporalServer, environment: RunEnvironment) -> "_WorkflowHandle":
    client = await connect(server, environ=environment.environ, identity=worker_name())
    try:
        handle: _Handle = await client.start_workflow(
            RUN_WORKFLOW,
            run_id,
            id=run_id,
            task_queue=server.task_queue,
            task_timeout=_TASK_TIMEOUT,
            # Started again for a run in progress, nothing happens; for one whose workflow was lost, a new one
            # begins.
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            # A run that failed can be resumed under its own id.
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
        )
    except RPCError as problem:
        raise unreachable(server, problem) from problem
    return _WorkflowHandle(client, handle)


def follow(folders: RunPaths, server: TemporalServer, environment: RunEnvironment) -> None:
    """Start the workflow of a run and follow it until it is sealed; raises RunInterrupted when the caller stops following.

    An error that ends the workflow before the run has ended is raised as it was on the worker.
    """
    ledger = folders.open_ledger()
    try:
        asyncio.run(WorkflowFollower(folders.run_id, ledger, environment).follow(server))
    except (KeyboardInterrupt, asyncio.CancelledError) as end:
        raise RunInterrupted from end
    finally:
        ledger.close()


class WorkflowFollower:
    """Follower of one run that workers evaluate."""

    def __init__(self, run_id: str, ledger: Ledger, environment: RunEnvironment) -> None:
        self._run_id = run_id
        self._ledger = ledger
        self._environment = environment
        self._started = environment.clock()
        # Records of earlier workers are not part of the rate.
        self._done_before = _done(run_status(ledger)[1])
        self._done = -1

    async def follow(self, server: TemporalServer) -> None:
        """Report progress until the workflow has ended; raises what it ended with."""
        started = await _start_workflow(self._run_id, server, self._environment)
        ended = asyncio.create_task(_wait_for_end(started.handle))
        try:
            while not ended.done():
                pause = await self._send_snapshot(started.client, server)
                await asyncio.wait([ended], timeout=pause)
                # Leaving does not end the run: the workers go on.
                if self._environment.is_stopping is not None and self._environment.is_stopping():
                    raise RunInterrupted
        finally:
            ended.cancel()
        ended.result()
        # A last look, since the final counts may be newer than the last poll.
        if self._environment.watch is not None:
            self._environment.watch(await asyncio.to_thread(self.snapshot))

    async def _send_snapshot(self, client: Client, server: TemporalServer) -> float:
        """Send a snapshot to the caller's `watch`; return the seconds until the next one."""
        watch = self._environment.watch
        if watch is None:
            return REFRESH
        before = time.perf_counter()
        snapshot = await asyncio.to_thread(self.snapshot)
        # Reading a large ledger takes longer, and must not become the ledger's main load.
        pause = min(max(REFRESH, 9 * (time.perf_counter() - before)), _LONGEST_REFRESH)
        # Nothing moved since the last look: it may be that no worker is there.
        if not snapshot.problem and snapshot.done == self._done:
            snapshot = msgspec.structs.replace(snapshot, problem=await _missing_workers(client, server))
        self._done = snapshot.done
        watch(snapshot)
        return pause

    def snapshot(self) -> Snapshot:
        """Return the run's counters from the ledger; calls are known to the workers only."""
        row, counts = run_status(self._ledger)
        opened = counts.pop("open", 0)
        counters = RunCounters(sum(counts.values()) + opened, counts, started=self._started, done_before=self._done_before)
        snapshot = counters.snapshot(row.state, self._environment.clock(), knows_calls=False)
        problem = row.notes.get(PROBLEM, "")
        return msgspec.structs.replace(snapshot, problem=f"a worker cannot continue: {problem}" if problem else "")


def _done(counts: dict[str, int]) -> int:
    return sum(count for status, count in counts.items() if status != "open")


async def _missing_workers(client: Client, server: TemporalServer) -> str:
    """Return a message when no worker polls the shard queue: the run would otherwise wait silently."""
    queue = TaskQueue(name=shard_queue(server.task_queue))
    request = DescribeTaskQueueRequest(
        namespace=server.namespace, task_queue=queue, task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY
    )
    try:
        response = await client.workflow_service.describe_task_queue(request)
    except RPCError as problem:
        return f"the Temporal server at {server.address} does not answer: {problem.message}"
    return "" if response.pollers else f"no worker takes work from the task queue '{server.task_queue}' at {server.address}"


async def _wait_for_end(handle: _Handle) -> None:
    """Wait until the run is sealed, through outages of the server; raises what the workflow ended with."""
    while True:
        try:
            await handle.result()
        except WorkflowFailureError as problem:
            raise _worker_error(problem, handle.id) from None
        except RPCError:
            # Keep waiting: the workflow itself survives an outage of the server.
            await asyncio.sleep(REFRESH)
        else:
            return


def _worker_error(problem: WorkflowFailureError, run_id: str) -> AssayError:
    """Return a worker's error, with its hint, as an error of ours."""
    cause: BaseException = problem
    # Temporal wraps the worker's error in those of activity and workflow.
    while cause.__cause__ is not None:
        cause = cause.__cause__
    if not isinstance(cause, ApplicationError):
        # Terminated or timed out by an operator.
        return UsageProblem(f"the workflow of the run has ended: {cause}", hint=f"resume the run: assay resume {run_id}")
    hint = str(cause.details[0]) if cause.details else ""
    # Kinds that callers handle keep their class; any other is shown as it is.
    return _ERRORS.get(cause.type or "", UsageProblem)(cause.message, hint=hint)
