"""Strict YAML 1.2: text into a Document; text that libyaml (YAML 1.1) misreads is masked, and restored in the values.

libyaml takes NEL, LS and PS for line breaks and would fold them away; it refuses DEL and the C1 characters even inside
quotes, and it refuses a character escaped as two UTF-16 halves, which is how most JSON writers escape an emoji. Each of
these characters, and the backslash of such a half, is replaced by one private character that the text does not use: one for
one, so that every offset stays true. The contract decides whether a value may contain a control character.
"""

import re
from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from types import NoneType
from typing import NamedTuple, Protocol, cast

from yaml import YAMLError
from yaml._yaml import CParser
from yaml.error import MarkedYAMLError
from yaml.events import AliasEvent, MappingEndEvent, MappingStartEvent, ScalarEvent, SequenceEndEvent, StreamEndEvent

from assay.core.issue import MAX_LISTED
from assay.core.strict_json import MAX_DEPTH, MAX_INTEGER_DIGITS, ParsedDocument, ParseProblem, ProblemKind, decode_utf8, parse_json
from assay.datasets.parsing.formats import MAX_YAML_BYTES

# YAML 1.2 takes only LF and CR for line breaks; libyaml, which is the fast parser, follows YAML 1.1.
_FOREIGN = (*map(chr, range(0x7F, 0xA0)), "\u2028", "\u2029", "\ufffe", "\uffff")
_HALF_ESCAPE = re.compile(r"(?<!\\)((?:\\\\)*+)\\(?=u[dD][89a-fA-F][0-9a-fA-F]{2})")
"""An odd number of backslashes before `ud83d`: the last one starts an escape."""
_LONG_ESCAPE = re.compile(r"\\U(00[01][0-9a-fA-F]{5})")
# Planes 15 and 16 are for private use: nothing in them has a meaning that a reader could miss.
_PRIVATE = range(0xF0000, 0x110000)


class MaskedText:
    """A text with private characters in place of those that libyaml misreads, and their originals."""

    def __init__(self, text: str, backslash: str, hidden: Mapping[str, str]) -> None:
        for character, private in hidden.items():
            text = text.replace(character, private)
        self.text = _HALF_ESCAPE.sub(rf"\g<1>{backslash}", text)
        self._half = re.compile(f"{backslash}u([0-9a-fA-F]{{4}})")
        self._private = re.compile(f"[{backslash}{''.join(hidden.values())}]")
        self._originals = {ord(backslash): "\\", **{ord(private): character for character, private in hidden.items()}}

    def restore(self, value: str, *, is_escaped: bool) -> str:
        """Restore one scalar; escapes are resolved where the scalar has them (double quotes)."""
        if value.isascii() or not self._private.search(value):
            return value
        if is_escaped and self._half.search(value):
            halves = self._half.sub(lambda match: chr(int(match.group(1), 16)), value)
            value = halves.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        return value.translate(self._originals)


def mask_text(text: str) -> MaskedText | None:
    """Return the masked text if it needs a mask; None for nearly every text."""
    found = [character for character in _FOREIGN if character in text]
    if not found and not (("\\ud" in text or "\\uD" in text) and _HALF_ESCAPE.search(text)):
        return None
    # Also those that the text writes as escapes, since libyaml resolves these before the mask is taken off.
    taken = set(text) | {chr(int(digits, 16)) for digits in _LONG_ESCAPE.findall(text) if int(digits, 16) < 0x110000}
    free = (private for private in map(chr, _PRIVATE) if private not in taken)
    private = [*islice(free, len(found) + 1)]
    # Only a text written for it uses up all 131,072 private characters; libyaml then reads or refuses it as it is.
    return MaskedText(text, private[0], dict(zip(found, private[1:], strict=True))) if len(private) > len(found) else None


MAX_HEXADECIMAL_LENGTH = 3500
"""Characters of one 0x number; its decimal form stays below MAX_INTEGER_DIGITS."""

