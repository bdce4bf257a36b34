"""Word-by-word diff of two texts: common, removed and added pieces.

The comparison is quadratic in the worst case, so it is bounded: the common beginning and end are set aside first, and a middle
with too many words is compared line by line, or not at all, which the result says.
"""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Literal

import msgspec

MAX_WORDS = 1_200
"""Maximum words, spaces and signs of a middle that is compared word by word."""
MAX_LINES = 1_200
LONGEST_WORD = 100
SHORT = 3
"""Maximum characters of common text between two differences that is merged into them: it carries no meaning alone."""
LEAST_IN_COMMON = 0.3
"""Texts that share less than this are unrelated, and common words are chance."""

_WORD = re.compile(r"\s+|\w+|[^\w\s]")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")

DiffKind = Literal["same", "removed", "added"]
Precision = Literal["words", "lines", "whole"]


class DiffPiece(msgspec.Struct, frozen=True):
    """A part of the two texts."""

    kind: DiffKind
    text: str


class TextDiff(msgspec.Struct, frozen=True):
    """Pieces of both texts, in order."""

    pieces: tuple[DiffPiece, ...]
    precision: Precision
    """Granularity: `whole` if everything between the first and the last difference counts as changed."""

    @property
    def is_same(self) -> bool:
        """Whether the texts are equal."""
        return all(piece.kind == "same" for piece in self.pieces)

    def side(self, kind: DiffKind) -> tuple[DiffPiece, ...]:
        """Return the pieces of one text: the common ones, and those of a kind."""
        return tuple(piece for piece in self.pieces if piece.kind in ("same", kind))


def diff_texts(before: str, after: str) -> TextDiff:
    """Compare two texts in bounded time and memory."""
    # Character by character from both ends first: answers of two runs often differ in one place.
    head = _head(before, after)
    tail = _tail(before[len(head) :], after[len(head) :])
    first, second = before[len(head) : len(before) - len(tail)], after[len(head) : len(after) - len(tail)]
    # The coarsest unit whose number is bounded: SequenceMatcher takes quadratic time.
    precision, ours, theirs = _split(first, second)
    middle = _compared(ours, theirs) if precision != "whole" else (DiffPiece("removed", first), DiffPiece("added", second))
    pieces = (DiffPiece("same", head), *middle, DiffPiece("same", tail))
    return TextDiff(tuple(_joined(piece for piece in pieces if piece.text)), precision)


def _head(before: str, after: str) -> str:
    """Return the common beginning, up to the last end of a word."""
    shared = before[: _shared_length(before, after)]
    # Equal texts have no end of a word to look for.
    if len(shared) == len(before) == len(after):
        return shared
    return shared[: len(shared) - _half_word(shared)]


def _tail(before: str, after: str) -> str:
    reversed_text = before[::-1]
    shared = reversed_text[: _shared_length(reversed_text, after[::-1])]
    return shared[: len(shared) - _half_word(shared)][::-1]


def _shared_length(before: str, after: str) -> int:
    """Count the common leading characters by bisection: slices of a megabyte are compared in C."""
    # Comparing slices is a memcmp in C; a loop over characters of 100 KB answers would take seconds for a page of
    # flips.
    low, high = 0, min(len(before), len(after))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if before[low:middle] == after[low:middle] else (low, middle - 1)
    return low


def _half_word(text: str) -> int:
    """Count the characters at the end that may be part of a word that continues differently."""
    length = 0
    while length < min(len(text), LONGEST_WORD) and (text[-1 - length].isalnum() or text[-1 - length] == "_"):
        length += 1
    return length


def _split(before: str, after: str) -> tuple[Precision, Sequence[str], Sequence[str]]:
    for precision, unit, limit in (("words", _WORD, MAX_WORDS), ("lines", _LINE, MAX_LINES)):
        ours, theirs = _units(unit, before, limit), _units(unit, after, limit)
        if ours is not None and theirs is not None:
            return ("words" if precision == "words" else "lines"), ours, theirs
    return "whole", (), ()


def _units(unit: re.Pattern[str], text: str, limit: int) -> list[str] | None:
    """Split a text into units; None if there are too many."""
    # `split` would build the list of a megabyte before its length is known.
    found: list[str] = []
    for match in unit.finditer(text):
        if len(found) == limit:
            return None
        found.append(match[0])
    return found


