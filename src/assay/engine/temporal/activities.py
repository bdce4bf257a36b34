"""The activities of a worker: look for shards, evaluate one, seal the run; each tells Temporal that it is alive."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from datetime import timedelta
from typing import Any, TypeVar

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from assay.core.errors import AssayError, LedgerUnavailable, RunDamaged, StoreRefused, StoreUnavailable
from assay.engine.places.run_failure import RunFailure, enter_failure, failure_from
from assay.engine.running.engines import PROBLEM
from assay.engine.running.stopping import Stop
from assay.engine.temporal.open_runs import HandedBack, OpenRuns
from assay.engine.temporal.workflow import EVALUATE_SHARD, HEARTBEAT_TIMEOUT, OPEN_SHARDS, PAGE, REQUEST_CANCEL, SEAL
from assay.store.ledger import Ledger
from assay.store.ledgers import open_shared

BEAT = 1.0
"""Seconds between two heartbeats."""
_AT_ONCE = timedelta(milliseconds=1)

T = TypeVar("T")


class Activities:
    """What a worker does for the workflows of runs."""

    def __init__(self, runs: OpenRuns, seal: Callable[[str], str]) -> None:
        self._runs = runs
        self._seal = seal

    def of_runs(self) -> list[Callable[..., Awaitable[Any]]]:
        """What is done for a run as a whole."""
        return [self.open_shards, self.seal, self.request_cancel]

    def of_shards(self) -> list[Callable[..., Awaitable[Any]]]:
        """What is done for a shard."""
        return [self.evaluate_shard]

    @activity.defn(name=OPEN_SHARDS)
    async def open_shards(self, run_id: str) -> list[int]:
        """The first shards that have open records; none for a run that was cancelled."""
        return await self._in_thread(run_id, _open_shards)

    @activity.defn(name=EVALUATE_SHARD)
    async def evaluate_shard(self, run_id: str, shard: int) -> bool:
        """Evaluate what is open in a shard; True when the run was cancelled."""
        stop = Stop()
        return await beating(self._told(run_id, self._evaluated(run_id, shard, stop)), stop)

    async def _evaluated(self, run_id: str, shard: int, stop: Stop) -> bool:
        if self._runs.is_stopping:
            raise HandedBack
        async with self._runs.entered(run_id) as run:
            return await run.evaluate(shard, stop)

    @activity.defn(name=SEAL)
    async def seal(self, run_id: str) -> str:
        """Publish the artifacts and end the run; the state in which it has ended."""
        # A disk that is full, or a folder that another machine has, may be mended while the artifacts wait to be written.
        return await beating(self._told(run_id, asyncio.to_thread(self._seal, run_id), passing=StoreUnavailable), Stop())

    @activity.defn(name=REQUEST_CANCEL)
    async def request_cancel(self, run_id: str) -> None:
        """Cancel the run whose workflow was cancelled."""
        await self._in_thread(run_id, lambda ledger: ledger.request_cancel())

    async def _in_thread(self, run_id: str, look: Callable[[Ledger], T]) -> T:
        return await beating(self._told(run_id, asyncio.to_thread(_looked, look, self._runs.ledger, run_id)), Stop())

    async def _told(self, run_id: str, work: Coroutine[Any, Any, T], *, passing: type[AssayError] = LedgerUnavailable) -> T:
        """The result of the work, or what went wrong as Temporal keeps it: tried again where it may pass, and else the end."""
        try:
            return await work
        except HandedBack:
            raise ApplicationError(
                f"handed back by {self._runs.owner}",
                type="handed_back",
                next_retry_delay=_AT_ONCE,
                category=ApplicationErrorCategory.BENIGN,
            ) from None
        except AssayError as problem:
            is_passing = isinstance(problem, passing) and not isinstance(problem, RunDamaged | StoreRefused)
            message, hint = _encodable(f"{problem.message} (worker {self._runs.owner})"), _encodable(problem.hint)
            words = "; ".join(filter(None, (message, hint)))
            failure = None if is_passing else failure_from(problem, at=time.time())
            await asyncio.to_thread(_note_problem, words, self._runs.ledger, run_id, failure=failure)
            raise ApplicationError(message, hint, type=problem.code, non_retryable=not is_passing) from None


async def beating(work: Coroutine[Any, Any, T], stop: Stop) -> T:
    """The result of the work, with a heartbeat while it lasts.

    Once the activity is cancelled, because its heartbeats were lost or somebody wants so, no new call is made; what is in flight
    comes to its end, and is recorded as long as nobody else has claimed the shard. The same when this worker has stood still for so
    long that it was missed.
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
            await asyncio.wait([task], timeout=BEAT)
        except asyncio.CancelledError as end:
            cancelled = end
            stop.set()
    if cancelled is not None:
        # What it was worth is in the ledger; an exception that nobody asks for would be complained of.
        task.exception()
        raise cancelled
    return task.result()


def _open_shards(ledger: Ledger) -> list[int]:
    return [] if ledger.run().is_cancel_requested else list(ledger.shards())[:PAGE]


def _encodable(words: str) -> str:
    """Words that every store takes: the name of a file may have parts that are no text."""
    return words.encode("utf-8", "replace").decode()


def _note_problem(problem: str, address: str, run_id: str, *, failure: RunFailure | None) -> None:
    """Say in the ledger why the run does not go on, and that it has failed where no worker will try again."""
    with suppress(AssayError):
        _looked(lambda ledger: ledger.set_note(PROBLEM, problem), address, run_id)
        if failure is not None:
            _looked(lambda ledger: enter_failure(ledger, failure), address, run_id)


def _looked(look: Callable[[Ledger], T], address: str, run_id: str) -> T:
    ledger = open_shared(address, run_id)
    try:
        return look(ledger)
    finally:
        ledger.close()
