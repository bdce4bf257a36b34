"""Fields of records: nulls that count as absent, and fields that no model is sent, contract by contract.

Tables write null where a record has no value. Fields that do another job do not count as unsent: ids, tags, weights, latencies and
names of datasets select, group and score, and `metadata.policy_id` chooses a policy.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from assay.core.issue import Path
from assay.core.open_fields import FieldUse, field_uses
from assay.datasets.parsing.config import ValidationConfig

Fields = Mapping[str, Any]
"""Optional fields of an object, each with those of its value; a list has the fields of its elements."""

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
    """Remove the optional fields that are null from a value, and return their paths."""
    if type(value) is list:
        return [where for index, element in enumerate(value) for where in drop_nulls(element, fields, (*path, index))]
    if type(value) is not dict:
        return []
    dropped: list[Path] = []
    # A list of the names first, because members are deleted while it is walked.
    for name in [name for name in fields if name in value]:
        if value[name] is None:
            del value[name]
            dropped.append((*path, name))
        else:
            dropped += drop_nulls(value[name], fields[name], (*path, name))
    return dropped


def turn_fields(config: ValidationConfig) -> list[str]:
    """List the optional fields of a turn, which depend on the settings."""
    required = {"turn_id", "speaker", *config.required_fields}
    return [name for name in config.optional_fields if name not in required]


def drop_turn_nulls(turn: object, optional: Iterable[str], path: Path = ()) -> list[Path]:
    """Remove the null fields of a turn and return their paths; null may be the real output of a tool, so it stays."""
    if type(turn) is not dict:
        return []
    nulls = [name for name in optional if name in turn and turn[name] is None]
    # Without a tool, a null output is an empty column of a table.
    has_tool = turn.get("tool_used") is not None
    dropped = [name for name in nulls if not (name == "tool_output" and has_tool)]
    for name in dropped:
        del turn[name]
    return [(*path, name) for name in dropped]


SENT_METADATA: Mapping[str, tuple[str, ...]] = {"lexam_oq_v1": ("course",)}
"""Members of metadata that models are sent under a policy."""
MAX_SENT_METADATA = 2
"""Members that may all be sent: the policy and what it sends; with more, some are surely not sent."""
METADATA = FieldUse("metadata", "not_sent")
ONLY_METADATA = (METADATA,)
NO_USES: tuple[FieldUse, ...] = ()
_BATCH_MEMBERS = ("record_id", "input", "reference", "tags", "expected", "metadata")
_BATCH_EXPECTED = ("max_latency_ms", "required_criteria")
_GOLDEN_MEMBERS = ("id", "user_prompt", "rubric", "tags")
_LEGAL_MEMBERS = frozenset((
    "schema_version", "id", "dataset", "task_type", "prompt", "context", "messages", "attachments", "rubric", "reference_answers",
    "choices", "correct_choice_ids",
))  # fmt: skip
_LEGAL_KNOWN = _LEGAL_MEMBERS | {"metadata"}
_LEGAL_PARTS = {
    "messages": ("role", "content"),
    "attachments": ("path", "title"),
    "rubric": ("id", "title", "description", "weight"),
    "choices": ("id", "text"),
}
_TURN_MEMBERS = ("turn_id", "speaker", "message", "assistant_reply", "tool_used", "tool_input", "tool_output")


def batch_uses(record: Mapping[str, Any]) -> tuple[FieldUse, ...]:
    """List the uses of open and unknown members of a batch_v1 record; empty for a record without any."""
    given, reference = record["input"], record.get("reference") or {}
    found = [*field_uses(given, reference), *(ONLY_METADATA if record.get("metadata") else ())]
    found += [FieldUse(name, "not_sent") for name, value in record.items() if name not in _BATCH_MEMBERS and value is not None]
    expected = record.get("expected") or {}
    found += [FieldUse(f"expected.{name}", "not_sent") for name in expected if name not in _BATCH_EXPECTED]
    return tuple(found)


def golden_uses(case: Mapping[str, object]) -> Iterator[FieldUse]:
    """List the members of a golden_v1 case that are for people: its context, and unknown members."""
    return (FieldUse(name, "not_sent") for name, value in case.items() if name not in _GOLDEN_MEMBERS and value not in (None, ""))


def has_unsent_metadata(metadata: Mapping[str, Any]) -> bool:
    """Return whether a legal_eval_v1 row has metadata other than its policy and what that policy sends."""
    if "policy_id" not in metadata:
        return bool(metadata)
    sent = SENT_METADATA.get(metadata["policy_id"], ())
    # `policy_id` chooses how a row is prompted and graded, so it does not count as unsent.
    return len(metadata) > 1 + sum(name in metadata for name in sent) if sent else len(metadata) > 1


def legal_uses(row: Mapping[str, Any]) -> Iterator[FieldUse]:
    """List the members of a legal_eval_v1 row that no model is sent: metadata, and unknown members."""
    if has_unsent_metadata(row.get("metadata") or {}):
        yield METADATA
    yield from (FieldUse(name, "not_sent") for name, value in row.items() if name not in _LEGAL_KNOWN and value is not None)
    for part, known in _LEGAL_PARTS.items():
        unknown = dict.fromkeys(
            name for member in row.get(part) or () for name, value in member.items() if name not in known and value is not None
        )
        yield from (FieldUse(f"{part}[].{name}", "not_sent") for name in unknown)


def turn_uses(turn: Mapping[str, object]) -> Iterator[FieldUse]:
    """List the members of a conversation_v1 turn that no model is sent: history holds words, and tools are offered by name."""
    return (
        FieldUse(name, "not_sent")
        for name, value in turn.items()
        if name not in _TURN_MEMBERS and (value is not None or name == "tool_output")
    )
