"""Large texts at one byte per character, for checks: one emoji makes Python store every character of a text in four bytes.

A character beyond U+00FF becomes a question mark, or a space.
"""

import codecs
import re
from collections.abc import Iterable, Iterator, Mapping
from json import JSONDecodeError, decoder
from typing import NamedTuple

# The aim is twice the file's size in memory; at four bytes per character, with several copies alive, it was many times that.
LARGE_BYTES = 8 << 20
"""Smaller texts are decoded as they are: four bytes per character of them fit into any limit."""
LONG_TEXT = 1 << 16
"""Characters of a string in a large text that is kept as it is, as every name of a member is; no contract limits more of them."""
# A document of nothing but short strings would otherwise keep them all, and be back at the memory that stand-ins avoid.
_KEPT_BYTES = 48 << 20
"""Memory of the strings that are kept as they are."""
_BLOCK = 1 << 20
# A str object, its tuple and its entry in the dictionary.
_PER_STRING = 160
# Up to U+00FF, UTF-8 begins with 0xC2 or 0xC3.
_WIDE_LEAD = re.compile(rb"[\xc4-\xff]")
"""The first byte of a character beyond U+00FF."""
# Rules ask whether a text is blank, so a wide space must become another space and not a question mark.
_WIDE_SPACE = re.compile("[\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")
# Possessive: the engine would otherwise remember every escape of a 100 MB string, to backtrack to.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_IS_NAME = re.compile(rb"[ \t\r\n]*:")
_WIDE = re.compile("[^\x00-\xff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_PIECE = re.compile(
    # A high surrogate takes the next escape along: cut in two, a pair would look like two unpaired halves.
    r"(?:[^\"\\]{1,4096}+|\\u[dD][89abAB][0-9a-fA-F]{2}(?:\\u[0-9a-fA-F]{4})?+|\\u[0-9a-fA-F]{4}|\\.){1,1024}+",
    re.DOTALL,
)
"""A part of a string that ends neither in an escape nor between the halves of a pair."""
_scan_string = decoder.scanstring  # type: ignore[attr-defined]  # in the standard library, not in its stubs


class KeptString(NamedTuple):
    """A string with characters beyond U+00FF that was kept, and the length of its token."""

    value: str
    length: int


KeptStrings = Mapping[int, KeptString]
"""By the offset of the opening quotation mark."""


class NarrowText(NamedTuple):
    """A JSON text whose long strings have stand-ins, character for character, and its other strings."""

    text: str
    kept: KeptStrings


def is_wide(raw: memoryview) -> bool:
    """Return whether a UTF-8 text has a character beyond U+00FF."""
    return _WIDE_LEAD.search(raw) is not None


def narrow_text(raw: memoryview, *, errors: str = "strict") -> str:
    """Decode a UTF-8 text with stand-ins; raises UnicodeDecodeError unless `errors` says otherwise."""
    characters = codecs.getincrementaldecoder("utf-8")(errors)
    # Decoded block by block: only one block is ever held at four bytes per character.
    narrow = bytearray()
    for block in _blocks(raw):
        narrow += _narrowed(characters.decode(block))
    narrow += _narrowed(characters.decode(b"", True))
    return narrow.decode("latin-1")


def narrow_json(raw: memoryview) -> NarrowText:
    """Decode a JSON text like `narrow_text`, and keep its short strings and its names unchanged."""
    return NarrowText(narrow_text(raw), dict(_kept_strings(raw)))


def narrow_string(text: str, start: int, end: int) -> tuple[str, bool]:
    """Decode a long JSON string between its quotation marks; returns whether it has half a pair, too. Raises JSONDecodeError."""
    values = bytearray()
    has_surrogate = False
    at = start + 1
    while at < end - 1:
        # A string that ends in a lone backslash has no end, so there is a piece everywhere before the end.
        piece = _PIECE.match(text, at, end - 1)
        stop = piece.end() if piece else end - 1
        try:
            value, _ = _scan_string(f'"{text[at:stop]}"', 1, True)
        except JSONDecodeError as problem:
            raise JSONDecodeError(problem.msg, text, at + problem.pos - 1) from None
        has_surrogate = has_surrogate or (not value.isascii() and _SURROGATE.search(value) is not None)
        values += _narrowed(value)
        at = stop
    return values.decode("latin-1"), has_surrogate


def byte_offsets(blocks: Iterable[bytes], offsets: Iterable[int]) -> Iterator[int]:
    """Convert rising character offsets of a UTF-8 text to byte offsets; none may come after a byte that is not UTF-8."""
    characters = codecs.getincrementaldecoder("utf-8")("replace")
    wanted = iter(offsets)
    offset = next(wanted, None)
    seen = size = 0
    for block in blocks:
        # The rest may not be UTF-8, or may be 100 MB: it is not read for nothing.
        if offset is None:
            return
        text = characters.decode(block)
        at = 0
        while offset is not None and offset < seen + len(text):
            size += len(text[at : offset - seen].encode())
            at = offset - seen
            yield size
            offset = next(wanted, None)
        size += len(text[at:].encode())
        seen += len(text)
    while offset is not None:
        yield size
        offset = next(wanted, None)


def first_not_utf8(view: memoryview) -> int | None:
    """Find the first byte that is not UTF-8, block by block; None without one."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    for at in range(0, len(view), _BLOCK):
        # Bytes of a character that began in the block before; the decoder counts the position of its problem from them.
        pending = len(decoder.getstate()[0])
        try:
            decoder.decode(bytes(view[at : at + _BLOCK]), at + _BLOCK >= len(view))
        except UnicodeDecodeError as problem:
            return at - pending + problem.start
    return None


def _blocks(raw: memoryview) -> Iterator[bytes]:
    return (bytes(raw[at : at + _BLOCK]) for at in range(0, len(raw), _BLOCK))


def _narrowed(text: str) -> bytes:
    return (text if text.isascii() else _WIDE_SPACE.sub("\xa0", text)).encode("latin-1", "replace")


def _kept_strings(raw: memoryview) -> Iterator[tuple[int, KeptString]]:
    """Yield the names and short strings that stand-ins would change, with the number of characters before each."""
    characters = last = 0
    left = _KEPT_BYTES
    for match in _STRING.finditer(raw):
        start, end = match.span()
        if end - start > LONG_TEXT and not _IS_NAME.match(raw, end):
            continue
        token = bytes(raw[start:end])
        if token.isascii() or not _WIDE.search(text := token.decode()):
            continue
        try:
            value, _ = _scan_string(text, 1, True)
        except JSONDecodeError:
            # The parser comes to the same place.
            return
        # Counted at four bytes per character, the most that Python may need.
        left -= 4 * len(value) + _PER_STRING
        if left < 0:
            return
        characters += _length(raw[last:start])
        last = start
        yield characters, KeptString(value, len(text))


def _length(raw: memoryview) -> int:
    """Count the characters."""
    characters = codecs.getincrementaldecoder("utf-8")()
    return sum(len(characters.decode(block)) for block in _blocks(raw))
