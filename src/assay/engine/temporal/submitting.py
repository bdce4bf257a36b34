"""Runs into workflows: start one, follow it through the ledger, and say why it has ended."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta

import msgspec
from temporalio.client import WorkflowFailureError, WorkflowHandle
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from assay.core.errors import AssayError, MissingExtra, StoreUnavailable, UsageProblem
from assay.core.placement import TemporalServer
from assay.core.plan import Plan
from assay.engine.engines import PROBLEM
from assay.engine.folders import RunFolders
from assay.engine.local import worker_name
from assay.engine.stopping import run_loop
from assay.engine.surroundings import Interrupted, Surroundings
from assay.engine.tally import Snapshot, Tally
from assay.engine.temporal.connection import connect, unreachable
from assay.engine.temporal.workflow import RUN_WORKFLOW
from assay.store.ledger import Ledger

REFRESH = 0.5
"""Seconds between two looks at the ledger for whoever watches."""
_TASK_TIMEOUT = timedelta(seconds=5)
"""After which a workflow that a worker has fallen silent over is given to another; what it does takes milliseconds."""
_ERRORS = {problem.code: problem for problem in (UsageProblem, MissingExtra, StoreUnavailable)}


def check_placeable(plan: Plan) -> None:
    """Raises UsageProblem for a run that workers elsewhere could not evaluate."""
    if plan.comparison is not None:
        raise UsageProblem("a ranking is made on one machine", hint="leave out --engine temporal")
    given = [plugin.name for plugin in plan.plugins if not plugin.reference or plugin.token]
    if given:
        raise UsageProblem(
            f"'{given[0]}' was given in Python, and workers elsewhere cannot load it",
            hint="name it as module:function, and install its module where the workers are",
        )


def start(folders: RunFolders, server: TemporalServer, surroundings: Surroundings) -> None:
    """Let workers go on with a run whose records are in the ledger; nothing happens when they do already."""
    run_loop(_started(folders.run_id, server, surroundings.environ))


async def _started(run_id: str, server: TemporalServer, environ: Mapping[str, str]) -> WorkflowHandle[object, object]:
    client = await connect(server, environ=environ, identity=worker_name())
    try:
        handle: WorkflowHandle[object, object] = await client.start_workflow(
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
    return handle


def follow(folders: RunFolders, server: TemporalServer, surroundings: Surroundings) -> None:
    """Let workers go on with a run and watch until it is sealed; raises Interrupted when somebody stops watching.

    What ends the workflow without an end of the run is raised as it was on the worker.
    """
    ledger = folders.open_ledger()
    try:
        run_loop(_Following(folders.run_id, ledger, surroundings).to_the_end(server))
    except (KeyboardInterrupt, asyncio.CancelledError) as end:
        raise Interrupted from end
    finally:
        ledger.close()


class _Following:
    """One run that is under way elsewhere."""

    def __init__(self, run_id: str, ledger: Ledger, surroundings: Surroundings) -> None:
        self._run_id = run_id
        self._ledger = ledger
        self._surroundings = surroundings
        self._started = surroundings.clock()

    async def to_the_end(self, server: TemporalServer) -> None:
        """Returns when the workflow has ended well."""
        ended = asyncio.create_task(_ended(await _started(self._run_id, server, self._surroundings.environ)))
        try:
            while not ended.done():
                await self._show()
                await asyncio.wait([ended], timeout=REFRESH)
                if self._surroundings.is_stopping is not None and self._surroundings.is_stopping():
                    raise Interrupted
        finally:
            ended.cancel()
        ended.result()

    async def _show(self) -> None:
        watch = self._surroundings.watch
        if watch is not None:
            watch(await asyncio.to_thread(self._snapshot))

    def _snapshot(self) -> Snapshot:
        """How the run stands; only the workers know of their calls."""
        row, counts = self._ledger.run(), self._ledger.counts()
        opened = counts.pop("open", 0)
        tally = Tally(sum(counts.values()) + opened, counts, started=self._started)
        snapshot = tally.snapshot(row.state, self._surroundings.clock(), knows_calls=False)
        return msgspec.structs.replace(snapshot, problem=row.notes.get(PROBLEM, ""))


async def _ended(handle: WorkflowHandle[object, object]) -> None:
    """Returns when the run is sealed, whatever becomes of the server meanwhile; raises what the workflow ended with."""
    while True:
        try:
            await handle.result()
        except WorkflowFailureError as problem:
            raise _told(problem) from None
        except RPCError:
            # A server that is away comes back: the run waits for it too.
            await asyncio.sleep(REFRESH)
        else:
            return


def _told(problem: WorkflowFailureError) -> AssayError:
    """The error of a worker, with its hint."""
    cause: BaseException = problem
    while cause.__cause__ is not None:
        cause = cause.__cause__
    if not isinstance(cause, ApplicationError):
        return UsageProblem(f"the workflow of the run has ended: {cause}", hint="go on with the run: assay resume RUN")
    hint = str(cause.details[0]) if cause.details else ""
    return _ERRORS.get(cause.type or "", UsageProblem)(cause.message, hint=hint)
