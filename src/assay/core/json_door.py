"""The one strict door for JSON: text into a Document that reports every flaw with its place.

RFC 8259 and nothing more: no NaN, no comments, no trailing commas, no second value. Duplicate keys, lone
surrogates and numbers that do not fit are flaws that leave the document readable, so that a contract can
report them beside its own findings. Fast paths elsewhere may use quicker parsers; this one has the last word.
"""

import re
from array import array
from json import JSONDecodeError, decoder, loads
from mmap import mmap
from typing import Any

import msgspec

from assay.core.document import Document, Flaw
from assay.core.issue import Path
from assay.core.plain_json import plain_document

MAX_DEPTH = 254
"""Containers inside each other; deeper text is refused, so that neither this reader nor orjson (254) runs out of stack."""
MAX_INTEGER_DIGITS = 4300
"""What CPython converts without a quadratic step; floats are read in linear time."""
MAX_TOKENS = 2_000_000
"""Values in one document that goes through this exact reader."""

_scan_string = decoder.scanstring  # type: ignore[attr-defined]  # in the standard library, not in its stubs
_SPACE = re.compile(r"[ \t\n\r]*")
_COLON = re.compile(r"[ \t\n\r]*:[ \t\n\r]*")
_SEPARATOR = re.compile(r"[ \t\n\r]*([,}\]])[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_NUMBERS = re.compile(r"(?:-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,20})?,[ \t\n\r]*)+(?=[-0-9])")
"""Numbers that surely fit, each with the comma after it, before another number."""
_NUMBERS_LENGTH = 1 << 16
"""Characters of numbers that are read at once, so that a flood of them is noticed before it is in memory."""
_BETWEEN_VALUES = ", \t\n\r"
_NUMBER_START = re.compile(r"[-0-9][^,]*")
_LINE = re.compile(r"[^\n]*[^ \t\r\n][^\n]*")
_SURROGATE = re.compile("[\ud800-\udfff]")
_WORD = re.compile(r"[\w.+-]+")
_LITERALS = {"true": True, "false": False, "null": None}
_BOM = b"\xef\xbb\xbf"


def parse_json(data: bytes | bytearray | memoryview | mmap | str, *, is_whole: bool = True) -> Document:
    """The document in `data`; never raises for bad text: a fatal flaw says what and where.

    Only a whole file may begin with a byte order mark; a line of it may not.
    """
    text = decode_utf8(data, is_whole=is_whole)
    if isinstance(text, Document):
        return text
    return plain_document(text) or read_exactly(text)


def read_exactly(text: str) -> Document:
    """The document in `text`, read value by value; `parse_json` needs this for long texts and for those with a flaw."""
    return _Reader(text).read()


def decode_utf8(data: bytes | bytearray | memoryview | mmap | str, *, is_whole: bool = True) -> str | Document:
    """The text in `data` after its byte order mark, or the unreadable document whose flaw names the first bad byte."""
    if isinstance(data, str):
        return data
    raw = bytes(data)
    raw = raw.removeprefix(_BOM) if is_whole else raw
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as problem:
        return _not_utf8(raw, problem)


def parse_json_lines(data: bytes) -> Document:
    """One value per line as one array; a line that is not JSON is a flaw of its own and reads as null."""
    text = decode_utf8(data)
    return text if isinstance(text, Document) else _Reader(text).read_lines()


def _not_utf8(raw: bytes, problem: UnicodeDecodeError) -> Document:
    text = raw.decode("utf-8", "replace")
    offset = len(raw[: problem.start].decode("utf-8", "replace"))
    flaw = Flaw(
        "invalid_encoding",
        f"byte 0x{raw[problem.start]:02x} at offset {problem.start} is not UTF-8",
        (),
        offset,
        hint=_encoding_hint(raw),
        fatal=True,
    )
    return Document(None, text, {}, (flaw,))


def _encoding_hint(raw: bytes) -> str:
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "the file looks like UTF-16; save it as UTF-8"
    return "save the file as UTF-8 (iconv -f latin1 -t utf-8 if it came from an older tool)"


class _Stop(Exception):
    """Reading cannot go on; carries the fatal flaw."""

    def __init__(self, message: str, offset: int, hint: str = "") -> None:
        super().__init__(message)
        self.flaw = Flaw("invalid_json", message, (), offset, hint=hint, fatal=True)


