"""Checks of a Temporal server before a run is handed to it: whether it answers, and whether it already has the run."""

from collections.abc import Mapping

from temporalio.api.errordetails.v1 import NamespaceNotFoundFailure
from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from assay.core.errors import StoreUnavailable, UsageProblem
from assay.core.run_backend import TemporalServer
from assay.engine.execution.local import worker_name
from assay.engine.execution.shutdown import run_loop
from assay.integrations.temporal.connection import connect, unreachable


def check_server(run_id: str, server: TemporalServer, *, environ: Mapping[str, str]) -> None:
    """Raise UsageProblem for unusable settings, StoreUnavailable for a server or namespace that does not exist."""
    run_loop(_status(run_id, server, environ))


def check_left(run_id: str, known: TemporalServer, wanted: TemporalServer, *, environ: Mapping[str, str]) -> bool:
    """Return True when a run has left its known server, False when `wanted` is the same server under another name.

    Raises UsageProblem while the known server's workers may still evaluate the run: with two servers each call is paid for twice.
    """
    wanted_status = run_loop(_status(run_id, wanted, environ))
    if wanted_status is WorkflowExecutionStatus.RUNNING:
        return False
    location = f"at {known.address} (namespace '{known.namespace}')"
    try:
        is_working = run_loop(_status(run_id, known, environ)) is WorkflowExecutionStatus.RUNNING
    except StoreUnavailable as problem:
        # If `wanted` has an ended workflow of the run, it is the same server or has taken the run over before.
        if wanted_status is None:
            raise UsageProblem(
                f"run '{run_id}' may still be worked on by the workers {location}, which cannot be asked: {problem.message}",
                hint="restart that server, or start again with another --run-id",
            ) from problem
        is_working = False
    if is_working:
        raise UsageProblem(
            f"the workers {location} work on run '{run_id}'",
            hint=f"follow it there: --temporal {known.address} --temporal-namespace {known.namespace};"
            f" or take it from them first: temporal workflow terminate --workflow-id {run_id}",
        )
    return True


async def _status(run_id: str, server: TemporalServer, environ: Mapping[str, str]) -> WorkflowExecutionStatus | None:
    """Return the status of a run's workflow on a server; None when the server has none."""
    client = await connect(server, environ=environ, identity=worker_name())
    try:
        return (await client.get_workflow_handle(run_id).describe()).status
    except RPCError as problem:
        is_namespace_missing = any(detail.Is(NamespaceNotFoundFailure.DESCRIPTOR) for detail in problem.grpc_status.details)
        if problem.status is RPCStatusCode.NOT_FOUND and not is_namespace_missing:
            return None
        raise unreachable(server, problem) from problem
