"""The HTTP service: its routes, its parts, its start and its end, and recovery of runs that no server drives."""

import asyncio
import contextlib
import ipaddress
import logging
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import FrameType

import msgspec
import uvicorn
from litestar import Litestar, Response
from litestar.datastructures import State
from litestar.exceptions import HTTPException
from litestar.types import ASGIApp

from assay import api
from assay.core.errors import AssayError, StoreRefused, StoreUnavailable, UsageProblem
from assay.core.runs import LOCAL_BACKEND, RunBackend
from assay.core.stop_signals import stop_signals
from assay.core.text import iso
from assay.surfaces.observers import FIELDS, ObserverGroup, RunObserver
from assay.surfaces.server import (
    artifact_routes,
    decision_routes,
    errors,
    record_routes,
    run_routes,
    service_routes,
    submission_routes,
)
from assay.surfaces.server.concurrency import BackgroundTasks, CallerRateLimiter, ConcurrencyQuota, KeyedLocks, SharedPolling
from assay.surfaces.server.errors import AnyRequest
from assay.surfaces.server.keys import KeyStore, SessionStore
from assay.surfaces.server.middleware import AccessControl, RequestMiddleware, ServiceMetrics
from assay.surfaces.server.openapi import openapi
from assay.surfaces.server.protocol import protocol_for
from assay.surfaces.server.queue import QueueBackend, QueueLimits, RunCallbacks, RunQueue
from assay.surfaces.server.server import Server
from assay.surfaces.server.settings import ServerSettings
from assay.surfaces.server.uploads import ClientGone, DraftStore
from assay.surfaces.server.worker_pools import RecordIndexer, ValidationPool

ROUND_SECONDS = 1.0
AGAIN_SECONDS = 30.0
"""Seconds until a run that this server gave up, or handed to workers, is started again: the workers may never have received it."""
MAX_CANDIDATES = 100
"""Maximum waiting runs examined per scan."""
log = logging.getLogger("assay.server")


async def adopt_orphaned_runs(server: Server) -> None:
    """Scan for runs without a driver until cancelled; a failed scan may be temporary."""
    tried: dict[str, float] = {}  # when each run was last begun here
    seen: frozenset[str] = frozenset()
    while True:
        # Slept first: the runs of this server itself were queued at its start.
        await asyncio.sleep(ROUND_SECONDS)
        try:
            seen = await asyncio.to_thread(_adopt_waiting, server, tried, seen)
            await asyncio.to_thread(server.submissions.sweep)
        except StoreUnavailable as problem:
            log.warning("cannot look for runs to resume: %s", problem.message)


def _adopt_waiting(server: Server, tried: dict[str, float], seen: frozenset[str]) -> frozenset[str]:
    """Begin what was waiting at the last look, too; what is new is mostly about to be begun by the server that has taken it.

    Returns what is waiting now.
    """
    # A server that has no room must not take a run from one that has.
    if server.shared is None or not server.queue.free:
        return frozenset()
    now = time.monotonic()
    found = server.submissions.waiting(MAX_CANDIDATES)
    for waiting in found:
        # A run seen for the first time may be in the moment between its commit and the start of its driver.
        if waiting.run_id not in seen:
            continue
        # -AGAIN_SECONDS for a run that was never tried, which is then not early.
        run_id, is_early = waiting.run_id, now - tried.get(waiting.run_id, -AGAIN_SECONDS) < AGAIN_SECONDS
        # A run on Temporal needs a server that can reach it.
        if waiting.is_with_workers and server.placement.temporal is None:
            continue
        # Runs with workers are submitted again from time to time, in case the workflow was lost; others at once
        # unless they failed here.
        if is_early and (waiting.is_with_workers or server.queue.problem(run_id)):
            continue
        # `adopt` adds a run of the ledger to the folder of this server; False means that the ledger has lost it
        # meanwhile.
        if server.queue.free and not server.queue.has(run_id) and server.shared.adopt(run_id):
            tried[run_id] = now
            log.info(
                "run %s has no driver; this server resumes it", run_id, extra={FIELDS: {"event": "run_taken", "run_id": run_id}}
            )
            server.queue.add(run_id, waiting.owner)
    return frozenset(waiting.run_id for waiting in found)


BACKLOG = 2_048
"""Maximum connections that wait to be accepted."""
HANDLERS = (
    # The order matters for /v1/runs, which has three handlers: `Allow` has the methods of the first one registered, and
    # Litestar wraps a synchronous handler twice when another one of the same address is registered after it.
    run_routes.options_of_runs,
    *submission_routes.HANDLERS,
    *run_routes.HANDLERS,
    *record_routes.HANDLERS,
    *artifact_routes.HANDLERS,
    *decision_routes.HANDLERS,
    *service_routes.HANDLERS,
)


THREADS = 32


class ServeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Address of a service, and what it serves."""

    runs_dir: Path
    settings: ServerSettings
    host: str = "127.0.0.1"
    port: int = 8321
    placement: RunBackend = LOCAL_BACKEND
    """Ledger, store and engine of the runs."""
    observer: RunObserver = ObserverGroup()
    """Observers of the runs besides the metrics."""

    @property
    def is_loopback(self) -> bool:
        """True if only this machine can reach the service."""
        # A name other than `localhost` may resolve to any address, so it does not count as loopback.
        with contextlib.suppress(ValueError):
            return ipaddress.ip_address(self.host).is_loopback
        return self.host == "localhost"


def check_exposure(listening: ServeOptions) -> None:
    """Raise UsageProblem when other machines could use the service without a key."""
    if not listening.is_loopback and not KeyStore(listening.runs_dir).entries():
        raise UsageProblem(
            f"listening on '{listening.host}' needs a key (an API token), because others can reach it",
            hint=f"make one: assay keys add NAME --scope write --runs-dir {listening.runs_dir}",
        )


def addresses() -> dict[str, object]:
    """Build the OpenAPI document without a service."""
    return openapi(Litestar(route_handlers=list(HANDLERS), openapi_config=None))


def build(server: Server, listening: ServeOptions) -> ASGIApp:
    """Build the application of a service."""
    app = Litestar(
        route_handlers=list(HANDLERS),
        # Litestar takes the handler of the nearest class, so the order is for readers alone.
        exception_handlers={
            errors.HttpError: errors.answer_refusal,
            AssayError: errors.answer_library_error,
            ClientGone: _answer_disconnected,
            HTTPException: errors.answer_framework_error,
            Exception: errors.answer_defect,
        },
        state=State({"server": server}),
        openapi_config=None,
        # Its handlers would write every line a second time.
        logging_config=None,
        lifespan=[_lifespan],
        # The limit is that of the upload routes, which count while they spool, and answer with the contract's
        # error.
        request_max_body_size=None,
    )
    guard = AccessControl(
        KeyStore(listening.runs_dir),
        CallerRateLimiter(listening.settings.requests_per_minute, time.monotonic),
        hosts=(*listening.settings.hosts, listening.host),
        # With a key file, a key is needed on loopback too (`are_needed`).
        needs_key=not listening.is_loopback,
        sessions=server.sessions,
    )
    return RequestMiddleware(app, guard, meters=server.meters, settings=listening.settings)


def _answer_disconnected(_: AnyRequest, __: ClientGone) -> Response[bytes]:
    """Return an empty response, which no caller reads."""
    return Response(b"", status_code=400)


@asynccontextmanager
async def _lifespan(app: Litestar) -> AsyncIterator[None]:
    server: Server = app.state.server
    # Disks are slow, and requests that follow a run or upload wait for one: more threads than processors.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS, thread_name_prefix="requests"))
    for run_id in server.submissions.unfinished():
        if api.has_failed(run_id, server.runs_dir):
            # It waits until a user resumes it.
            continue
        row = server.submissions.of(run_id)
        server.queue.add(run_id, "" if row is None else row.owner)
    taking = asyncio.create_task(adopt_orphaned_runs(server)) if server.shared is not None else None
    try:
        yield
    finally:
        # First of all, so that no new run starts while the old ones drain.
        server.queue.stop()
        if taking is not None:
            taking.cancel()
        # In a thread: the loop still has to send answers and close streams.
        await asyncio.to_thread(server.queue.wait, server.settings.grace_seconds)
        server.validation_pool.close()
        server.indexer.close()
        server.submissions.close()
        if server.shared is not None:
            server.shared.close()


class _Listener(uvicorn.Server):
    """Server's process; it stops the event streams on a signal, since open streams would keep it from ending."""

    def __init__(self, config: uvicorn.Config, queue: RunQueue) -> None:
        super().__init__(config)
        self._queue = queue

    # uvicorn's own handler raises the signal again at the end, and the exit code would be that of a failure.
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002  # the parent's names
        """End in order on the first signal and at once on the second; a requested end is not a failure."""
        self._queue.stop()
        # The second signal finds `should_exit` set by the first.
        self.force_exit = self.should_exit
        self.should_exit = True

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal; SIGHUP, which uvicorn does not handle, ends it as SIGTERM does."""
        # A closed terminal sends SIGHUP; without a handler the process would die with calls in flight.
        if signal.SIGHUP in stop_signals():
            signal.signal(signal.SIGHUP, self.handle_exit)
        super().run(sockets=sockets)


def serve(listening: ServeOptions, say: Callable[[str], None]) -> None:
    """Serve until a signal; unfinished runs continue at the next start."""
    check_exposure(listening)
    # Bind first: a port in use is reported at once, before any run was touched.
    listener = _listener(listening)
    # The first request must not pay for imports, and a missing module is found at the start.
    api.load_all()
    listening.runs_dir.mkdir(parents=True, exist_ok=True)
    server = _opened(listening)
    settings = listening.settings
    _begin_log(with_requests=settings.log_requests)
    # Its warnings are about what clients send; logging them would let clients fill the log.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    config = uvicorn.Config(
        build(server, listening),
        host=listening.host,
        port=listening.port,
        http=protocol_for(settings),
        # No WebSockets here: an upgrade is answered as plain HTTP.
        ws="none",
        # Addresses may hold data of clients; our own log writes routes.
        access_log=False,
        server_header=False,
        # RFC 9110 6.6.1 asks an origin server with a clock for it.
        date_header=True,
        # Headers of a proxy are only trusted where a lie does no harm (service_routes.is_secure).
        proxy_headers=False,
        # One second more than the queue waits, which ends the lifespan first.
        timeout_graceful_shutdown=int(settings.grace_seconds) + 1,
        log_config=None,
        lifespan="on",
    )
    host, port = listener.getsockname()[:2]
    say(f"assay: the runs in '{listening.runs_dir}' are served at http://{_shown(host)}:{port}; Ctrl-C ends it")
    if (
        settings.models is None
        and not settings.run_file
        and any(entry.scope == "write" for entry in KeyStore(listening.runs_dir).entries())
    ):
        say("assay: only admin keys may name a model so far; list those of other keys under `models` in the settings (--config)")
    _Listener(config, server.queue).run(sockets=[listener])
    with suppress(OSError):
        # The terminal may be closed.
        say("assay: stopped; unfinished runs continue at the next start")


def _opened(listening: ServeOptions) -> Server:
    """Build the parts of a service; raises StoreUnavailable when another service uses the folder, or the ledger is down."""
    runs_dir, settings, placement = listening.runs_dir, listening.settings, listening.placement
    shared = api.SharedRuns(placement.ledger, runs_dir) if placement.ledger else None
    taken = api.Submissions(runs_dir, placement)
    # Before the first request: several threads that begin to import at once may hang.
    api.warm_up(taken.temporary)
    meters, indexer, keys = ServiceMetrics(), RecordIndexer(), KeyStore(runs_dir)

    def give_up(run_id: str, problem: AssayError) -> None:
        # Problems of a disk or a connection may be local or temporary; a missing bucket is not.
        if isinstance(problem, StoreRefused) or not isinstance(problem, StoreUnavailable):
            taken.set_problem(run_id, server.redact_paths(problem.message))

    callbacks = RunCallbacks(ended=lambda run_id: indexer.prepare(runs_dir / run_id), given_up=give_up, observer=listening.observer)
    limits = QueueLimits(max_runs=settings.max_runs, max_queue=settings.max_queue)
    server = Server(
        runs_dir=runs_dir,
        settings=settings,
        submissions=taken,
        placement=placement,
        keys=keys,
        queue=RunQueue(runs_dir, meters, limits=limits, callbacks=callbacks, backend=QueueBackend(placement, shared)),
        validation_pool=ValidationPool(),
        locks=KeyedLocks(),
        indexer=indexer,
        meters=meters,
        sessions=SessionStore(keys, time.monotonic),
        listings=api.RunListCache(runs_dir, shared),
        shared=shared,
        background=BackgroundTasks(),
        drafts=DraftStore(taken, time.time),
        polling=SharedPolling(),
        uploads=ConcurrencyQuota(settings.max_uploads, "uploads"),
    )
    return server


class _LogFormatter(logging.Formatter):
    """Formats a log record as text that begins with its time."""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802, ARG002  # the parent's name and signature
        """Format the time in UTC, as in the audit log."""
        return iso(record.created)


def _begin_log(*, with_requests: bool) -> None:
    log = logging.getLogger("assay.server")
    if with_requests:
        log.setLevel(logging.INFO)
    if not log.hasHandlers():
        # Without a handler, Python shows warnings only, and no times.
        handler = logging.StreamHandler()
        handler.setFormatter(_LogFormatter("%(asctime)s %(levelname)s %(message)s"))
        log.addHandler(handler)


def _listener(listening: ServeOptions) -> socket.socket:
    """Open the socket of a service; raises UsageProblem when that fails."""
    try:
        # `AI_PASSIVE` and the first address, so that an IPv6 host works like an IPv4 one.
        found = socket.getaddrinfo(listening.host, listening.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        return socket.create_server(found[0][4][:2], family=found[0][0], backlog=BACKLOG)
    except OSError as problem:
        reason = (problem.strerror or str(problem)).lower()
        raise UsageProblem(
            f"cannot listen on {_shown(listening.host)}:{listening.port}: {reason}", hint="choose another with --host and --port"
        ) from problem


def _shown(host: str) -> str:
    # IPv6 addresses are in brackets in a URL (RFC 3986 3.2.2).
    return f"[{host}]" if ":" in host else host
