"""Byte scans over many records at once: they may flag a clean record, and never miss a bad one; among them Unicode NFC."""

import re
import sys
import unicodedata
from collections.abc import Sequence
from functools import cache, cached_property
from itertools import accumulate, chain, islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from assay.core.strict_json import MAX_VALUE_BYTES, NUMBER_BYTES, OBJECT_BYTES, STRING_BYTES, Location
from assay.datasets.parsing.source import BOM, Buffer

_Bytes = npt.NDArray[np.uint8]
_Words = npt.NDArray[np.uint64]
_QUOTE, _COMMA, _BACKSLASH, _BRACKET, _C1_LEAD, _ABOVE_LATIN, _ASTRAL = 0x22, 0x2C, 0x5C, 0x5B, 0xC2, 0xCC, 0xF0
_LINE_FEED = 0x0A
_ZERO = ord("0")
_WORD, _WORD_BITS = np.dtype("<u8"), 64
_0022 = int.from_bytes(b"0022", "little")
_BLOCK = 1 << 22
_SMALL_BLOCK = 1 << 18
"""Fits the processor's cache together with what is found in it."""
# Most texts are short enough to be sure of by their length alone.
_MAX_GROWTH = 100
"""No JSON takes more memory than this many times its length: an opening bracket takes most."""
_FIRST_LEAD = -64
"""As signed bytes, the continuation bytes of UTF-8 are those below its lead bytes."""


def _table(characters: bytes) -> npt.NDArray[np.bool_]:
    table = np.zeros(256, bool)
    table[list(characters)] = True
    return table


_CONTROL_ESCAPES = _table(b"bfu")
"""Bytes after the backslash of a forbidden control character in orjson's output; \\n \\r \\t are allowed."""
_HIGH_THEN_LOW = re.compile(rb"\\u[dD][89abAB]..\\u[dD][c-fC-F]", re.DOTALL)
_MAY_BE_LONE = re.compile(
    rb"\\u[dD](?:[89abAB]..(?!\\u[dD][c-fC-F])|[c-fC-F](?<![^\\]\\u[dD][89abAB]..\\u[dD][c-fC-F])..)", re.DOTALL
)
"""An escaped half of a pair whose other half is not next to it, or may not be an escape."""


