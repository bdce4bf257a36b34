"""A worker: takes shards of runs from a Temporal server until it is stopped, and then hands back what it has in hand."""

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

from assay.core.placement import TemporalServer
from assay.core.stop_signals import stop_signals
from assay.core.version import __version__
from assay.engine.garbage import rare_collection
from assay.engine.places.folders import folders_of
from assay.engine.running.local import worker_name
from assay.engine.running.run import seal
from assay.engine.running.stopping import run_loop
from assay.engine.running.surroundings import Surroundings
from assay.engine.temporal.activities import BEAT, Activities
from assay.engine.temporal.connection import check_namespace, connect
from assay.engine.temporal.open_runs import OpenRuns, clear_problem
from assay.engine.temporal.workflow import RunWorkflow, shard_queue
from assay.store.ledgers import open_shared, shared_ledgers

DRAIN = timedelta(minutes=5)
"""How long the calls in flight are waited for when the worker is stopped; a provider's timeout is usually shorter."""
DEPLOYMENT = "assay"
_STICKY = timedelta(seconds=3)
"""How long a workflow waits for the worker that knows it before another one reads its history."""
INTERRUPTED = 130
"""The exit code of a process that was stopped at once, as the command has it."""
_LOOK = 2.0
"""Seconds between two looks whether the server is there."""
_ANSWER = timedelta(seconds=5)
"""After which a server that says nothing is taken to be away."""
_RUN_ACTIVITIES = 4
"""Activities that are no shards, at the same time: looks at a ledger, and sealing."""


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker takes, and where it leaves it."""

    runs_dir: Path
    """Where it publishes the artifacts of runs."""
    shards: int = 4
    """Shards in hand at the same time at most."""
    is_versioned: bool = False
    """Runs stay with workers of the version that they began with, under Temporal's worker versioning."""


def work(settings: WorkerSettings, surroundings: Surroundings, *, say: Callable[[str], None]) -> None:
    """Work until SIGTERM, SIGHUP or Ctrl-C; then the calls in flight come to their end, and a second signal ends at once."""
    # The tables are brought up to date, and an address that cannot be used is refused, before anything is promised.
    shared_ledgers(surroundings.placement.ledger).close()
    with rare_collection():
        run_loop(_work(settings, surroundings, say))


async def _work(settings: WorkerSettings, surroundings: Surroundings, say: Callable[[str], None]) -> None:
    server, ledger, owner = surroundings.placement.temporal, surroundings.placement.ledger, worker_name()
    assert server is not None, "a worker works for a server"
    client = await connect(server, environ=surroundings.environ, identity=owner)
    await check_namespace(client, server)
    logging.getLogger("temporalio.activity").addFilter(_in_one_line)
    runs = OpenRuns(ledger, surroundings, owner=owner)
    activities = Activities(runs, lambda run_id: _sealed(run_id, settings, surroundings))
    stop = asyncio.Event()
    _take_signals(stop, say)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(runs.close)
        for worker in _workers(client, settings, activities, queue=server.task_queue):
            await stack.enter_async_context(worker)
        say(f"worker {owner} takes work from {server.address} (namespace {server.namespace}, task queue {server.task_queue})")
        watching = asyncio.create_task(_watched(client, server, say))
        stack.callback(watching.cancel)
        await stop.wait()
        say("stopping: waiting for the calls in flight; a second signal stops at once")
        runs.stop()
    say("stopped")


async def _watched(client: Client, server: TemporalServer, say: Callable[[str], None]) -> None:
    """Say when the server is away, and when it is back."""
    is_away = False
    while True:
        await asyncio.sleep(_LOOK)
        was_away, is_away = is_away, await _is_away(client)
        if is_away and not was_away:
            say(f"no Temporal server answers at {server.address}; waiting for it")
        elif was_away and not is_away:
            say(f"the Temporal server at {server.address} answers again")


async def _is_away(client: Client) -> bool:
    try:
        await client.workflow_service.get_system_info(GetSystemInfoRequest(), timeout=_ANSWER)
    except RPCError as problem:
        return problem.status in (RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED)
    return False


def _in_one_line(record: logging.LogRecord) -> bool:
    """What was said in words for people needs no stack of calls in the log; a surprise does."""
    problem = record.exc_info[1] if record.exc_info else None
    if isinstance(problem, ApplicationError):
        told = getattr(record, "temporal_activity", {})
        record.msg = f"{told.get('activity_type', 'work')} of run {told.get('workflow_id', '')} failed: {problem.message}"
        record.args, record.exc_info = None, None
    return True


def _workers(client: Client, settings: WorkerSettings, activities: Activities, *, queue: str) -> tuple[Worker, Worker]:
    """One for shards, of which there may be many, and one for everything that must not wait behind them."""
    runner = SandboxedWorkflowRunner(restrictions=SandboxRestrictions.default.with_passthrough_modules("assay"))
    behavior = VersioningBehavior.PINNED if settings.is_versioned else VersioningBehavior.UNSPECIFIED
    deployment = WorkerDeploymentConfig(
        version=WorkerDeploymentVersion(deployment_name=DEPLOYMENT, build_id=__version__),
        use_worker_versioning=settings.is_versioned,
        default_versioning_behavior=behavior,
    )
    throttle, one_poller = timedelta(seconds=BEAT), PollerBehaviorSimpleMaximum(maximum=1)
    of_runs = Worker(
        client,
        task_queue=queue,
        workflows=[RunWorkflow],
        activities=activities.of_runs(),
        workflow_runner=runner,
        max_concurrent_activities=_RUN_ACTIVITIES,
        sticky_queue_schedule_to_start_timeout=_STICKY,
        # Whatever waits for work when a machine freezes is given some and loses it for a while: few do.
        workflow_task_poller_behavior=PollerBehaviorSimpleMaximum(maximum=2),
        activity_task_poller_behavior=one_poller,
        max_heartbeat_throttle_interval=throttle,
        graceful_shutdown_timeout=DRAIN,
        deployment_config=deployment,
    )
    of_shards = Worker(
        client,
        task_queue=shard_queue(queue),
        activities=activities.of_shards(),
        max_concurrent_activities=settings.shards,
        max_heartbeat_throttle_interval=throttle,
        graceful_shutdown_timeout=DRAIN,
        activity_task_poller_behavior=one_poller,
        deployment_config=deployment,
    )
    return of_runs, of_shards


def _take_signals(stop: asyncio.Event, say: Callable[[str], None]) -> None:
    """The first signal drains the worker, the second ends it at once."""
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        if stop.is_set():
            # Whatever is left would wait for the calls in flight; to others it is as if the machine had died.
            say("stopped at once; other workers go on when its shards are missed")
            os._exit(INTERRUPTED)
        stop.set()

    for number in stop_signals():
        loop.add_signal_handler(number, on_signal)


def _sealed(run_id: str, settings: WorkerSettings, surroundings: Surroundings) -> str:
    seal(folders_of(settings.runs_dir, run_id), surroundings)
    ledger = open_shared(surroundings.placement.ledger, run_id)
    try:
        clear_problem(ledger)
        return ledger.run().state
    finally:
        ledger.close()
