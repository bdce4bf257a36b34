"""Short JSON without a flaw, read by msgspec; what is in doubt is left to the strict door.

Only a few places of a document are ever asked for, so they are looked up in the text instead of being kept for every value.
"""

import re
from collections.abc import Iterator
from itertools import count
from json import JSONDecoder, decoder
from typing import Any

import msgspec

from assay.core.document import Document
from assay.core.issue import Path

MAX_LENGTH = 1 << 16
"""Looking up a place reads the text once more for each container around it, which is too much of a long one."""
MAX_BRACKETS = 200
"""No text nests deeper than it has brackets, so this is less than any reader's depth."""

_scan_string = decoder.scanstring  # type: ignore[attr-defined]  # in the standard library, not in its stubs
_SPACE = re.compile(r"[ \t\n\r]*")
_COLON = re.compile(r"[ \t\n\r]*:[ \t\n\r]*")
_COMMA = re.compile(r"[ \t\n\r]*,[ \t\n\r]*")
_ESCAPED_QUOTE = "\\u0022"
_read = msgspec.json.Decoder().decode
_write = msgspec.json.Encoder().encode


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
    if len(text) > MAX_LENGTH or text.count("[") + text.count("{") > MAX_BRACKETS or _ESCAPED_QUOTE in text:
        return None
    try:
        value = _read(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
    # Of a name that appears twice in an object one member is lost, and its quotation marks with it.
    return PlainDocument(value, text) if _write(value).count(b'"') == text.count('"') else None


def _skip(text: str, at: int) -> int:
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]  # the pattern matches the empty string


_scan_again = JSONDecoder(parse_float=len, parse_int=len).scan_once  # type: ignore[attr-defined]  # as above
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
