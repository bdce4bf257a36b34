"""Callers take turns for slots, and background work runs once for all requests that wait for it."""

import asyncio

import pytest

from assay.surfaces.server.concurrency import BackgroundTasks, FairSemaphore


def test_callers_take_turns_however_much_each_has_sent() -> None:
    async def order() -> list[str]:
        slots, seen = FairSemaphore(1), list[str]()

        async def work(caller: str) -> None:
            async with slots.slot(caller):
                seen.append(caller)
                await asyncio.sleep(0)

        await asyncio.gather(*map(work, "aaaaab"))
        return seen

    assert asyncio.run(order()).index("b") <= 2


def test_cancelled_waiter_keeps_no_slot() -> None:
    async def seen() -> list[str]:
        slots, done, may_end = FairSemaphore(1), list[str](), asyncio.Event()

        async def work(caller: str) -> None:
            async with slots.slot(caller):
                await may_end.wait()
                done.append(caller)

        tasks = [asyncio.ensure_future(work(caller)) for caller in "abc"]
        await asyncio.sleep(0)
        tasks[1].cancel()
        may_end.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        await work("d")
        return done

    assert asyncio.run(seen()) == ["a", "c", "d"]


def test_work_is_done_once_however_many_requests_wait_for_it() -> None:
    done: list[int] = []

    async def wait() -> list[bool]:
        tasks, all_wait = BackgroundTasks(), asyncio.Event()

        async def work() -> None:
            await all_wait.wait()
            done.append(1)

        requests = [asyncio.ensure_future(tasks.is_ready("same", work, seconds=5)) for _ in range(3)]
        await asyncio.sleep(0)
        all_wait.set()
        return list(await asyncio.gather(*requests))

    assert (asyncio.run(wait()), done) == ([True] * 3, [1])


def test_second_request_finds_the_work_done() -> None:
    async def wait() -> tuple[bool, bool]:
        tasks, may_end = BackgroundTasks(), asyncio.Event()
        first = await tasks.is_ready("slow", may_end.wait, seconds=0)
        may_end.set()
        return first, await tasks.is_ready("slow", may_end.wait, seconds=5)

    assert asyncio.run(wait()) == (False, True)


def test_work_that_failed_is_tried_again_by_the_next_request() -> None:
    tries: list[int] = []

    async def work() -> None:
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("once")

    async def wait() -> bool:
        tasks = BackgroundTasks()
        with pytest.raises(ValueError, match="once"):
            await tasks.is_ready("flaky", work, seconds=5)
        return await tasks.is_ready("flaky", work, seconds=5)

    assert asyncio.run(wait())
    assert len(tries) == 2
