"""Fields of records that no model is sent, contract by contract, without those that do another job.

Ids, tags, weights, latencies and names of datasets select, group and score; `metadata.policy_id` chooses a policy.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from assay.core.open_fields import FieldUse, field_uses

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


_MENTION = re.compile(
    r"\b(?:according to|based on|from|in|per|by|using|uses|use|with|match(?:es)?|contradicts?)"
    r" (?:the |this |its )?(?:(?:given|provided|supplied|attached) )?(?:context|background information)\b(?! of\b)"
    r"|\b(?:given|provided|supplied|attached) (?:context|background)\b|\bcontext (?:says|states|gives|mentions|above|provided)\b"
    r"|\b(?:laut|gemäß|aus|im|nach) (?:dem |des )?(?:angegebenen )?kontexts?\b"
    r"|\b(?:selon|d['\u2019]après|dans) le contexte\b(?! de\b)",
    re.IGNORECASE,
)
"""A rubric that names the context as its source. `In the context of` and `additional context` are other things."""
_ABOUT_THE_CASE = re.compile(
    r"\W*(?:simple|basic|tests?|testing|checks?|edge case|corner case|baseline|expected|expects|answer|the answer|correct|notes?"
    r"|todo|verif\w+|ensures?|should|regression|added|source|see|safety case|bug|issue|ticket)\b"
    r"|[^.\n]{1,100}\b(?:test|tests|case|task|query|question|request|scenario|prompt)\Z",
    re.IGNORECASE,
)
"""Notes about the case, such as `Simple arithmetic test`: what they say is not material for an answer."""
_FEWEST_WORDS = 4
_NUMBER = re.compile(r"(?<![\w.])\d+(?:[.,:]\d+)*")
_HOUR = re.compile(r"0?(\d{1,2})[:.]00\Z")
_NAME = re.compile(r"(?<=[\w,;:] )[^\W\d_a-z][^\W\d_]{2,}")
"""A word with a capital letter that does not begin a sentence."""
_LONGEST = 20_000
"""Characters of a context that are looked at."""


def fact_of_context(context: str, *, rubric: str, prompt: str) -> str:
    """What of the context the rubric asks for although the prompt does not say it; empty where nothing shows that it does."""
    context = context[:_LONGEST].strip()
    if len(context.split()) < _FEWEST_WORDS or context in prompt:
        return ""
    mention = _MENTION.search(rubric)
    if mention:
        return mention[0]
    if _ABOUT_THE_CASE.match(context):
        return ""
    known = _numbers(prompt)
    numbers = [number for number in _numbers(rubric) if len(number) > 1 and number not in known and number in _numbers(context)]
    said = prompt.casefold()
    names = [
        name for name in _NAME.findall(context) if name.casefold() not in said and re.search(rf"\b{re.escape(name)}\b", rubric)
    ]
    return next(iter((*numbers, *names)), "")


def _numbers(text: str) -> dict[str, None]:
    """The numbers of a text in their order; 13:00 is 13."""
    return dict.fromkeys(_HOUR.sub(r"\1", number) for number in _NUMBER.findall(text))
