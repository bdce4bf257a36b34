"""The same calls for callers that have an event loop: each works in a thread beside it."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from assay.api.client.client import FIRST_LOOK, LAST_LOOK, Client, Watch
from assay.api.client.http_transport import StreamHandle, pauses
from assay.core.http_answers import RunEvent, RunStatus

P = ParamSpec("P")
T = TypeVar("T")


def _beside(call: Callable[Concatenate[Client, P], T]) -> Callable[Concatenate["AsyncClient", P], Awaitable[T]]:
    """A call of the client, to be awaited."""

    @wraps(call)
    async def awaited(self: "AsyncClient", /, *arguments: P.args, **named: P.kwargs) -> T:
        return await asyncio.to_thread(call, self.client, *arguments, **named)

    return awaited


def _each(call: Callable[Concatenate[Client, P], Iterator[T]]) -> Callable[Concatenate["AsyncClient", P], AsyncIterator[T]]:
    """A call of the client that gives one thing after the other."""

    @wraps(call)
    async def iterated(self: "AsyncClient", /, *arguments: P.args, **named: P.kwargs) -> AsyncIterator[T]:
        found, end = call(self.client, *arguments, **named), object()
        while (one := await asyncio.to_thread(next, found, end)) is not end:
            yield one  # type: ignore[misc]  # all but the mark at the end are of the iterator

    return iterated


class AsyncClient:
    """A service and what it offers, as `Client` has it; every call is awaited, and lists are iterated with `async for`."""

    def __init__(
        self,
        url: str,
        key: str = "",
        *,
        timeout: float = 60.0,
        patience: float = 60.0,
        allow_http: bool = False,
        compress: bool = False,
    ) -> None:
        self.client = Client(url, key, timeout=timeout, patience=patience, allow_http=allow_http, compress=compress)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.client.url!r})"

    health = _beside(Client.health)
    validate = _beside(Client.validate)
    start = _beside(Client.start)
    run = _beside(Client.run)
    runs = _each(Client.runs)
    cancel = _beside(Client.cancel)
    resume = _beside(Client.resume)
    records = _each(Client.records)
    record = _beside(Client.record)
    failures = _each(Client.failures)
    errors = _each(Client.errors)
    distribution = _beside(Client.distribution)
    artifacts = _beside(Client.artifacts)
    artifact = _beside(Client.artifact)
    export = _beside(Client.export)
    download = _beside(Client.download)
    compare = _beside(Client.compare)

    async def events(self, run_id: str, *, last_event_id: str = "") -> AsyncIterator[RunEvent]:
        """As `Client.events`; a task that is cancelled hangs up at once."""
        leash = StreamHandle()
        found = self.client.events(run_id, last_event_id=last_event_id, leash=leash)
        # A thread of its own: the ones that the loop shares would be used up by a few followers.
        pool = ThreadPoolExecutor(1, thread_name_prefix="assay events")
        try:
            while (event := await asyncio.get_running_loop().run_in_executor(pool, next, found, None)) is not None:
                yield event
        finally:
            leash.cut()
            pool.shutdown(wait=False)

    async def wait(self, run_id: str, *, watch: Watch | None = None, seconds: float | None = None) -> RunStatus:
        """As `Client.wait`; a task that is cancelled stops waiting at once."""
        end = None if seconds is None else time.monotonic() + seconds
        for pause in pauses(FIRST_LOOK, LAST_LOOK):
            status = await self.run(run_id)
            if watch is not None:
                watch(status)
            if status.is_stopped or (end is not None and time.monotonic() + pause > end):
                return status
            await asyncio.sleep(pause)
        raise AssertionError