def _compared(before: Sequence[str], after: Sequence[str]) -> Iterator[DiffPiece]:
    # Spaces are everywhere: not aligning by them gives readable differences and a short search.
    matcher = SequenceMatcher(_is_filling, before, after, autojunk=True)
    if matcher.ratio() < LEAST_IN_COMMON:
        yield from (DiffPiece("removed", "".join(before)), DiffPiece("added", "".join(after)))
        return
    codes = matcher.get_opcodes()
    for index, (kind, start, stop, other_start, other_stop) in enumerate(codes):
        ours = "".join(before[start:stop])
        if kind == "equal" and (index in (0, len(codes) - 1) or len("".join(ours.split())) > SHORT):
            yield DiffPiece("same", ours)
            continue
        yield DiffPiece("removed", ours)
        yield DiffPiece("added", "".join(after[other_start:other_stop]))


def _is_filling(unit: str) -> bool:
    return unit.isspace()


def _joined(pieces: Iterator[DiffPiece]) -> Iterator[DiffPiece]:
    """Merge adjacent differences, and neighbours of one kind."""
    texts: dict[DiffKind, str] = {}
    for piece in pieces:
        if texts and ("same" in texts) != (piece.kind == "same"):
            yield from _merged_pieces(texts)
            texts = {}
        texts[piece.kind] = texts.get(piece.kind, "") + piece.text
    yield from _merged_pieces(texts)


def _merged_pieces(texts: dict[DiffKind, str]) -> Iterator[DiffPiece]:
    return (DiffPiece(kind, texts[kind]) for kind in ("same", "removed", "added") if kind in texts)


CONTEXT = 160
"""Characters of what both have that are shown around a difference."""
LONGEST = 1_500
"""Characters of one piece in a list; the page of the record shows more."""
LONGEST_ALONE = 60_000

Tag = Literal["same", "del", "ins", "cut"]
_TAGS: dict[DiffKind, Tag] = {"same": "same", "removed": "del", "added": "ins"}


class DiffSpan(msgspec.Struct, frozen=True):
    """A stretch of an answer as a page shows it."""

    tag: Tag
    """`cut` for words of ours in the place of what is left out."""
    text: str


class AnswerDiff(msgspec.Struct, frozen=True):
    """Both answers."""

    before: tuple[DiffSpan, ...]
    after: tuple[DiffSpan, ...]
    note: str = ""
    """How they were compared, where that is not word by word."""


_NOTES = {
    "words": "",
    "lines": "The answers are long: they are compared line by line.",
    "whole": "The answers are very long: everything between the first and the last difference is marked.",
}


def sides(before: str | None, after: str | None, *, is_whole: bool = False) -> AnswerDiff:
    """Return the answers of two runs to one record; `is_whole` leaves out as little as a page can take."""
    first, second = before or "", after or ""
    # A text that did not change has no difference to show the surroundings of.
    if first == second:
        shown = tuple(_shortened((DiffPiece("same", first),), is_whole=is_whole))
        return AnswerDiff(shown, shown, "Both runs have the same answer." if first else "Neither run has an answer.")
    diff = diff_texts(first, second)
    return AnswerDiff(
        tuple(_shortened(diff.side("removed"), is_whole=is_whole)),
        tuple(_shortened(diff.side("added"), is_whole=is_whole)),
        _NOTES[diff.precision],
    )


def _shortened(pieces: tuple[DiffPiece, ...], *, is_whole: bool) -> Iterator[DiffSpan]:
    longest = LONGEST_ALONE if is_whole else LONGEST
    for place, piece in enumerate(pieces):
        tag = _TAGS[piece.kind]
        if piece.kind != "same" or len(pieces) == 1:
            yield from _cut(tag, piece.text, head=longest, tail=0)
        elif is_whole:
            yield from _cut(tag, piece.text, head=longest // 2, tail=longest // 2)
        else:
            # What comes first ends at a difference, what comes last begins at one.
            yield from _cut(tag, piece.text, head=CONTEXT if place else 0, tail=CONTEXT if place < len(pieces) - 1 else 0)


def _cut(tag: Tag, text: str, *, head: int, tail: int) -> Iterator[DiffSpan]:
    omitted = len(text) - head - tail
    # A few characters are shorter shown than counted.
    if omitted <= CONTEXT // 2:
        yield DiffSpan(tag, text)
        return
    if head:
        yield DiffSpan(tag, text[:head])
    yield DiffSpan("cut", f"{omitted:,} {'equal ' if tag == 'same' else ''}characters left out")
    if tail:
        yield DiffSpan(tag, text[-tail:])
