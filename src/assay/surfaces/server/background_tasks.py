"""Work that takes longer than a page request may: it continues while the page shows that it is in progress."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

PATIENCE = 0.4
"""Seconds that a page waits for its work before it answers that the work is in progress."""
MOST = 200
"""Maximum finished results that no page has fetched; beyond it the oldest are dropped."""


class BackgroundTasks:
    """Background tasks by name; each runs once, however many requests wait for it."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[Any]] = {}

    async def is_ready(self, name: str, work: Callable[[], Awaitable[Any]], *, seconds: float = PATIENCE) -> bool:
        """Tell whether the task of this name is done; raises its exception, and a later call starts it again."""
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
            # Retrieve the exception, or asyncio would log that it was never retrieved.
            self._tasks.pop(name).exception()


async def _awaited(work: Callable[[], Awaitable[Any]]) -> None:
    await work()
