"""The crew: how many records are under way, so that a shard starts when there is work for it, and not before."""

import asyncio
from collections.abc import Collection

from assay.store.ledger import SHARD_BYTES, SHARD_SIZE

MOST_OPEN = 2_000
"""Records under way at most, those between two rounds included; it bounds memory when a provider is down."""
MOST_BYTES = 128 << 20
"""Bytes at which no further shard is begun, whatever the concurrency: as many as 128 records of a megabyte."""


class Crew:
    """Counts of the records that one worker has in hand, and of their bytes."""

    def __init__(self, concurrency: int) -> None:
        self.open = 0
        self.bytes = 0
        self.waiting = 0
        """Records between two rounds, which hold no slot."""
        self.only_retries = asyncio.Event()
        """Set when every record that is still open is being tried again."""
        self._first_rounds = 0
        self._retrying = 0
        self._is_complete = False
        self._wanted = concurrency
        self._most = max(MOST_OPEN, 4 * concurrency)
        self._changed = asyncio.Event()

    async def reserve(self) -> None:
        """Wait until the open records do not keep every slot busy, and make room for one more shard."""
        while self.open - self.waiting >= self._wanted or self.open >= self._most or self.bytes >= MOST_BYTES:
            self._changed.clear()
            await self._changed.wait()
        self.open += SHARD_SIZE
        self.bytes += SHARD_BYTES

    def admit(self, sizes: Collection[int]) -> None:
        """The shard that room was made for has open records of so many bytes each."""
        self.open += len(sizes) - SHARD_SIZE
        self.bytes += sum(sizes) - SHARD_BYTES
        self._first_rounds += len(sizes)
        self._changed.set()

    @property
    def is_retrying_all(self) -> bool:
        """True when every record in hand is being tried again."""
        return bool(self._retrying) and not self._first_rounds

    def complete(self) -> None:
        """No further shard will come."""
        self._is_complete = True
        self._look()

    def begin_retries(self) -> None:
        """A record has its first round behind it and another one before it."""
        self._first_rounds -= 1
        self._retrying += 1
        self._look()

    def end_rounds(self, *, is_retrying: bool) -> None:
        """A record has no round left; `is_retrying` when it was tried again."""
        self._retrying -= is_retrying
        self._first_rounds -= not is_retrying
        self._look()

    def pause(self) -> None:
        """A record begins to wait for its next round."""
        self.waiting += 1
        self._changed.set()

    def resume(self) -> None:
        """A record has waited long enough."""
        self.waiting -= 1

    def leave(self, size: int) -> None:
        """One record of so many bytes has come to its end."""
        self.open -= 1
        self.bytes -= size
        self._changed.set()

    def _look(self) -> None:
        if self._is_complete and self.is_retrying_all:
            self.only_retries.set()
