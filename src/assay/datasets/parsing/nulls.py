"""Nulls of optional fields, which tables write where a record has no value: found and removed."""

from collections.abc import Iterable, Mapping
from typing import Any

from assay.core.issue import Path
from assay.datasets.parsing.config import ValidationConfig

Fields = Mapping[str, Any]
"""The optional fields of an object, each with those of its value; a list has the fields of its elements."""

LEGAL_ROW: Fields = {
    "context": {},
    "messages": {},
    "attachments": {"kind": {}, "title": {}},
    "metadata": {"policy_id": {}},
    "rubric": {"description": {}, "weight": {}},
    "reference_answers": {},
    "choices": {},
    "correct_choice_ids": {},
}
BATCH_HEAD: Fields = {"created_at": {}, "metadata": {}}
BATCH_RECORD: Fields = {
    "reference": {"answer": {}},
    "tags": {},
    "expected": {"max_latency_ms": {}, "required_criteria": {}},
    "metadata": {},
}
GOLDEN_DOCUMENT: Fields = {"description": {}}
GOLDEN_CASE: Fields = {"context": {}, "tags": {}}


def drop_nulls(value: object, fields: Fields, path: Path = ()) -> list[Path]:
    """Remove the optional fields that are null from a value, and give their paths."""
    if type(value) is list:
        return [where for index, element in enumerate(value) for where in drop_nulls(element, fields, (*path, index))]
    if type(value) is not dict:
        return []
    dropped: list[Path] = []
    for name in [name for name in fields if name in value]:
        if value[name] is None:
            del value[name]
            dropped.append((*path, name))
        else:
            dropped += drop_nulls(value[name], fields[name], (*path, name))
    return dropped


def turn_fields(config: ValidationConfig) -> list[str]:
    """The fields of a turn that may be left out, which depends on the settings."""
    required = {"turn_id", "speaker", *config.required_fields}
    return [name for name in config.optional_fields if name not in required]


def drop_turn_nulls(turn: object, optional: Iterable[str], path: Path = ()) -> list[Path]:
    """As `drop_nulls`, for a turn of a conversation: a tool that was used may well have put out null."""
    if type(turn) is not dict:
        return []
    nulls = [name for name in optional if name in turn and turn[name] is None]
    has_tool = turn.get("tool_used") is not None
    dropped = [name for name in nulls if not (name == "tool_output" and has_tool)]
    for name in dropped:
        del turn[name]
    return [(*path, name) for name in dropped]
