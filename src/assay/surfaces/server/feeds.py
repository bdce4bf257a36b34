"""Shared polling: one poll serves all who follow the same thing."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Generic, TypeVar

from assay.core.errors import AssayError

POLL_SECONDS = 0.5
T = TypeVar("T")


class Feeds(Generic[T]):
    """Polls each followed thing twice a second, however many callers follow it."""

    def __init__(self) -> None:
        self._feeds: dict[str, _FollowedFeed[T]] = {}

    async def follow(self, name: str, look: Callable[[], T]) -> AsyncIterator[T]:
        """Iterate over the results of every poll, without end; raises what a poll raises."""
        if name not in self._feeds:
            self._feeds[name] = _FollowedFeed(look)
        feed = self._feeds[name]
        feed.followers += 1
        try:
            while True:
                yield await asyncio.shield(feed.found)
        finally:
            feed.followers -= 1
            if not feed.followers:
                feed.end()
                del self._feeds[name]


class _FollowedFeed(Generic[T]):
    """One followed thing."""

    def __init__(self, look: Callable[[], T]) -> None:
        self._look = look
        self.followers = 0
        self.found: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        while True:
            try:
                found = await asyncio.to_thread(self._look)
            except AssayError as problem:
                self.found.set_exception(problem)
                return
            told, self.found = self.found, asyncio.get_running_loop().create_future()
            told.set_result(found)
            await asyncio.sleep(POLL_SECONDS)

    def end(self) -> None:
        """Stop polling after the last follower has left."""
        self._task.cancel()
        self.found.cancel()
