"""The local engine: all shards of a run in this process."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from functools import partial

from assay.core.errors import AssayError
from assay.engine.execution.case import RunContext
from assay.engine.execution.shard import run_shard
from assay.engine.garbage import rare_collection

POLL_INTERVAL = 1.0
"""Seconds between two reads of the cancel flag while nothing is appended."""


def worker_name() -> str:
    """Return the name under which this process claims shards: host and process id."""
    return f"{socket.gethostname()}:{os.getpid()}"


async def run_local(context: RunContext, *, on_retrying: Callable[[], Awaitable[None]]) -> None:
    """Run every shard that has open records; return when none is left or the context is stopped."""
    with rare_collection():
        await _run_shards(context, on_retrying)


async def _run_shards(context: RunContext, on_retrying: Callable[[], Awaitable[None]]) -> None:
    ledger_writer, in_flight = context.ledger_writer, context.in_flight
    owner = worker_name()
    watchers = [
        asyncio.create_task(stop_on_error(watch, context)) for watch in (partial(_mark_retrying, act=on_retrying), _poll_for_cancel)
    ]
    shards: list[asyncio.Task[bool]] = []
    try:
        for shard in await ledger_writer.call(ledger_writer.ledger.shards):
            await in_flight.reserve()
            if context.stop.is_set():
                break
            shards.append(asyncio.create_task(run_shard(shard, context, owner=owner)))
        else:
            in_flight.complete()
        await asyncio.gather(*shards, return_exceptions=True)
    finally:
        for task in (*watchers, *shards):
            task.cancel()
        ends = await asyncio.gather(*shards, *watchers, return_exceptions=True)
    for end in ends:
        if isinstance(end, Exception):
            raise end


async def stop_on_error(watch: Callable[[RunContext], Awaitable[None]], context: RunContext) -> None:
    """Run a background task of the run, and stop the run when it fails: then the ledger cannot be reached."""
    try:
        await watch(context)
    except AssayError:
        context.stop.set()
        raise


async def _mark_retrying(context: RunContext, *, act: Callable[[], Awaitable[None]]) -> None:
    await context.in_flight.only_retries.wait()
    # A run that is being stopped may have records that were never tried: it is not in state `retrying`.
    if not context.stop.is_set():
        await act()


async def _poll_for_cancel(context: RunContext) -> None:
    """Poll the ledger for a cancel request: `append` reports one too, but long calls append nothing for a while."""
    ledger_writer = context.ledger_writer
    while True:
        await asyncio.sleep(POLL_INTERVAL)
        await ledger_writer.call(ledger_writer.ledger.check)
        row = await ledger_writer.call(ledger_writer.ledger.run)
        if row.is_cancel_requested:
            context.stop.set()
