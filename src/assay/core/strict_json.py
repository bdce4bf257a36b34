"""Strict JSON: text into a Document that reports every problem with its location, and locates values on demand."""

import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import count
from json import JSONDecodeError, decoder, loads
from mmap import mmap
from sys import getsizeof
from typing import Any, Literal, NamedTuple

import msgspec

from assay.core.issue import MAX_LISTED, Path
from assay.core.narrow_text import (
    LARGE_BYTES,
    LONG_TEXT,
    KeptStrings,
    NarrowText,
    first_not_utf8,
    is_wide,
    narrow_json,
    narrow_string,
    narrow_text,
)

EXCERPT_LENGTH = 120
"""Maximum length of an excerpt, so that a 100 MB line prints as one line of a terminal."""
EXCERPT_LEAD = 60
# Lookups count at most one stride; an entry per line would outweigh a file of short lines.
_STRIDE = 1 << 14
"""Characters between two offsets whose line numbers are stored."""


class Location(NamedTuple):
    """A position in a text: line and column count from 1, columns in characters."""

    line: int
    column: int


ProblemKind = Literal["", "duplicate_name", "surrogate", "too_deep", "too_many_values", "second_value", "unclosed_mapping"]
"""Kinds of problems that callers tell apart although the code is the same; empty for all others."""


class ParseProblem(msgspec.Struct, frozen=True):
    """A problem of the text itself, regardless of the contract."""

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


class ParsedDocument:
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
        # By id of the container: parsed values are plain dicts and lists, which have no place for offsets of their own.
        self._marks = marks

    @property
    def is_readable(self) -> bool:
        """Return whether the whole text was parsed."""
        return not any(flaw.fatal for flaw in self.flaws)

    def locate(self, paths: Iterable[Path]) -> None:
        """Prepare `offset` for all these paths, for parsers that find many of them in one pass."""

    def offset(self, path: Path, *, on_key: bool = False) -> int:
        """Return the offset of the value at `path`, or of the nearest enclosing value that exists."""
        container = self.value
        # Without a path, an issue points at the first character of the value and not at blank lines before it.
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
        # Machine integers, which take a fifth of the memory of Python's.
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


class SourceExcerpt(NamedTuple):
    """A part of one source line, and the position in it that an issue points at."""

    text: str
    caret: int


def excerpt(text: str, offset: int) -> SourceExcerpt:
    """Cut the line around `offset` to a readable length, with invisible characters replaced."""
    offset = min(offset, len(text))
    start = text.rfind("\n", max(0, offset - EXCERPT_LEAD), offset) + 1 or max(0, offset - EXCERPT_LEAD)
    end = text.find("\n", offset, start + EXCERPT_LENGTH)
    piece = text[start : end if end >= 0 else start + EXCERPT_LENGTH].rstrip("\r")
    # One for one, so that the caret still points at the right column; a control character could also reach a terminal.
    if not piece.isprintable():
        piece = "".join(character if character.isprintable() else "·" for character in piece)
    return SourceExcerpt(piece, min(offset - start, len(piece)))


# The scanner of the json module is written in C and returns the end of the string, which msgspec and orjson do not.
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
"""Steps of many paths as a tree."""


class JsonDocument(ParsedDocument):
    """A value that was parsed from a JSON text, or from the lines of one."""

    def __init__(
        self,
        value: Any,
        text: str,
        flaws: tuple[ParseProblem, ...] = (),
        *,
        more_flaws: Mapping[str, int] | None = None,
        starts: Sequence[int] | None = None,
        kept: KeptStrings | None = None,
    ) -> None:
        """Wrap a parsed value.

        `starts` has the offset of each element, for a value that is a list of lines; `kept` has the names that `text` lacks.
        """
        super().__init__(value, text, {}, flaws, more_flaws=more_flaws)
        self._starts = starts
        self._kept = kept or {}
        # Offsets are searched in the text when an issue needs them. Stored for all values, they took more memory than the values.
        self._located: set[Path] = set()
        self._found: dict[Path, tuple[int, int]] = {}
        """Offsets of the name and of the value; in arrays both are the same."""

    def locate(self, paths: Iterable[Path]) -> None:
        """Find all these locations in one pass over the text."""
        new = [path for path in paths if path not in self._located]
        if not new:
            return
        self._located.update(new)
        # Paths share their beginnings: as a tree, each container is walked once for all of them.
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
        for step, offsets in _members_at(self.text, at, self._kept):
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


