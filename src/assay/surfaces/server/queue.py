"""Queue of submitted runs and the threads that execute them; callers take turns, however many runs each has submitted."""

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from assay import api
from assay.core.errors import AssayError, RunNotFound, RunSealed, StoreRefused, StoreUnavailable
from assay.core.run_result import RunResult
from assay.core.runs import LOCAL_BACKEND, RunBackend
from assay.surfaces.observers import FIELDS, ObserverGroup, RunObserver
from assay.surfaces.server.errors import RETRY_SECONDS, HttpError
from assay.surfaces.server.middleware import ServiceMetrics

log = logging.getLogger("assay.server")
MAX_OUTAGES = 2
"""Storage failures after which a run of a shared ledger is `failed`; a single one may be local or temporary."""
RECORD_AGAIN_SECONDS = 1.0
"""Seconds between two attempts to store that a run has failed."""


class QueueLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of the queue."""

    max_runs: int
    max_queue: int


class RunCallbacks(msgspec.Struct, frozen=True, kw_only=True):
    """Callbacks about runs."""

    ended: Callable[[str], None]
    """Called when the artifacts of a run are on this machine."""
    given_up: Callable[[str, AssayError], None] = lambda *_: None
    """Called with the reason when execution stops before the run's end."""
    observer: RunObserver = ObserverGroup()


class QueueBackend(msgspec.Struct, frozen=True):
    """Storage and backend of the queue."""

    placement: RunBackend = LOCAL_BACKEND
    shared: api.SharedRuns | None = None
    """Runs of a ledger that other servers share."""


