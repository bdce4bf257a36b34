"""Fields of records that no model is sent, contract by contract, without those that do another job.

Ids, tags, weights, latencies and names of datasets select, group and score; `metadata.policy_id` chooses a policy.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from assay.core.field_uses import FieldUse
from assay.core.open_fields import field_uses

SENT_METADATA: Mapping[str, tuple[str, ...]] = {"lexam_oq_v1": ("course",)}
"""Members of metadata that models are sent under a policy."""
MAX_SENT_METADATA = 2
"""The policy and what it sends; with more members, some are surely not sent."""
METADATA = FieldUse("metadata", "not_sent")
ONLY_METADATA = (METADATA,)
NO_USES: tuple[FieldUse, ...] = ()
_BATCH_RECORD = ("record_id", "input", "reference", "tags", "expected", "metadata")
_BATCH_EXPECTED = ("max_latency_ms", "required_criteria")
_GOLDEN_CASE = ("id", "user_prompt", "rubric", "tags")
_LEGAL_ROW = frozenset((
    "schema_version", "id", "dataset", "task_type", "prompt", "context", "messages", "attachments", "rubric", "reference_answers",
    "choices", "correct_choice_ids",
))  # fmt: skip
_LEGAL_KNOWN = _LEGAL_ROW | {"metadata"}
_LEGAL_PARTS = {
    "messages": ("role", "content"),
    "attachments": ("path", "title"),
    "rubric": ("id", "title", "description", "weight"),
    "choices": ("id", "text"),
}
_TURN = ("turn_id", "speaker", "message", "assistant_reply", "tool_used", "tool_input")


def batch_uses(record: Mapping[str, Any]) -> tuple[FieldUse, ...]:
    """Where the open and further members of a batch_v1 record go; nothing for a record without any."""
    given, reference = record["input"], record.get("reference") or {}
    found = [*field_uses(given, reference), *(ONLY_METADATA if record.get("metadata") else ())]
    found += [FieldUse(name, "not_sent") for name, value in record.items() if name not in _BATCH_RECORD and value is not None]
    expected = record.get("expected") or {}
    found += [FieldUse(f"expected.{name}", "not_sent") for name in expected if name not in _BATCH_EXPECTED]
    return tuple(found)


def golden_uses(case: Mapping[str, object]) -> Iterator[FieldUse]:
    """What of a golden_v1 case is for people: its context, and members that the contract does not know."""
    return (FieldUse(name, "not_sent") for name, value in case.items() if name not in _GOLDEN_CASE and value not in (None, ""))


def has_unsent_metadata(metadata: Mapping[str, Any]) -> bool:
    """True when metadata of a legal_eval_v1 row says more than its policy and what that policy sends."""
    if "policy_id" not in metadata:
        return bool(metadata)
    sent = SENT_METADATA.get(metadata["policy_id"], ())
    return len(metadata) > 1 + sum(name in metadata for name in sent) if sent else len(metadata) > 1


def legal_uses(row: Mapping[str, Any]) -> Iterator[FieldUse]:
    """What of a legal_eval_v1 row no model is sent: metadata, and members that the contract does not know."""
    if has_unsent_metadata(row.get("metadata") or {}):
        yield METADATA
    yield from (FieldUse(name, "not_sent") for name, value in row.items() if name not in _LEGAL_KNOWN and value is not None)
    for part, known in _LEGAL_PARTS.items():
        unknown = dict.fromkeys(
            name for member in row.get(part) or () for name, value in member.items() if name not in known and value is not None
        )
        yield from (FieldUse(f"{part}[].{name}", "not_sent") for name in unknown)


def turn_uses(turn: Mapping[str, object]) -> Iterator[FieldUse]:
    """What of a turn of conversation_v1 no model is sent: history holds words, and tools are offered by name."""
    return (
        FieldUse(name, "not_sent")
        for name, value in turn.items()
        if name not in _TURN and (value is not None or name == "tool_output")
    )
