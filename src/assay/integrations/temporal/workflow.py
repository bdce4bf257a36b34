"""The workflow of a run: it hands out open shards and then seals the run. It holds ids only, never data of records."""

import asyncio
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import Priority, RetryPolicy
from temporalio.exceptions import ActivityError, is_cancelled_exception

RUN_WORKFLOW = "assay-run"
OPEN_SHARDS = "open_shards"
EVALUATE_SHARD = "evaluate_shard"
SEAL = "seal"
REQUEST_CANCEL = "request_cancel"

PAGE = 1_000
"""Shards that one execution hands out before it continues as a new one, so that its history stays bounded."""
WINDOW = 200
"""Maximum shards handed out at the same time."""
HEARTBEAT_TIMEOUT = timedelta(seconds=10)
"""Silence after which a worker counts as dead and its shard goes to another."""
_LONGEST = timedelta(days=30)
"""Maximum time of one shard, whose records may wait for a provider's rates; dead workers are detected by the heartbeat."""
_AGAIN = RetryPolicy(initial_interval=timedelta(seconds=1), backoff_coefficient=2.0, maximum_interval=timedelta(seconds=4))
"""Intervals stay below the heartbeat timeout: an outage of the ledger is waited out in the activity itself."""


def shard_queue(task_queue: str) -> str:
    """Return the name of the task queue for shards; other activities have their own, so that they do not wait behind shards."""
    return f"{task_queue}-shards"


@workflow.defn(name=RUN_WORKFLOW)
class RunWorkflow:
    """One run, from its open shards to its sealed artifacts."""

    def __init__(self) -> None:
        self._is_cancelled = False

    @workflow.run
    async def run(self, run_id: str) -> str:
        """Evaluate and seal the run; return its final state."""
        try:
            shards = await self._short(OPEN_SHARDS, run_id)
            await self._evaluate(run_id, shards)
        except (asyncio.CancelledError, ActivityError) as end:
            # A permanent failure of an activity ends the workflow with its message; a cancellation does not.
            if not is_cancelled_exception(end):
                raise
            # An operator cancelled the workflow instead of the run: end it like a cancelled run.
            await self._short(REQUEST_CANCEL, run_id)
        else:
            # A full page means that there may be more shards.
            if len(shards) == PAGE and not self._is_cancelled:
                workflow.continue_as_new(run_id)
        return str(await self._short(SEAL, run_id))

    async def _evaluate(self, run_id: str, shards: list[int]) -> None:
        """Hand out the shards, WINDOW at a time; the first permanent failure cancels the others."""
        if not shards:
            return
        # Asyncio primitives are deterministic in a workflow: Temporal runs them on a loop of its own.
        slots = asyncio.Semaphore(WINDOW)
        tasks = [asyncio.create_task(self._evaluate_one(run_id, shard, slots)) for shard in shards]
        try:
            # The first failure ends the wait; without one all shards are waited for.
            await workflow.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for task in tasks:
                task.cancel()
            # Cancelled shards are waited for as well, since their calls in flight are still recorded.
            ends = await asyncio.gather(*tasks, return_exceptions=True)
        for end in ends:
            if isinstance(end, ActivityError) and not is_cancelled_exception(end):
                raise end

    async def _evaluate_one(self, run_id: str, shard: int, slots: asyncio.Semaphore) -> None:
        async with slots:
            # A cancel that one shard has reported makes the rest needless.
            if not self._is_cancelled:
                self._is_cancelled |= await workflow.execute_activity(
                    EVALUATE_SHARD,
                    args=[run_id, shard],
                    task_queue=shard_queue(workflow.info().task_queue),
                    result_type=bool,
                    start_to_close_timeout=_LONGEST,
                    heartbeat_timeout=HEARTBEAT_TIMEOUT,
                    retry_policy=_AGAIN,
                    # Calls in flight must be recorded before the run is sealed.
                    cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
                    # Runs take turns, so that one with many shards does not hold up another.
                    priority=Priority(fairness_key=run_id[:64]),
                )

    async def _short(self, name: str, run_id: str) -> Any:
        """Execute an activity other than a shard; sealing a large run takes long, so that these have a heartbeat too."""
        return await workflow.execute_activity(
            name,
            run_id,
            start_to_close_timeout=_LONGEST,
            heartbeat_timeout=HEARTBEAT_TIMEOUT,
            retry_policy=_AGAIN,
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        )