class JoinedBytes:
    """Byte strings that are scanned together, because scanning many costs little more than one of a line."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        # One copy of a batch, which is small: numpy then works on it without a call for each record.
        self.joined = b"".join(pieces)
        self.text: _Bytes = np.frombuffer(self.joined, np.uint8)
        self._pieces = pieces

    @cached_property
    def _bounds(self) -> npt.NDArray[np.int64]:
        sizes = accumulate([len(memoryview(piece)) for piece in self._pieces], initial=0)
        return np.fromiter(sizes, np.int64, len(self._pieces) + 1)

    def holding(self, hits: npt.NDArray[np.intp]) -> set[int]:
        """Return the pieces that contain some offsets."""
        return set((np.searchsorted(self._bounds, hits, side="right") - 1).tolist()) if hits.size else set()

    def quotes(self) -> npt.NDArray[np.intp]:
        """Count the quotation marks in each piece."""
        return np.diff(np.searchsorted(np.flatnonzero(self.text == _QUOTE), self._bounds))

    def few_quotes(self) -> _Bytes:
        """Count the quotation marks in each piece, modulo 256."""
        return np.add.reduceat(self.text == _QUOTE, self._bounds[:-1], dtype=np.uint8)

    def highest(self) -> _Bytes:
        """Return the largest byte of each piece."""
        return np.maximum.reduceat(self.text, self._bounds[:-1])

    def with_odd_escapes(self) -> set[int]:
        """Find the pieces that may hold an escaped NUL or an escaped quotation mark (`\\u0022`)."""
        text = self.text
        at = np.flatnonzero(text[:-5] == _BACKSLASH)
        at = at[text[at + 1] == ord("u")]
        at = at[(text[at + 2] == ord("0")) & (text[at + 3] == ord("0"))]
        digit = text[at + 4]
        return self.holding(at[(digit == text[at + 5]) & ((digit == ord("0")) | (digit == ord("2")))])


def _has_digits(text: _Bytes, four: int) -> bool:
    """Return whether four bytes follow each other somewhere; comparing each alignment is faster than a search."""
    ends = (text.size - (text.size - start) % 4 for start in range(4))
    return any((text[start:end].view("<u4") == four).any() for start, end in enumerate(ends))


def lossy_positions(source: JoinedBytes, written: JoinedBytes, *, nul: bool = True) -> set[int]:
    """Find the pieces whose rewriting may have lost something: a duplicate name is written once, an unknown one never.

    Without `nul` an escaped NUL is left to the check of the written values.
    """
    odd = source.with_odd_escapes() if nul or _has_digits(source.text, _0022) else set()
    if odd:
        return odd | set(np.flatnonzero(source.quotes() != written.quotes()).tolist())
    # Quotation marks can only get lost, so equal sums mean that no piece lost any.
    # Two sums for a whole batch; where they agree, which is nearly always, no record is looked at by itself.
    lost = int(np.count_nonzero(source.text == _QUOTE)) - int(np.count_nonzero(written.text == _QUOTE))
    return _with_lost_quotes(source, written, lost=lost) if lost else set()


def _with_lost_quotes(source: JoinedBytes, written: JoinedBytes, *, lost: int) -> set[int]:
    """Find the pieces that lost quotation marks, `lost` in all; sums of bytes are fast, and right unless a piece lost 256."""
    # Modulo 256, in bytes, which is much faster than exact counts; the sum shows whether that was enough.
    of_each = source.few_quotes() - written.few_quotes()
    if of_each.sum() != lost:
        return set(np.flatnonzero(source.quotes() != written.quotes()).tolist())
    return set(np.flatnonzero(of_each).tolist())


class TextScan(NamedTuple):
    """Result of scanning a text of JSON values."""

    strings: int
    """Number of strings, names of members included."""
    may_hold_nul: bool
    """False when no string holds an escaped NUL."""


class LineScanner:
    """Scanner of JSON texts with one bit per byte, which reuses its memory: fresh memory would cost more."""

    def __init__(self, size: int) -> None:
        # Fresh arrays for each block took 7.0 ms instead of 3.2 for 10 MB.
        self._mask = np.empty(0, bool)
        self._grow(size)

    def scan(self, text: Buffer | memoryview) -> TextScan:
        """Count the strings of a text, and search it for NUL."""
        codes = np.frombuffer(text, np.uint8)
        self._grow(codes.size)
        backslashes = self._bits(codes, _BACKSLASH)
        return TextScan(self._strings(text, codes, backslashes), self._may_hold_nul(text, codes, backslashes))

    def strings(self, text: bytes) -> int:
        """Count the strings in a text that is mostly short."""
        if b"\\" not in text:
            return text.count(b'"') // 2
        codes = np.frombuffer(text, np.uint8)
        self._grow(codes.size)
        return self._strings(text, codes, self._bits(codes, _BACKSLASH))

    def _strings(self, text: Buffer | memoryview, codes: _Bytes, backslashes: _Words) -> int:
        # A bit at each byte before a quotation mark, so that "after a backslash" is an AND of two words.
        after = self._bits(codes, _QUOTE, ahead=1)
        escaped = after & backslashes
        found = int(np.bitwise_count(after ^ escaped).sum()) + int(text[:1] == b'"')
        # Few backslashes before a quotation mark have another one before them; only these are worth a loop.
        doubtful = escaped & _later(backslashes, 1)
        if doubtful.any():
            found += sum(not _is_escape(text, offset) for offset in _offsets(doubtful))
        return found // 2

    def _may_hold_nul(self, text: Buffer | memoryview, codes: _Bytes, backslashes: _Words) -> bool:
        """Return whether a NUL may be in a text: of all escapes with three zeros two bytes after the backslash, it has a fourth."""
        zeros = self._bits(codes, _ZERO, ahead=4)
        # Four zeros in a row are rare, and only where they are is the text searched.
        pairs = zeros & _later(zeros, 1)
        is_near = (pairs & _later(pairs, 1) & backslashes).any()
        return bool(is_near) and b"\\u0000" in bytes(text)

    def _bits(self, codes: _Bytes, code: int, *, ahead: int = 0) -> _Words:
        """Return a bit per byte, the first in the lowest bit: whether the byte `ahead` places further is the code."""
        codes, size = codes[ahead:], codes.size
        mask = self._mask[: -(-size // _WORD_BITS) * _WORD_BITS]
        np.equal(codes, code, out=mask[: codes.size])
        mask[codes.size :] = False
        return np.packbits(mask, bitorder="little").view(_WORD)

    def _grow(self, size: int) -> None:
        if size > len(self._mask) - _WORD_BITS:
            self._mask = np.empty(size + _WORD_BITS, bool)


def _later(bits: _Words, places: int) -> _Words:
    """Shift bits, so that each stands for the byte so many places later."""
    moved = np.left_shift(bits, places)
    # Bits that leave one word enter the next.
    moved[1:] |= np.right_shift(bits[:-1], _WORD_BITS - places)
    return moved


def _offsets(bits: _Words) -> list[int]:
    found: list[int] = np.flatnonzero(np.unpackbits(bits.view(np.uint8), bitorder="little")).tolist()
    return found


def may_outgrow(text: bytes) -> bool:
    """Return whether the values of a JSON text may take more memory than the strict parser allows."""
    if len(text) * _MAX_GROWTH <= MAX_VALUE_BYTES:
        return False
    numbers = strings = containers = 0
    for at in range(0, len(text), _SMALL_BLOCK):
        codes = np.frombuffer(text, np.uint8, min(_SMALL_BLOCK, len(text) - at), at)
        numbers += int(np.count_nonzero(codes == _COMMA))
        strings += int(np.count_nonzero(codes == _QUOTE))
        containers += int(np.count_nonzero((codes & 0xDF) == _BRACKET))
    # An upper bound: commas and brackets inside strings count too, so that no text is underestimated.
    values = NUMBER_BYTES * numbers + STRING_BYTES * (strings // 2) + OBJECT_BYTES * containers
    return values > MAX_VALUE_BYTES + len(text)


class ScanResult(NamedTuple):
    """Positions of the records that need an exact check; nothing is wrong with the others."""

    suspect: set[int]
    """May hold control characters or text that is not NFC."""
    astral: list[int]
    """Hold characters above U+FFFF."""


def scan_texts(canonical: Sequence[bytes], pieces: JoinedBytes) -> ScanResult:
    """Scan the texts of many records at once."""
    suspect = pieces.holding(_control_escapes(pieces.text))
    if b"\x7f" in pieces.joined:
        suspect |= pieces.holding(np.flatnonzero(pieces.text == 0x7F))
    # The largest byte of a record tells what it can hold: ASCII only, nothing that NFC changes, or no character above U+FFFF.
    highest = pieces.highest()
    if (highest >= 0x80).any():
        suspect |= pieces.holding(_c1_controls(pieces.text))
    suspect |= _unnormalized(canonical, np.flatnonzero(highest >= _ABOVE_LATIN).tolist())
    return ScanResult(suspect, np.flatnonzero(highest >= _ASTRAL).tolist())


def _control_escapes(text: _Bytes) -> npt.NDArray[np.intp]:
    """Find escapes of control characters, where the backslash is not itself escaped."""
    backslashes = np.flatnonzero(text == _BACKSLASH)
    candidates = backslashes[_CONTROL_ESCAPES[text[backslashes + 1]]]
    # `\\beta` is an escaped backslash before a letter; longer runs of backslashes go to the exact reader.
    escaped: npt.NDArray[np.bool_] = (text[candidates - 1] == _BACKSLASH) & (text[candidates - 2] != _BACKSLASH)
    return candidates[~escaped]


def _c1_controls(text: _Bytes) -> npt.NDArray[np.intp]:
    leads: npt.NDArray[np.intp] = np.flatnonzero(text == _C1_LEAD)
    # U+0080 to U+009F; from U+00A0 on the same lead byte begins ordinary letters.
    return leads[text[leads + 1] < 0xA0]


def _unnormalized(canonical: Sequence[bytes], positions: list[int]) -> set[int]:
    """Find the records that are not in NFC or hold a combining run, among those with characters from U+0300 on."""
    if not positions:
        return set()
    doubtful = doubtful_offsets(beyond_ascii(b"".join([canonical[position] for position in positions])))
    if not doubtful.size:
        return set()
    sizes = [len(beyond_ascii(canonical[position])) for position in positions]
    holders = set(np.searchsorted(np.cumsum(sizes), doubtful, side="right").tolist())
    return {positions[at] for at in holders if not _is_normal(canonical[positions[at]].decode())}


def _is_normal(text: str) -> bool:
    # Nothing with a long run may be normalised, which is_normalized does in doubt.
    return not has_combining_run(text) and unicodedata.is_normalized("NFC", text)


def commas_in(view: memoryview) -> int:
    """Count the commas in the bytes."""
    blocks = range(0, len(view), _SMALL_BLOCK)
    return sum(int(np.count_nonzero(np.frombuffer(view[at : at + _SMALL_BLOCK], np.uint8) == _COMMA)) for at in blocks)


def address_of(buffer: Buffer) -> int:
    """Return the memory address of a buffer; the difference of two locates one within the other."""
    return int(np.frombuffer(buffer, np.uint8).__array_interface__["data"][0])


def lone_surrogates(buffer: Buffer, *, most: int) -> list[int]:
    """Find the offsets of `\\uD8xx` escapes that are not half of a pair, at most about `most` of them."""
    lone = (match.start() for match in _MAY_BE_LONE.finditer(buffer) if _is_lone(buffer, match.start()))
    return list(islice(lone, most + 1))


def _is_lone(buffer: Buffer, offset: int) -> bool:
    """Return whether an escape that may be lone, since no low half follows it, is lone."""
    if not _is_escape(buffer, offset):
        return False
    return offset < 6 or not (_HIGH_THEN_LOW.match(buffer, offset - 6) and _is_escape(buffer, offset - 6))


def _is_escape(buffer: Buffer | memoryview, offset: int) -> bool:
    """Return whether the backslash at `offset` is not itself escaped."""
    before = 0
    # An odd number of backslashes before it escapes it.
    while before < offset and buffer[offset - 1 - before] == _BACKSLASH:
        before += 1
    return before % 2 == 0


class LocationCursor:
    """Converter of rising byte offsets to lines and columns, which reads every byte once."""

    def __init__(self, buffer: Buffer) -> None:
        self._view = memoryview(buffer)
        self._offset = len(BOM) if buffer[: len(BOM)] == BOM else 0
        self._place = Location(1, 1)
        self._mask = np.empty(_SMALL_BLOCK, bool)

    def place(self, offset: int) -> Location:
        """Return the location of `offset`, which must not be smaller than the offset before."""
        # In blocks, and never backwards: locating each issue from the start would take quadratic time.
        while self._offset < offset:
            end = min(offset, self._offset + _SMALL_BLOCK)
            self._advance(bytes(self._view[self._offset : end]))
            self._offset = end
        return self._place

    def _advance(self, block: bytes) -> None:
        line, column = self._place
        codes = np.frombuffer(block, np.int8)
        if b"\n" in block:
            line += int(np.count_nonzero(np.equal(codes, _LINE_FEED, out=self._mask[: codes.size])))
            column = 1
            codes = codes[block.rindex(b"\n") + 1 :]
        # Columns count characters, of which each has one byte that is not a continuation.
        is_lead = np.greater_equal(codes, _FIRST_LEAD, out=self._mask[: codes.size])
        self._place = Location(line, column + int(np.count_nonzero(is_lead)))


MAX_COMBINING_RUN = 30
"""Longer runs of combining marks make normalisation quadratic, and are not text."""

_ASCII = bytes(range(0x80))
_COMPOSES = 255
"""Marks characters that NFC may change or join to the one before; no combining class is as high."""
_ALPHABETS = (range(0x300, 0x3100), range(0xA000, 0xAC00), range(0xF900, 0x1F000))
"""Ranges of combining marks and characters with a decomposition, apart from syllables that NFC leaves alone."""
_COMPATIBLE_IDEOGRAPHS = slice(0x2F800, 0x2FA20)
_JAMO = slice(0x1161, 0x11C3)
"""Vowels and final consonants, which NFC joins to the syllable before by rule."""


def doubtful_offsets(text: str) -> npt.NDArray[np.intp]:
    """Find offsets where a text may not be in NFC or may hold a long run of combining marks; it may lack its ASCII characters."""
    classes = np.take(_classes(), _points(text))
    marks: npt.NDArray[np.intp] = np.flatnonzero(classes)
    if not marks.size or _has_run(marks):
        return marks
    found = classes[marks]
    # Marks that follow each other must be in the order of their classes; an ASCII character between them only seems to be none.
    is_unordered = (found[1:] < found[:-1]) & (np.diff(marks) == 1)
    is_doubtful: npt.NDArray[np.bool_] = found == _COMPOSES
    is_doubtful[1:] |= is_unordered
    return marks[is_doubtful]


def beyond_ascii(text: bytes) -> str:
    """Remove ASCII from a UTF-8 text: the rest has the same doubtful characters or more, and is several times shorter."""
    return text.translate(None, _ASCII).decode()


def has_combining_run(text: str) -> bool:
    """Return whether more than 30 combining marks follow each other."""
    return len(text) > MAX_COMBINING_RUN and _has_run(np.flatnonzero(np.take(_combining(), _points(text))))


def _points(text: str) -> npt.NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


def _has_run(marks: npt.NDArray[np.intp]) -> bool:
    if marks.size <= MAX_COMBINING_RUN:
        return False
    return bool((marks[MAX_COMBINING_RUN:] - marks[:-MAX_COMBINING_RUN] == MAX_COMBINING_RUN).any())


@cache
def _combining() -> npt.NDArray[np.uint8]:
    """Return the combining class of every character."""
    table = np.zeros(sys.maxunicode + 1, np.uint8)
    for points in _ALPHABETS:
        table[points.start : points.stop] = [unicodedata.combining(character) for character in map(chr, points)]
    return table


@cache
def _classes() -> npt.NDArray[np.uint8]:
    """Return the combining class of every character, or a mark that NFC may compose it."""
    # Taken from unicodedata itself, so that the table follows the Unicode version of the interpreter.
    composing: list[int] = []
    for point in chain(range(0xC0, 0x300), *_ALPHABETS):
        parts = unicodedata.decomposition(chr(point))
        if parts and parts[0] != "<":
            is_kept = unicodedata.is_normalized("NFC", chr(point))
            composing += [int(second, 16) for second in parts.split()[1:]] if is_kept else [point]
    table = _combining().copy()
    table[composing] = _COMPOSES
    table[_COMPATIBLE_IDEOGRAPHS] = table[_JAMO] = _COMPOSES
    return table
