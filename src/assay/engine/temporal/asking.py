"""What a Temporal server is asked before a run is handed to it: whether it is there, and what it knows of the run."""

from collections.abc import Mapping

from temporalio.api.errordetails.v1 import NamespaceNotFoundFailure
from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from assay.core.errors import StoreUnavailable, UsageProblem
from assay.core.placement import TemporalServer
from assay.engine.running.local import worker_name
from assay.engine.running.stopping import run_loop
from assay.engine.temporal.connection import connect, unreachable


def check_server(run_id: str, server: TemporalServer, *, environ: Mapping[str, str]) -> None:
    """Raises UsageProblem for settings that cannot be used, StoreUnavailable for a server or a namespace that is not there."""
    run_loop(_status(run_id, server, environ))


def check_left(run_id: str, known: TemporalServer, wanted: TemporalServer, *, environ: Mapping[str, str]) -> bool:
    """True when a run has left the server that is known to have it; False when the wanted one has it, under another name.

    Raises UsageProblem while the workers of the known one may still work on the run: those of two would pay for everything twice.
    """
    there = run_loop(_status(run_id, wanted, environ))
    if there is WorkflowExecutionStatus.RUNNING:
        return False
    where = f"at {known.address} (namespace '{known.namespace}')"
    try:
        is_working = run_loop(_status(run_id, known, environ)) is WorkflowExecutionStatus.RUNNING
    except StoreUnavailable as problem:
        # A server that has ended a workflow of the run is the same, or has taken the run over before.
        if there is None:
            raise UsageProblem(
                f"run '{run_id}' may still be worked on by the workers {where}, which cannot be asked: {problem.message}",
                hint="bring that server back, or begin anew with another --run-id",
            ) from problem
        is_working = False
    if is_working:
        raise UsageProblem(
            f"the workers {where} work on run '{run_id}'",
            hint=f"follow it there: --temporal {known.address} --temporal-namespace {known.namespace};"
            f" or take it from them first: temporal workflow terminate --workflow-id {run_id}",
        )
    return True


async def _status(run_id: str, server: TemporalServer, environ: Mapping[str, str]) -> WorkflowExecutionStatus | None:
    """What became of the workflow of a run on a server; None when it has none."""
    client = await connect(server, environ=environ, identity=worker_name())
    try:
        return (await client.get_workflow_handle(run_id).describe()).status
    except RPCError as problem:
        is_elsewhere = any(detail.Is(NamespaceNotFoundFailure.DESCRIPTOR) for detail in problem.grpc_status.details)
        if problem.status is RPCStatusCode.NOT_FOUND and not is_elsewhere:
            return None
        raise unreachable(server, problem) from problem
