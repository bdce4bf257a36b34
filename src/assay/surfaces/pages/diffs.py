"""Two answers side by side, with what they do not share marked; long stretches that both have are left out, and counted."""

from collections.abc import Iterator
from typing import Literal

import msgspec

from assay.core.text_diff import DiffPiece, Kind, diff_texts

CONTEXT = 160
"""Characters of what both have that are shown beside a difference."""
LONGEST = 1_500
"""Characters of one piece in a list; the page of the record shows more."""
LONGEST_ALONE = 60_000

Tag = Literal["same", "del", "ins", "cut"]
_TAGS: dict[Kind, Tag] = {"same": "same", "removed": "del", "added": "ins"}


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
    """The answers of two runs to one record; `is_whole` leaves out as little as a page can take."""
    first, second = before or "", after or ""
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
