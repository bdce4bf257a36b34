"""Counts of the records in flight, which decide when the next shard starts."""

import asyncio
from collections.abc import Collection

from assay.store.ledger import SHARD_BYTES, SHARD_SIZE

MAX_OPEN = 2_000
"""Maximum open records, including those between two rounds; bounds memory while a provider is down."""
MAX_BYTES = 128 << 20
"""Bytes of open records from which on no further shard starts, whatever the concurrency: 128 records of 1 MiB."""


class InFlightRecords:
    """Number and bytes of the records that one worker evaluates at present."""

    def __init__(self, concurrency: int) -> None:
        self.open = 0
        self.bytes = 0
        self.waiting = 0
        """Records between two rounds, which hold no call slot."""
        self.only_retries = asyncio.Event()
        """Set when every record that is still open is in a second or third round."""
        self._first_rounds = 0
        self._retrying = 0
        self._is_complete = False
        self._concurrency = concurrency
        self._max_open = max(MAX_OPEN, 4 * concurrency)
        self._changed = asyncio.Event()

    async def reserve(self) -> None:
        """Wait until the open records leave slots idle, and reserve capacity for one more shard."""
        while self.open - self.waiting >= self._concurrency or self.open >= self._max_open or self.bytes >= MAX_BYTES:
            self._changed.clear()
            await self._changed.wait()
        # The shard is not read yet: reserve for a full one, which `add_shard` replaces by its real size.
        self.open += SHARD_SIZE
        self.bytes += SHARD_BYTES

    def add_shard(self, sizes: Collection[int]) -> None:
        """Replace a reservation by the sizes, in bytes, of the shard's open records."""
        self.open += len(sizes) - SHARD_SIZE
        self.bytes += sum(sizes) - SHARD_BYTES
        self._first_rounds += len(sizes)
        self._changed.set()

    @property
    def is_retrying_all(self) -> bool:
        """True when every open record is in a second or third round."""
        return bool(self._retrying) and not self._first_rounds

    def complete(self) -> None:
        """Record that no further shard will start."""
        self._is_complete = True
        self._check_only_retries()

    def begin_retries(self) -> None:
        """Record that a record's first round has ended and another follows."""
        self._first_rounds -= 1
        self._retrying += 1
        self._check_only_retries()

    def end_rounds(self, *, is_retrying: bool) -> None:
        """Record that a record has ended; `is_retrying` when it had more than one round."""
        self._retrying -= is_retrying
        self._first_rounds -= not is_retrying
        self._check_only_retries()

    def pause(self) -> None:
        """Record that a record begins to wait for its next round."""
        self.waiting += 1
        self._changed.set()

    def resume(self) -> None:
        """Record that a record's wait has ended."""
        self.waiting -= 1

    def remove_record(self, size: int) -> None:
        """Subtract a record of this many bytes that has ended."""
        self.open -= 1
        self.bytes -= size
        self._changed.set()

    def _check_only_retries(self) -> None:
        if self._is_complete and self.is_retrying_all:
            self.only_retries.set()
