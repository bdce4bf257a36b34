"""A semaphore that serves callers round-robin, so that one caller with many requests does not delay the others."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class FairSemaphore:
    """Slots for work of one kind; for use on one event loop."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def turn(self, caller: str) -> AsyncIterator[None]:
        """Hold a slot for the block, when it is this caller's turn."""
        await self._enter(caller)
        try:
            yield
        finally:
            self._leave()

    async def _enter(self, caller: str) -> None:
        if self._free:
            self._free -= 1
            return
        called: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(caller, deque()).append(called)
        try:
            await called
        except asyncio.CancelledError:
            # A woken waiter that was cancelled passes its slot on; a waiter still in line is skipped at its turn.
            if called.done() and not called.cancelled():
                self._leave()
            raise

    def _leave(self) -> None:
        while self._waiting:
            caller = next(iter(self._waiting))
            line = self._waiting.pop(caller)
            called = line.popleft()
            if line:
                # A served caller goes to the end of the line.
                self._waiting[caller] = line
            if not called.done():
                called.set_result(None)
                return
        self._free += 1
