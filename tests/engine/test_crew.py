"""The crew: how many records one worker takes in hand, by their number and by their bytes."""

import asyncio
from collections.abc import Sequence

from assay.engine.running.crew import MOST_BYTES, MOST_OPEN, Crew
from assay.store.ledger import SHARD_SIZE


def _begin(crew: Crew, sizes: Sequence[int]) -> None:
    asyncio.run(crew.reserve())
    crew.admit(sizes)


def _has_room(crew: Crew) -> bool:
    """Whether one more shard can be begun at once."""

    async def ask() -> bool:
        asked = asyncio.create_task(crew.reserve())
        await asyncio.sleep(0)
        asked.cancel()
        return asked.done()

    return asyncio.run(ask())


def test_a_shard_waits_while_open_records_keep_every_slot_busy() -> None:
    crew = Crew(2)
    _begin(crew, [10, 10])
    assert not _has_room(crew)
    crew.leave(10)
    assert _has_room(crew)


def test_a_shard_waits_while_too_many_bytes_are_in_hand() -> None:
    crew = Crew(1000)
    _begin(crew, [MOST_BYTES - 1])
    _begin(crew, [1])
    assert not _has_room(crew)
    crew.leave(1)
    assert _has_room(crew)


def test_a_record_larger_than_all_that_may_be_in_hand_is_taken_by_itself() -> None:
    crew = Crew(1000)
    _begin(crew, [2 * MOST_BYTES])
    assert not _has_room(crew)
    crew.leave(2 * MOST_BYTES)
    assert _has_room(crew)


def test_records_between_two_rounds_are_bounded_too() -> None:
    crew = Crew(1)
    for _ in range(MOST_OPEN):
        crew.pause()
    for _ in range(MOST_OPEN // SHARD_SIZE):
        _begin(crew, [1] * SHARD_SIZE)
    assert not _has_room(crew)
