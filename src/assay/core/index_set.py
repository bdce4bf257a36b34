"""Sets of record indexes with a bit for each: a set of integers takes a hundred times the memory."""

from collections.abc import Iterator


class IndexSet:
    """Indexes from 0, in their order."""

    def __init__(self) -> None:
        self._bits = bytearray()
        self._count = 0

    def add(self, index: int) -> None:
        """Put an index in; it may be there already."""
        at, bit = index >> 3, 1 << (index & 7)
        if at >= len(self._bits):
            # More than is needed, so that growing by one index at a time stays linear.
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
                yield from (8 * at + place for place in range(8) if bits & 1 << place)