class RunQueue:
    """Runs of one service between their submission and their end."""

    def __init__(
        self, runs_dir: Path, meters: ServiceMetrics, *, limits: QueueLimits, callbacks: RunCallbacks, backend: QueueBackend
    ) -> None:
        self._runs_dir = runs_dir
        self._meters = meters
        # Both are called: the counters of the service, and what its operator asked for.
        self._observer = ObserverGroup([observer for observer in (meters.run_metrics, callbacks.observer) if observer is not None])
        self._max_runs = limits.max_runs
        self._max_queue = limits.max_queue
        self._callbacks = callbacks
        self._placement, self._shared = backend.placement, backend.shared
        self._waiting: dict[str, deque[str]] = {}
        self._working: dict[str, threading.Thread] = {}
        self._snapshots: dict[str, api.Snapshot] = {}
        self._problems: dict[str, str] = {}
        self._outages: Counter[str] = Counter()
        """Number of times that execution was given up here because of storage."""
        self._reserved = 0
        self._is_stopping = False
        # Routes call from threads, runs end in threads of their own, and signals come on the main thread.
        self._lock = threading.Lock()

    @contextmanager
    def reserve(self) -> Iterator[None]:
        """Reserve a place for a run that is being submitted; raises HttpError when the queue is full."""
        with self._lock:
            # Checked and reserved under one lock: otherwise concurrent submissions could all take the last place.
            self._check_room()
            self._reserved += 1
        try:
            yield
        finally:
            with self._lock:
                self._reserved -= 1

    def check_room(self) -> None:
        """Raise HttpError when the queue is full, before an upload rather than after it."""
        with self._lock:
            self._check_room()

    def _check_room(self) -> None:
        if self._is_stopping or self._reserved + self._count_waiting() >= self._max_queue:
            why = "the service is shutting down" if self._is_stopping else "too many runs are waiting"
            raise HttpError(503, why, headers={"Retry-After": str(RETRY_SECONDS)})

    def add(self, run_id: str, owner: str) -> None:
        """Enqueue a durable run, unless it is queued already."""
        with self._lock:
            # Adding is idempotent, because recovery and a client may both resume a run.
            if run_id not in self._working and not any(run_id in line for line in self._waiting.values()):
                self._problems.pop(run_id, None)
                self._waiting.setdefault(owner, deque()).append(run_id)
            self._fill()

    def leave(self, run_id: str) -> None:
        """Remove a run that has nothing to wait for any more."""
        with self._lock:
            for owner, line in list(self._waiting.items()):
                if run_id in line:
                    line.remove(run_id)
                if not line:
                    del self._waiting[owner]
            self._fill()

    def has(self, run_id: str) -> bool:
        """Return whether the run is queued or executed here."""
        with self._lock:
            return run_id in self._working or any(run_id in line for line in self._waiting.values())

    @property
    def free(self) -> int:
        """Return how many runs could start at once."""
        with self._lock:
            # Waiting runs count as taken: this server will start them before others.
            return 0 if self._is_stopping else max(0, self._max_runs - len(self._working) - self._count_waiting())

    def snapshot(self, run_id: str) -> api.Snapshot | None:
        """Return the progress of a run that is executed here."""
        return self._snapshots.get(run_id)

    @property
    def is_stopping(self) -> bool:
        """True if the service is shutting down."""
        return self._is_stopping

    def problem(self, run_id: str) -> str:
        """Return why execution of a run was given up before its end; empty if it was not."""
        return self._problems.get(run_id, "")

    def stop(self) -> None:
        """Start nothing more, and stop running work; safe to call from a signal handler."""
        # No lock: a signal handler may interrupt the thread that holds it.
        self._is_stopping = True

    def wait(self, seconds: float) -> None:
        """Wait for the calls in flight; what is left continues at the next start."""
        with self._lock:
            threads = list(self._working.values())
        end = time.monotonic() + seconds
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))

    def _count_waiting(self) -> int:
        return sum(map(len, self._waiting.values()))

    def _fill(self) -> None:
        while self._waiting and len(self._working) < self._max_runs and not self._is_stopping:
            owner = next(iter(self._waiting))
            # As in FairSemaphore: the caller that was served longest ago comes first.
            line = self._waiting.pop(owner)
            run_id = line.popleft()
            if line:
                # A served caller goes to the end of the line.
                self._waiting[owner] = line
            # A daemon thread: calls that outlast the grace period must not keep the process from ending; the run is durable.
            thread = threading.Thread(target=self._work, args=(run_id,), name=f"run {run_id}", daemon=True)
            # Started under the lock; its first use of the lock waits until the entry below is there.
            thread.start()
            self._working[run_id] = thread
        self._meters.waiting.set(self._count_waiting())
        self._meters.working.set(len(self._working))

    def _work(self, run_id: str) -> None:
        is_over = False
        try:
            # A run of a shared ledger may have been taken over, or handed to workers, while it waited here.
            standing = None if self._shared is None else self._shared.standing(run_id)
            if standing is not None and standing.is_with_workers:
                # Workers execute them without this server; submitting them again changes nothing.
                api.resume(run_id, runs_dir=self._runs_dir, placement=self._placement, is_detached=True)
            elif standing is None or not standing.is_driven:
                result = self._driven(run_id)
                self._tell_end(result)
                if result.is_resumable:
                    self._log_failure(run_id, result.problem, code="provider_rejected")
            # Otherwise another server was faster; if that one goes away, the run is found again.
            is_over = True
        except AssayError as problem:
            self._give_up(run_id, problem)
            is_over = True
        finally:
            if not is_over:
                # A defect of ours, which the log has: without this the run would seem to be running forever.
                self._keep_failure(run_id, AssayError("an internal error stopped the run; see the server log"))
            self._snapshots.pop(run_id, None)
            with self._lock:
                del self._working[run_id]
                self._fill()

    def _tell_end(self, result: RunResult) -> None:
        self._observer.run_ended(result)
        # The artifacts may be on another machine, and then there is nothing to index here.
        if result.is_finished and (self._runs_dir / result.run_id).is_dir():
            self._callbacks.ended(result.run_id)

    def _give_up(self, run_id: str, problem: AssayError) -> None:
        if isinstance(problem, RunSealed | RunNotFound) and self._shared is not None:
            # Another server has taken the run over because this one's lease expired, or has ended it.
            log.warning("%s", problem.message)
            return
        self._problems[run_id] = problem.message
        self._log_failure(run_id, problem.message, code=problem.code)
        self._callbacks.given_up(run_id, problem)
        is_outage = isinstance(problem, StoreUnavailable) and not isinstance(problem, StoreRefused)
        # A bool counts as 0 or 1.
        self._outages[run_id] += is_outage
        if self._shared is not None and is_outage and self._outages[run_id] < MAX_OUTAGES:
            # Another server, or this one later, takes the run.
            return
        self._keep_failure(run_id, problem)

    def _log_failure(self, run_id: str, message: str, *, code: str) -> None:
        fields = {"event": "run_failed", "run_id": run_id, "code": code}
        log.warning("run %s cannot continue: %s", run_id, message, extra={FIELDS: fields})

    def _keep_failure(self, run_id: str, problem: Exception) -> None:
        """Mark the run as `failed` as soon as the storage can be written again."""
        at = time.time()
        if api.record_failure(run_id, self._runs_dir, problem, at=at):
            return

        def keep() -> None:
            is_kept = False
            while not is_kept:
                time.sleep(RECORD_AGAIN_SECONDS)
                # If a user has resumed it meanwhile, that execution decides.
                is_kept = self._is_stopping or self.has(run_id) or api.record_failure(run_id, self._runs_dir, problem, at=at)

        # A daemon: a disk that never recovers must not keep the process from ending.
        threading.Thread(target=keep, name=f"failure of {run_id}", daemon=True).start()

    def _driven(self, run_id: str) -> RunResult:
        def watch(snapshot: api.Snapshot) -> None:
            # Replaced as a whole: readers take the reference without a lock.
            self._snapshots[run_id] = snapshot

        self._observer.run_started(run_id)
        return api.resume(
            run_id,
            runs_dir=self._runs_dir,
            watch=watch,
            observe=self._observer,
            is_stopping=lambda: self._is_stopping,
            # Alone with its ledger a server waits for a process that still drains; with others it leaves the run
            # to them.
            is_patient=self._shared is None,
            is_retried=self._shared is not None,
            placement=self._placement,
        )
