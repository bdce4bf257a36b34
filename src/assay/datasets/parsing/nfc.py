"""Unicode NFC at the speed of a table: most texts are normal and can be told so by a look at each character."""

import sys
import unicodedata
from functools import cache
from itertools import chain

import numpy as np
import numpy.typing as npt

MAX_COMBINING_RUN = 30
"""Longer runs of combining marks make normalisation quadratic, and are no text."""

_ASCII = bytes(range(0x80))
_COMPOSES = 255
"""Stands for characters that NFC may change or join to the one before; no combining class is as high."""
_ALPHABETS = (range(0x300, 0x3100), range(0xA000, 0xAC00), range(0xF900, 0x1F000))
"""Where combining marks and characters with a decomposition are, apart from syllables that NFC leaves alone."""
_COMPATIBLE_IDEOGRAPHS = slice(0x2F800, 0x2FA20)
_JAMO = slice(0x1161, 0x11C3)
"""Vowels and final consonants, which NFC joins to the syllable before by rule."""


def doubtful_offsets(text: str) -> npt.NDArray[np.intp]:
    """Where a text may not be in NFC or may hold a long run of combining marks; ASCII may have been left out of the text."""
    classes = np.take(_classes(), _points(text))
    marks: npt.NDArray[np.intp] = np.flatnonzero(classes)
    if not marks.size or _has_run(marks):
        return marks
    found = classes[marks]
    # Marks that follow each other must be in the order of their classes; an ASCII character between them only seems to be none.
    is_unordered = (found[1:] < found[:-1]) & (np.diff(marks) == 1)
    is_doubtful: npt.NDArray[np.bool_] = found == _COMPOSES
    is_doubtful[1:] |= is_unordered
    return marks[is_doubtful]


def beyond_ascii(text: bytes) -> str:
    """A UTF-8 text without its ASCII: it has the same doubtful characters or more, and is several times shorter."""
    return text.translate(None, _ASCII).decode()


def has_combining_run(text: str) -> bool:
    """True when more than 30 combining marks follow each other."""
    return len(text) > MAX_COMBINING_RUN and _has_run(np.flatnonzero(np.take(_combining(), _points(text))))


def _points(text: str) -> npt.NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


def _has_run(marks: npt.NDArray[np.intp]) -> bool:
    if marks.size <= MAX_COMBINING_RUN:
        return False
    return bool((marks[MAX_COMBINING_RUN:] - marks[:-MAX_COMBINING_RUN] == MAX_COMBINING_RUN).any())


@cache
def _combining() -> npt.NDArray[np.uint8]:
    """The combining class of every character."""
    table = np.zeros(sys.maxunicode + 1, np.uint8)
    for points in _ALPHABETS:
        table[points.start : points.stop] = [unicodedata.combining(character) for character in map(chr, points)]
    return table


@cache
def _classes() -> npt.NDArray[np.uint8]:
    """The combining class of every character, or that NFC may compose it."""
    composing: list[int] = []
    for point in chain(range(0xC0, 0x300), *_ALPHABETS):
        parts = unicodedata.decomposition(chr(point))
        if parts and parts[0] != "<":
            is_kept = unicodedata.is_normalized("NFC", chr(point))
            composing += [int(second, 16) for second in parts.split()[1:]] if is_kept else [point]
    table = _combining().copy()
    table[composing] = _COMPOSES
    table[_COMPATIBLE_IDEOGRAPHS] = table[_JAMO] = _COMPOSES
    return table
