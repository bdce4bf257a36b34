"""The journal: appends to the ledger in groups, so that one disk write makes many results durable."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from assay.store.ledger import Claim, Entry, Fenced, Ledger

LINGER = 0.010
"""Seconds that the first entry of a group waits for others."""

P = ParamSpec("P")
T = TypeVar("T")


class Journal:
    """One thread that owns the ledger; everything asynchronous goes through it."""

    def __init__(self, ledger: Ledger, *, on_cancel: Callable[[], object], linger: float = LINGER) -> None:
        self.ledger = ledger
        self._on_cancel = on_cancel
        self.fenced: set[Claim] = set()
        """Claims that were refused: their shards belong to somebody else now."""
        self._linger = linger
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="assay-ledger")
        self._pending: dict[Claim, list[Entry]] = {}
        self._group: asyncio.Future[None] | None = None

    async def append(self, claim: Claim, entry: Entry) -> None:
        """Returns when the entry is on disk; raises Fenced when another worker has the shard, or StoreUnavailable."""
        if self._group is None:
            loop = asyncio.get_running_loop()
            self._group = loop.create_future()
            loop.call_later(self._linger, self._flush)
        self._pending.setdefault(claim, []).append(entry)
        await self._group
        if claim in self.fenced:
            raise Fenced(f"shard {claim.shard} was taken over")

    def _flush(self) -> None:
        group, entries = self._group, self._pending
        assert group is not None
        self._group, self._pending = None, {}
        committed = asyncio.get_running_loop().run_in_executor(self._thread, self._commit, entries)
        committed.add_done_callback(lambda done: _settle(group, done))

    def _commit(self, groups: dict[Claim, list[Entry]]) -> None:
        for claim, entries in groups.items():
            try:
                if self.ledger.append(claim, entries):
                    self._on_cancel()
            except Fenced:
                self.fenced.add(claim)

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Another use of the ledger, in the ledger's own thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: function(*args, **kwargs))

    def close(self) -> None:
        """Wait for what is being written."""
        self._thread.shutdown(wait=True)


def _settle(group: asyncio.Future[None], done: asyncio.Future[None]) -> None:
    if group.cancelled():
        return
    problem = done.exception()
    if problem is not None:
        group.set_exception(problem)
    else:
        group.set_result(None)
