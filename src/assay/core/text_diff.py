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
    # Spaces and commas stand everywhere: not to line up by them makes readable differences, and keeps the search short.
    matcher = SequenceMatcher(_is_filling, before, after, autojunk=True)
    for kind, start, stop, other_start, other_stop in matcher.get_opcodes():
        if kind == "equal":
            yield Piece("same", "".join(before[start:stop]))
            continue
        yield Piece("removed", "".join(before[start:stop]))
        yield Piece("added", "".join(after[other_start:other_stop]))


def _is_filling(unit: str) -> bool:
    return unit.isspace()


def _joined(pieces: Iterator[Piece]) -> Iterator[Piece]:
    """Neighbours of one kind as one."""
    last: Piece | None = None
    for piece in pieces:
        if last is not None and last.kind == piece.kind:
            last = Piece(piece.kind, last.text + piece.text)
            continue
        if last is not None:
            yield last
        last = piece
    if last is not None:
        yield last
