"""The source line of an issue, cut to the terminal, and the marks below it."""

import re

import msgspec
from rich.cells import cell_len

from assay.core.document import EXCERPT_LEAD, EXCERPT_LENGTH
from assay.core.issue import Issue
from assay.surfaces.printable import printable

LEAD = 0.6
"""Share of the room that may stand left of the marked place when a line is cut."""

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"?')
_WORD = re.compile(r"[-+.\w]+")
_ONE_CHARACTER = frozenset({"invalid_json", "invalid_yaml", "missing_required_field"})
"""Codes that point at a character, or at where an object begins, not at a value."""


class MarkedLine(msgspec.Struct, frozen=True):
    """A line of text, and the cells below it that carry the mark."""

    text: str
    indent: int
    length: int


class PointedLine(msgspec.Struct, frozen=True):
    """A line of text in three: what stands before the marked place, the place, and what stands after it."""

    before: str
    mark: str
    after: str


def pointed(issue: Issue) -> PointedLine:
    """The issue's excerpt with the place that it points at."""
    before = "…" if issue.caret >= EXCERPT_LEAD and (issue.column or 0) > issue.caret + 1 else ""
    after = "…" if len(issue.excerpt) >= EXCERPT_LENGTH else ""
    text = before + printable(issue.excerpt) + after
    caret = min(issue.caret + len(before), len(text))
    stop = caret + _span(text[caret:], issue.code)
    return PointedLine(text[:caret], text[caret:stop], text[stop:])


def marked(issue: Issue, *, room: int | None) -> MarkedLine:
    """The issue's excerpt in at most `room` cells, with the marked place always in view."""
    found = pointed(issue)
    text, caret = found.before + found.mark + found.after, len(found.before)
    stop = caret + len(found.mark)
    if room is not None and cell_len(text) > room:
        text, caret, stop = _cut(text, caret, stop=stop, room=max(room, 8))
    return MarkedLine(text, cell_len(text[:caret]), max(1, cell_len(text[caret:stop])))


def _span(rest: str, code: str) -> int:
    found = None if code in _ONE_CHARACTER else _STRING.match(rest) or _WORD.match(rest)
    return len(found[0]) if found else 1


def _cut(text: str, caret: int, *, stop: int, room: int) -> tuple[str, int, int]:
    start, end = 0, len(text)
    while cell_len(text[start:caret]) > room * LEAD:
        start += 1
    lead = "…" if start else ""
    if cell_len(lead + text[start:]) > room:
        while cell_len(lead + text[start:end]) > room - 1:
            end -= 1
        text = text[:end] + "…"
    shift = len(lead) - start
    return lead + text[start:], caret + shift, min(stop, end) + shift
