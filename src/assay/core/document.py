"""A parsed document with the offsets of its values in the text."""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple

import msgspec

from assay.core.issue import Path

EXCERPT_LENGTH = 120
"""Maximum length of an excerpt, so that a 100 MB line prints as one line of a terminal."""
EXCERPT_LEAD = 60
_STRIDE = 1 << 14
"""Characters between two offsets whose line numbers are stored."""


class Location(NamedTuple):
    """A position in a text: line and column count from 1, columns in characters."""

    line: int
    column: int


ProblemKind = Literal["", "duplicate_name", "surrogate", "too_deep", "too_many_values", "second_value"]
"""What callers have to tell apart although its code does not; empty for everything else."""


class ParseProblem(msgspec.Struct, frozen=True):
    """A problem of the text itself, whatever the contract."""

    code: str
    message: str
    path: Path
    offset: int
    """Character offset in the document's text."""
    hint: str = ""
    fatal: bool = False
    """Nothing after it could be read: the document has no value."""
    kind: ProblemKind = ""


ObjectMarks = Mapping[str, tuple[int, int]]
"""Offsets of each member's name and of its value."""
MemberOffsets = Mapping[int, ObjectMarks | Sequence[int]]
"""Offsets of the members by id of their container; arrays have one offset per element."""


class Document:
    """A value, its text, the offsets of all members and the problems found by the parser."""

    def __init__(
        self,
        value: Any,
        text: str,
        marks: MemberOffsets,
        flaws: tuple[ParseProblem, ...],
        *,
        more_flaws: Mapping[str, int] | None = None,
    ) -> None:
        self.value = value
        self.text = text
        self.flaws = flaws
        self.more_flaws = more_flaws or {}
        """Number of unlisted problems by code; none of them is fatal."""
        self._marks = marks

    @property
    def is_readable(self) -> bool:
        """Tell whether the whole text was parsed."""
        return not any(flaw.fatal for flaw in self.flaws)

    def locate(self, paths: Iterable[Path]) -> None:
        """Prepare `offset` for all these paths, for parsers that find many of them in one pass."""

    def offset(self, path: Path, *, on_key: bool = False) -> int:
        """Return the offset of the value at `path`, or of the nearest enclosing value that exists."""
        container = self.value
        found = len(self.text) - len(self.text.lstrip())
        for position, step in enumerate(path, 1):
            offsets = self._offsets(container, step)
            if offsets is None:
                return found
            found = offsets[0] if on_key and position == len(path) else offsets[1]
            container = container[step] if position < len(path) else None
        return found

    def _offsets(self, container: object, step: str | int) -> tuple[int, int] | None:
        marks = self._marks.get(id(container), {})
        if isinstance(marks, Mapping):
            return marks.get(step) if isinstance(step, str) else None
        known = isinstance(step, int) and step < len(marks)
        return (marks[step], marks[step]) if known else None  # type: ignore[index]  # known says that step is an index

    def place(self, offset: int, *, start: Location = Location(1, 1)) -> Location:
        """Return line and column of an offset, in a text that begins at `start`."""
        breaks, last = self._lines.before(offset)
        return Location(start.line + breaks, offset - last) if breaks else Location(start.line, start.column + offset)

    @cached_property
    def _lines(self) -> "_LineIndex":
        return _LineIndex(self.text)


class _LineIndex:
    """Counts the lines before an offset; stores one count per stride, since one per line could outweigh the text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._breaks = array("q", [0])
        """Line breaks before each stride."""
        self._last = array("q", [-1])
        """Offset of the last of them."""
        for start in range(0, len(text), _STRIDE):
            end = start + _STRIDE
            self._breaks.append(self._breaks[-1] + text.count("\n", start, end))
            found = text.rfind("\n", start, end)
            self._last.append(found if found >= 0 else self._last[-1])

    def before(self, offset: int) -> tuple[int, int]:
        """Return the number of line breaks before an offset, and the offset of the last one."""
        stride = min(offset // _STRIDE, len(self._breaks) - 1)
        start = stride * _STRIDE
        found = self._text.rfind("\n", start, offset)
        return self._breaks[stride] + self._text.count("\n", start, offset), found if found >= 0 else self._last[stride]


class Excerpt(NamedTuple):
    """A part of one source line, and the position in it that an issue points at."""

    text: str
    caret: int


def excerpt(text: str, offset: int) -> Excerpt:
    """Cut the line around `offset` to a readable length, with invisible characters replaced."""
    offset = min(offset, len(text))
    start = text.rfind("\n", max(0, offset - EXCERPT_LEAD), offset) + 1 or max(0, offset - EXCERPT_LEAD)
    end = text.find("\n", offset, start + EXCERPT_LENGTH)
    piece = text[start : end if end >= 0 else start + EXCERPT_LENGTH].rstrip("\r")
    if not piece.isprintable():
        piece = "".join(character if character.isprintable() else "·" for character in piece)
    return Excerpt(piece, min(offset - start, len(piece)))
