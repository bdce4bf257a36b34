"""The local engine: all shards of a run in this process."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable

from assay.engine.case import Room
from assay.engine.shard import run_shard

LOOK = 1.0
"""Seconds between two looks at the cancel flag while nothing is appended."""


def worker_name() -> str:
    """Who works here, for people who look into a ledger."""
    return f"{socket.gethostname()}:{os.getpid()}"


async def run_local(room: Room, *, on_retrying: Callable[[], Awaitable[None]]) -> None:
    """Run every shard that has open records; returns when nothing is left to do or the room is stopped."""
    journal, crew = room.journal, room.crew
    owner = worker_name()
    watchers = [asyncio.create_task(_after(crew.only_retries, on_retrying)), asyncio.create_task(_look_for_cancel(room))]
    shards = []
    try:
        for shard in await journal.call(journal.ledger.shards):
            await crew.reserve()
            if room.stop.is_set():
                break
            shards.append(asyncio.create_task(run_shard(shard, room, owner=owner)))
        crew.complete()
        ends = await asyncio.gather(*shards, return_exceptions=True)
    finally:
        for watcher in watchers:
            watcher.cancel()
    for end in ends:
        if isinstance(end, BaseException):
            raise end


async def _after(event: asyncio.Event, act: Callable[[], Awaitable[None]]) -> None:
    await event.wait()
    await act()


async def _look_for_cancel(room: Room) -> None:
    """Long calls append nothing for a while; a cancel is seen all the same."""
    journal = room.journal
    while True:
        await asyncio.sleep(LOOK)
        row = await journal.call(journal.ledger.run)
        if row.is_cancel_requested:
            room.stop.set()
