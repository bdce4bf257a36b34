"""Hashes of records at parser speed, and an index of keys by their hashes."""

import hashlib
import re
from array import array
from collections.abc import Iterator, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
import numpy as np
import orjson
from numpy.typing import NDArray

from assay.core.canonical import MAX_SORTED, canonical_json

_LONGEST = 1e16
"""Below it a whole double is written with just its digits, by orjson as an integer and by RFC 8785."""
_SHORTEST = 1e-4
"""From here on no JSON writer uses an exponent."""
# In UTF-8 only characters above U+FFFF begin with these bytes.
_ASTRAL_LEADS = tuple(bytes([lead]) for lead in range(0xF0, 0xF5))

_BACKSLASH = 0x5C
_REST_OF_STRING = re.compile(rb'(?:[^"\\]++|\\.)*+(?=")')


class FloatHook:
    """Hook of a decoder that makes orjson write floats as RFC 8785 demands, or notes that it will not."""

    def __init__(self) -> None:
        self.integral = False
        """True if a float was read as an integer: `1.0` is written as 1."""
        self.exact = True
        """True if orjson writes every float so far as RFC 8785 demands."""

    def __call__(self, literal: str) -> float | int:
        # The hook is called with the literal, so it sees every float before the decoder makes one.
        value = float(literal)
        size = abs(value)
        if value.is_integer() and size < _LONGEST:
            self.integral = True
            return int(value)
        if not _SHORTEST <= size < _LONGEST:
            self.exact = False
        return value

    def reset(self) -> None:
        """Forget the floats so far."""
        self.integral, self.exact = False, True


class HashedJson(NamedTuple):
    """Value of a JSON text, and its hash."""

    value: Any
    sha256: str


class RecordHasher:
    """Computes `record_sha256` from the JSON text of records."""

    def __init__(self) -> None:
        self._floats = FloatHook()
        self._decode = msgspec.json.Decoder(float_hook=self._floats).decode

    def read(self, content: bytes) -> HashedJson:
        """Return value and hash of a JSON text that is known to be valid, decoded once if that gives both."""
        value = self._read(content)
        digest = self._digest(value, content)
        # The caller gets 1.0 as it was written: only the hash needs it as an integer.
        return HashedJson(msgspec.json.decode(content) if self._floats.integral else value, digest.hex())

    def sha256(self, content: bytes) -> str:
        """Return the hash of a JSON text that is known to be valid."""
        return self.digest(content).hex()

    def digest(self, content: bytes) -> bytes:
        """Return the hash as 32 bytes."""
        return self._digest(self._read(content), content)

    def _read(self, content: bytes) -> object:
        self._floats.reset()
        value: object = self._decode(content)
        return value

    def _digest(self, value: object, content: bytes) -> bytes:
        try:
            canonical = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
        # orjson refuses integers above 64 bits and unpaired surrogates, which JSON can hold.
        except orjson.JSONEncodeError:
            return hashlib.sha256(canonical_json(msgspec.json.decode(content))).digest()
        if not self._floats.exact or (may_be_astral(canonical) and has_astral_name(value)):
            canonical = canonical_json(msgspec.json.decode(content))
        return hashlib.sha256(canonical).digest()


class ValueScan(NamedTuple):
    """Result of scanning open values."""

    strings: int
    """Number of strings that they are written with, names of members included."""
    are_plain: bool
    """True if msgspec, which sorts names like orjson, writes them as RFC 8785 demands."""


def scan_values(values: list[object]) -> ValueScan:
    """Scan values level by level: all values of one depth together cost a fraction of each alone."""
    strings, are_plain = 0, True
    while values:
        # One pass in C tells which kinds occur, and spares the comprehensions for those that do not.
        types = set(map(type, values))
        floats = [value for value in values if type(value) is float] if float in types else []
        objects = [value for value in values if type(value) is dict] if dict in types else []
        arrays = [value for value in values if type(value) is list] if list in types else []
        are_plain = are_plain and _are_usual(floats) and not any(map(float.is_integer, floats))
        are_plain = are_plain and not _is_astral("".join(set().union(*objects))) and max(map(len, objects), default=0) <= MAX_SORTED
        strings += sum(map(len, objects)) + (len([1 for value in values if type(value) is str]) if str in types else 0)
        values = [*chain.from_iterable(map(dict.values, objects)), *chain.from_iterable(arrays)]
    return ValueScan(strings, are_plain)


def convert_whole_floats(holders: Sequence[object], name: str) -> bool:
    """Make whole floats integers in the named attribute; returns whether msgspec now writes all as RFC 8785 demands."""
    get = attrgetter(name)
    floats = [number for number in map(get, holders) if type(number) is float]
    if not _are_usual(floats):
        return False
    if any(map(float.is_integer, floats)):
        for holder in holders:
            number = get(holder)
            if type(number) is float and number.is_integer():
                setattr(holder, name, int(number))
    return True


def _are_usual(floats: list[float]) -> bool:
    """Return whether every JSON writer writes all of them without an exponent."""
    return not [number for number in floats if number and not _SHORTEST <= abs(number) < _LONGEST]


