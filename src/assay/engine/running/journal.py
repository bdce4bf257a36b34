"""The journal: appends to the ledger in groups, so that one disk write makes many results durable."""

import asyncio
from collections.abc import Callable, Sequence
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
        self._timer: asyncio.TimerHandle | None = None
        self._is_writing = False
        self._is_due = False
        """The group is to be written as soon as the one before it is."""

    async def append(self, claim: Claim, entries: Sequence[Entry], *, is_urgent: bool = False) -> None:
        """Returns when the entries are on disk; raises Fenced when another worker has the shard, or StoreUnavailable.

        Urgent ones wait for nobody but those that are appended at the same moment.
        """
        loop = asyncio.get_running_loop()
        if self._group is None:
            self._group = loop.create_future()
            self._timer = loop.call_later(self._linger, self._flush)
        if is_urgent and not self._is_due:
            self._is_due = True
            loop.call_soon(self._flush)
        self._pending.setdefault(claim, []).extend(entries)
        await self._group
        if claim in self.fenced:
            raise Fenced(f"shard {claim.shard} was taken over")

    def _flush(self) -> None:
        self._is_due = self._is_writing
        if self._group is None or self._timer is None or self._is_writing:
            return
        group, entries = self._group, self._pending
        self._timer.cancel()
        self._group, self._timer, self._pending = None, None, {}
        self._is_writing = True
        committed = asyncio.get_running_loop().run_in_executor(self._thread, self._commit, entries)
        committed.add_done_callback(lambda done: self._settle(group, done))

    def _settle(self, group: asyncio.Future[None], done: asyncio.Future[None]) -> None:
        self._is_writing = False
        if done.cancelled():
            # The loop is being taken down: nobody waits for more than that.
            group.cancel()
            return
        problem = done.exception()
        if problem is None and not group.cancelled():
            group.set_result(None)
        elif problem is not None and not group.cancelled():
            group.set_exception(problem)
        if self._is_due:
            self._flush()

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

    async def close(self) -> None:
        """Write what is left, even though nobody waits for it any more, and wait until it is written."""
        if self._timer is not None:
            self._timer.cancel()
            written = asyncio.get_running_loop().run_in_executor(self._thread, self._commit, self._pending)
            # What cannot be written is not in the ledger, and is asked for again by whoever goes on; nobody here is left to tell.
            await asyncio.gather(written, return_exceptions=True)
        await asyncio.to_thread(self._thread.shutdown)
