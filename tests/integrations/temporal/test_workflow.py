"""The workflow of a run by itself: every shard is handed out once, and no history grows without end."""

import asyncio
from contextlib import AsyncExitStack
from uuid import uuid4

import pytest

from tests.integrations.temporal.machines import TemporalProcess

temporalio = pytest.importorskip("temporalio")
from temporalio import activity  # noqa: E402  # an extra
from temporalio.client import Client, WorkflowExecutionDescription, WorkflowExecutionStatus, WorkflowHandle  # noqa: E402
from temporalio.worker import Worker  # noqa: E402

from assay.integrations.temporal.workflow import (  # noqa: E402
    EVALUATE_SHARD,
    OPEN_SHARDS,
    PAGE,
    RUN_WORKFLOW,
    SEAL,
    RunWorkflow,
    shard_queue,
)

pytestmark = pytest.mark.xdist_group("temporal")


class Book:
    """A run of so many shards, none of which takes any time."""

    def __init__(self, shards: int) -> None:
        self.open = list(range(shards))
        self.evaluated: list[int] = []

    @activity.defn(name=OPEN_SHARDS)
    async def open_shards(self, _: str) -> list[int]:
        return self.open[:PAGE]

    @activity.defn(name=EVALUATE_SHARD)
    async def evaluate_shard(self, _: str, shard: int) -> bool:
        self.open.remove(shard)
        self.evaluated.append(shard)
        return False

    @activity.defn(name=SEAL)
    async def seal(self, _: str) -> str:
        assert not self.open
        return "completed"


async def carried_out(book: Book, address: str) -> WorkflowExecutionDescription:
    """Runs the workflow, and returns what became of its first execution."""
    client, queue = await Client.connect(address), f"q-{uuid4()}"
    async with AsyncExitStack() as stack:
        of_runs = Worker(client, task_queue=queue, workflows=[RunWorkflow], activities=[book.open_shards, book.seal])
        of_shards = Worker(client, task_queue=shard_queue(queue), activities=[book.evaluate_shard])
        for worker in (of_runs, of_shards):
            await stack.enter_async_context(worker)
        started: WorkflowHandle[object, object] = await client.start_workflow(RUN_WORKFLOW, queue, id=queue, task_queue=queue)
        assert await asyncio.wait_for(started.result(), 120) == "completed"
    return await client.get_workflow_handle(queue, run_id=started.first_execution_run_id).describe()


@pytest.mark.heavy
def test_a_run_of_many_shards_continues_as_a_new_execution(temporal: TemporalProcess) -> None:
    book = Book(PAGE + 3)
    first = asyncio.run(carried_out(book, temporal.address))
    assert sorted(book.evaluated) == list(range(PAGE + 3))
    assert first.status == WorkflowExecutionStatus.CONTINUED_AS_NEW
    # Temporal ends a history of 51,200 events.
    assert first.history_length < 10_000


def test_a_run_without_shards_is_sealed(temporal: TemporalProcess) -> None:
    first = asyncio.run(carried_out(Book(0), temporal.address))
    assert first.status == WorkflowExecutionStatus.COMPLETED
    assert first.history_length < 30
