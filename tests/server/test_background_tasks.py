"""Work that goes on while its readers look at a page that says so."""

import asyncio

import pytest

from assay.surfaces.server.concurrency import BackgroundTasks


def test_work_is_done_once_however_many_wait_for_it() -> None:
    done: list[int] = []

    async def work() -> None:
        await asyncio.sleep(0.05)
        done.append(1)

    async def wait() -> list[bool]:
        pending = BackgroundTasks()
        return list(await asyncio.gather(*(pending.is_ready("same", work, seconds=5) for _ in range(3))))

    assert (asyncio.run(wait()), done) == ([True] * 3, [1])


def test_who_asks_again_finds_the_work_done() -> None:
    async def wait() -> tuple[bool, bool]:
        pending, gate = BackgroundTasks(), asyncio.Event()
        first = await pending.is_ready("slow", gate.wait, seconds=0.01)
        gate.set()
        return first, await pending.is_ready("slow", gate.wait, seconds=5)

    assert asyncio.run(wait()) == (False, True)


def test_what_failed_is_tried_again_by_the_next_who_asks() -> None:
    tries: list[int] = []

    async def work() -> None:
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("once")

    async def wait() -> bool:
        pending = BackgroundTasks()
        with pytest.raises(ValueError, match="once"):
            await pending.is_ready("flaky", work, seconds=5)
        return await pending.is_ready("flaky", work, seconds=5)

    assert asyncio.run(wait())
    assert len(tries) == 2
