"""Recorded conversations as cases: the history up to a user turn, and the reply that followed."""

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

import msgspec

from assay.core.canonical import canonical_json, sha256_hex
from assay.core.case import Case
from assay.grading.tool_call import EXPECTED, TOOLS

if TYPE_CHECKING:
    from assay.datasets.converters import ConversionResult


def replayed(conversations: Iterable[tuple[Case, Any]], *, is_recorded: bool) -> Iterator[tuple[Case, Any]]:
    """One case for each user turn that a reply follows, with the turns of its conversation.

    The reply is the reference for a candidate that is asked anew, and the tool that it used is expected of the candidate.
    Where the recorded reply is itself the answer to be judged, there is neither: nothing is compared with itself. A
    conversation that occurs twice counts once.
    """
    seen: set[str] = set()
    to_case: Callable[..., Case] = import_module("assay.datasets.legal_eval_v1.rules").to_case
    for conversation, turns in conversations:
        rows = _converted(conversation).rows
        calls = {} if is_recorded else _calls(conversation)
        tools = {} if is_recorded else {TOOLS: _tools(conversation)}
        for row in rows:
            if row["id"] not in seen:
                seen.add(row["id"])
                case = to_case(row, conversation.index, record_sha256=sha256_hex(canonical_json(row)))
                tool_use = {**tools, **calls.get(case.metadata["turn_id"], {})}
                yield _of_conversation(case, tool_use, is_recorded=is_recorded), turns


def _converted(conversation: Case) -> "ConversionResult":
    """Its rows of legal_eval_v1; the converters are imported here, so that a run without conversations does not pay for them."""
    convert_cases: Callable[..., ConversionResult] = import_module("assay.datasets.converters").convert_cases
    return convert_cases((conversation,), source="conversation_v1", target="legal_eval_v1")


def _of_conversation(case: Case, tool_use: dict[str, Any], *, is_recorded: bool) -> Case:
    # Policies are those of legal_eval_v1; a conversation's metadata may use the word for something else.
    case = msgspec.structs.replace(case, contract="conversation_v1", policy_id="")
    if is_recorded:
        return msgspec.structs.replace(case, task="open", references=())
    return msgspec.structs.replace(case, extra=tool_use) if tool_use.get(TOOLS) else case


def _tools(conversation: Case) -> dict[str, list[str]]:
    """The tools that were used, each with all members that its input ever had, so that a list of them gives no call away."""
    members: dict[str, set[str]] = {}
    for turn in conversation.turns:
        if turn.tool_used is not None:
            members.setdefault(turn.tool_used, set()).update(turn.tool_input or {})
    return {tool: sorted(members[tool]) for tool in sorted(members)}


def _calls(conversation: Case) -> dict[int, dict[str, Any]]:
    """What is called right after a user's turn, by the turn's id; later calls rest on outputs that a candidate never sees."""
    calls: dict[int, dict[str, Any]] = {}
    asked: int | None = None
    for turn in conversation.turns:
        if turn.speaker == "user":
            asked = turn.turn_id
        elif turn.speaker == "assistant":
            if asked is not None and turn.tool_used is not None:
                calls[asked] = {EXPECTED: {"tool": turn.tool_used, "input": turn.tool_input or {}}}
            asked = None
    return calls


def tool_turns(conversations: Iterable[Case]) -> int:
    """Turns that use a tool, which a judge of recorded replies is not shown."""
    return sum(turn.tool_used is not None for conversation in conversations for turn in conversation.turns)


def recorded_replies(conversations: Iterable[tuple[Case, Any]]) -> dict[str, str]:
    """The recorded reply of each case."""
    return {case.id: case.references[0] for case, _ in replayed(conversations, is_recorded=False)}


def unanswered_turns(conversations: Iterable[Case]) -> int:
    """User turns that no reply follows, or that cannot be asked; they are not evaluated."""
    return sum(counts.skipped + counts.invalid for case in conversations for counts in _converted(case).report.sources)
