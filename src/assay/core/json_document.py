"""JSON documents that locate their values in the text on demand.

Few locations of a document are ever needed. Storing one for every value would take several times the memory of the text.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from json import decoder
from typing import Any

from assay.core.document import Document, ParseProblem
from assay.core.issue import Path

_scan_string = decoder.scanstring  # type: ignore[attr-defined]  # in the standard library, not in its stubs
_SPACE = re.compile(r"[ \t\n\r]*")
_COLON = re.compile(r"[ \t\n\r]*:[ \t\n\r]*")
_COMMA = re.compile(r"[ \t\n\r]*,[ \t\n\r]*")
_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
"""Possessive quantifiers: the engine would otherwise store every escape for backtracking."""
_WHOLE_STRING = re.compile(_STRING, re.DOTALL)
_STRING_OR_BRACKET = re.compile(rf"{_STRING}|[\[\]{{}}]", re.DOTALL)
_SCALAR = re.compile(r"[^,\]} \t\n\r]*")

_Wanted = dict[str | int, Any]
"""The steps of many paths as a tree."""


class JsonDocument(Document):
    """A value that was parsed from a JSON text, or from the lines of one."""

    def __init__(
        self,
        value: Any,
        text: str,
        flaws: tuple[ParseProblem, ...] = (),
        *,
        more_flaws: Mapping[str, int] | None = None,
        starts: Sequence[int] | None = None,
    ) -> None:
        """`starts` has the offset of each element, for a value that is a list of lines."""
        super().__init__(value, text, {}, flaws, more_flaws=more_flaws)
        self._starts = starts
        self._located: set[Path] = set()
        self._found: dict[Path, tuple[int, int]] = {}
        """Offsets of the name and of the value; in arrays both are the same."""

    def locate(self, paths: Iterable[Path]) -> None:
        """Find all these locations in one pass over the text."""
        new = [path for path in paths if path not in self._located]
        if not new:
            return
        self._located.update(new)
        wanted: _Wanted = {}
        for path in new:
            node = wanted
            for step in path:
                node = node.setdefault(step, {})
        start = _skip(self.text, 0)
        self._found[()] = (start, start)
        if self._starts is not None:
            self._walk_lines(self._starts, wanted)
        elif self.is_readable:
            self._walk(start, wanted, ())

    def offset(self, path: Path, *, on_key: bool = False) -> int:
        """Return the offset of the value at `path`, or of the nearest enclosing value that exists."""
        self.locate([path])
        if path in self._found:
            return self._found[path][0 if on_key else 1]
        return next(self._found[path[:length]][1] for length in range(len(path) - 1, -1, -1) if path[:length] in self._found)

    def _walk(self, at: int, wanted: _Wanted, path: Path) -> None:
        """Find the wanted members below an offset; walks the text rather than the value, since a fix may change the value."""
        if not wanted or self.text[at] not in "[{":
            return
        seen: set[str | int] = set()
        for step, offsets in _members_at(self.text, at):
            # Of a duplicate name, the parser kept the first.
            if step not in wanted or step in seen:
                continue
            seen.add(step)
            inner = (*path, step)
            self._found[inner] = offsets
            self._walk(offsets[1], wanted[step], inner)
            if len(seen) == len(wanted):
                return

    def _walk_lines(self, starts: Sequence[int], wanted: _Wanted) -> None:
        for step, below in wanted.items():
            if isinstance(step, int) and step < len(starts):
                self._found[(step,)] = (starts[step], starts[step])
                # A line that is not JSON was parsed as null.
                if self.value[step] is not None:
                    self._walk(starts[step], below, (step,))


def _skip(text: str, at: int) -> int:
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]  # the pattern matches the empty string


def _members_at(text: str, at: int) -> Iterator[tuple[str | int, tuple[int, int]]]:
    """Iterate over the names or indexes with the offsets of name and value; the text is known to be valid."""
    opening = text[at]
    at = _skip(text, at + 1)
    if text[at] in "}]":
        return
    for index in count():
        step: str | int = index
        value_at = at
        if opening == "{":
            step, end = _scan_string(text, at + 1)
            value_at = _COLON.match(text, end).end()  # type: ignore[union-attr]  # as above
        yield step, (at, value_at)
        comma = _COMMA.match(text, _end_of_value(text, value_at))
        if comma is None:
            return
        at = comma.end()


def _end_of_value(text: str, at: int) -> int:
    """Find the end of the value at an offset without decoding it: it may be most of a large document."""
    start = text[at]
    if start == '"':
        return _WHOLE_STRING.match(text, at).end()  # type: ignore[union-attr]  # as above
    if start not in "[{":
        return _SCALAR.match(text, at).end()  # type: ignore[union-attr]  # the pattern matches the empty string
    depth = 0
    for match in _STRING_OR_BRACKET.finditer(text, at):
        token = text[match.start()]
        if token in "[{":
            depth += 1
        elif token != '"':
            depth -= 1
            if not depth:
                return match.end()
    raise AssertionError("a container without its end in a text that was read")
