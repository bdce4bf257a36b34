"""Recovery of runs in a shared ledger: a server with capacity adopts runs without a driver, also those of a dead server."""

import asyncio
import logging
import time

from assay.core.errors import StoreUnavailable
from assay.surfaces.observers import FIELDS
from assay.surfaces.server.server import Server

ROUND_SECONDS = 1.0
AGAIN_SECONDS = 30.0
"""Seconds until a run that this server gave up, or handed to workers, is started again: the workers may never have received it."""
MAX_CANDIDATES = 100
"""Maximum waiting runs examined per scan."""
log = logging.getLogger("assay.server")


async def adopt_orphaned_runs(server: Server) -> None:
    """Scan for runs without a driver until cancelled; a failed scan may be temporary."""
    tried: dict[str, float] = {}  # when each run was last begun here
    seen: frozenset[str] = frozenset()
    while True:
        await asyncio.sleep(ROUND_SECONDS)
        try:
            seen = await asyncio.to_thread(_take_waiting, server, tried, seen)
            await asyncio.to_thread(server.submissions.sweep)
        except StoreUnavailable as problem:
            log.warning("cannot look for runs to resume: %s", problem.message)


def _take_waiting(server: Server, tried: dict[str, float], seen: frozenset[str]) -> frozenset[str]:
    """Begin what was waiting at the last look, too; what is new is mostly about to be begun by the server that has taken it.

    Returns what is waiting now.
    """
    if server.shared is None or not server.queue.free:
        return frozenset()
    now = time.monotonic()
    found = server.submissions.waiting(MAX_CANDIDATES)
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
            log.info(
                "run %s has no driver; this server resumes it", run_id, extra={FIELDS: {"event": "run_taken", "run_id": run_id}}
            )
            server.queue.add(run_id, waiting.owner)
    return frozenset(waiting.run_id for waiting in found)