class _Reader:
    """One pass over one text; recursion is bounded by MAX_DEPTH."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.marks: dict[int, dict[str, tuple[int, int]] | array[int]] = {}
        self.flaws: list[Flaw] = []
        self.tokens = 0

    def read(self) -> Document:
        try:
            value, end = self._value(self._skip(0), (), 0)
            end = self._skip(end)
            if end < len(self.text):
                raise _Stop(
                    "a second value follows the end of the document", end, "a JSON file holds one value; use JSONL for several"
                )
        except _Stop as stop:
            return Document(None, self.text, {}, (*self.flaws, stop.flaw))
        return Document(value, self.text, self.marks, tuple(self.flaws))

    def read_lines(self) -> Document:
        values: list[Any] = []
        marks = array("q")
        self.marks[id(values)] = marks
        for match in _LINE.finditer(self.text):
            start = self._skip(match.start())
            marks.append(start)
            try:
                value, end = self._value(start, (len(values),), 1)
                if end > match.end():
                    raise _Stop("the value goes on in the next line", match.end(), "write each value on one line")
                if self._skip(end) < match.end():
                    raise _Stop("a second value follows on the same line", self._skip(end), "write one value per line")
                values.append(value)
            except _Stop as stop:
                self.flaws.append(msgspec.structs.replace(stop.flaw, path=(len(values),), fatal=False))
                values.append(None)
        return Document(values, self.text, self.marks, tuple(self.flaws))

    def _skip(self, at: int) -> int:
        return _SPACE.match(self.text, at).end()  # type: ignore[union-attr]  # the pattern matches the empty string

    def _value(self, at: int, path: Path, depth: int) -> tuple[Any, int]:
        self.tokens += 1
        if self.tokens > MAX_TOKENS:
            raise _too_many_values(at)
        start = self.text[at : at + 1]
        if start == '"':
            return self._string(at, path)
        if start in ("{", "["):
            if depth >= MAX_DEPTH:
                raise _Stop(f"nested deeper than {MAX_DEPTH} levels", at, "flatten the value")
            return self._object(at + 1, path, depth + 1) if start == "{" else self._array(at + 1, path, depth + 1)
        return self._scalar(at, path)

    def _string(self, at: int, path: Path) -> tuple[str, int]:
        try:
            value, end = _scan_string(self.text, at + 1, True)
        except JSONDecodeError as problem:
            raise _Stop(_string_problem(self.text, problem), problem.pos, _string_hint(problem)) from None
        if not value.isascii() and _SURROGATE.search(value):
            self.flaws.append(
                Flaw(
                    "invalid_encoding",
                    "holds an unpaired surrogate",
                    path,
                    at,
                    hint="the escape is half of a pair: write the whole character or remove it",
                )
            )
        return value, end

    def _object(self, at: int, path: Path, depth: int) -> tuple[dict[str, Any], int]:
        value: dict[str, Any] = {}
        marks: dict[str, tuple[int, int]] = {}
        self.marks[id(value)] = marks
        at = self._skip(at)
        if self.text[at : at + 1] == "}":
            return value, at + 1
        while True:
            if self.text[at : at + 1] != '"':
                raise self._expected("a property name in double quotes", at)
            key, end = self._string(at, path)
            colon = _COLON.match(self.text, end)
            if colon is None:
                raise self._expected("':' after the property name", self._skip(end))
            member, end = self._value(colon.end(), (*path, key), depth)
            if key in value:
                self.flaws.append(_duplicate_key(key, path, at))
            else:
                value[key] = member
                marks[key] = (at, colon.end())
            at, is_end = self._next(end, "}")
            if is_end:
                return value, at

    def _array(self, at: int, path: Path, depth: int) -> tuple[list[Any], int]:
        value: list[Any] = []
        marks = array("q")
        self.marks[id(value)] = marks
        at = self._skip(at)
        if self.text[at : at + 1] == "]":
            return value, at + 1
        while True:
            at = self._numbers(at, value, marks)
            marks.append(at)
            member, end = self._value(at, (*path, len(value)), depth)
            value.append(member)
            at, is_end = self._next(end, "]")
            if is_end:
                return value, at

    def _numbers(self, at: int, value: list[Any], marks: "array[int]") -> int:
        """Past the numbers at `at` that can have no flaw: vectors are long, and one number at a time is slow."""
        while numbers := _NUMBERS.match(self.text, at, at + _NUMBERS_LENGTH):
            starts = [number.start() for number in _NUMBER_START.finditer(self.text, at, numbers.end())]
            if self.tokens + len(starts) > MAX_TOKENS:
                raise _too_many_values(starts[MAX_TOKENS - self.tokens])
            self.tokens += len(starts)
            marks.extend(starts)
            value.extend(loads(f"[{numbers.group().rstrip(_BETWEEN_VALUES)}]"))
            at = numbers.end()
        return at

    def _next(self, at: int, closing: str) -> tuple[int, bool]:
        """Past the comma to the next member, or past the end of the container."""
        match = _SEPARATOR.match(self.text, at)
        if match is None or match.group(1) not in (",", closing):
            raise self._expected(f"',' or '{closing}'", self._skip(at))
        if match.group(1) == closing:
            return match.end(1), True
        if self.text[match.end() : match.end() + 1] == closing:
            raise _Stop(f"a comma before '{closing}'", match.start(1), "remove the trailing comma")
        return match.end(), False

    def _scalar(self, at: int, path: Path) -> tuple[Any, int]:
        match = _NUMBER.match(self.text, at)
        word = _WORD.match(self.text, at)
        if match and word and word.end() == match.end():
            return self._number(match, path), match.end()
        if word and word.group() in _LITERALS:
            return _LITERALS[word.group()], word.end()
        raise self._expected("a value", at)

    def _number(self, match: re.Match[str], path: Path) -> int | float:
        literal = match.group()
        if not (match.group(1) or match.group(2)):
            if len(literal.lstrip("-")) > MAX_INTEGER_DIGITS:
                self._number_flaw(f"an integer of {len(literal):,} digits", path, match.start())
                return 0
            return int(literal)
        value = float(literal)
        if value in (float("inf"), float("-inf")):
            self._number_flaw(f"{literal[:40]} is too large for a 64-bit float", path, match.start())
            return 0
        return value

    def _number_flaw(self, message: str, path: Path, offset: int) -> None:
        self.flaws.append(Flaw("value_out_of_range", message, path, offset, hint="write it as a string or shorten it"))

    def _expected(self, what: str, at: int) -> _Stop:
        found = self.text[at : at + 1]
        if not found:
            return _Stop(f"the text ends where {what} should be", at, "the file looks cut off")
        word = _WORD.match(self.text, at)
        shown = word.group()[:30] if word else found
        return _Stop(f"expected {what}, found {shown!r}", at, _syntax_hint(shown, self.text[at : at + 2]))


def _too_many_values(offset: int) -> _Stop:
    return _Stop(f"more than {MAX_TOKENS:,} values in one document", offset)


def _duplicate_key(key: str, path: Path, offset: int) -> Flaw:
    return Flaw(
        "invalid_encoding",
        f"the name {key!r} appears twice in one object",
        (*path, key),
        offset,
        hint="keep one of the two; readers disagree on which one counts",
    )


def _string_problem(text: str, problem: JSONDecodeError) -> str:
    if problem.msg.startswith("Unterminated"):
        return "a string without its closing quote"
    if problem.msg.startswith("Invalid control character"):
        return f"an unescaped control character U+{ord(text[problem.pos]):04X} in a string"
    return f"invalid escape in a string: {text[problem.pos : problem.pos + 6]!r}"


def _string_hint(problem: JSONDecodeError) -> str:
    if problem.msg.startswith("Unterminated"):
        return "the file looks cut off, or a quote inside the text is not escaped"
    if problem.msg.startswith("Invalid control character"):
        return "write line breaks as \\n and tabs as \\t"
    return 'allowed escapes are \\" \\\\ \\/ \\b \\f \\n \\r \\t and \\uXXXX'


def _syntax_hint(word: str, two: str) -> str:
    if word in ("NaN", "Infinity", "-Infinity", "nan", "inf"):
        return "JSON has no NaN or Infinity; use null or leave the field out"
    if word in ("True", "False", "None"):
        return "JSON writes true, false and null in lower case"
    if two.startswith("'"):
        return "JSON strings use double quotes"
    if two in ("//", "/*") or two.startswith("#"):
        return "JSON has no comments"
    if two.startswith("\ufeff"):
        return "a byte order mark is allowed at the start of the file only"
    return ""
