"""Byte scans over many records at once: cheap tests that may cry wolf but never miss."""

import sys
import unicodedata
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from assay.datasets.source import Buffer

MAX_COMBINING_RUN = 30
"""Longer runs of combining marks make normalisation quadratic and are no text (DECISIONS: a normalisation bomb)."""

_Bytes = npt.NDArray[np.uint8]
_QUOTE, _BACKSLASH, _C1_LEAD, _ABOVE_LATIN = 0x22, 0x5C, 0xC2, 0xCC
_BLOCK = 1 << 22


def _table(characters: bytes) -> npt.NDArray[np.bool_]:
    table = np.zeros(256, bool)
    table[list(characters)] = True
    return table


_CONTROL_ESCAPES = _table(b"bfu")
"""What follows the backslash of a forbidden control character in orjson's output; \\n \\r \\t are fine."""
_HIGH, _LOW = _table(b"89abAB"), _table(b"cdefCDEF")


def suspects_in(canonical: Sequence[bytes]) -> set[int]:
    """Positions of records whose text may hold control characters, or is not NFC; all others are clean."""
    joined = b"".join(canonical)
    text = np.frombuffer(joined, np.uint8)
    starts = np.fromiter(accumulate(map(len, canonical[:-1]), initial=0), np.int64, len(canonical))
    found = [_control_escapes(text)]
    if b"\x7f" in joined:
        found.append(np.flatnonzero(text == 0x7F))
    highest = np.maximum.reduceat(text, starts)
    if (highest >= 0x80).any():
        found.append(_c1_controls(text))
    hits = np.concatenate(found)
    positions = set((np.searchsorted(starts, hits, side="right") - 1).tolist()) if hits.size else set()
    return positions | _unnormalized(canonical, np.flatnonzero(highest >= _ABOVE_LATIN).tolist())


def _control_escapes(text: _Bytes) -> npt.NDArray[np.intp]:
    """Escapes of control characters, where the backslash is not itself escaped."""
    backslashes = np.flatnonzero(text == _BACKSLASH)
    candidates = backslashes[_CONTROL_ESCAPES[text[backslashes + 1]]]
    if not candidates.size:
        return candidates
    # `\\beta` is an escaped backslash before a letter; longer runs of backslashes go to the exact reader.
    escaped: npt.NDArray[np.bool_] = (text[candidates - 1] == _BACKSLASH) & (text[candidates - 2] != _BACKSLASH)
    return candidates[~escaped]


def _c1_controls(text: _Bytes) -> npt.NDArray[np.intp]:
    leads: npt.NDArray[np.intp] = np.flatnonzero(text == _C1_LEAD)
    return leads[text[leads + 1] < 0xA0]


def _unnormalized(canonical: Sequence[bytes], positions: list[int]) -> set[int]:
    """Of the records with characters from U+0300 on, those that are not NFC or hold a combining run."""
    texts = {position: canonical[position].decode() for position in positions}
    if not texts:
        return set()
    # A record ends with "}" and begins with "{", so nothing combines across the seam.
    everything = "".join(texts.values())
    if not has_combining_run(everything) and unicodedata.is_normalized("NFC", everything):
        return set()
    return {position for position, text in texts.items() if has_combining_run(text) or not unicodedata.is_normalized("NFC", text)}


def has_combining_run(text: str) -> bool:
    """True when more than 30 combining marks follow each other."""
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    marks = np.flatnonzero(_combining_table()[points])
    if marks.size <= MAX_COMBINING_RUN:
        return False
    return bool((marks[MAX_COMBINING_RUN:] - marks[:-MAX_COMBINING_RUN] == MAX_COMBINING_RUN).any())


@cache
def _combining_table() -> npt.NDArray[np.bool_]:
    table = np.zeros(sys.maxunicode + 1, bool)
    # No character above plane 1's music and script blocks has a combining class.
    table[[point for point in range(0x300, 0x1F000) if unicodedata.combining(chr(point))]] = True
    return table


def quotes_in(buffer: Any) -> int:
    """How many quotation marks are in the bytes."""
    return int(np.count_nonzero(np.frombuffer(buffer, np.uint8) == _QUOTE))


def offset_in(view: memoryview, piece: Any) -> int:
    """Where a piece of a buffer begins in it."""
    whole = np.frombuffer(view, np.uint8)
    part = np.frombuffer(piece, np.uint8)
    return int(part.__array_interface__["data"][0] - whole.__array_interface__["data"][0])


def lone_surrogates(buffer: Buffer, *, most: int) -> list[int]:
    """Offsets of `\\uD8xx` escapes that are no half of a pair, at most about `most` of them."""
    found: list[int] = []
    size = len(buffer)
    for start in range(0, size, _BLOCK):
        # A pair is 12 bytes; a block looks 16 bytes around itself and reports its own escapes only.
        low, high = max(0, start - 16), min(size, start + _BLOCK + 16)
        at = low + _lone_in(np.frombuffer(buffer[low:high], np.uint8))
        at = at[(at >= start) & (at < start + _BLOCK)]
        found += [offset for offset in at.tolist() if _is_escape(buffer, offset)]
        if len(found) > most:
            break
    return found


def _lone_in(block: _Bytes) -> npt.NDArray[np.intp]:
    """Surrogate escapes without their other half, taking every backslash for the start of an escape."""
    at = np.flatnonzero(block[:-5] == _BACKSLASH)
    at = at[(block[at + 1] == ord("u")) & ((block[at + 2] | 0x20) == ord("d")) & (_HIGH | _LOW)[block[at + 3]]]
    is_high = _HIGH[block[at + 3]]
    high, low = at[is_high], at[~is_high]
    lone_high = high[~np.isin(high + 6, low, assume_unique=True)]
    lone_low = low[~np.isin(low - 6, high, assume_unique=True)]
    return np.sort(np.concatenate([lone_high, lone_low]))


def _is_escape(buffer: Buffer, offset: int) -> bool:
    """True when the backslash at `offset` is not itself escaped."""
    before = 0
    while before < offset and buffer[offset - 1 - before] == _BACKSLASH:
        before += 1
    return before % 2 == 0
