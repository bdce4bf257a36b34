"""Group commit: appends to the ledger are collected, so that one disk write makes many results durable."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from assay.store.ledger import Claim, ClaimLost, CommitEntry, Ledger

LINGER = 0.010
"""Seconds that the first entry of a group waits for others."""

P = ParamSpec("P")
T = TypeVar("T")


class LedgerWriter:
    """Thread that owns the ledger; all asynchronous code accesses the ledger through it."""

    def __init__(self, ledger: Ledger, *, on_cancel: Callable[[], object], linger: float = LINGER) -> None:
        self.ledger = ledger
        self._on_cancel = on_cancel
        self.fenced: set[Claim] = set()
        """Claims that the ledger refused because another worker has claimed their shards since."""
        self._linger = linger
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="assay-ledger")
        self._pending: dict[Claim, list[CommitEntry]] = {}
        self._group: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_writing = False
        self._is_due = False
        """True when the next group must be written as soon as the current write has ended."""

    async def append(self, claim: Claim, entries: Sequence[CommitEntry], *, is_urgent: bool = False) -> None:
        """Append entries and return when they are on disk; raises ClaimLost when another worker has the shard, or StoreUnavailable.

        Urgent entries are grouped only with those that are appended in the same pass of the event loop.
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
            raise ClaimLost(f"shard {claim.shard} was taken over")

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
            # The event loop is closing; callers are cancelled too.
            group.cancel()
            return
        problem = done.exception()
        if problem is None and not group.cancelled():
            group.set_result(None)
        elif problem is not None and not group.cancelled():
            group.set_exception(problem)
        if self._is_due:
            self._flush()

    # Runs in the ledger's thread. `on_cancel` must therefore be thread-safe.
    def _commit(self, groups: dict[Claim, list[CommitEntry]]) -> None:
        for claim, entries in groups.items():
            try:
                if self.ledger.append(claim, entries):
                    self._on_cancel()
            except ClaimLost:
                self.fenced.add(claim)

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function in the ledger's thread, for every access other than `append`."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: function(*args, **kwargs))

    async def close(self) -> None:
        """Write the pending entries, even though no caller waits for them any more, and end the thread."""
        if self._timer is not None:
            self._timer.cancel()
            written = asyncio.get_running_loop().run_in_executor(self._thread, self._commit, self._pending)
            # Errors are ignored: no caller is left to receive them, and unsaved calls are repeated when the run is resumed.
            await asyncio.gather(written, return_exceptions=True)
        await asyncio.to_thread(self._thread.shutdown)