Scalar = str | int | float | bool | None

# The core schema of YAML 1.2, in which `no`, `on` and 12:30 are texts, and a date stays what was written.
_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_TYPES = {"int": int, "float": float, "bool": bool, "null": NoneType}
# Most scalars are words; one lookup spares them three patterns.
_NUMBER_STARTS = frozenset("+-.0123456789")
_INTEGER = re.compile(r"[-+]?[0-9]++")
_PREFIXED = re.compile(r"0o[0-7]++|0x[0-9a-fA-F]++")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]++|[0-9]++(?:\.[0-9]*+)?)(?:[eE][-+]?[0-9]++)?")


class NumberTooLarge(Exception):
    """A number that no value can hold; the message says why."""


class TagMismatch(Exception):
    """A text that is not of the type that its tag names."""


def plain_value(text: str) -> Scalar:
    """Parse an unquoted scalar; raises NumberTooLarge."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBER_STARTS:
        return text
    if _INTEGER.fullmatch(text):
        return _integer(text, 10)
    if _PREFIXED.fullmatch(text):
        return _integer(text, 0)
    return _float(text) if _FLOAT.fullmatch(text) else text


def tagged_value(text: str, kind: str) -> Scalar:
    """Parse a scalar tagged !!str, !!int, !!float, !!bool or !!null; raises NumberTooLarge and TagMismatch."""
    if kind == "str":
        return text
    value = _float(text) if kind == "float" and _FLOAT.fullmatch(text) else plain_value(text)
    if kind not in _TYPES or type(value) is not _TYPES[kind]:
        raise TagMismatch(f"{text[:40]!r} does not fit its tag !!{kind}")
    return value


def _integer(text: str, radix: int) -> int:
    if len(text) > (MAX_HEXADECIMAL_LENGTH if text.startswith("0x") else MAX_INTEGER_DIGITS):
        raise NumberTooLarge(f"an integer of {len(text):,} characters")
    return int(text, radix)


def _float(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise NumberTooLarge(f"{text[:40]} is too large for a 64-bit float")
    return value


MAX_SIZE = MAX_YAML_BYTES
MAX_VALUE_BYTES = 64 << 20
"""Memory of all values with their locations, beyond the length of the text."""
# With the offsets that are kept for each member, which JSON looks up in the text instead.
_SEQUENCE_BYTES, _MAPPING_BYTES, _SCALAR_BYTES = 350, 650, 160
MAX_ALIAS_GROWTH = MAX_SIZE
"""Characters that all aliases together may add, where each name or value counts VALUE_WEIGHT more."""
# An alias of an empty list adds no character but a value, so values count as well.
VALUE_WEIGHT = 64
MAX_TAG_DIRECTIVES = 100
"""libyaml compares every %TAG line with all earlier ones: 400,000 of them took minutes."""

_CORE = "tag:yaml.org,2002:"
_SCALAR_TAGS = frozenset(_CORE + kind for kind in ("str", "int", "float", "bool", "null"))
_FORBIDDEN = frozenset(map(chr, range(0x20))) - frozenset("\t\n\r")
_SURROGATE = re.compile("[\ud800-\udfff]")
_TAG_DIRECTIVE = re.compile(r"(?:^|[\r\n])%TAG")

_UNCLOSED_MAPPING = "did not find expected ',' or '}'"
"""libyaml also says so of some JSON: names of more than 1,024 characters, a line break before the colon."""
_HINTS = {
    "mapping values are not allowed in this context": "quote a text that holds ': ', or check the indentation",
    "could not find expected ':'": "a mapping has 'name: value' on every line; check the indentation, quote long texts",
    "did not find expected key": "check the indentation of this line, and quotes inside quoted text",
    "did not find expected '-' indicator": "check the indentation of this line",
    "did not find expected ',' or ']'": "close the '[', or put a ',' between the elements",
    _UNCLOSED_MAPPING: "close the '{', or put a ',' between the members",
    "found unexpected end of stream": "close the quote",
    "found unknown escape character": "in double quotes write a backslash as \\\\, or use single quotes",
    "did not find expected <document start>": "something follows the end of the value; check indentation and brackets",
}


def parse_yaml(data: bytes | str, *, has_merge_keys: bool = False) -> ParsedDocument:
    """Parse `data` into a document; never raises for bad text: a fatal problem has the reason and the location.

    `has_merge_keys` merges mappings under '<<', as YAML 1.1 does: files of other tools use it, and datasets may not.
    """
    # libyaml is fifty times as slow as a reader of JSON, so that a large file would hold up a server.
    if len(data) > MAX_SIZE:
        message = f"the text has more than {MAX_SIZE >> 20} MiB, which is the limit for YAML"
        hint = "write large datasets as JSON or JSONL"
        return _unreadable("", ParseProblem("payload_too_large", message, (), 0, hint=hint, fatal=True))
    text = decode_utf8(data)
    if isinstance(text, ParsedDocument):
        return text
    text = text.removeprefix("\ufeff")
    refusal = _refusal(text)
    return _unreadable(text, refusal) if refusal else _YamlParser(text, has_merge_keys=has_merge_keys).read()


def _unreadable(text: str, *flaws: ParseProblem) -> ParsedDocument:
    return ParsedDocument(None, text, {}, flaws)


def _fatal(message: str, offset: int, hint: str, *, kind: ProblemKind = "") -> ParseProblem:
    return ParseProblem("invalid_yaml", message, (), offset, hint=hint, fatal=True, kind=kind)


def _refusal(text: str) -> ParseProblem | None:
    """Return the problem that makes the text as a whole unfit for libyaml; None without one."""
    offset = _forbidden_offset(text)
    if offset is not None:
        message = f"the character U+{ord(text[offset]):04X} is not allowed in YAML"
        hint = "remove it, or write it as an escape in double quotes"
        return ParseProblem("invalid_encoding", message, (), offset, hint=hint, fatal=True)
    if "%TAG" in text and len(_TAG_DIRECTIVE.findall(text)) > MAX_TAG_DIRECTIVES:
        return _fatal(f"more than {MAX_TAG_DIRECTIVES} %TAG directives", text.index("%TAG"), "remove them")
    return None


def _forbidden_offset(text: str) -> int | None:
    """Find the first control character or unpaired surrogate; a search per character is far faster than a pattern."""
    surrogate = None if text.isascii() else _SURROGATE.search(text)
    found = [text.index(character) for character in _FORBIDDEN if character in text]
    return min([*found, *([surrogate.start()] if surrogate else [])], default=None)


class _FatalYamlProblem(Exception):
    """Stops the parser; carries the fatal problem."""

    def __init__(self, message: str, offset: int, hint: str = "", *, kind: ProblemKind = "") -> None:
        super().__init__(message)
        self.flaw = _fatal(message, offset, hint, kind=kind)


class _Position(Protocol):
    index: int


class _YamlEvent(Protocol):
    """An event of libyaml; no kind of event has all of these members."""

    start_mark: _Position
    anchor: str | None
    tag: str | None
    implicit: Sequence[bool]
    value: str
    style: str | None


class _AnchorValue(NamedTuple):
    """Value of an anchor, and the weight of a copy of it."""

    value: object
    weight: int


class _YamlParser:
    """One pass over the events of one text; recursion is bounded by MAX_DEPTH."""

    def __init__(self, text: str, *, has_merge_keys: bool = False) -> None:
        self.text = text
        self.has_merge_keys = has_merge_keys
        self.mask = mask_text(text)
        self.next_event: Callable[[], _YamlEvent] = cast(
            "Callable[[], _YamlEvent]", CParser(self.mask.text if self.mask else text).get_event
        )
        self.marks: dict[int, dict[str, tuple[int, int]] | array[int]] = {}
        self.flaws: list[ParseProblem] = []
        self.more_flaws: Counter[str] = Counter()
        self.path: list[str | int] = []
        self.anchors: dict[str, _AnchorValue | None] = {}
        """None while the anchor's own value is still being read."""
        self.weight = 0
        self.growth = 0
        self._room = MAX_VALUE_BYTES + len(text)

    def read(self) -> ParsedDocument:
        try:
            value = self._document()
        except _FatalYamlProblem as stop:
            return ParsedDocument(None, self.text, {}, (*self.flaws, stop.flaw), more_flaws=self.more_flaws)
        except YAMLError as problem:
            flaw = _syntax_flaw(self.text, problem)
            # Every JSON text is YAML 1.2, but libyaml limits names to 1,024 characters; such a text is read as what it is.
            as_json = parse_json(self.text) if flaw.kind == "unclosed_mapping" else None
            return as_json if as_json and not as_json.flaws else _unreadable(self.text, *self.flaws, flaw)
        return ParsedDocument(value, self.text, self.marks, tuple(self.flaws), more_flaws=self.more_flaws)

    def _document(self) -> object:
        self.next_event()
        # The event before is the start of the stream; a text of comments alone has no document.
        if isinstance(self.next_event(), StreamEndEvent):
            return None
        value = self._value(self.next_event(), 0)
        self.next_event()
        after = self.next_event()
        if not isinstance(after, StreamEndEvent):
            raise _FatalYamlProblem("a second document follows", after.start_mark.index, "keep one document in a file")
        return value

    def _value(self, event: _YamlEvent, depth: int) -> object:
        if isinstance(event, ScalarEvent):
            return self._scalar(event)
        if isinstance(event, AliasEvent):
            return self._alias(event, depth)
        if depth >= MAX_DEPTH:
            raise _too_deep(event.start_mark.index)
        is_mapping = isinstance(event, MappingStartEvent)
        before = self.weight
        self.weight += VALUE_WEIGHT
        self._take(_MAPPING_BYTES if is_mapping else _SEQUENCE_BYTES, event)
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        # The value of an anchor is complete only now: an alias inside it would contain itself.
        value = self._mapping(event, depth + 1) if is_mapping else self._sequence(event, depth + 1)
        if event.anchor is not None:
            self.anchors[event.anchor] = _AnchorValue(value, self.weight - before)
        return value

    def _take(self, size: int, event: _YamlEvent) -> None:
        """Count the memory of a value before it is made."""
        self._room -= size
        if self._room < 0:
            message = f"the values take more memory than {MAX_VALUE_BYTES >> 20} MiB beyond the size of the text"
            raise _FatalYamlProblem(message, event.start_mark.index, "write it as JSON or JSONL")

    def _mapping(self, event: _YamlEvent, depth: int) -> dict[str, object]:
        self._check_tag(event, "map")
        value: dict[str, object] = {}
        marks: dict[str, tuple[int, int]] = {}
        self.marks[id(value)] = marks
        merged: dict[str, object] = {}
        while not isinstance(key_event := self.next_event(), MappingEndEvent):
            key = self._key(key_event)
            member_event = self.next_event()
            self.path.append(key)
            member = self._value(member_event, depth)
            if self.has_merge_keys and _is_merge_key(key, key_event):
                self._merge(member, merged, key_event)
            # The first one counts, as in JSON.
            elif key in value:
                hint = "keep one of the two; readers disagree on which one counts"
                self._flaw(f"the name {key[:40]!r} appears twice in one mapping", key_event, hint=hint, kind="duplicate_name")
            else:
                value[key] = member
                marks[key] = (key_event.start_mark.index, member_event.start_mark.index)
            self.path.pop()
        # Last, since a mapping's own members count more than merged ones, wherever they are.
        for key, member in merged.items():
            if key not in value:
                value[key] = member
                marks[key] = (event.start_mark.index, event.start_mark.index)
        return value

    def _merge(self, given: object, merged: dict[str, object], event: _YamlEvent) -> None:
        """Add the members of a mapping under '<<', or of a list of mappings; of two the earlier one counts."""
        for mapping in given if isinstance(given, list) else [given]:
            if not isinstance(mapping, dict):
                raise _FatalYamlProblem("'<<' merges a value that is not a mapping", event.start_mark.index, "write the fields out")
            for key, member in mapping.items():
                merged.setdefault(key, member)

    def _sequence(self, event: _YamlEvent, depth: int) -> list[object]:
        self._check_tag(event, "seq")
        value: list[object] = []
        marks = array("q")
        self.marks[id(value)] = marks
        while not isinstance(member_event := self.next_event(), SequenceEndEvent):
            marks.append(member_event.start_mark.index)
            self.path.append(len(value))
            value.append(self._value(member_event, depth))
            self.path.pop()
        return value

    def _key(self, event: _YamlEvent) -> str:
        key: object = None
        if isinstance(event, AliasEvent):
            key = self._target(event).value
        elif isinstance(event, ScalarEvent):
            key = self._scalar_key(event)
        if not isinstance(key, str):
            raise _FatalYamlProblem(
                "a key that is a list, a mapping or an alias of no string", event.start_mark.index, "keys must be strings"
            )
        return key

    def _scalar_key(self, event: _YamlEvent) -> str:
        key = self._scalar(event)
        if not isinstance(key, str):
            hint = "keys must be strings: put it in quotes"
            self._flaw(f"the key {event.value[:40]!r} is not a string", event, key=event.value, hint=hint)
            return str(event.value)
        at = event.start_mark.index
        if self.text[at - 1 : at] == "?":
            # libyaml reads {?a: b} as the key a; in YAML 1.2 the key is ?a.
            raise _FatalYamlProblem("a '?' at the start of unquoted text in brackets", at - 1, "put the text in quotes")
        if _is_merge_key(key, event) and not self.has_merge_keys:
            hint = "write the fields out; put '<<' in quotes if it is a name"
            self._flaw("'<<' merges nothing: YAML 1.2 has no merge keys", event, key=key, hint=hint)
        return key

    def _scalar(self, event: _YamlEvent) -> Scalar:
        text: str = event.value if self.mask is None else self._unmasked(event, self.mask)
        self.weight += VALUE_WEIGHT + len(text)
        self._take(_SCALAR_BYTES + len(text), event)
        value = text if event.tag is None and not event.implicit[0] else self._resolved(event, text)
        if event.anchor is not None:
            self.anchors[event.anchor] = _AnchorValue(value, VALUE_WEIGHT + len(text))
        return value

    def _unmasked(self, event: _YamlEvent, mask: MaskedText) -> str:
        text = mask.restore(event.value, is_escaped=event.style == '"')
        if _SURROGATE.search(text):
            hint = "the escape is half of a pair: write the whole character or remove it"
            self._flaw("holds an unpaired surrogate", event, code="invalid_encoding", hint=hint, kind="surrogate")
        return text

    def _resolved(self, event: _YamlEvent, text: str) -> Scalar:
        if event.tag is not None and event.tag not in _SCALAR_TAGS:
            raise self._foreign_tag(event)
        try:
            return plain_value(text) if event.tag is None else tagged_value(text, event.tag.removeprefix(_CORE))
        except NumberTooLarge as problem:
            self._flaw(str(problem), event, code="value_out_of_range", hint="write it as a string or shorten it")
            return 0
        except TagMismatch as problem:
            raise _FatalYamlProblem(str(problem), event.start_mark.index, "correct the value or remove the tag") from None

    def _check_tag(self, event: _YamlEvent, kind: str) -> None:
        if event.tag is not None and event.tag != _CORE + kind:
            raise self._foreign_tag(event)

    def _foreign_tag(self, event: _YamlEvent) -> _FatalYamlProblem:
        tag = event.tag or ""
        shown = "!!" + tag.removeprefix(_CORE) if tag.startswith(_CORE) else tag if tag.startswith("!") else f"!<{tag}>"
        # An anchor may precede the tag; its name has no exclamation mark.
        offset = self.text.find("!", event.start_mark.index)
        hint = "remove it; the tags that can be read are !!str, !!int, !!float, !!bool, !!null, !!seq and !!map"
        return _FatalYamlProblem(f"the tag {shown[:80]} cannot be used here", offset, hint)

    def _target(self, event: _YamlEvent) -> _AnchorValue:
        """Return the value that an alias repeats, after its weight is known to fit."""
        name = str(event.anchor)
        at = event.start_mark.index
        if name not in self.anchors:
            raise _FatalYamlProblem(
                f"the alias *{name[:40]} has no anchor before it", at, f"define it with &{name[:40]}, or quote the text"
            )
        target = self.anchors[name]
        if target is None:
            raise _FatalYamlProblem(f"the alias *{name[:40]} is inside the value that it repeats", at, "write the value out")
        self.weight += target.weight
        self.growth += target.weight
        # Aliases of aliases multiply ("billion laughs"), so the growth is checked before the copy is made.
        if self.growth > MAX_ALIAS_GROWTH:
            raise _FatalYamlProblem(
                "aliases repeat more than a document may hold", at, "write the values out, as JSON if they are many"
            )
        return target

    def _alias(self, event: _YamlEvent, depth: int) -> object:
        return self._copy(self._target(event).value, depth, event.start_mark.index)

    def _copy(self, value: object, depth: int, at: int) -> object:
        """Copy a value for each use, because marks are found by the identity of a container."""
        if not isinstance(value, dict | list):
            return value
        if depth >= MAX_DEPTH:
            raise _too_deep(at)
        copy: dict[str, object] | list[object]
        if isinstance(value, dict):
            copy = {key: self._copy(member, depth + 1, at) for key, member in value.items()}
        else:
            copy = [self._copy(member, depth + 1, at) for member in value]
        self.marks[id(copy)] = self.marks[id(value)]
        return copy

    def _flaw(
        self,
        message: str,
        event: _YamlEvent,
        *,
        hint: str,
        code: str = "invalid_yaml",
        key: str | None = None,
        kind: ProblemKind = "",
    ) -> None:
        if len(self.flaws) >= MAX_LISTED:
            self.more_flaws[code] += 1
            return
        path = tuple(self.path) if key is None else (*self.path, key)
        # libyaml counts characters, and the mask replaces one for one, so its index is an offset in the original text.
        self.flaws.append(ParseProblem(code, message, path, event.start_mark.index, hint=hint, kind=kind))


