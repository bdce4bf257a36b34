"""A worker: takes shards of runs from a Temporal server until it is stopped, and then hands back unfinished ones."""

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import msgspec
from temporalio.api.workflowservice.v1 import GetSystemInfoRequest
from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import PollerBehaviorSimpleMaximum, Worker, WorkerDeploymentConfig
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from assay.core.runs import TemporalServer
from assay.core.stop_signals import stop_signals
from assay.core.version import __version__
from assay.engine.execution.run import seal
from assay.engine.execution.run_context import RunEnvironment
from assay.engine.records.run_counters import rare_collection
from assay.engine.storage.run_paths import folders_of
from assay.integrations.temporal.activities import HEARTBEAT_INTERVAL, Activities, OpenRuns, clear_problem
from assay.integrations.temporal.connection import check_namespace, connect
from assay.integrations.temporal.workflow import RunWorkflow, shard_queue
from assay.store.ledgers import open_shared, shared_ledgers
from assay.store.lock import worker_name

DRAIN = timedelta(minutes=5)
"""Maximum wait for the calls in flight when the worker is stopped; a provider's timeout is usually shorter."""
DEPLOYMENT = "assay"
_STICKY = timedelta(seconds=3)
"""Time that a workflow waits for the worker that has it cached before another one replays its history."""
INTERRUPTED = 130
"""Exit code of a process that was stopped at once, the same as the command's."""
_POLL_INTERVAL = 2.0
"""Seconds between two checks whether the server answers."""
_ANSWER_TIMEOUT = timedelta(seconds=5)
"""Time without an answer after which the server counts as unavailable."""
_RUN_ACTIVITIES = 4
"""Maximum concurrent activities other than shards: reading ledgers and sealing."""


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a worker."""

    runs_dir: Path
    """Folder to which it publishes the artifacts of runs."""
    shards: int = 4
    """Maximum shards evaluated at the same time."""
    is_versioned: bool = False
    """True when runs stay with workers of the version that started them, by Temporal's worker versioning."""


def work(settings: WorkerSettings, environment: RunEnvironment, *, report: Callable[[str], None]) -> None:
    """Work until SIGTERM, SIGHUP or Ctrl-C, then finish the calls in flight; a second signal ends the worker at once."""
    # Migrate the tables, and reject an unusable address, before any work is accepted.
    shared_ledgers(environment.placement.ledger).close()
    # Records of a shard live until its end, and searching them for cycles would be wasted.
    with rare_collection():
        asyncio.run(_work(settings, environment, report))


async def _work(settings: WorkerSettings, environment: RunEnvironment, report: Callable[[str], None]) -> None:
    server, ledger, owner = environment.placement.temporal, environment.placement.ledger, worker_name()
    assert server is not None, "a worker works for a server"
    client = await connect(server, environ=environment.environ, identity=owner)
    await check_namespace(client, server)
    logging.getLogger("temporalio.activity").addFilter(_in_one_line)
    runs = OpenRuns(ledger, environment, owner=owner)
    activities = Activities(runs, lambda run_id: _seal_run(run_id, settings, environment))
    stop = asyncio.Event()
    _install_signal_handlers(stop, report)
    async with AsyncExitStack() as stack:
        # Closed after the workers, which are entered later and left first.
        stack.push_async_callback(runs.close)
        for worker in _workers(client, settings, activities, queue=server.task_queue):
            await stack.enter_async_context(worker)
        report(f"worker {owner} takes work from {server.address} (namespace {server.namespace}, task queue {server.task_queue})")
        outage_reporter = asyncio.create_task(_report_outages(client, server, report))
        stack.callback(outage_reporter.cancel)
        await stop.wait()
        report("stopping: waiting for the calls in flight; a second signal stops at once")
        # Before the workers are left: they wait for the activities, which would otherwise go on to their end.
        runs.stop()
    report("stopped")


