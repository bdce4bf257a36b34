"""How many elements an array has, counted without building them: an array of millions would not fit into memory."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

_BLOCK = 1 << 20
_STRUCTURE = b'"[]{},'
_TEXT = bytes(sorted(set(range(256)) - set(_STRUCTURE)))
_STEPS = np.zeros(256, np.int8)
_STEPS[list(b"[{")] = 1
_STEPS[list(b"]}")] = -1


def has_more_elements(array: memoryview, most: int) -> bool:
    """True when a value, which must be valid JSON, is an array of more than `most` elements."""
    commas = depth = quotes = 0
    for block in _structure(array):
        is_quote = block == ord('"')
        # Only whether a number of quotation marks is odd counts, so that 8 bits are enough.
        is_outside = (np.add.accumulate(is_quote, dtype=np.uint8) + np.uint8(quotes)) & 1 == 0
        outside = block[is_outside & ~is_quote]
        depths = np.add.accumulate(_STEPS[outside], dtype=np.int64) + depth
        commas += int(np.count_nonzero((outside == ord(",")) & (depths == 1)))
        if commas >= most:
            return array[0] == ord("[")
        depth = int(depths[-1]) if depths.size else depth
        quotes = (quotes + int(np.count_nonzero(is_quote))) & 1
    return False


def _structure(text: memoryview) -> Iterator[npt.NDArray[np.uint8]]:
    """The quotation marks, brackets and commas of a JSON text, block by block; escaped quotation marks are left out."""
    escape = b""
    for at in range(0, len(text), _BLOCK):
        block = (escape + bytes(text[at : at + _BLOCK])).replace(b"\\\\", b"")
        escape = b"\\" if block.endswith(b"\\") else b""
        yield np.frombuffer(block.replace(b'\\"', b"").translate(None, _TEXT), np.uint8)
