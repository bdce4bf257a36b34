"""The fast lane of legal_eval_v1: typed decoding accepts clean rows, all others are left to the exact rules."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

import msgspec
import orjson
from msgspec import UNSET, Meta, UnsetType

from assay.core.json_door import MAX_DEPTH
from assay.datasets.legal_eval_v1 import rules
from assay.datasets.scan import quotes_in

_Filled = Annotated[str, Meta(min_length=1)]


class _Message(msgspec.Struct):
    role: Literal["user", "assistant", "system"]
    content: _Filled


class _Attachment(msgspec.Struct):
    path: _Filled
    kind: str | UnsetType = UNSET
    title: str | UnsetType = UNSET


class _Criterion(msgspec.Struct):
    id: _Filled
    title: _Filled
    description: str | UnsetType = UNSET
    weight: float | int | UnsetType = UNSET


class _Choice(msgspec.Struct):
    id: _Filled
    text: _Filled


class _Row(msgspec.Struct, tag_field="task_type", kw_only=True):
    schema_version: Literal["legal_eval_v1"]
    id: _Filled
    dataset: _Filled
    prompt: _Filled
    context: str | UnsetType = UNSET
    messages: list[_Message] | UnsetType = UNSET
    attachments: list[_Attachment] | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET


class _Rubric(_Row, tag="rubric_qa", kw_only=True):
    rubric: Annotated[list[_Criterion], Meta(min_length=1)]
    reference_answers: list[str] | UnsetType = UNSET


class _Reference(_Row, tag="reference_qa", kw_only=True):
    reference_answers: Annotated[list[_Filled], Meta(min_length=1)]


class _Mcq(_Row, tag="mcq", kw_only=True):
    choices: Annotated[list[_Choice], Meta(min_length=2)]
    correct_choice_ids: Annotated[list[str], Meta(min_length=1)]


class Clean(msgspec.Struct, frozen=True):
    """What the fast lane knows of an accepted row."""

    id: str
    unknown: tuple[str, ...] = ()
    """Top-level fields that the contract does not name."""


_decode = msgspec.json.Decoder(_Rubric | _Reference | _Mcq).decode


def clean_rows(lines: Sequence[bytes]) -> list[Clean | None]:
    """For each line what is known of a clean row; None asks for the exact rules."""
    rows = [_read(line) for line in lines]
    passed = [position for position, row in enumerate(rows) if row is not None]
    verdicts: list[Clean | None] = [None if row is None else Clean(row.id) for row in rows]
    source = b"".join([lines[position] for position in passed])
    written = b"".join([_encode(rows[position]) for position in passed])
    if quotes_in(source) == quotes_in(written) and b"\\u00" not in source:
        return verdicts
    for position in passed:
        verdicts[position] = _accepted(lines[position], rows[position])
    return verdicts


def _read(line: bytes) -> _Row | None:
    try:
        row = _decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    return row if _is_clean(row) and line.count(b"[") + line.count(b"{") <= MAX_DEPTH else None


def _encode(row: _Row | None) -> bytes:
    return msgspec.json.encode(row)


def _accepted(line: bytes, row: _Row | None) -> Clean | None:
    """A name that appears twice is written once, an unknown field not at all: the quotation marks tell."""
    if row is None or b"\\u0000" in line or b"\\u0022" in line:
        return None
    quotes = line.count(b'"')
    if quotes == _encode(row).count(b'"'):
        return Clean(row.id)
    try:
        members = orjson.loads(line)
        if quotes != orjson.dumps(members).count(b'"'):
            return None
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return None
    if any(field in members for field in rules.FORBIDDEN[members["task_type"]]):
        return None
    return Clean(row.id, tuple(rules.unknown_fields(members)))


def _is_clean(row: _Row) -> bool:
    """What types cannot say: nothing blank, ids unique, choices that exist, paths below the folder."""
    if row.id.isspace() or row.dataset.isspace() or row.prompt.isspace():
        return False
    if row.messages is not UNSET and not _are_clean_messages(row.messages, row.prompt):
        return False
    if row.attachments is not UNSET and any(_is_bad_path(item.path) for item in row.attachments):
        return False
    if row.metadata is not UNSET and type(row.metadata.get("policy_id", "")) is not str:
        return False
    return _TASK_CHECKS[type(row)](row)


def _is_bad_path(path: str) -> bool:
    return path.isspace() or rules.is_outside(path)


def _are_clean_messages(messages: list[_Message], prompt: str) -> bool:
    if not messages or any(message.content.isspace() for message in messages):
        return False
    return messages[-1].role == "user" and prompt.strip() in messages[-1].content


def _is_clean_rubric(row: Any) -> bool:
    rubric = row.rubric
    if any(criterion.id.isspace() or criterion.title.isspace() for criterion in rubric):
        return False
    if len({criterion.id for criterion in rubric}) != len(rubric):
        return False
    return any(criterion.weight is UNSET or criterion.weight > 0 for criterion in rubric)


def _is_clean_reference(row: Any) -> bool:
    return not any(answer.isspace() for answer in row.reference_answers)


def _is_clean_mcq(row: Any) -> bool:
    ids = {choice.id for choice in row.choices}
    if len(ids) != len(row.choices) or any(choice.id.isspace() or choice.text.isspace() for choice in row.choices):
        return False
    return ids.issuperset(row.correct_choice_ids)


_TASK_CHECKS: dict[type, Callable[[Any], bool]] = {_Rubric: _is_clean_rubric, _Reference: _is_clean_reference, _Mcq: _is_clean_mcq}
