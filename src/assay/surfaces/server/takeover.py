"""Several servers over one ledger: whoever has room takes the runs that nobody drives, also those of a server that is gone."""

import asyncio
import logging
import time

from assay.core.errors import StoreUnavailable
from assay.surfaces.server.server import Server
from assay.surfaces.telemetry.json_log import FIELDS

ROUND_SECONDS = 1.0
AGAIN_SECONDS = 30.0
"""Until a run is begun again that this server could not go on with, or that workers go on with: they may never have heard of it."""
MOST = 100
"""Runs that are looked through for those that can be begun."""
log = logging.getLogger("assay.server")


async def take_over(server: Server) -> None:
    """Look for runs without a driver again and again, until it is cancelled; what keeps a look from succeeding may pass."""
    tried: dict[str, float] = {}  # when each run was last begun here
    seen: frozenset[str] = frozenset()
    while True:
        await asyncio.sleep(ROUND_SECONDS)
        try:
            seen = await asyncio.to_thread(_take_waiting, server, tried, seen)
            await asyncio.to_thread(server.submissions.sweep)
        except StoreUnavailable as problem:
            log.warning("cannot look for runs to go on with: %s", problem.message)


def _take_waiting(server: Server, tried: dict[str, float], seen: frozenset[str]) -> frozenset[str]:
    """Begin what was waiting at the last look, too; what is new is mostly about to be begun by the server that has taken it.

    Returns what is waiting now.
    """
    if server.shared is None or not server.queue.free:
        return frozenset()
    now = time.monotonic()
    found = server.submissions.waiting(MOST)
    for waiting in found:
        if waiting.run_id not in seen:
            continue
        run_id, is_early = waiting.run_id, now - tried.get(waiting.run_id, -AGAIN_SECONDS) < AGAIN_SECONDS
        if waiting.is_with_workers and server.placement.temporal is None:
            continue
        if is_early and (waiting.is_with_workers or server.queue.problem(run_id)):
            continue
        if server.queue.free and not server.queue.has(run_id) and server.shared.adopt(run_id):
            tried[run_id] = now
            log.info("run %s has no driver, and goes on here", run_id, extra={FIELDS: {"event": "run_taken", "run_id": run_id}})
            server.queue.add(run_id, waiting.owner)
    return frozenset(waiting.run_id for waiting in found)
