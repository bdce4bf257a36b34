"""Evaluation of one shard, the same on every engine."""

import asyncio
from collections.abc import Sequence

from assay.core.errors import AssayError
from assay.engine.execution.case import RunContext, grade_without_calls, read_case, run_case
from assay.engine.execution.record_events import FinishedCase
from assay.store.ledger import Claim, ClaimLost, CommitEntry, OpenRecord


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
        *(_run_record(record, claim, context) for record in others),
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


async def _run_record(record: OpenRecord, claim: Claim, context: RunContext) -> None:
    try:
        await run_case(record, claim, context)
    except AssayError:
        # When the ledger cannot be written, all records must stop: the results of further paid calls could not be saved.
        context.stop.set()
        raise
    finally:
        context.in_flight.remove_record(len(record.case))
