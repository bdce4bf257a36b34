"""Source rows into drafts of legal_eval_v1 rows: cells into values, ids, and rows that the contract accepts."""

import ast
import hashlib
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import msgspec

from assay.core.canonical import JsonObject, canonical_json, sha256_hex
from assay.core.strict_json import parse_json
from assay.datasets.converters.report import IdStyle
from assay.datasets.legal_eval_v1.rules import SCHEMA_VERSION, check_row
from assay.datasets.parsing.config import ValidationConfig

MAX_LITERAL_LENGTH = 1_000_000
"""Characters of a list written as text; the longest real one has under 5,000."""

_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,18}(\.0*)?", re.ASCII)


class RowRefused(ValueError):
    """A source row that cannot become a canonical row; the text says why."""


class SourceColumns:
    """Cells of a source row by column name, ignoring case and spaces; remembers which columns were read."""

    def __init__(self, row: Mapping[str, object]) -> None:
        self.row = row
        self._names: dict[str, str] = {}
        self._values: JsonObject = {}
        self._read: set[str] = set()
        self._inner: list[tuple[str, SourceColumns]] = []
        for name, value in row.items():
            self._add(name, value)

    def _add(self, name: str, value: object) -> None:
        # Published files differ in the spelling of their headers from one release to the next.
        folded = str(name).strip().lower().replace(" ", "_")
        if isinstance(value, float) and math.isnan(value):
            value = None  # how tables write a missing value
        earlier = self._values.get(folded)
        # Joined tables have a column twice, filled in one of the two; only different values are a conflict.
        if is_empty(value) and folded in self._names:
            return
        if not is_empty(earlier) and earlier != value:
            raise RowRefused(f"the columns {self._names[folded]!r} and {name!r} say different things")
        self._names[folded] = str(name)
        self._values[folded] = value

    def get(self, name: str) -> Any:
        """Return the cell unchanged; None if the column is absent."""
        self._read.add(name)
        return self._values.get(name)

    def all(self) -> dict[str, object]:
        """Return the whole row unchanged, and count every column as read."""
        self._read.update(self._values)
        return dict(self.row)

    def peek(self, name: str) -> object:
        """Return the cell unchanged, without counting it as read."""
        return self._values.get(name)

    def text(self, *names: str) -> str:
        """Return the first of the named cells that holds text, stripped; empty if none does."""
        for name in names:
            value = self.get(name)
            if not isinstance(value, str | None):
                raise RowRefused(f"{self.shown(name)} is not text but {kind(value)}")
            if value and value.strip():
                return value.strip()
        return ""

    def identifier(self, *names: str) -> str:
        """Return the first of the named cells that is not empty, as text; a whole number loses its fraction `.0`."""
        for name in names:
            value = self.get(name)
            if not is_empty(value):
                return _identifier_text(value, self.shown(name))
        return ""

    def __contains__(self, name: str) -> bool:
        return not is_empty(self._values.get(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def shown(self, name: str) -> str:
        """Return the column's name as the source writes it, for messages."""
        return self._names.get(name, name)

    def inside(self, name: str, value: object) -> "SourceColumns":
        """Open an object inside a cell, whose unread members count as unread columns; raises RowRefused for other values."""
        if not isinstance(value, dict):
            raise RowRefused(f"{name} is not an object but {kind(value)}")
        inner = SourceColumns(value)
        self._inner.append((name, inner))
        return inner

    def unread(self) -> Iterator[str]:
        """List unread columns that have a value; those inside cells as `cell.member`."""
        yield from (shown for name, shown in self._names.items() if name in self and name not in self._read)
        for name, inner in self._inner:
            yield from (f"{name}.{column}" for column in inner.unread())


def is_empty(value: object) -> bool:
    """Return whether a value is null, blank text, or an empty list or object."""
    return value is None or (isinstance(value, str) and not value.strip()) or (isinstance(value, list | dict) and not value)


def kind(value: object) -> str:
    """Name the JSON type of a value, for messages."""
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    names = {str: "text", list: "a list", dict: "an object", type(None): "null"}
    return names.get(type(value), type(value).__name__)


def whole_number(value: object, what: str) -> int:
    """Read an integer from a cell: 2, 2.0 and "2" alike; raises RowRefused for anything else, 2.5 included."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and _WHOLE_NUMBER.fullmatch(value.strip()):
        return int(value.strip().partition(".")[0])
    raise RowRefused(f"{what} is not a whole number: {_excerpt(value)}")


def option_text(value: object, what: str) -> str:
    """Read the text of one choice; whole numbers are written out."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise RowRefused(f"{what} is not text but {kind(value)}")
    return value.strip()


def list_cell(value: object, what: str) -> list[object]:
    """Read a list from a cell: a list, or a JSON or Python list written as text."""
    found = _parse_list(value, what) if isinstance(value, str) else value
    if not isinstance(found, list | tuple):
        raise RowRefused(f"{what} is not a list but {kind(found)}")
    return list(found)


def _parse_list(text: str, what: str) -> object:
    if len(text) > MAX_LITERAL_LENGTH:
        raise RowRefused(f"{what} is longer than {MAX_LITERAL_LENGTH:,} characters")
    # JSON first: where a text is both, only JSON joins the two halves of an escaped surrogate pair.
    document = parse_json(text)
    if not document.flaws:
        return document.value
    try:
        # Literals only: nothing in a file is ever executed.
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        raise RowRefused(f"{what} is not a list that can be read: {_excerpt(text)}") from None


def _identifier_text(value: object, what: str) -> str:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, int | float) and not isinstance(value, bool) and value == value // 1:
        return str(int(value))
    raise RowRefused(f"{what} is not an identifier but {kind(value)}")


def _excerpt(value: object) -> str:
    text = (value if isinstance(value, str) else repr(value)).encode("utf-8", "replace").decode("utf-8")
    return text if len(text) <= 60 else f"{text[:60]}…"


ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

_USUAL = ValidationConfig()

Row = JsonObject
"""A row as JSON values."""
TaskType = Literal["rubric_qa", "reference_qa", "mcq"]


class RowOrigin(msgspec.Struct, frozen=True):
    """Place of a source row, and the style of its ids."""

    source: str
    line: int
    id_style: IdStyle = "stable"


Converter = Callable[[SourceColumns, RowOrigin], tuple[Row, ...]]
"""Function that turns the columns of one source row and its origin into canonical rows, or raises RowRefused."""


class RowDraft(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A canonical row without its schema version, in the order of its members; empty optional members are not written."""

    id: str
    dataset: str
    task_type: TaskType
    prompt: str
    context: str = ""
    metadata: JsonObject = {}
    attachments: list[Row] = []
    messages: list[Row] = []
    rubric: list[Row] = []
    reference_answers: list[str] = []
    choices: list[Row] = []
    correct_choice_ids: list[str] = []


def finish(draft: RowDraft) -> Row:
    """Build the canonical row; raises RowRefused with all reasons if legal_eval_v1 rejects it."""
    try:
        row: Row = {"schema_version": SCHEMA_VERSION, **msgspec.to_builtins(draft, str_keys=True)}
    except TypeError as problem:
        raise RowRefused(f"a value has no JSON form: {problem}") from None
    return check_accepted(row)


def check_accepted(row: Row) -> Row:
    """Return a row that legal_eval_v1 accepts unchanged; raises RowRefused with all reasons otherwise."""
    # Encoded first, because the rules expect values that JSON can hold.
    json_bytes(row)
    problems = [finding.message for finding in check_row(row, _USUAL) if finding.severity == "error"]
    if problems:
        raise RowRefused("; ".join(problems))
    return row


def drop_empty(members: Mapping[str, object]) -> Row:
    """Drop empty texts, lists and nulls; 0 and false stay."""
    return {name: value for name, value in members.items() if value or isinstance(value, int | float)}


def choice_id(position: int, style: IdStyle) -> str:
    """Return the id of a choice: A..Z, then AA, AB, ... (stable) or CHOICE_26, CHOICE_27, ... (upstream)."""
    if position < len(ALPHABET):
        return ALPHABET[position]
    if style == "upstream":
        return f"CHOICE_{position}"
    lead, last = divmod(position, len(ALPHABET))
    return choice_id(lead - 1, style) + ALPHABET[last]


def json_bytes(value: object) -> bytes:
    """Encode a value as canonical JSON; raises RowRefused for what JSON cannot hold."""
    try:
        return canonical_json(value)
    except UnicodeEncodeError:
        raise RowRefused("a text holds an unpaired surrogate") from None
    except ValueError as problem:
        raise RowRefused(f"a value has no JSON form: {problem}") from None


def digest(*parts: object) -> str:
    """Hash parts to sixteen hexadecimal digits; as JSON, so that the borders between parts count."""
    return sha256_hex(json_bytes(parts))[:16]


def older_digest(text: str) -> str:
    """Return the first sixteen digits of SHA-1, which upstream ids consist of."""
    return hashlib.sha1(text.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()[:16]
