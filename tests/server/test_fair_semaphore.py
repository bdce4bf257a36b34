"""Work of several callers through a few places."""

import asyncio

from assay.surfaces.server.concurrency import FairSemaphore


def test_callers_take_turns_whoever_has_sent_how_much() -> None:
    async def order() -> list[str]:
        turnstile, seen = FairSemaphore(1), list[str]()

        async def work(caller: str) -> None:
            async with turnstile.slot(caller):
                seen.append(caller)
                await asyncio.sleep(0)

        await asyncio.gather(*map(work, "aaaaab"))
        return seen

    assert asyncio.run(order()).index("b") <= 2


def test_caller_who_is_gone_keeps_no_place() -> None:
    async def seen() -> list[str]:
        turnstile, done = FairSemaphore(1), list[str]()

        async def work(caller: str) -> None:
            async with turnstile.slot(caller):
                await asyncio.sleep(0.01)
                done.append(caller)

        tasks = [asyncio.ensure_future(work(caller)) for caller in "abc"]
        await asyncio.sleep(0)
        tasks[1].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await work("d")
        return done

    assert asyncio.run(seen()) == ["a", "c", "d"]
