"""Tool calls as text: the tools of a recorded conversation, its recorded call, and the call in an answer."""

from typing import Any

import msgspec

from assay.core.canonical import JsonObject, canonical_json
from assay.core.case import Case
from assay.grading.verdict import UnusableReply, only_object, replace_unstorable

TOOLS = "tools"
"""Member of `Case.extra`: the names of a conversation's tools, each with the names of its input's members."""
EXPECTED = "tool_call"
"""Member of `Case.extra`: the call of the recorded turn, `{"tool": name, "input": {...}}`."""


class ToolUse(msgspec.Struct, frozen=True):
    """One use of a tool."""

    tool: str
    input: JsonObject | None = {}
    """None when the call has other members instead, whose meaning is unknown."""
    has_replaced: bool = False
    """Characters that no store can hold were replaced by U+FFFD."""

    def is_same_as(self, other: "ToolUse | None") -> bool:
        """Compare tool and input as JSON values: 1 and 1.0 are equal, 1 and "1" are not."""
        # An unknown input equals nothing, not even another unknown one.
        if other is None or self.input is None or other.input is None:
            return False
        return self.tool == other.tool and canonical_json(self.input) == canonical_json(other.input)

    def __str__(self) -> str:
        return f"{self.tool} {'without input' if self.input is None else canonical_json(self.input).decode()}"


def has_tools(case: Case) -> bool:
    """Return whether the case comes from a conversation in which tools were used."""
    return case.contract == "conversation_v1" and bool(case.extra.get(TOOLS))


def is_tool_turn(case: Case) -> bool:
    """Return whether the recorded turn used a tool."""
    return has_tools(case) and EXPECTED in case.extra


def expected_call(case: Case) -> ToolUse | None:
    """Return the call of the recorded turn."""
    return msgspec.convert(case.extra[EXPECTED], ToolUse) if is_tool_turn(case) else None


def read_call(answer: str) -> ToolUse | None:
    """Parse a tool call that is the whole answer, or its only fenced block; None for other text."""
    # Nearly all answers are words, which are not worth parsing.
    if '"tool"' not in answer:
        return None
    found = only_object(answer)
    if isinstance(found, UnusableReply):
        return None
    # `{"tool": "x"}` alone is a call without input. With other members and no `input`, their meaning is unknown.
    tool, given = found.get("tool"), found.get("input", {} if len(found) == 1 else None)
    if not isinstance(tool, str) or not (isinstance(given, dict) or "input" not in found):
        return None
    call = ToolUse(_storable(tool), _storable(given))
    return call if (call.tool, call.input) == (tool, given) else msgspec.structs.replace(call, has_replaced=True)


def _storable(value: object) -> Any:
    """Replace characters that no store can hold, in names and texts at any depth."""
    if isinstance(value, str):
        return replace_unstorable(value)
    if isinstance(value, dict):
        return {replace_unstorable(name): _storable(member) for name, member in value.items()}
    return [_storable(member) for member in value] if isinstance(value, list) else value


def offered_tools(case: Case) -> str:
    """List the tools for the candidate; empty without any."""
    if not has_tools(case):
        return ""
    return "\n".join(f"- {name}: {', '.join(members) or 'no input'}" for name, members in case.extra[TOOLS].items())
