"""The fast lane of legal_eval_v1: typed decoding accepts clean rows, all others are left to the exact rules."""

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
import orjson
from msgspec import UNSET, Meta, UnsetType

from assay.core.json_door import MAX_TOKENS
from assay.datasets.legal_eval_v1 import rules
from assay.datasets.scan import Pieces, unlike
from assay.datasets.shallow import ShallowObject

_Filled = Annotated[str, Meta(min_length=1)]


class _Message(msgspec.Struct, gc=False):
    role: Literal["user", "assistant", "system"]
    content: _Filled


class _Attachment(msgspec.Struct, gc=False):
    path: _Filled
    kind: str | UnsetType = UNSET
    title: str | UnsetType = UNSET


class _Criterion(msgspec.Struct, gc=False):
    id: _Filled
    title: _Filled
    description: str | UnsetType = UNSET
    weight: float | UnsetType = UNSET


class _Choice(msgspec.Struct, gc=False):
    id: _Filled
    text: _Filled


class _Row(msgspec.Struct, gc=False, tag_field="task_type", kw_only=True, forbid_unknown_fields=True):
    schema_version: Literal["legal_eval_v1"]
    id: _Filled
    dataset: _Filled
    prompt: _Filled
    context: str | UnsetType = UNSET
    messages: list[_Message] | UnsetType = UNSET
    attachments: list[_Attachment] | UnsetType = UNSET
    metadata: ShallowObject | UnsetType = UNSET


class _Rubric(_Row, gc=False, tag="rubric_qa", kw_only=True, forbid_unknown_fields=True):
    rubric: Annotated[list[_Criterion], Meta(min_length=1)]
    reference_answers: list[str] | UnsetType = UNSET


class _Reference(_Row, gc=False, tag="reference_qa", kw_only=True, forbid_unknown_fields=True):
    reference_answers: Annotated[list[_Filled], Meta(min_length=1)]


class _Mcq(_Row, gc=False, tag="mcq", kw_only=True, forbid_unknown_fields=True):
    choices: Annotated[list[_Choice], Meta(min_length=2)]
    correct_choice_ids: Annotated[list[str], Meta(min_length=1)]


class Clean(msgspec.Struct, frozen=True, gc=False):
    """What the fast lane knows of an accepted row."""

    id: str
    warned: tuple[str, ...] = ()
    """Kinds of warnings that the exact rules have for the row."""


_TYPES = {"rubric_qa": _Rubric, "reference_qa": _Reference, "mcq": _Mcq}
_decode = msgspec.json.Decoder(_Rubric | _Reference | _Mcq).decode
_encode = msgspec.json.Encoder().encode
_ODD_ESCAPE = re.compile(rb"\\u00(?:00|22)")


def clean_rows(lines: Sequence[bytes]) -> list[Clean | None]:
    """For each line what is known of a clean row; None asks for the exact rules."""
    rows = [_read(line) for line in lines]
    passed = [position for position, row in enumerate(rows) if row is not None]
    source = Pieces([lines[position] for position in passed])
    bad = unlike(source, Pieces([_encode(rows[position]) for position in passed]))
    bad |= source.with_more_values_than(MAX_TOKENS)
    bad_rows = {passed[at] for at in bad}
    return [
        _with_unknown(line) if row is None else None if position in bad_rows else Clean(row.id, _warned(row))
        for position, (line, row) in enumerate(zip(lines, rows, strict=True))
    ]


def _read(line: bytes) -> _Row | None:
    try:
        row = _decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    return row if _is_clean(row) else None


def _with_unknown(line: bytes) -> Clean | None:
    """A row that is clean but for unknown fields, which are allowed; a name that appears twice is not."""
    try:
        members = orjson.loads(line)
        unknown = rules.unknown_fields(members) if type(members) is dict else []
        if not unknown or line.count(b'"') != orjson.dumps(members).count(b'"') or _ODD_ESCAPE.search(line):
            return None
        known = {name: members[name] for name in rules.FIELDS if name in members}
        row = msgspec.convert(known, _TYPES[members["task_type"]])
    except (orjson.JSONDecodeError, orjson.JSONEncodeError, msgspec.ValidationError, KeyError, TypeError):
        return None
    kinds = (f"unsupported_field.{name}" for name in unknown)
    return Clean(row.id, (*kinds, *_warned(row))) if _is_clean(row) else None


def _warned(row: _Row) -> tuple[str, ...]:
    """The messages are sent and the prompt is shown; a row in which they differ gets a warning."""
    if row.messages is UNSET:
        return ()
    last = row.messages[-1]
    if last.role != "user":
        return ("suspicious_value.messages.role",)
    return () if row.prompt.strip() in last.content else ("suspicious_value.messages.content",)


def _is_clean(row: Any) -> bool:
    """What types cannot say: ids unique, choices that exist, paths below the folder, something to score."""
    if row.id.isspace() or row.dataset.isspace() or row.prompt.isspace():
        return False
    if row.messages is not UNSET and (not row.messages or any(message.content.isspace() for message in row.messages)):
        return False
    if row.attachments is not UNSET and any(item.path.isspace() or rules.is_outside(item.path) for item in row.attachments):
        return False
    if row.metadata is not UNSET and type(row.metadata.get("policy_id", "")) is not str:
        return False
    if type(row) is _Rubric:
        return _is_clean_rubric(row.rubric)
    if type(row) is _Mcq:
        return _are_clean_choices(row.choices, row.correct_choice_ids)
    return not any([answer.isspace() for answer in row.reference_answers])  # noqa: C419  # faster than a generator


def _is_clean_rubric(rubric: list[_Criterion]) -> bool:
    ids = {criterion.id for criterion in rubric if not (criterion.id.isspace() or criterion.title.isspace())}
    return len(ids) == len(rubric) and _has_positive_weight(rubric)


def _are_clean_choices(choices: list[_Choice], correct: list[str]) -> bool:
    ids = {choice.id for choice in choices if not (choice.id.isspace() or choice.text.isspace())}
    return len(ids) == len(choices) and ids.issuperset(correct)


def _has_positive_weight(rubric: list[_Criterion]) -> bool:
    return any([criterion.weight is UNSET or criterion.weight > 0 for criterion in rubric])  # noqa: C419  # faster than a generator
