"""One shard: the same function on every engine brings the open records of a shard to their outcomes."""

import asyncio
from collections.abc import Sequence

from assay.core.errors import AssayError
from assay.engine.running.case import Room, end_at_once, read_case, run_case
from assay.engine.running.observing import Ended
from assay.store.ledger import Claim, Entry, Fenced, OpenRecord


async def run_shard(shard: int, room: Room, *, owner: str) -> bool:
    """Claim a shard that the crew has room for and run its open records; True when all of them have come to their end.

    It ends early when the room is stopped or another worker takes the shard over. Raises StoreUnavailable when the ledger cannot be
    written; the records then stay open.
    """
    claim, opened = await _taken(shard, room, owner=owner)
    # Nothing is cancelled: a record that cannot go on ends by itself, and what it has paid for is kept.
    ended, others = _ended_at_once(opened, claim, room)
    ends = await asyncio.gather(
        _append([opened[place] for place in ended], list(ended.values()), claim, room=room),
        *(_run_one(record, claim, room) for record in others),
        return_exceptions=True,
    )
    for end in ends:
        if isinstance(end, BaseException) and not isinstance(end, Fenced):
            raise end
    return not room.stop.is_set() and not any(isinstance(end, Fenced) for end in ends)


async def _taken(shard: int, room: Room, *, owner: str) -> tuple[Claim, list[OpenRecord]]:
    journal = room.journal
    opened: list[OpenRecord] | None = None
    try:
        claim = await journal.call(journal.ledger.claim, shard, owner=owner)
        opened = await journal.call(journal.ledger.open_records, shard)
    finally:
        if opened is None:
            room.stop.set()
        # Whoever waits for room for the next shard hears of this one in any case.
        room.crew.admit([len(record.case) for record in opened or ()])
    return claim, opened


def _ended_at_once(opened: Sequence[OpenRecord], claim: Claim, room: Room) -> tuple[dict[int, Entry], list[OpenRecord]]:
    """What is to be appended, by place among them, for the records for which nobody has to be asked, and the other records."""
    ended: dict[int, Entry] = {}
    others: list[OpenRecord] = []
    for place, record in enumerate(opened):
        entry = end_at_once(record, claim, room)
        if entry is None:
            others.append(record)
        else:
            ended[place] = entry
    return ended, others


async def _append(records: Sequence[OpenRecord], ended: Sequence[Entry], claim: Claim, *, room: Room) -> None:
    if not ended:
        return
    try:
        await room.journal.append(claim, ended, is_urgent=not room.tally.in_flight)
    except AssayError:
        room.stop.set()
        raise
    else:
        for record, entry in zip(records, ended, strict=True):
            assert entry.outcome is not None
            room.tally.add_outcome(entry.outcome)
            if room.watcher is not None:
                room.watcher.tell(Ended(read_case(record.case), entry.attempts, entry.outcome))
    finally:
        for record in records:
            room.crew.end_rounds(is_retrying=False)
            room.crew.leave(len(record.case))


async def _run_one(record: OpenRecord, claim: Claim, room: Room) -> None:
    try:
        await run_case(record, claim, room)
    except AssayError:
        # A ledger that cannot be written ends the work of every record: each further call would be paid for in vain.
        room.stop.set()
        raise
    finally:
        room.crew.leave(len(record.case))