def _is_merge_key(key: str, event: _YamlEvent) -> bool:
    return key == "<<" and isinstance(event, ScalarEvent) and bool(event.implicit[0])


def _too_deep(offset: int) -> _FatalYamlProblem:
    return _FatalYamlProblem(f"nested deeper than {MAX_DEPTH} levels", offset, "flatten the value", kind="too_deep")


def _syntax_flaw(text: str, problem: YAMLError) -> ParseProblem:
    if not isinstance(problem, MarkedYAMLError) or problem.problem_mark is None:
        return _fatal("not YAML: " + str(problem).partition("\n")[0], 0, "")
    message = str(problem.problem)
    offset = min(problem.problem_mark.index, len(text.rstrip()))
    # libyaml has no error codes: its messages are compared here and nowhere else.
    hint = _HINTS.get(message, "")
    kind: ProblemKind = "unclosed_mapping" if message == _UNCLOSED_MAPPING else ""
    if message == "found character that cannot start any token":
        hint = "indent with spaces, not tabs" if text[offset : offset + 1] == "\t" else "quote a text that starts like this"
    if problem.context:
        message += f" {problem.context}"
    if problem.context_mark and problem.context_mark.line != problem.problem_mark.line:
        message += f" that starts on line {problem.context_mark.line + 1}"
    return _fatal(message, offset, hint, kind=kind)
