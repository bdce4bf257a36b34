"""A run as it goes, as server-sent events.

An event is the whole state of the run and its id names that state, so that nothing has to be remembered for a client that
comes back, also after the service was away: with the id that it saw last it gets an event as soon as anything is different.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable

from litestar import get
from litestar.params import FromPath
from litestar.response import Stream

from assay.core.http_answers import RunStatus
from assay.surfaces.reporters.plain_json import json_text
from assay.surfaces.server.errors import request_id_of
from assay.surfaces.server.feeds import POLL_SECONDS
from assay.surfaces.server.queries import AnyRequest, NoQuery, read_query
from assay.surfaces.server.routes.runs import run_view
from assay.surfaces.server.server import Server, caller_of, server_of

KEEP_ALIVE_SECONDS = 15.0


@get("/v1/runs/{run_id:str}/events", query=NoQuery, answer=str, media_types=("text/event-stream",), errors=(404,))
async def follow_run(request: AnyRequest, run_id: FromPath[str]) -> Stream:
    """Follow a run to its end, or until work on it stops: an event whenever its state, a count or a problem changes."""
    read_query(request, NoQuery)
    server, look = server_of(request), _look_at(request, run_id)
    # What is wrong with a run is said before the answer has begun.
    await asyncio.to_thread(look)
    seen = request.headers.get("last-event-id", "")
    headers = {"X-Accel-Buffering": "no"}
    return Stream(_events(server, run_id, look, seen=seen), media_type="text/event-stream", headers=headers)


async def _events(server: Server, run_id: str, look: Callable[[], RunStatus], *, seen: str) -> AsyncIterator[bytes]:
    quiet = 0.0
    # One poll serves all followers of the run: the access of each was checked above.
    async for view in server.feeds.follow(run_id, look):
        if event_id(view) != seen:
            seen, quiet = event_id(view), 0.0
            yield _event(view)
        if view.completed_at or view.problem:
            return
        quiet += POLL_SECONDS
        if quiet >= KEEP_ALIVE_SECONDS or server.queue.is_stopping:
            yield b": still there\n\n"
            quiet = 0.0
        if server.queue.is_stopping:
            return


def _look_at(request: AnyRequest, run_id: str) -> Callable[[], RunStatus]:
    """What looks at a run; one of a shared ledger is read again only when one question about all of those says that it moved."""
    server, caller, request_id = server_of(request), caller_of(request), request_id_of(request)
    kept: dict[str, RunStatus] = {}

    def look() -> RunStatus:
        mark = server.mark(run_id)
        if not mark or mark not in kept:
            kept.clear()
            kept[mark] = run_view(server, run_id, caller=caller, request_id=request_id)
        return kept[mark]

    return look


def event_id(view: RunStatus) -> str:
    """Names what an event tells, time aside."""
    problem = f"-{hashlib.sha256(view.problem.encode()).hexdigest()[:8]}" if view.problem else ""
    return f"{view.state}-{view.done_records}{problem}"


def _event(view: RunStatus) -> bytes:
    kind = "stopped" if view.is_resumable else "end" if view.completed_at else "stopped" if view.problem else "progress"
    told = {"run_id": view.run_id, "state": view.state, "counts": view.counts, "done_records": view.done_records}
    text = json_text({**told, "eta_seconds": view.eta_seconds, "problem": view.problem})
    return f"id: {event_id(view)}\nevent: {kind}\ndata: {text}\n\n".encode()
