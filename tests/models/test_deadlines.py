"""Deadlines of exchanges: each has its own, though one timer looks after all."""

import asyncio
import threading
from urllib.parse import urlsplit

import pytest

from assay.models.http_client import Deadlines, Dialer, HttpPool
from tests.models.faulty_provider import completion, faulty_provider, http, send, send_and_hang

SECONDS = 0.2
SILENT = send_and_hang(b"", seconds=0.6)


async def waited(pool: HttpPool, url: str, *, after: float = 0.0) -> float:
    """Seconds after which a request, sent after a while, is given up."""
    loop = asyncio.get_running_loop()
    await asyncio.sleep(after)
    start = loop.time()
    with pytest.raises(TimeoutError):
        await pool.send(pool.head("GET", url, {}) + b"\r\n")
    return loop.time() - start


def test_exchanges_side_by_side_are_given_up_each_at_its_own_time() -> None:
    async def asked(url: str) -> list[float]:
        pool = HttpPool(url, seconds=SECONDS)
        found = await asyncio.gather(*(waited(pool, url, after=after) for after in (0.0, 0.05, 0.1, 0.3)))
        await pool.close()
        return found

    with faulty_provider(SILENT) as url:
        assert min(asyncio.run(asked(url))) >= SECONDS


class Leaping(asyncio.SelectorEventLoop):
    """A loop whose clock can be put forward, so that a reply may take its time and a deadline none."""

    ahead = 0.0

    def time(self) -> float:
        return super().time() + self.ahead

    async def leap(self, seconds: float) -> None:
        """Let time pass, and everything happen that is due by then."""
        self.ahead += seconds
        for _ in range(10):
            await asyncio.sleep(0)


def test_a_reply_in_time_leaves_no_deadline_to_the_next_one() -> None:
    loop, heard = Leaping(), threading.Event()

    async def asked(url: str) -> tuple[int, bool]:
        pool = HttpPool(url, seconds=600)
        request = pool.head("GET", url, {}) + b"\r\n"
        first = await pool.send(request)
        await loop.leap(400)
        second = asyncio.create_task(pool.send(request))
        await asyncio.to_thread(heard.wait, 60)
        await loop.leap(400)
        was_waiting = not second.done()
        await loop.leap(400)
        with pytest.raises(TimeoutError):
            await second
        await pool.close()
        return first.status, was_waiting

    with (
        faulty_provider(send(http(completion())), lambda _: heard.set()) as url,
        asyncio.Runner(loop_factory=lambda: loop) as runner,
    ):
        assert runner.run(asked(url)) == (200, True)


def test_an_exchange_keeps_its_deadline_when_its_pool_is_closed() -> None:
    async def asked(url: str) -> float:
        pool = HttpPool(url, seconds=SECONDS)
        exchange = asyncio.create_task(waited(pool, url))
        await asyncio.sleep(SECONDS / 4)
        await pool.close()
        return await exchange

    with faulty_provider(SILENT) as url:
        assert asyncio.run(asyncio.wait_for(asked(url), 60)) >= SECONDS


def test_an_earlier_deadline_that_is_set_later_does_not_wait_for_the_others() -> None:
    async def asked(url: str) -> None:
        dialer, deadlines = Dialer(urlsplit(url), None), Deadlines()
        patient, hasty = await dialer.connect(), await dialer.connect()
        now = asyncio.get_running_loop().time()
        deadlines.set(patient, now + 600)
        deadlines.set(hasty, now + 0.1)
        with pytest.raises(TimeoutError):
            await hasty.exchange(b"GET / HTTP/1.1\r\n\r\n")
        deadlines.close()
        patient.close()
        hasty.close()

    with faulty_provider(SILENT) as url:
        asyncio.run(asyncio.wait_for(asked(url), 60))