def may_be_astral(text: bytes) -> bool:
    """Return whether a character may be above U+FFFF."""
    return not text.isascii() and any(lead in text for lead in _ASTRAL_LEADS)


def has_astral_name(value: object) -> bool:
    """Return whether a name has characters above U+FFFF, which RFC 8785 orders differently from orjson."""
    if type(value) is dict:
        return any(_is_astral(key) or has_astral_name(member) for key, member in value.items())
    return type(value) is list and any(has_astral_name(member) for member in value)


def text_has_astral_name(text: bytes) -> bool:
    """Return what `has_astral_name` does for a value in compact JSON, without reading most of it."""
    for lead in _ASTRAL_LEADS:
        at = text.find(lead)
        # Names are found by the colon after their closing quotation mark, which compact JSON has without a space.
        while at >= 0:
            end = text.index(b'"', at)
            if text[end - 1] == _BACKSLASH:
                end = _string_end(text, at)
            if text[end + 1 : end + 2] == b":":
                return True
            at = text.find(lead, end)
    return False


def _string_end(text: bytes, at: int) -> int:
    """Find the closing quotation mark of the string around an offset."""
    match = _REST_OF_STRING.match(text, at)
    return match.end() if match else len(text)


def _is_astral(name: str) -> bool:
    return not name.isascii() and max(name) > "\uffff"


FEW = 1 << 15
"""Maximum number of keys for which a plain dictionary is faster, and small enough."""
_FEWEST_SLOTS = 1 << 10
_STEP_BITS = 32
"""Bits above which a hash gives the step from one slot to the next; the step is odd, so that every slot is reached."""
_CHECK = 0xFFFF_FFFF
_prefixed = "\0".__add__
"""Adds a prefix to a key, so that the second hash is independent of the first."""

Integers = NDArray[np.integer[Any]]


class KeyIndex:
    """Index of keys, numbered from 0 in the order in which they are added.

    The first ones are kept as they are. When there are many, a key is known by 96 bits of its hash, under a secret of the
    process: among a million keys two are taken for one in one of 10^17 runs.
    """

    def __init__(self, *, few: int = FEW) -> None:
        # Hashes of text depend on a secret of the process, so no file can choose ids that collide.
        self._limit = few
        self._few: dict[str, int] | None = {}
        self._hashes = array("q")
        self._checks = array("I")
        self._slots = _free_slots(_FEWEST_SLOTS)
        """Open addressing with double hashing, at most half full: the number of a key plus one, 0 for none."""

    def __len__(self) -> int:
        return len(self._hashes if self._few is None else self._few)

    def find(self, key: str) -> int | None:
        """Return the number of a key; None when it was not added."""
        if self._few is not None:
            return self._few.get(key)
        number = self._slots[self._slot(key)]
        return number - 1 if number else None

    def add(self, key: str) -> bool:
        """Give a key the next number; returns False when it was added before."""
        if self._few is not None:
            return self.add_all((key,))
        slot = self._slot(key)
        if self._slots[slot]:
            return False
        # The keys themselves are not kept: ids of a million rows would take more memory than everything else.
        self._hashes.append(hash(key))
        self._checks.append(hash(_prefixed(key)) & _CHECK)
        self._slots[slot] = len(self)
        self._make_room(len(self))
        return True

    def _slot(self, key: str) -> int:
        """Find the slot of a key, or the free one that it would get."""
        slots, hashed = self._slots, hash(key)
        mask, step = len(slots) - 1, hashed >> _STEP_BITS | 1
        slot = hashed & mask
        # Double hashing: with linear probing, keys that want neighbouring slots would form long runs.
        while number := slots[slot]:
            if self._hashes[number - 1] == hashed and self._checks[number - 1] == hash(_prefixed(key)) & _CHECK:
                break
            slot = (slot + step) & mask
        return slot

    def add_all(self, keys: Sequence[str]) -> bool:
        """Add keys; if one was added before, or occurs twice among them, add none and return False."""
        if self._few is not None:
            if len(self._few) + len(keys) <= self._limit:
                return _add_new(self._few, keys)
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
        """Enlarge the table so that half of its slots are free; `placed` keys have a slot already."""
        if 2 * len(self) > len(self._slots):
            self._slots = _free_slots(4 << len(self).bit_length())
            self._place(0, placed)

    def _place(self, start: int, end: int) -> bool:
        """Give the keys of these numbers their slots; if one was added before, give none a slot and return False."""
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


def _add_new(numbers: dict[str, int], keys: Sequence[str]) -> bool:
    if len(set(keys)) < len(keys) or not numbers.keys().isdisjoint(keys):
        return False
    numbers.update(zip(keys, range(len(numbers), len(numbers) + len(keys)), strict=True))
    return True


def _view(column: "array[int]") -> Integers:
    return np.frombuffer(column, dtype=column.typecode)


def _free_slots(size: int) -> "array[int]":
    return array("I", [0]) * size


class IndexSet:
    """A set of indexes from 0, iterated in order."""

    def __init__(self) -> None:
        self._bits = bytearray()
        self._count = 0

    def add(self, index: int) -> None:
        """Add an index."""
        # A bit per record, since a file may have millions, and all of them may be bad.
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
