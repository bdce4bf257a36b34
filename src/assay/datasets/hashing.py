"""The hash of a record at parser speed: orjson writes what RFC 8785 wants, and the few exceptions are found and written by hand."""

import hashlib
import re
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
import orjson

from assay.core.canonical import MOST_SORTED, canonical_json

_LONGEST = 1e16
"""Below it a whole double is written with just its digits, by orjson as an integer and by RFC 8785."""
_SHORTEST = 1e-4
"""From here on no JSON writer uses an exponent."""
_ASTRAL_LEADS = tuple(bytes([lead]) for lead in range(0xF0, 0xF5))

_BACKSLASH = 0x5C
_REST_OF_STRING = re.compile(rb'(?:[^"\\]++|\\.)*+(?=")')


class FloatHook:
    """A decoder's hook that makes floats come out of orjson as RFC 8785 writes them, or says that they will not."""

    def __init__(self) -> None:
        self.integral = False
        """A float was read as an integer: `1.0` is written as 1."""
        self.exact = True
        """Every float so far is written as RFC 8785 wants."""

    def __call__(self, literal: str) -> float | int:
        value = float(literal)
        size = abs(value)
        if value.is_integer() and size < _LONGEST:
            self.integral = True
            return int(value)
        if not _SHORTEST <= size < _LONGEST:
            self.exact = False
        return value

    def reset(self) -> None:
        """Forget what was seen."""
        self.integral, self.exact = False, True


class HashedJson(NamedTuple):
    """What a JSON text holds, and its hash."""

    value: Any
    sha256: str


class Hasher:
    """Turns the JSON text of records into `record_sha256`."""

    def __init__(self) -> None:
        self._floats = FloatHook()
        self._decode = msgspec.json.Decoder(float_hook=self._floats).decode

    def read(self, content: bytes) -> HashedJson:
        """The value of a JSON text that is known to be valid, and its hash, decoded once where that gives both."""
        value = self._read(content)
        digest = self._digest(value, content)
        return HashedJson(msgspec.json.decode(content) if self._floats.integral else value, digest.hex())

    def sha256(self, content: bytes) -> str:
        """The hash of a JSON text that is known to be valid."""
        return self.digest(content).hex()

    def digest(self, content: bytes) -> bytes:
        """The hash as 32 bytes."""
        return self._digest(self._read(content), content)

    def _read(self, content: bytes) -> Any:
        self._floats.reset()
        return self._decode(content)

    def _digest(self, value: object, content: bytes) -> bytes:
        try:
            canonical = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
        except orjson.JSONEncodeError:
            return hashlib.sha256(canonical_json(msgspec.json.decode(content))).digest()
        if not self._floats.exact or (may_be_astral(canonical) and has_astral_name(value)):
            canonical = canonical_json(msgspec.json.decode(content))
        return hashlib.sha256(canonical).digest()


class ValueScan(NamedTuple):
    """What a look at open values tells."""

    strings: int
    """How many strings they are written with, names of members included."""
    are_plain: bool
    """Whether msgspec, which sorts names like orjson, writes them as RFC 8785 wants."""


def scan_values(values: list[Any]) -> ValueScan:
    """All values at one depth are looked at together, which costs a fraction of a look at each."""
    strings, are_plain = 0, True
    while values:
        types = set(map(type, values))
        floats = [value for value in values if type(value) is float] if float in types else []
        objects = [value for value in values if type(value) is dict] if dict in types else []
        arrays = [value for value in values if type(value) is list] if list in types else []
        are_plain = are_plain and _are_usual(floats) and not any(map(float.is_integer, floats))
        are_plain = (
            are_plain and not _is_astral("".join(set().union(*objects))) and max(map(len, objects), default=0) <= MOST_SORTED
        )
        strings += sum(map(len, objects)) + (len([1 for value in values if type(value) is str]) if str in types else 0)
        values = [*chain.from_iterable(map(dict.values, objects)), *chain.from_iterable(arrays)]
    return ValueScan(strings, are_plain)


def whole_floats_settled(holders: list[Any], name: str) -> bool:
    """True when msgspec now writes the number of that name in each holder as RFC 8785 wants: whole floats were made integers."""
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
    """Tell whether every JSON writer writes all of them without an exponent."""
    return not [number for number in floats if number and not _SHORTEST <= abs(number) < _LONGEST]


def may_be_astral(text: bytes) -> bool:
    """False when no character is above U+FFFF."""
    return not text.isascii() and any(lead in text for lead in _ASTRAL_LEADS)


def has_astral_name(value: object) -> bool:
    """True when a name has characters above U+FFFF, which RFC 8785 orders differently from orjson."""
    if type(value) is dict:
        return any(_is_astral(key) or has_astral_name(member) for key, member in value.items())
    return type(value) is list and any(has_astral_name(member) for member in value)


def text_has_astral_name(text: bytes) -> bool:
    """As `has_astral_name`, for a value in compact JSON, most of which is not read."""
    for lead in _ASTRAL_LEADS:
        at = text.find(lead)
        while at >= 0:
            end = text.index(b'"', at)
            if text[end - 1] == _BACKSLASH:
                end = _string_end(text, at)
            if text[end + 1 : end + 2] == b":":
                return True
            at = text.find(lead, end)
    return False


def _string_end(text: bytes, at: int) -> int:
    """The closing quotation mark of the string that an offset is in."""
    match = _REST_OF_STRING.match(text, at)
    return match.end() if match else len(text)


def _is_astral(name: str) -> bool:
    return not name.isascii() and max(name) > "\uffff"
