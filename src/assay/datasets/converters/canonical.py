"""Drafts of legal_eval_v1 rows into rows that the contract accepts, and the ids that converters give."""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from assay.core.canonical import canonical_json, sha256_hex
from assay.datasets.config import ValidationConfig
from assay.datasets.converters.columns import RowRefused, SourceColumns
from assay.datasets.converters.report import IdStyle
from assay.datasets.legal_eval_v1.rules import SCHEMA_VERSION, check_row

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

_USUAL = ValidationConfig()

Row = dict[str, Any]
TaskType = Literal["rubric_qa", "reference_qa", "mcq"]


class RowOrigin(msgspec.Struct, frozen=True):
    """Where a source row stands and how its ids are made."""

    source: str
    line: int
    id_style: IdStyle = "stable"


Converter = Callable[[SourceColumns, RowOrigin], tuple[Row, ...]]
"""The columns of one source row and its origin into canonical rows, or RowRefused."""


class RowDraft(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A canonical row without its schema version, in the order of its members; empty optional members are not written."""

    id: str
    dataset: str
    task_type: TaskType
    prompt: str
    context: str = ""
    metadata: dict[str, Any] = {}
    attachments: list[Row] = []
    messages: list[Row] = []
    rubric: list[Row] = []
    reference_answers: list[str] = []
    choices: list[Row] = []
    correct_choice_ids: list[str] = []


def finish(draft: RowDraft) -> Row:
    """The canonical row; raises RowRefused with all reasons where legal_eval_v1 would not accept it."""
    try:
        row: Row = {"schema_version": SCHEMA_VERSION, **msgspec.to_builtins(draft, str_keys=True)}
    except TypeError as problem:
        raise RowRefused(f"a value has no JSON form: {problem}") from None
    return accepted(row)


def accepted(row: Row) -> Row:
    """The row, which legal_eval_v1 accepts; raises RowRefused with all reasons where it would not."""
    json_bytes(row)
    problems = [finding.message for finding in check_row(row, _USUAL) if finding.severity == "error"]
    if problems:
        raise RowRefused("; ".join(problems))
    return row


def filled(members: Mapping[str, object]) -> Row:
    """The members that say something: no empty text or list, and not nothing; 0 and false do."""
    return {name: value for name, value in members.items() if value or isinstance(value, int | float)}


def choice_id(position: int, style: IdStyle) -> str:
    """A..Z, then AA, AB, ... (stable) or CHOICE_26, CHOICE_27, ... (upstream)."""
    if position < len(ALPHABET):
        return ALPHABET[position]
    if style == "upstream":
        return f"CHOICE_{position}"
    lead, last = divmod(position, len(ALPHABET))
    return choice_id(lead - 1, style) + ALPHABET[last]


def json_bytes(value: object) -> bytes:
    """The canonical JSON of a value; raises RowRefused for what JSON cannot hold."""
    try:
        return canonical_json(value)
    except UnicodeEncodeError:
        raise RowRefused("a text holds an unpaired surrogate") from None
    except ValueError as problem:
        raise RowRefused(f"a value has no JSON form: {problem}") from None


def digest(*parts: object) -> str:
    """Sixteen hexadecimal digits that depend on the parts alone; the JSON around them keeps their borders apart."""
    return sha256_hex(json_bytes(parts))[:16]


def older_digest(text: str) -> str:
    """The first sixteen digits of SHA-1, of which upstream ids are made."""
    return hashlib.sha1(text.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()[:16]
