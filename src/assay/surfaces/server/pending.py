"""Work that takes longer than a page may: it goes on while the reader looks at a page that says so."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

PATIENCE = 0.4
"""Seconds that a page waits for its work before it says that it is under way."""
MOST = 200
"""Pieces of work that nobody has asked for again, beyond which the oldest finished ones are forgotten."""


class Pending:
    """Pieces of work by name; each is done once, however many wait for it."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[Any]] = {}

    async def is_ready(self, name: str, work: Callable[[], Awaitable[Any]], *, seconds: float = PATIENCE) -> bool:
        """True when the work of this name is done; raises what it raised, and a later call begins anew."""
        task = self._tasks.get(name)
        if task is None:
            self._sweep()
            task = self._tasks[name] = asyncio.create_task(_awaited(work))
        await asyncio.wait({task}, timeout=seconds)
        if not task.done():
            return False
        self._tasks.pop(name, None)
        task.result()
        return True

    def _sweep(self) -> None:
        done = [name for name, task in self._tasks.items() if task.done()]
        for name in done[: max(0, len(self._tasks) - MOST)]:
            # Asked for its problem, so that the log does not complain that nobody did.
            self._tasks.pop(name).exception()


async def _awaited(work: Callable[[], Awaitable[Any]]) -> None:
    await work()
