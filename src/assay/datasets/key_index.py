"""Keys into numbers without the keys: a hash table of some thirty bytes for each, however long they are."""

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

FEW = 1 << 15
"""Keys up to which a plain dictionary is faster, and small enough."""
_FEWEST_SLOTS = 1 << 10
_STEP_BITS = 32
"""The upper half of a hash says how far it is from one slot to the next; an odd number, so that all are reached."""
_CHECK = 0xFFFF_FFFF
_prefixed = "\0".__add__
"""A key under another beginning, whose hash owes nothing to that of the key."""

Integers = NDArray[np.integer[Any]]


class KeyIndex:
    """Keys numbered from 0 in the order in which they are added.

    The first ones are kept as they are. When there are many, a key is known by 96 bits of its hash, under a secret of the
    process: among a million keys two are taken for one in one of 10^17 runs.
    """

    def __init__(self, *, few: int = FEW) -> None:
        self._limit = few
        self._few: dict[str, int] | None = {}
        self._hashes = array("q")
        self._checks = array("I")
        self._slots = _free_slots(_FEWEST_SLOTS)
        """Open addressing with double hashing, at most half full: the number of a key plus one, 0 for none."""

    def __len__(self) -> int:
        return len(self._hashes if self._few is None else self._few)

    def find(self, key: str) -> int | None:
        """The number of a key; None when it is not there."""
        if self._few is not None:
            return self._few.get(key)
        number = self._slots[self._slot(key)]
        return number - 1 if number else None

    def add(self, key: str) -> bool:
        """Give a key the next number; False when it is there already."""
        if self._few is not None:
            return self.add_all((key,))
        slot = self._slot(key)
        if self._slots[slot]:
            return False
        self._hashes.append(hash(key))
        self._checks.append(hash(_prefixed(key)) & _CHECK)
        self._slots[slot] = len(self)
        self._make_room(len(self))
        return True

    def _slot(self, key: str) -> int:
        """The slot that holds a key, or the free one that it would get."""
        slots, hashed = self._slots, hash(key)
        mask, step = len(slots) - 1, hashed >> _STEP_BITS | 1
        slot = hashed & mask
        while number := slots[slot]:
            if self._hashes[number - 1] == hashed and self._checks[number - 1] == hash(_prefixed(key)) & _CHECK:
                break
            slot = (slot + step) & mask
        return slot

    def add_all(self, keys: Sequence[str]) -> bool:
        """Add keys; where one of them is there already, or twice among them, none is added and the result is False."""
        if self._few is not None:
            if len(self._few) + len(keys) <= self._limit:
                return _added(self._few, keys)
            first, self._few = list(self._few), None
            self.add_all(first)
        before = len(self)
        self._hashes.extend(map(hash, keys))
        self._checks.frombytes(np.fromiter(map(hash, map(_prefixed, keys)), np.int64, len(keys)).astype(np.uint32).tobytes())
        self._make_room(before)
        if self._place(before, len(self)):
            return True
        del self._hashes[before:], self._checks[before:]
        return False

    def _make_room(self, placed: int) -> None:
        """Half of the slots are free, whatever was added; so many of the keys have a slot now."""
        if 2 * len(self) > len(self._slots):
            self._slots = _free_slots(4 << len(self).bit_length())
            self._place(0, placed)

    def _place(self, start: int, end: int) -> bool:
        """Give the keys of these numbers their slots; where one of them is there already, none gets one and the result is False."""
        slots, hashes, checks = _view(self._slots), _view(self._hashes), _view(self._checks)
        numbers = np.arange(start + 1, end + 1, dtype=slots.dtype)
        wanted = hashes[start:end] & (len(slots) - 1)
        taken: list[Integers] = []
        while len(numbers):
            free = slots[wanted] == 0
            # Of several keys that want the same slot, one gets it.
            slots[wanted[free]] = numbers[free]
            held = slots[wanted]
            left = held != numbers
            taken.append(wanted[~left])
            numbers, wanted, others = numbers[left], wanted[left], held[left]
            is_same = (hashes[others - 1] == hashes[numbers - 1]) & (checks[others - 1] == checks[numbers - 1])
            if is_same.any():
                slots[np.concatenate(taken)] = 0
                return False
            wanted = (wanted + (hashes[numbers - 1] >> _STEP_BITS | 1)) & (len(slots) - 1)
        return True


def _added(numbers: dict[str, int], keys: Sequence[str]) -> bool:
    if len(set(keys)) < len(keys) or not numbers.keys().isdisjoint(keys):
        return False
    numbers.update(zip(keys, range(len(numbers), len(numbers) + len(keys)), strict=True))
    return True


def _view(column: "array[int]") -> Integers:
    return np.frombuffer(column, dtype=column.typecode)


def _free_slots(size: int) -> "array[int]":
    return array("I", [0]) * size
