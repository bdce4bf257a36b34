"""Recorded conversations as cases: the history up to a user turn, and the reply that followed."""

from collections.abc import Iterable, Iterator

import msgspec

from assay.core.canonical import canonical_json, sha256_hex
from assay.core.case import Case
from assay.datasets.converters import convert_cases
from assay.datasets.legal_eval_v1.rules import to_case


def replayed(conversations: Iterable[Case], *, is_recorded: bool) -> Iterator[Case]:
    """One case for each user turn that a reply follows.

    The reply is the reference for a candidate that is asked anew. Where the recorded reply is itself the answer to be
    judged, there is no reference: nothing is compared with itself. A conversation that occurs twice counts once.
    """
    seen: set[str] = set()
    for conversation in conversations:
        rows = convert_cases((conversation,), source="conversation_v1", target="legal_eval_v1").rows
        for row in rows:
            if row["id"] not in seen:
                seen.add(row["id"])
                case = to_case(row, conversation.index, record_sha256=sha256_hex(canonical_json(row)))
                yield _of_conversation(case, is_recorded=is_recorded)


def _of_conversation(case: Case, *, is_recorded: bool) -> Case:
    if is_recorded:
        return msgspec.structs.replace(case, contract="conversation_v1", task="open", references=())
    return msgspec.structs.replace(case, contract="conversation_v1")


def recorded_replies(conversations: Iterable[Case]) -> dict[str, str]:
    """The recorded reply of each case."""
    return {case.id: case.references[0] for case in replayed(conversations, is_recorded=False)}


def unanswered_turns(conversations: Iterable[Case]) -> int:
    """User turns that no reply follows, or that cannot be asked; they are not evaluated."""
    converted = (convert_cases((case,), source="conversation_v1", target="legal_eval_v1") for case in conversations)
    return sum(counts.skipped + counts.invalid for conversion in converted for counts in conversion.report.sources)
