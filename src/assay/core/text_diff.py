"""Two texts into what both have, what only the first has, and what only the second has, word by word.

Comparing is quadratic in the words at worst, so it is bounded: what two texts begin and end with is set aside first, and a middle
with too many words is compared line by line, or not at all, and then it says so.
"""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Literal

import msgspec

MOST_WORDS = 1_200
"""Words, spaces and signs of one middle, up to which words are compared."""
MOST_LINES = 1_200
LONGEST_WORD = 100
SHORT = 3
"""Signs between two differences that say nothing by themselves: they are a part of the difference."""
LEAST_IN_COMMON = 0.3
"""Texts that share less than this have nothing to do with each other, and a word here and there is chance."""

_WORD = re.compile(r"\s+|\w+|[^\w\s]")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")

Kind = Literal["same", "removed", "added"]
Precision = Literal["words", "lines", "whole"]


class Piece(msgspec.Struct, frozen=True):
    """A part of the two texts."""

    kind: Kind
    text: str


class TextDiff(msgspec.Struct, frozen=True):
    """Two texts as the pieces of both, in their order."""

    pieces: tuple[Piece, ...]
    precision: Precision
    """How fine the comparison is: `whole` where everything between the first and the last difference counts as changed."""

    @property
    def is_same(self) -> bool:
        """The texts are equal."""
        return all(piece.kind == "same" for piece in self.pieces)

    def side(self, kind: Kind) -> tuple[Piece, ...]:
        """The pieces of one text: what both have, and what is of this kind."""
        return tuple(piece for piece in self.pieces if piece.kind in ("same", kind))


def diff_texts(before: str, after: str) -> TextDiff:
    """What became of a text; time and memory are bounded whatever the texts are."""
    head = _head(before, after)
    tail = _tail(before[len(head) :], after[len(head) :])
    first, second = before[len(head) : len(before) - len(tail)], after[len(head) : len(after) - len(tail)]
    precision, ours, theirs = _split(first, second)
    middle = _compared(ours, theirs) if precision != "whole" else (Piece("removed", first), Piece("added", second))
    pieces = (Piece("same", head), *middle, Piece("same", tail))
    return TextDiff(tuple(_joined(piece for piece in pieces if piece.text)), precision)


def _head(before: str, after: str) -> str:
    """What both begin with, up to the last end of a word."""
    shared = before[: _shared_length(before, after)]
    if len(shared) == len(before) == len(after):
        return shared
    return shared[: len(shared) - _half_word(shared)]


def _tail(before: str, after: str) -> str:
    turned = before[::-1]
    shared = turned[: _shared_length(turned, after[::-1])]
    return shared[: len(shared) - _half_word(shared)][::-1]


def _shared_length(before: str, after: str) -> int:
    """Characters that two texts begin with, found by halving: texts of a megabyte are compared in C."""
    low, high = 0, min(len(before), len(after))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if before[low:middle] == after[low:middle] else (low, middle - 1)
    return low


def _half_word(text: str) -> int:
    """Characters at the end that may be a part of a word which goes on differently."""
    length = 0
    while length < min(len(text), LONGEST_WORD) and (text[-1 - length].isalnum() or text[-1 - length] == "_"):
        length += 1
    return length


def _split(before: str, after: str) -> tuple[Precision, Sequence[str], Sequence[str]]:
    for precision, unit, most in (("words", _WORD, MOST_WORDS), ("lines", _LINE, MOST_LINES)):
        ours, theirs = _units(unit, before, most), _units(unit, after, most)
        if ours is not None and theirs is not None:
            return ("words" if precision == "words" else "lines"), ours, theirs
    return "whole", (), ()


def _units(unit: re.Pattern[str], text: str, most: int) -> list[str] | None:
    """The units of a text; None where they are too many."""
    found: list[str] = []
    for match in unit.finditer(text):
        if len(found) == most:
            return None
        found.append(match[0])
    return found


def _compared(before: Sequence[str], after: Sequence[str]) -> Iterator[Piece]:
    # Spaces stand everywhere: not to line up by them makes readable differences, and keeps the search short.
    matcher = SequenceMatcher(_is_filling, before, after, autojunk=True)
    if matcher.ratio() < LEAST_IN_COMMON:
        yield from (Piece("removed", "".join(before)), Piece("added", "".join(after)))
        return
    codes = matcher.get_opcodes()
    for place, (kind, start, stop, other_start, other_stop) in enumerate(codes):
        ours = "".join(before[start:stop])
        if kind == "equal" and (place in (0, len(codes) - 1) or len("".join(ours.split())) > SHORT):
            yield Piece("same", ours)
            continue
        yield Piece("removed", ours)
        yield Piece("added", "".join(after[other_start:other_stop]))


def _is_filling(unit: str) -> bool:
    return unit.isspace()


def _joined(pieces: Iterator[Piece]) -> Iterator[Piece]:
    """What follows one difference at once is a part of it, and neighbours of one kind are one."""
    texts: dict[Kind, str] = {}
    for piece in pieces:
        if texts and ("same" in texts) != (piece.kind == "same"):
            yield from _told(texts)
            texts = {}
        texts[piece.kind] = texts.get(piece.kind, "") + piece.text
    yield from _told(texts)


def _told(texts: dict[Kind, str]) -> Iterator[Piece]:
    return (Piece(kind, texts[kind]) for kind in ("same", "removed", "added") if kind in texts)
