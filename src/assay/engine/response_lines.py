"""Where each response stands in a file of lines: found by candidate and record, without any of their texts in memory."""

import mmap
from array import array
from bisect import bisect_right

import msgspec

from assay.core.json_door import parse_json

Buffer = bytes | bytearray | mmap.mmap
_SHORTEST_ROW = 50
"""Bytes; a row with its three members cannot be shorter, so that blank lines take no room."""
_CHUNK = 1 << 20
_START = (1 << 47) - 1
"""The low bits of a slot: where the line begins, plus one."""
_TAG = 0xFFFF_FFFF_FFFF_FFFF ^ _START
"""The high bits of a slot: those of the key's hash, so that hardly any line of another key is looked at."""


class _Key(msgspec.Struct):
    """What a row is found by."""

    candidate_name: str
    example_id: str


_decode_key = msgspec.json.Decoder(_Key).decode


class ResponseLines:
    """A hash table of line starts with linear probing: some forty bytes for each row of the file."""

    def __init__(self, buffer: Buffer) -> None:
        self._buffer = buffer
        rows = min(_line_count(buffer), len(buffer) // _SHORTEST_ROW) + 1
        self._mask = (1 << (2 * rows - 1).bit_length()) - 1
        self._slots = array("Q", bytes(8 * (self._mask + 1)))
        self._starts = array("Q")
        self._numbers = array("Q")

    def add(self, candidate: str, case_id: str, *, start: int, number: int) -> int:
        """Note a row and its line; returns 0, or the number of the earlier line that has a response of the same candidate."""
        slot, found = self._probe(candidate, case_id)
        if found is not None:
            return self._numbers[bisect_right(self._starts, found) - 1]
        self._slots[slot] = hash((candidate, case_id)) & _TAG | (start + 1)
        self._starts.append(start)
        self._numbers.append(number)
        return 0

    def line(self, candidate: str, case_id: str) -> bytes | None:
        """The line of a response; None when there is none."""
        _, start = self._probe(candidate, case_id)
        return None if start is None else self._line(start)

    def _probe(self, candidate: str, case_id: str) -> tuple[int, int | None]:
        """The slot of a key, and where its line begins when it is there."""
        slots, mask, hashed = self._slots, self._mask, hash((candidate, case_id))
        tag, slot = hashed & _TAG, hashed & mask
        while held := slots[slot]:
            if held & _TAG == tag:
                start = (held & _START) - 1
                if _key(self._line(start)) == (candidate, case_id):
                    return slot, start
            slot = (slot + 1) & mask
        return slot, None

    def _line(self, start: int) -> bytes:
        end = self._buffer.find(b"\n", start)
        return bytes(self._buffer[start : len(self._buffer) if end < 0 else end])


def _key(line: bytes) -> tuple[str, str]:
    try:
        key = _decode_key(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = parse_json(line, is_whole=False).value
        return value["candidate_name"], value["example_id"]
    return key.candidate_name, key.example_id


def _line_count(buffer: Buffer) -> int:
    return 1 + sum(buffer[at : at + _CHUNK].count(b"\n") for at in range(0, len(buffer), _CHUNK))