async def _report_outages(client: Client, server: TemporalServer, report: Callable[[str], None]) -> None:
    """Report when the server stops answering, and when it answers again."""
    is_away = False
    while True:
        await asyncio.sleep(_POLL_INTERVAL)
        was_away, is_away = is_away, await _is_away(client)
        if is_away and not was_away:
            report(f"no Temporal server answers at {server.address}; waiting for it")
        elif was_away and not is_away:
            report(f"the Temporal server at {server.address} answers again")


async def _is_away(client: Client) -> bool:
    try:
        await client.workflow_service.get_system_info(GetSystemInfoRequest(), timeout=_ANSWER_TIMEOUT)
    except RPCError as problem:
        # Other errors are an answer, and mean that the server is there.
        return problem.status in (RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED)
    return False


def _in_one_line(record: logging.LogRecord) -> bool:
    """Log an ApplicationError, whose message is meant for people, as one line; other errors keep their traceback."""
    problem = record.exc_info[1] if record.exc_info else None
    if isinstance(problem, ApplicationError):
        details = getattr(record, "temporal_activity", {})
        record.msg = f"{details.get('activity_type', 'work')} of run {details.get('workflow_id', '')} failed: {problem.message}"
        record.args, record.exc_info = None, None
    return True


def _workers(client: Client, settings: WorkerSettings, activities: Activities, *, queue: str) -> tuple[Worker, Worker]:
    """Return two workers: one for shards, and one for everything that must not wait behind many shards."""
    # The sandbox would import the package again for each workflow; ours is deterministic and holds ids only.
    runner = SandboxedWorkflowRunner(restrictions=SandboxRestrictions.default.with_passthrough_modules("assay"))
    behavior = VersioningBehavior.PINNED if settings.is_versioned else VersioningBehavior.UNSPECIFIED
    deployment = WorkerDeploymentConfig(
        version=WorkerDeploymentVersion(deployment_name=DEPLOYMENT, build_id=__version__),
        use_worker_versioning=settings.is_versioned,
        default_versioning_behavior=behavior,
    )
    # Heartbeats are throttled to a part of their timeout by default, which is too rare to see a cancel in time.
    throttle, one_poller = timedelta(seconds=HEARTBEAT_INTERVAL), PollerBehaviorSimpleMaximum(maximum=1)
    run_worker = Worker(
        client,
        task_queue=queue,
        workflows=[RunWorkflow],
        activities=activities.run_activities(),
        workflow_runner=runner,
        max_concurrent_activities=_RUN_ACTIVITIES,
        sticky_queue_schedule_to_start_timeout=_STICKY,
        # Few pollers: when a machine freezes, each waiting poller may still be assigned a task, which is then delayed.
        workflow_task_poller_behavior=PollerBehaviorSimpleMaximum(maximum=2),
        activity_task_poller_behavior=one_poller,
        max_heartbeat_throttle_interval=throttle,
        graceful_shutdown_timeout=DRAIN,
        deployment_config=deployment,
    )
    shard_worker = Worker(
        client,
        task_queue=shard_queue(queue),
        activities=activities.shard_activities(),
        max_concurrent_activities=settings.shards,
        max_heartbeat_throttle_interval=throttle,
        graceful_shutdown_timeout=DRAIN,
        # One waiting request: a worker that freezes can be given one shard at most without noticing.
        activity_task_poller_behavior=one_poller,
        deployment_config=deployment,
    )
    return run_worker, shard_worker


def _install_signal_handlers(stop: asyncio.Event, report: Callable[[str], None]) -> None:
    """Install signal handlers: the first signal drains the worker, the second ends it at once."""
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        if stop.is_set():
            # A regular exit would wait for the calls in flight; for other workers this is the same as a crash.
            report("stopped at once; other workers take over its shards when their heartbeats are missed")
            os._exit(INTERRUPTED)
        stop.set()

    for number in stop_signals():
        loop.add_signal_handler(number, on_signal)


def _seal_run(run_id: str, settings: WorkerSettings, environment: RunEnvironment) -> str:
    seal(folders_of(settings.runs_dir, run_id), environment)
    ledger = open_shared(environment.placement.ledger, run_id)
    try:
        # Sealed in spite of an earlier problem.
        clear_problem(ledger)
        return ledger.run().state
    finally:
        ledger.close()
