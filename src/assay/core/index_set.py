"""Sets of record indexes with one bit each: a set of integers takes a hundred times the memory."""

from collections.abc import Iterator


class IndexSet:
    """A set of indexes from 0, iterated in order."""

    def __init__(self) -> None:
        self._bits = bytearray()
        self._count = 0

    def add(self, index: int) -> None:
        """Add an index."""
        at, bit = index >> 3, 1 << (index & 7)
        if at >= len(self._bits):
            # Over-allocate, so that growing by one index at a time stays linear.
            self._bits.extend(bytes(at + 1 - len(self._bits) + (len(self._bits) >> 2)))
        if not self._bits[at] & bit:
            self._bits[at] |= bit
            self._count += 1

    def __contains__(self, index: object) -> bool:
        return isinstance(index, int) and index >> 3 < len(self._bits) and bool(self._bits[index >> 3] & 1 << (index & 7))

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[int]:
        for at, bits in enumerate(self._bits):
            if bits:
                yield from (8 * at + position for position in range(8) if bits & 1 << position)
