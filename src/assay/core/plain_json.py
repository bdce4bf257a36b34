"""Short JSON without a flaw, read by the scanner of the standard library; what is in doubt is left to the strict door.

Only a few places of a document are ever asked for, so they are looked up in the text instead of being kept for every value.
"""

import re
from collections.abc import Iterator
from itertools import count
from json import JSONDecoder, decoder
from math import isfinite
from typing import Any

from assay.core.document import Document
from assay.core.issue import Path

MAX_LENGTH = 1 << 16
"""Looking up a place reads the text once more for each container around it, which is too much of a long one."""
MAX_BRACKETS = 200
"""No text nests deeper than it has brackets, so this is less than any reader's depth."""
MAX_NUMBER_LENGTH = 1000

_scan_string = decoder.scanstring  # type: ignore[attr-defined]  # in the standard library, not in its stubs
_SPACE = re.compile(r"[ \t\n\r]*")
_COLON = re.compile(r"[ \t\n\r]*:[ \t\n\r]*")
_COMMA = re.compile(r"[ \t\n\r]*,[ \t\n\r]*")
_SURROGATE = re.compile("[\ud800-\udfff]")
_MAY_BE_LONE = re.compile(r"\\u[dD](?:[89abAB](?!..\\u[dD][c-fC-F])|[c-fC-F](?<![^\\]\\u[dD][89abAB]..\\u[dD][c-fC-F]))", re.DOTALL)
"""An escaped half of a pair whose other half is not beside it, or may be no escape."""


class _Doubt(Exception):
    """The value may have a flaw."""


class PlainDocument(Document):
    """A document without flaws that finds its places when it is asked for them."""

    def __init__(self, value: Any, text: str) -> None:
        super().__init__(value, text, {}, ())
        self._containers: dict[int, _Members] = {}

    def offset(self, path: Path, *, on_key: bool = False) -> int:
        """Offset of the value at `path`, or of the nearest enclosing value that exists."""
        found = _skip(self.text, 0)
        for position, step in enumerate(path, 1):
            if found not in self._containers:
                self._containers[found] = _Members(self.text, found)
            offsets = self._containers[found].offsets(step)
            if offsets is None:
                return found
            found = offsets[0] if on_key and position == len(path) else offsets[1]
        return found


class _Members:
    """The members of the value at an offset, read as far as they were asked for."""

    def __init__(self, text: str, at: int) -> None:
        self._found: dict[str | int, tuple[int, int]] = {}
        self._rest = _members_at(text, at)

    def offsets(self, step: str | int) -> tuple[int, int] | None:
        """Where the name and the value of a member begin; in arrays both are one."""
        if step not in self._found:
            for member, offsets in self._rest:
                self._found[member] = offsets
                if member == step:
                    break
        return self._found.get(step)


def plain_document(text: str) -> PlainDocument | None:
    """The document in `text` if it surely has no flaw."""
    if len(text) > MAX_LENGTH or text.count("[") + text.count("{") > MAX_BRACKETS or _may_have_lone_surrogate(text):
        return None
    try:
        value, end = _scan(text, _skip(text, 0))
    except (_Doubt, ValueError, RecursionError):
        return None
    return PlainDocument(value, text) if _skip(text, end) == len(text) else None


def _may_have_lone_surrogate(text: str) -> bool:
    return bool(("\\u" in text and _MAY_BE_LONE.search(text)) or (not text.isascii() and _SURROGATE.search(text)))


def _skip(text: str, at: int) -> int:
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]  # the pattern matches the empty string


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise _Doubt
    return members


def _finite(literal: str) -> float:
    value = float(literal)
    if not isfinite(value):
        raise _Doubt
    return value


def _short_integer(literal: str) -> int:
    if len(literal) > MAX_NUMBER_LENGTH:
        raise _Doubt
    return int(literal)


def _constant(_word: str) -> None:
    """NaN and its like, which are not JSON."""
    raise _Doubt


_scan = JSONDecoder(object_pairs_hook=_unique, parse_float=_finite, parse_int=_short_integer, parse_constant=_constant).raw_decode
_scan_again = JSONDecoder(parse_float=len, parse_int=len).raw_decode
"""For what was read before and is only to be passed; no number is made again."""


def _members_at(text: str, at: int) -> Iterator[tuple[str | int, tuple[int, int]]]:
    """Each name or index with the offsets of the name and of the value."""
    opening = text[at]
    at = _skip(text, at + 1)
    if opening not in "{[" or text[at] in "}]":
        return
    for index in count():
        step: str | int = index
        value_at = at
        if opening == "{":
            step, end = _scan_string(text, at + 1)
            value_at = _COLON.match(text, end).end()  # type: ignore[union-attr]  # the text was read before
        yield step, (at, value_at)
        _, end = _scan_again(text, value_at)
        comma = _COMMA.match(text, end)
        if comma is None:
            return
        at = comma.end()
