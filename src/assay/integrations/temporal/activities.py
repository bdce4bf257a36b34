"""The activities of a worker: list open shards, evaluate one, seal the run; each sends heartbeats to Temporal."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from datetime import timedelta
from typing import Any, TypeVar

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from assay.core.errors import AssayError, LedgerUnavailable, RunDamaged, StoreRefused, StoreUnavailable
from assay.engine.execution.engines import PROBLEM
from assay.engine.execution.shutdown import StopEvent
from assay.engine.storage.run_failure import RunFailure, enter_failure, failure_from
from assay.integrations.temporal.open_runs import OpenRuns, ShardReleased
from assay.integrations.temporal.workflow import EVALUATE_SHARD, HEARTBEAT_TIMEOUT, OPEN_SHARDS, PAGE, REQUEST_CANCEL, SEAL
from assay.store.ledger import Ledger
from assay.store.ledgers import open_shared

HEARTBEAT_INTERVAL = 1.0
"""Seconds between two heartbeats."""
_AT_ONCE = timedelta(milliseconds=1)

T = TypeVar("T")


class Activities:
    """Activities that a worker offers to the workflows of runs."""

    def __init__(self, runs: OpenRuns, seal: Callable[[str], str]) -> None:
        self._runs = runs
        self._seal = seal

    def run_activities(self) -> list[Callable[..., Awaitable[Any]]]:
        """Return the activities for a run as a whole."""
        return [self.open_shards, self.seal, self.request_cancel]

    def shard_activities(self) -> list[Callable[..., Awaitable[Any]]]:
        """Return the activities for a shard."""
        return [self.evaluate_shard]

    @activity.defn(name=OPEN_SHARDS)
    async def open_shards(self, run_id: str) -> list[int]:
        """Return the first shards with open records; none for a cancelled run."""
        return await self._in_thread(run_id, _open_shards)

    @activity.defn(name=EVALUATE_SHARD)
    async def evaluate_shard(self, run_id: str, shard: int) -> bool:
        """Evaluate the open records of a shard; return True when the run was cancelled."""
        stop = StopEvent()
        return await with_heartbeat(self._as_application_error(run_id, self._evaluate_shard(run_id, shard, stop)), stop)

    async def _evaluate_shard(self, run_id: str, shard: int, stop: StopEvent) -> bool:
        if self._runs.is_stopping:
            raise ShardReleased
        async with self._runs.open_run(run_id) as run:
            return await run.evaluate(shard, stop)

    @activity.defn(name=SEAL)
    async def seal(self, run_id: str) -> str:
        """Publish the artifacts and end the run; return its final state."""
        # Any StoreUnavailable is retried here: a full disk or a missing folder may be fixed, and nothing is paid for twice.
        return await with_heartbeat(
            self._as_application_error(run_id, asyncio.to_thread(self._seal, run_id), transient=StoreUnavailable), StopEvent()
        )

    @activity.defn(name=REQUEST_CANCEL)
    async def request_cancel(self, run_id: str) -> None:
        """Cancel the run whose workflow was cancelled."""
        await self._in_thread(run_id, lambda ledger: ledger.request_cancel())

    async def _in_thread(self, run_id: str, use_ledger: Callable[[Ledger], T]) -> T:
        return await with_heartbeat(
            self._as_application_error(run_id, asyncio.to_thread(_use_ledger, use_ledger, self._runs.ledger, run_id)), StopEvent()
        )

    async def _as_application_error(
        self, run_id: str, work: Coroutine[Any, Any, T], *, transient: type[AssayError] = LedgerUnavailable
    ) -> T:
        """Return the result of the work; convert an error for Temporal, to be retried when `transient` and final otherwise."""
        try:
            return await work
        except ShardReleased:
            raise ApplicationError(
                f"handed back by {self._runs.owner}",
                type="handed_back",
                next_retry_delay=_AT_ONCE,
                category=ApplicationErrorCategory.BENIGN,
            ) from None
        except AssayError as problem:
            is_transient = isinstance(problem, transient) and not isinstance(problem, RunDamaged | StoreRefused)
            message, hint = _encodable(f"{problem.message} (worker {self._runs.owner})"), _encodable(problem.hint)
            note = "; ".join(filter(None, (message, hint)))
            failure = None if is_transient else failure_from(problem, at=time.time())
            await asyncio.to_thread(_note_problem, note, self._runs.ledger, run_id, failure=failure)
            raise ApplicationError(message, hint, type=problem.code, non_retryable=not is_transient) from None


async def with_heartbeat(work: Coroutine[Any, Any, T], stop: StopEvent) -> T:
    """Return the result of the work, sending heartbeats while it lasts.

    Once the activity is cancelled, on request or because its heartbeats were lost, no new call is made. Calls in flight finish and
    are recorded unless another worker has claimed the shard. The same happens when this process was suspended for longer than the
    heartbeat timeout.
    """
    task, clock = asyncio.create_task(work), asyncio.get_running_loop().time
    cancelled: asyncio.CancelledError | None = None
    missed_at = clock() + HEARTBEAT_TIMEOUT.total_seconds()
    while not task.done():
        if clock() > missed_at:
            stop.set()
        missed_at = clock() + HEARTBEAT_TIMEOUT.total_seconds()
        activity.heartbeat()
        try:
            await asyncio.wait([task], timeout=HEARTBEAT_INTERVAL)
        except asyncio.CancelledError as end:
            cancelled = end
            stop.set()
    if cancelled is not None:
        # The results are in the ledger. Retrieve the exception, since asyncio would log one that is not retrieved.
        task.exception()
        raise cancelled
    return task.result()


def _open_shards(ledger: Ledger) -> list[int]:
    return [] if ledger.run().is_cancel_requested else list(ledger.shards())[:PAGE]


def _encodable(note: str) -> str:
    """Return a message that can be encoded: names of files may contain bytes that are not text."""
    return note.encode("utf-8", "replace").decode()


def _note_problem(problem: str, address: str, run_id: str, *, failure: RunFailure | None) -> None:
    """Note in the ledger why the run does not continue, and the failure if no worker will retry."""
    with suppress(AssayError):
        _use_ledger(lambda ledger: ledger.set_note(PROBLEM, problem), address, run_id)
        if failure is not None:
            _use_ledger(lambda ledger: enter_failure(ledger, failure), address, run_id)


def _use_ledger(use_ledger: Callable[[Ledger], T], address: str, run_id: str) -> T:
    ledger = open_shared(address, run_id)
    try:
        return use_ledger(ledger)
    finally:
        ledger.close()
