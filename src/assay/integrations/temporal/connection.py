"""Connection to a Temporal server, and the checks of it before a run is handed over: does it answer, does it have the run?"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import temporalio.api.failure.v1
from temporalio.api.errordetails.v1 import NamespaceNotFoundFailure
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.converter import DataConverter, DefaultFailureConverter, PayloadConverter
from temporalio.exceptions import ApplicationError, FailureError
from temporalio.runtime import LogForwardingConfig, LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter
from temporalio.service import RPCError, RPCStatusCode, TLSConfig

from assay.core.errors import StoreUnavailable, UsageProblem
from assay.core.runs import TemporalServer
from assay.store.lock import worker_name


class QuietFailures(DefaultFailureConverter):
    """Converter of failures for Temporal's history: only the type of an unexpected error, whose message may quote a model."""

    def to_failure(
        self, exception: BaseException, payload_converter: PayloadConverter, failure: temporalio.api.failure.v1.Failure
    ) -> None:
        """Convert an exception; errors that were raised for Temporal keep their message."""
        reported = exception
        if not isinstance(exception, FailureError):
            reported = ApplicationError("see the log of the worker", type=type(exception).__name__)
        super().to_failure(reported, payload_converter, failure)
        # A stack trace names files of the worker, and lines of custom code.
        failure.stack_trace = ""


_CERTIFICATES = ("privatekey", "certificate", "invalid peer")
"""Lower-case words by which connection errors about certificates are recognized."""
CONVERTER = replace(DataConverter.default, failure_converter_class=QuietFailures)


# One for each process: Temporal's core allows no second runtime with other settings.
@cache
def _runtime() -> Runtime:
    """Return Temporal's runtime, with its warnings off standard output; the worker reports outages in its own words."""
    forwarding = LogForwardingConfig(logger=logging.getLogger(__name__))
    filtered = TelemetryFilter(core_level="ERROR", other_level="ERROR")
    return Runtime(telemetry=TelemetryConfig(logging=LoggingConfig(filter=filtered, forwarding=forwarding)))


async def connect(server: TemporalServer, *, environ: Mapping[str, str], identity: str) -> Client:
    """Connect to the server; raises UsageProblem for unusable settings, StoreUnavailable when the server does not answer."""
    key = _api_key(server, environ)
    try:
        return await Client.connect(
            server.address,
            namespace=server.namespace,
            identity=identity,
            api_key=key,
            tls=_tls(server, has_key=key is not None),
            data_converter=CONVERTER,
            runtime=_runtime(),
        )
    except (RPCError, RuntimeError, ValueError) as problem:
        raise unreachable(server, problem) from problem


async def check_namespace(client: Client, server: TemporalServer) -> None:
    """Raise StoreUnavailable when the server has no such namespace, or denies access to it."""
    try:
        # Connecting succeeds without a namespace; only a call about it fails.
        await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=server.namespace))
    except RPCError as problem:
        raise unreachable(server, problem) from problem


def unreachable(server: TemporalServer, problem: Exception) -> StoreUnavailable:
    """Return the error for a failed connection or call."""
    words = " ".join(str(problem).split())
    if isinstance(problem, RPCError) and problem.status == RPCStatusCode.NOT_FOUND:
        return StoreUnavailable(
            f"the Temporal server at {server.address} has no namespace '{server.namespace}'",
            hint=f"name another with --temporal-namespace, or make it: temporal operator namespace create -n {server.namespace}",
        )
    # The client has no type of exception for problems of TLS, only their text.
    if any(word in words.lower() for word in _CERTIFICATES):
        return StoreUnavailable(
            f"the certificates do not lead to the Temporal server at {server.address}: {words}",
            hint="--temporal-certificate and --temporal-key are PEM files that belong together; --temporal-ca signs the server's",
        )
    return StoreUnavailable(
        f"no Temporal server answers at {server.address} (namespace '{server.namespace}'): {words}",
        hint="check --temporal, the namespace and the certificates, and that the server runs",
    )


def _api_key(server: TemporalServer, environ: Mapping[str, str]) -> str | None:
    if not server.api_key_variable:
        return None
    key = environ.get(server.api_key_variable, "").strip()
    if not key:
        raise UsageProblem(
            f"the key for Temporal is missing: the environment variable {server.api_key_variable} is not set",
            hint=f"set {server.api_key_variable}, or name another variable with --temporal-api-key-variable",
        )
    return key


def _tls(server: TemporalServer, *, has_key: bool) -> TLSConfig | bool:
    """Return the TLS settings: encryption is on with a certificate or a key, or when it is requested."""
    if bool(server.client_certificate) != bool(server.client_key):
        raise UsageProblem(
            "a client certificate and its key belong together", hint="give --temporal-certificate and --temporal-key, or neither"
        )
    if not (server.tls or server.server_ca or server.client_certificate or has_key):
        return False
    return TLSConfig(
        server_root_ca_cert=_content(server.server_ca),
        domain=server.server_name or None,
        client_cert=_content(server.client_certificate),
        client_private_key=_content(server.client_key),
    )


def _content(path: str) -> bytes | None:
    if not path:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as problem:
        raise UsageProblem(
            f"'{path}' cannot be read: {(problem.strerror or str(problem)).lower()}", hint="certificates and keys are PEM files"
        ) from problem


def check_server(run_id: str, server: TemporalServer, *, environ: Mapping[str, str]) -> None:
    """Raise UsageProblem for unusable settings, StoreUnavailable for a server or namespace that does not exist."""
    asyncio.run(_status(run_id, server, environ))


def check_left(run_id: str, known: TemporalServer, wanted: TemporalServer, *, environ: Mapping[str, str]) -> bool:
    """Return True when a run has left its known server, False when `wanted` is the same server under another name.

    Raises UsageProblem while the known server's workers may still evaluate the run: with two servers each call is paid for twice.
    """
    # The new server first: if it cannot be reached, nothing else needs to be decided.
    wanted_status = asyncio.run(_status(run_id, wanted, environ))
    if wanted_status is WorkflowExecutionStatus.RUNNING:
        return False
    location = f"at {known.address} (namespace '{known.namespace}')"
    try:
        is_working = asyncio.run(_status(run_id, known, environ)) is WorkflowExecutionStatus.RUNNING
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
        # NOT_FOUND is also the answer for a missing namespace, and only the details tell.
        if problem.status is RPCStatusCode.NOT_FOUND and not is_namespace_missing:
            return None
        raise unreachable(server, problem) from problem