def _members_at(text: str, at: int, kept: KeptStrings) -> Iterator[tuple[str | int, tuple[int, int]]]:
    """Iterate over the names or indexes with the offsets of name and value; the text is known to be valid."""
    opening = text[at]
    at = _skip(text, at + 1)
    if text[at] in "}]":
        return
    for index in count():
        step: str | int = index
        value_at = at
        if opening == "{":
            if at in kept:
                step, end = kept[at].value, at + kept[at].length
            else:
                step, end = _scan_string(text, at + 1)
            value_at = _COLON.match(text, end).end()  # type: ignore[union-attr]  # as above
        # Names are compared as the parser reads them: the text may hold an escape where the path has a letter.
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


MAX_LENGTH = 1 << 16
"""Longer texts go to the strict parser, which bounds the memory of their values."""
MAX_BRACKETS = 200
"""A text nests no deeper than it has brackets, and every parser supports this depth."""

_ESCAPED_QUOTE = "\\u0022"
_read = msgspec.json.Decoder().decode
_write = msgspec.json.Encoder().encode


def plain_document(text: str) -> JsonDocument | None:
    """Parse `text` if it certainly has no problem; None otherwise."""
    # An escaped quotation mark is written in another form, so that marks could not be compared below.
    # msgspec is much faster than the parser below but keeps no duplicate names and no offsets: this finds out when that is safe.
    if len(text) > MAX_LENGTH or text.count("[") + text.count("{") > MAX_BRACKETS or _ESCAPED_QUOTE in text:
        return None
    try:
        value = _read(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
    # A duplicate name loses one member of the object, and its quotation marks with it.
    return JsonDocument(value, text) if _write(value).count(b'"') == text.count('"') else None


MAX_DEPTH = 254
"""Maximum nesting; deeper text is rejected, so that neither this parser nor orjson (254) runs out of stack."""
MAX_INTEGER_DIGITS = 4300
"""CPython's limit for conversion without quadratic time; floats are parsed in linear time."""
MAX_VALUE_BYTES = 64 << 20
"""Maximum memory of one document's values beyond the length of its text: a text of brackets takes forty times its length."""
MAX_LOCAL_BYTES = 1 << 30
"""Limit of the same for files that their owner converts, or hands in as responses: these may be large."""
NUMBER_BYTES, STRING_BYTES, ARRAY_BYTES, OBJECT_BYTES, MEMBER_BYTES = 40, 64, 64, 184, 40
"""Memory of a value in CPython besides its characters or members."""
_SEPARATOR = re.compile(r"[ \t\n\r]*([,}\]])[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_NUMBERS = re.compile(r"(?:-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,20})?,[ \t\n\r]*)+(?=[-0-9])")
"""Numbers that are certainly in range, each with the comma after it, before another number."""
_NUMBERS_LENGTH = 1 << 16
"""Maximum characters of numbers parsed at once, so that the memory limit is checked before they are all in memory."""
_BETWEEN_VALUES = ", \t\n\r"
_FILLED = re.compile(r"[^ \t\r\n]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_WORD = re.compile(r"[\w.+-]+")
_LITERALS = {"true": True, "false": False, "null": None}
_SHOWN_NAME = 60
_BOM = b"\xef\xbb\xbf"


def parse_json(
    data: bytes | bytearray | memoryview | mmap | str | NarrowText, *, is_whole: bool = True, max_bytes: int = MAX_VALUE_BYTES
) -> ParsedDocument:
    """Parse `data` into a document; never raises for bad text: a fatal problem has the reason and the location.

    Only a whole file may begin with a byte order mark; a line of it may not. `max_bytes` bounds the memory of the values.
    """
    if isinstance(data, NarrowText):
        return _JsonParser(data.text, max_bytes=max_bytes, kept=data.kept).read()
    text = decode_utf8(data, is_whole=is_whole)
    if isinstance(text, ParsedDocument):
        return text
    # No library reports all problems: json accepts NaN, orjson makes a float of 2**64, and all keep the last of two equal names.
    return plain_document(text) or read_exactly(text, max_bytes=max_bytes)


def read_exactly(text: str, *, max_bytes: int = MAX_VALUE_BYTES) -> ParsedDocument:
    """Parse `text` value by value; `parse_json` uses this for long texts and for those with a problem."""
    return _JsonParser(text, max_bytes=max_bytes).read()


def decode_utf8(data: bytes | bytearray | memoryview | mmap | str, *, is_whole: bool = True) -> str | ParsedDocument:
    """Decode `data` after its byte order mark; invalid UTF-8 gives an unreadable document that names the first bad byte."""
    if isinstance(data, str):
        return data
    # Not bytes(data): it would copy a large memory map.
    raw = memoryview(data)
    # batch_v1 accepts and ignores a byte order mark at the start of the file; anywhere else it is a character like any other.
    raw = raw[len(_BOM) :] if is_whole and raw[: len(_BOM)] == _BOM else raw
    try:
        return str(raw, "utf-8")
    except UnicodeDecodeError as problem:
        return _not_utf8(raw, problem.start)


def decode_for_checks(data: bytes | bytearray | memoryview | mmap, *, is_whole: bool = True) -> str | NarrowText | ParsedDocument:
    """Decode `data` to be checked only: long strings of a large text may have stand-ins.

    A stand-in is as long as the text that it replaces, so any text takes one byte per character.
    """
    raw = memoryview(data)
    raw = raw[len(_BOM) :] if is_whole and raw[: len(_BOM)] == _BOM else raw
    if len(raw) <= LARGE_BYTES:
        return decode_utf8(raw, is_whole=False)
    try:
        return narrow_json(raw) if is_wide(raw) else NarrowText(str(raw, "utf-8"), {})
    except UnicodeDecodeError:
        return _not_utf8(raw, first_not_utf8(raw) or 0)


def parse_json_lines(data: bytes | bytearray | memoryview | mmap | str | NarrowText) -> ParsedDocument:
    """Parse one value per line into an array; each line that is not JSON is reported and becomes null."""
    # Each line is a document of its own: one that is not JSON becomes an issue, and the lines after it are still read.
    if isinstance(data, NarrowText):
        return _read_lines(data.text, data.kept)
    text = decode_utf8(data)
    return text if isinstance(text, ParsedDocument) else _read_lines(text)


def _read_lines(text: str, kept: KeptStrings | None = None) -> ParsedDocument:
    values: list[object] = []
    starts = array("q")
    reader = _JsonParser(text, max_bytes=MAX_VALUE_BYTES, kept=kept)
    at = 0
    # Blank lines are skipped by one search: a file of a million of them once took quadratic time.
    while filled := _FILLED.search(text, at):
        at = filled.start()
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        starts.append(at)
        if not reader.take_line(text[at:end], at, values):
            return JsonDocument(None, text, tuple(reader.flaws), more_flaws=reader.more_flaws)
        at = end
    return JsonDocument(values, text, tuple(reader.flaws), more_flaws=reader.more_flaws, starts=starts, kept=kept)


def _not_utf8(raw: memoryview, start: int) -> ParsedDocument:
    """Build the document that names the first byte that is not UTF-8."""
    # The message needs a text to cut an excerpt from, even though the document as a whole cannot be read.
    is_large = len(raw) > LARGE_BYTES
    text = narrow_text(raw, errors="replace") if is_large else str(raw, "utf-8", "replace")
    before = raw[:start]
    offset = len(narrow_text(before)) if is_large else len(str(before, "utf-8"))
    flaw = ParseProblem(
        "invalid_encoding",
        f"byte 0x{raw[start]:02x} at offset {start} is not UTF-8",
        (),
        offset,
        hint=_encoding_hint(bytes(raw[:2])),
        fatal=True,
    )
    return JsonDocument(None, text, (flaw,))


def _encoding_hint(start: bytes) -> str:
    if start in (b"\xff\xfe", b"\xfe\xff"):
        return "the file looks like UTF-16; save it as UTF-8"
    return "save the file as UTF-8 (iconv -f latin1 -t utf-8 if it came from an older tool)"


class _FatalJsonProblem(Exception):
    """Stops the parser; carries the fatal problem."""

    def __init__(self, message: str, offset: int, hint: str = "", *, kind: ProblemKind = "") -> None:
        super().__init__(message)
        self.flaw = ParseProblem("invalid_json", message, (), offset, hint=hint, fatal=True, kind=kind)


# Told apart by type, because it ends a file of lines, where any other problem ends only its line.
class _TooLarge(_FatalJsonProblem):
    """Stops the parser: the values would take more memory than one document may."""


class _JsonParser:
    """One pass over one text, or over its lines in turn; recursion is bounded by MAX_DEPTH."""

    def __init__(self, text: str, *, max_bytes: int, kept: KeptStrings | None = None) -> None:
        """`kept`: the strings of a large text that is read for checks, in which long ones become narrow."""
        self.text = text
        self._kept = kept
        self.flaws: list[ParseProblem] = []
        self.more_flaws: Counter[str] = Counter()
        self._max_bytes = max_bytes
        self._memory_left = max_bytes + len(text)
        self._start = 0
        """Offset of the line in the whole text."""
        self._is_line = False
        # 50,000 records have the same few names; without this, each record would hold its own copies.
        self._names: dict[str, str] = {}
        """Interned names of members, so that each is stored once."""

    def read(self) -> ParsedDocument:
        try:
            value, end = self._value(self._skip(0), (), 0)
            end = self._skip(end)
            if end < len(self.text):
                hint = "a JSON file holds one value; use JSONL for several"
                raise _FatalJsonProblem("a second value follows the end of the document", end, hint, kind="second_value")
        except _FatalJsonProblem as stop:
            return JsonDocument(None, self.text, (*self.flaws, stop.flaw), more_flaws=self.more_flaws)
        return JsonDocument(value, self.text, tuple(self.flaws), more_flaws=self.more_flaws, kept=self._kept)

    def take_line(self, line: str, start: int, values: list[object]) -> bool:
        """Add the value of a line that begins at `start`; returns False when parsing must stop."""
        self.text, self._start, self._is_line = line, start, True
        at = len(values)
        try:
            value, end = self._value(0, (at,), 1)
            end = self._skip(end)
            if end < len(line):
                raise _FatalJsonProblem("a second value follows on the same line", end, "write one value per line")
        # The memory limit is that of the whole file, so the lines after this one are not parsed either.
        except _TooLarge as stop:
            self.flaws.append(msgspec.structs.replace(stop.flaw, offset=start + stop.flaw.offset))
            return False
        except _FatalJsonProblem as stop:
            self._note(msgspec.structs.replace(stop.flaw, path=(at,), offset=start + stop.flaw.offset, fatal=False))
            value = None
        values.append(value)
        return True

    def _note(self, flaw: ParseProblem) -> None:
        if len(self.flaws) < MAX_LISTED:
            self.flaws.append(flaw)
        else:
            self.more_flaws[flaw.code] += 1

    def _take(self, size: int, at: int) -> None:
        """Count the memory of a value before it is made."""
        # Before the value is made: `[[[[...` of 20 MB would otherwise take 800 MB before any limit could be checked.
        self._memory_left -= size
        if self._memory_left < 0:
            message = f"the values take more memory than {self._max_bytes >> 20} MiB beyond the size of the text"
            raise _TooLarge(message, at, "split it into several files", kind="too_many_values")

    def _skip(self, at: int) -> int:
        return _SPACE.match(self.text, at).end()  # type: ignore[union-attr]  # the pattern matches the empty string

    def _value(self, at: int, path: Path, depth: int) -> tuple[object, int]:
        start = self.text[at : at + 1]
        if start == '"':
            return self._string(at, path)
        # The limit is that of orjson, so that the fast path and this parser reject the same documents.
        if start in ("{", "["):
            if depth >= MAX_DEPTH:
                raise _FatalJsonProblem(f"nested deeper than {MAX_DEPTH} levels", at, "flatten the value", kind="too_deep")
            self._take(OBJECT_BYTES if start == "{" else ARRAY_BYTES, at)
            return self._object(at + 1, path, depth + 1) if start == "{" else self._array(at + 1, path, depth + 1)
        self._take(NUMBER_BYTES, at)
        return self._scalar(at, path)

    def _string(self, at: int, path: Path) -> tuple[str, int]:
        has_surrogate = False
        try:
            # Strict: control characters in a string must be escaped (RFC 8259, section 7).
            if self._kept is None:
                value, end = _scan_string(self.text, at + 1, True)
            else:
                value, end, has_surrogate = self._string_to_check(at, self._kept)
        except JSONDecodeError as problem:
            message, hint = _string_problem(self.text, problem)
            raise _FatalJsonProblem(message, problem.pos, hint) from None
        # In a text with stand-ins only kept strings are wide, and these count with what they really take.
        self._take(STRING_BYTES + (len(value) if self._kept is None or value.isascii() else getsizeof(value)), at)
        # isascii is a flag of the object, so that most strings are not searched.
        if has_surrogate or (not value.isascii() and _SURROGATE.search(value)):
            self._note(
                ParseProblem(
                    "invalid_encoding",
                    "holds an unpaired surrogate",
                    path,
                    self._start + at,
                    hint="the escape is half of a pair: write the whole character or remove it",
                    kind="surrogate",
                )
            )
        return value, end

    def _string_to_check(self, at: int, kept: KeptStrings) -> tuple[str, int, bool]:
        """Read a string in a large text; returns its value, its end, and whether it had half a surrogate pair."""
        known = kept.get(self._start + at)
        if known is not None:
            return known.value, at + known.length, False
        whole = _WHOLE_STRING.match(self.text, at)
        is_long = whole is not None and whole.end() - at > LONG_TEXT
        if whole and is_long and self.text.find("\\", at, whole.end()) >= 0 and not _COLON.match(self.text, whole.end()):
            value, has_surrogate = narrow_string(self.text, at, whole.end())
            return value, whole.end(), has_surrogate
        value, end = _scan_string(self.text, at + 1, True)
        return value, end, False

    def _object(self, at: int, path: Path, depth: int) -> tuple[dict[str, object], int]:
        value: dict[str, object] = {}
        names = self._names
        at = self._skip(at)
        if self.text[at : at + 1] == "}":
            return value, at + 1
        while True:
            if self.text[at : at + 1] != '"':
                raise self._expected("a property name in double quotes", at)
            key, end = self._string(at, path)
            # The value of a second member is read like any other, so that problems inside it are reported too.
            key = names.setdefault(key, key)
            colon = _COLON.match(self.text, end)
            if colon is None:
                raise self._expected("':' after the property name", self._skip(end))
            member, end = self._value(colon.end(), (*path, key), depth)
            # The first one counts here. Parsers disagree about that, so a duplicate is an error regardless of the contract.
            if key in value:
                self._note(_duplicate_key(key, path, self._start + at))
            else:
                self._take(MEMBER_BYTES, at)
                value[key] = member
            at, is_end = self._next(end, "}")
            if is_end:
                return value, at

    def _array(self, at: int, path: Path, depth: int) -> tuple[list[object], int]:
        value: list[object] = []
        at = self._skip(at)
        if self.text[at : at + 1] == "]":
            return value, at + 1
        while True:
            at = self._numbers(at, value)
            member, end = self._value(at, (*path, len(value)), depth)
            value.append(member)
            at, is_end = self._next(end, "]")
            if is_end:
                return value, at

    def _numbers(self, at: int, value: list[object]) -> int:
        """Skip the numbers at `at` that cannot have a problem: vectors are long, and parsing one number at a time is slow."""
        while numbers := _NUMBERS.match(self.text, at, at + _NUMBERS_LENGTH):
            some = loads(f"[{numbers.group().rstrip(_BETWEEN_VALUES)}]")
            self._take(NUMBER_BYTES * len(some), at)
            value.extend(some)
            at = numbers.end()
        return at

    def _next(self, at: int, closing: str) -> tuple[int, bool]:
        """Skip the comma to the next member, or the end of the container."""
        match = _SEPARATOR.match(self.text, at)
        if match is None or match.group(1) not in (",", closing):
            raise self._expected(f"',' or '{closing}'", self._skip(at))
        if match.group(1) == closing:
            return match.end(1), True
        if self.text[match.end() : match.end() + 1] == closing:
            raise _FatalJsonProblem(f"a comma before '{closing}'", match.start(1), "remove the trailing comma")
        return match.end(), False

    def _scalar(self, at: int, path: Path) -> tuple[bool | int | float | None, int]:
        match = _NUMBER.match(self.text, at)
        word = _WORD.match(self.text, at)
        # `0123` and `1.5x` only begin with a number.
        if match and word and word.end() == match.end():
            return self._number(match, path), match.end()
        if word and word.group() in _LITERALS:
            return _LITERALS[word.group()], word.end()
        raise self._expected("a value", at)

    def _number(self, match: re.Match[str], path: Path) -> int | float:
        literal = match.group()
        if not (match.group(1) or match.group(2)):
            # int() would raise ValueError above this limit, and took quadratic time before CPython had one.
            if len(literal.lstrip("-")) > MAX_INTEGER_DIGITS:
                self._number_flaw(f"an integer of {len(literal):,} digits", path, match.start())
                return 0
            return int(literal)
        value = float(literal)
        # 1e400 is valid JSON. As infinity it could not be written again, and comparisons with limits would be wrong.
        if value in (float("inf"), float("-inf")):
            self._number_flaw(f"{literal[:40]} is too large for a 64-bit float", path, match.start())
            return 0
        return value

    def _number_flaw(self, message: str, path: Path, offset: int) -> None:
        flaw = ParseProblem("value_out_of_range", message, path, self._start + offset, hint="write it as a string or shorten it")
        self._note(flaw)

    def _expected(self, what: str, at: int) -> _FatalJsonProblem:
        found = self.text[at : at + 1]
        if not found and self._is_line:
            return _FatalJsonProblem(f"the line ends where {what} should be", at, "write each value on one line, as a whole")
        if not found:
            return _FatalJsonProblem(f"the text ends where {what} should be", at, "the file looks cut off")
        # A whole word makes a better message than its first letter: `expected a value, found 'NaN'`.
        word = _WORD.match(self.text, at)
        shown = word.group()[:30] if word else found
        return _FatalJsonProblem(f"expected {what}, found {shown!r}", at, _syntax_hint(shown, self.text[at : at + 2]))


def _duplicate_key(key: str, path: Path, offset: int) -> ParseProblem:
    return ParseProblem(
        "invalid_encoding",
        f"the name {key[:_SHOWN_NAME]!r} appears twice in one object",
        (*path, key),
        offset,
        hint="keep one of the two; readers disagree on which one counts",
        kind="duplicate_name",
    )


def _string_problem(text: str, problem: JSONDecodeError) -> tuple[str, str]:
    """Return message and hint for a string that the scanner of the standard library rejects."""
    # The scanner has no error codes: its messages are compared here and nowhere else.
    if problem.msg.startswith("Unterminated"):
        return "a string without its closing quote", "the file looks cut off, or a quote inside the text is not escaped"
    if problem.msg.startswith("Invalid control character"):
        message = f"an unescaped control character U+{ord(text[problem.pos]):04X} in a string"
        return message, "write line breaks as \\n and tabs as \\t"
    message = f"invalid escape in a string: {text[problem.pos : problem.pos + 6]!r}"
    return message, 'allowed escapes are \\" \\\\ \\/ \\b \\f \\n \\r \\t and \\uXXXX'


def _syntax_hint(word: str, start: str) -> str:
    if word in ("NaN", "Infinity", "-Infinity", "nan", "inf"):
        return "JSON has no NaN or Infinity; use null or leave the field out"
    if word in ("True", "False", "None"):
        return "JSON writes true, false and null in lower case"
    if start.startswith("'"):
        return "JSON strings use double quotes"
    if start in ("//", "/*") or start.startswith("#"):
        return "JSON has no comments"
    if start.startswith("\ufeff"):
        return "a byte order mark is allowed at the start of the file only"
    return ""
