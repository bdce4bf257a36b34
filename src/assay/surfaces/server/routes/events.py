"""A run as it goes, as server-sent events.

An event is the whole state of the run and its id names that state, so that nothing has to be remembered for a client that
comes back: with the id that it saw last it gets an event as soon as anything is different.
"""

import asyncio
from collections.abc import AsyncIterator

from litestar import get
from litestar.params import FromPath
from litestar.response import Stream

from assay.surfaces.reporters.plain_json import json_text
from assay.surfaces.server.errors import request_id_of
from assay.surfaces.server.queries import AnyRequest, NoQuery, read_query
from assay.surfaces.server.routes.runs import run_view
from assay.surfaces.server.server import Server, server_of

POLL_SECONDS = 0.5
KEEP_ALIVE_SECONDS = 15.0


@get("/v1/runs/{run_id:str}/events", query=NoQuery, answer=str, media_types=("text/event-stream",), errors=(404,))
async def follow_run(request: AnyRequest, run_id: FromPath[str]) -> Stream:
    """Follow a run to its end: an event whenever its state or a count changes; Last-Event-ID goes on where it was left."""
    read_query(request, NoQuery)
    server = server_of(request)
    await asyncio.to_thread(server.run, run_id)
    seen = request.headers.get("last-event-id", "")
    headers = {"X-Accel-Buffering": "no"}
    return Stream(
        _events(server, run_id, seen=seen, request_id=request_id_of(request)), media_type="text/event-stream", headers=headers
    )


async def _events(server: Server, run_id: str, *, seen: str, request_id: str) -> AsyncIterator[bytes]:
    quiet = 0.0
    while True:
        view = await asyncio.to_thread(run_view, server, run_id, request_id=request_id)
        name = f"{view.state}-{view.done_records}"
        if name != seen:
            told = {"run_id": run_id, "state": view.state, "counts": view.counts, "done_records": view.done_records}
            text = json_text({**told, "eta_seconds": view.eta_seconds, "problem": view.problem})
            yield f"id: {name}\nevent: {'end' if view.completed_at else 'progress'}\ndata: {text}\n\n".encode()
            seen, quiet = name, 0.0
        if view.completed_at:
            return
        await asyncio.sleep(POLL_SECONDS)
        quiet += POLL_SECONDS
        if quiet >= KEEP_ALIVE_SECONDS or server.queue.is_stopping:
            yield b": still there\n\n"
            quiet = 0.0
        if server.queue.is_stopping:
            return
