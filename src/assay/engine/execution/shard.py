"""Shards: one is evaluated the same way on every engine; the local engine evaluates all in this process."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from assay.core.errors import AssayError
from assay.engine.execution.case import grade_without_calls, read_case, run_case
from assay.engine.execution.record_events import FinishedCase
from assay.engine.execution.run_context import RunContext
from assay.engine.records.run_counters import rare_collection
from assay.store.ledger import Claim, ClaimLost, CommitEntry, OpenRecord
from assay.store.lock import worker_name


async def run_shard(shard: int, context: RunContext, *, owner: str) -> bool:
    """Claim a reserved shard and evaluate its open records; return True when all of them have an outcome.

    It ends early when the context is stopped or another worker takes the shard over. Raises StoreUnavailable when the ledger cannot
    be written; the records then stay open.
    """
    claim, opened = await _claim_shard(shard, context, owner=owner)
    # No task is cancelled: a record that cannot continue ends by itself and saves the calls that it has paid for.
    finished, others = _grade_without_calls(opened, claim, context)
    ends = await asyncio.gather(
        _append([opened[index] for index in finished], list(finished.values()), claim, context=context),
        *(run_case(record, claim, context) for record in others),
        return_exceptions=True,
    )
    for end in ends:
        if isinstance(end, BaseException) and not isinstance(end, ClaimLost):
            raise end
    return not context.stop.is_set() and not any(isinstance(end, ClaimLost) for end in ends)


async def _claim_shard(shard: int, context: RunContext, *, owner: str) -> tuple[Claim, list[OpenRecord]]:
    ledger_writer = context.ledger_writer
    opened: list[OpenRecord] | None = None
    try:
        claim = await ledger_writer.call(ledger_writer.ledger.claim, shard, owner=owner)
        opened = await ledger_writer.call(ledger_writer.ledger.open_records, shard)
    finally:
        if opened is None:
            context.stop.set()
        # Also after an error: otherwise the reservation would stay, and `reserve` would block for ever.
        context.in_flight.add_shard([len(record.case) for record in opened or ()])
    return claim, opened


def _grade_without_calls(
    opened: Sequence[OpenRecord], claim: Claim, context: RunContext
) -> tuple[dict[int, CommitEntry], list[OpenRecord]]:
    """Grade the records that need no call; return their ledger entries by index in `opened`, and the other records."""
    finished: dict[int, CommitEntry] = {}
    others: list[OpenRecord] = []
    for index, record in enumerate(opened):
        entry = grade_without_calls(record, claim, context)
        if entry is None:
            others.append(record)
        else:
            finished[index] = entry
    return finished, others


async def _append(records: Sequence[OpenRecord], finished: Sequence[CommitEntry], claim: Claim, *, context: RunContext) -> None:
    if not finished:
        return
    try:
        await context.ledger_writer.append(claim, finished, is_urgent=not context.counters.in_flight)
    except AssayError:
        context.stop.set()
        raise
    else:
        for record, entry in zip(records, finished, strict=True):
            assert entry.outcome is not None
            context.counters.add_outcome(entry.outcome)
            if context.event_emitter is not None:
                context.event_emitter.emit(FinishedCase(read_case(record.case), entry.attempts, entry.outcome))
    finally:
        for record in records:
            context.in_flight.end_rounds(is_retrying=False)
            context.in_flight.remove_record(len(record.case))


POLL_INTERVAL = 1.0
"""Seconds between two reads of the cancel flag while nothing is appended."""


async def run_local(context: RunContext, *, on_retrying: Callable[[], Awaitable[None]]) -> None:
    """Run every shard that has open records; return when none is left or the context is stopped."""
    with rare_collection():
        await _run_shards(context, on_retrying)


async def _run_shards(context: RunContext, on_retrying: Callable[[], Awaitable[None]]) -> None:
    ledger_writer, in_flight = context.ledger_writer, context.in_flight
    owner = worker_name()
    watchers = [
        asyncio.create_task(stop_on_error(watch, context)) for watch in (partial(_mark_retrying, act=on_retrying), _poll_for_cancel)
    ]
    shards: list[asyncio.Task[bool]] = []
    try:
        for shard in await ledger_writer.call(ledger_writer.ledger.shards):
            await in_flight.reserve()
            if context.stop.is_set():
                break
            shards.append(asyncio.create_task(run_shard(shard, context, owner=owner)))
        else:
            in_flight.complete()
        await asyncio.gather(*shards, return_exceptions=True)
    finally:
        for task in (*watchers, *shards):
            task.cancel()
        ends = await asyncio.gather(*shards, *watchers, return_exceptions=True)
    for end in ends:
        if isinstance(end, Exception):
            raise end


async def stop_on_error(watch: Callable[[RunContext], Awaitable[None]], context: RunContext) -> None:
    """Run a background task of the run, and stop the run when it fails: then the ledger cannot be reached."""
    try:
        await watch(context)
    except AssayError:
        context.stop.set()
        raise


async def _mark_retrying(context: RunContext, *, act: Callable[[], Awaitable[None]]) -> None:
    await context.in_flight.only_retries.wait()
    # A run that is being stopped may have records that were never tried: it is not in state `retrying`.
    if not context.stop.is_set():
        await act()


async def _poll_for_cancel(context: RunContext) -> None:
    """Poll the ledger for a cancel request: `append` reports one too, but long calls append nothing for a while."""
    ledger_writer = context.ledger_writer
    while True:
        await asyncio.sleep(POLL_INTERVAL)
        await ledger_writer.call(ledger_writer.ledger.check)
        row = await ledger_writer.call(ledger_writer.ledger.run)
        if row.is_cancel_requested:
            context.stop.set()
