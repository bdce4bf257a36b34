"""The local engine: all shards of a run in this process."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from functools import partial

from assay.core.errors import AssayError
from assay.engine.garbage import rare_collection
from assay.engine.running.case import Room
from assay.engine.running.shard import run_shard

LOOK = 1.0
"""Seconds between two looks at the cancel flag while nothing is appended."""


def worker_name() -> str:
    """Who works here, for people who look into a ledger."""
    return f"{socket.gethostname()}:{os.getpid()}"


async def run_local(room: Room, *, on_retrying: Callable[[], Awaitable[None]]) -> None:
    """Run every shard that has open records; returns when nothing is left to do or the room is stopped."""
    with rare_collection():
        await _run_shards(room, on_retrying)


async def _run_shards(room: Room, on_retrying: Callable[[], Awaitable[None]]) -> None:
    journal, crew = room.journal, room.crew
    owner = worker_name()
    watchers = [asyncio.create_task(watched(look, room)) for look in (partial(_mark_retrying, act=on_retrying), _look_for_cancel)]
    shards: list[asyncio.Task[bool]] = []
    try:
        for shard in await journal.call(journal.ledger.shards):
            await crew.reserve()
            if room.stop.is_set():
                break
            shards.append(asyncio.create_task(run_shard(shard, room, owner=owner)))
        else:
            crew.complete()
        await asyncio.gather(*shards, return_exceptions=True)
    finally:
        for task in (*watchers, *shards):
            task.cancel()
        ends = await asyncio.gather(*shards, *watchers, return_exceptions=True)
    for end in ends:
        if isinstance(end, Exception):
            raise end


async def watched(look: Callable[[Room], Awaitable[None]], room: Room) -> None:
    """Something that goes on beside the shards; when it cannot, the ledger is out of reach and they end too."""
    try:
        await look(room)
    except AssayError:
        room.stop.set()
        raise


async def _mark_retrying(room: Room, *, act: Callable[[], Awaitable[None]]) -> None:
    await room.crew.only_retries.wait()
    # A run that is being stopped has first attempts left for another day.
    if not room.stop.is_set():
        await act()


async def _look_for_cancel(room: Room) -> None:
    """Long calls append nothing for a while; a cancel is seen all the same."""
    journal = room.journal
    while True:
        await asyncio.sleep(LOOK)
        await journal.call(journal.ledger.check)
        row = await journal.call(journal.ledger.run)
        if row.is_cancel_requested:
            room.stop.set()
