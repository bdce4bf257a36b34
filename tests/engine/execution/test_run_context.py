"""Records in flight: how many records one worker takes in hand, by their number and by their bytes."""

import asyncio
from collections.abc import Sequence

from assay.engine.execution.run_context import MAX_BYTES, MAX_OPEN, InFlightRecords
from assay.store.ledger import SHARD_SIZE


def _begin(in_flight: InFlightRecords, sizes: Sequence[int]) -> None:
    asyncio.run(in_flight.reserve())
    in_flight.add_shard(sizes)


def _has_room(in_flight: InFlightRecords) -> bool:
    """Return whether one more shard can start at once."""

    async def ask() -> bool:
        asked = asyncio.create_task(in_flight.reserve())
        await asyncio.sleep(0)
        asked.cancel()
        return asked.done()

    return asyncio.run(ask())


def test_a_shard_waits_while_open_records_keep_every_slot_busy() -> None:
    in_flight = InFlightRecords(2)
    _begin(in_flight, [10, 10])
    assert not _has_room(in_flight)
    in_flight.remove_record(10)
    assert _has_room(in_flight)


def test_a_shard_waits_while_too_many_bytes_are_in_hand() -> None:
    in_flight = InFlightRecords(1000)
    _begin(in_flight, [MAX_BYTES - 1])
    _begin(in_flight, [1])
    assert not _has_room(in_flight)
    in_flight.remove_record(1)
    assert _has_room(in_flight)


def test_a_record_larger_than_all_that_may_be_in_hand_is_taken_by_itself() -> None:
    in_flight = InFlightRecords(1000)
    _begin(in_flight, [2 * MAX_BYTES])
    assert not _has_room(in_flight)
    in_flight.remove_record(2 * MAX_BYTES)
    assert _has_room(in_flight)


def test_records_between_two_rounds_are_bounded_too() -> None:
    in_flight = InFlightRecords(1)
    for _ in range(MAX_OPEN):
        in_flight.pause()
    for _ in range(MAX_OPEN // SHARD_SIZE):
        _begin(in_flight, [1] * SHARD_SIZE)
    assert not _has_room(in_flight)
