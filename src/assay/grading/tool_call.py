"""Tool calls of a record: the tools that it offers, the calls that are expected, and those in a reply."""

from collections.abc import Sequence

import msgspec

from assay.core.case import Case, Message
from assay.core.model_call import Reply
from assay.core.tools import (
    ExpectedCall,
    ToolCall,
    ToolDefinition,
    ToolNames,
    arguments_text,
    read_chat_tool_call,
    storable_call,
    tool_call,
)
from assay.grading.verdict import UnusableReply, only_object

_OLD_TOOLS, _OLD_CALL = "tools", "tool_call"
"""Members of `Case.extra` in runs that were begun by versions which compared the first call of a turn only."""


def compares_calls(case: Case) -> bool:
    """Return whether the tool calls of an answer are compared with expected ones."""
    return case.expected_calls is not msgspec.UNSET or (case.contract == "conversation_v1" and bool(case.extra.get(_OLD_TOOLS)))


def expected_calls(case: Case) -> tuple[ExpectedCall, ...]:
    """Return the expected calls, none where words are expected."""
    if case.expected_calls is not msgspec.UNSET:
        return case.expected_calls
    old = case.extra.get(_OLD_CALL)
    return (ExpectedCall(old["tool"], old["input"]),) if isinstance(old, dict) else ()


def offered_tools(case: Case, tools: Sequence[ToolDefinition]) -> tuple[ToolDefinition, ...]:
    """Return the tools that the candidate may call: the record's own, or those of the run."""
    if not compares_calls(case):
        return ()
    return tuple(tools) if case.tools is msgspec.UNSET else case.tools


def described_tools(tools: Sequence[ToolDefinition]) -> str:
    """List tools in words, for a candidate that is not offered them natively."""
    lines = []
    for tool in tools:
        about = f" ({tool.description})" if tool.description else ""
        lines.append(f"- {tool.name}: {', '.join(tool.parameters.get('properties', {})) or 'no input'}{about}")
    return "\n".join(lines)


def calls_in(reply: Reply, tools: Sequence[ToolDefinition]) -> tuple[ToolCall, ...]:
    """Return the calls of a reply under the tools' own names; a text that is nothing but a call counts as one."""
    if reply.tool_calls:
        names = ToolNames(tool.name for tool in tools)
        return tuple(msgspec.structs.replace(call, name=names.own(call.name)) for call in reply.tool_calls)
    called = read_call(reply.text)
    return () if called is None else (called,)


def read_call(answer: str) -> ToolCall | None:
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
    return storable_call(ToolCall(tool, None, answer) if given is None else tool_call(tool, given))


def message_text(message: Message) -> str:
    """Return a message as text that a judge can quote: words, calls with their inputs, or the output of a tool."""
    if message.role == "tool":
        return f"[output of {message.name}]\n{message.content}"
    return with_calls(message.content, message.tool_calls, role=message.role)


def with_calls(text: str, calls: Sequence[ToolCall], *, role: str = "assistant") -> str:
    """Return an assistant's words, followed by its calls."""
    parts = [f"[{role}]\n{text}"] if text or not calls else []
    parts += [f"[{role} calls {call.name}]\n{arguments_text(call)}" for call in calls]
    return "\n\n".join(parts)


def answer_with_calls(reply: Reply) -> str:
    """Return a candidate's answer as judges are shown it: the calls that it made with their outputs, and its words."""
    if not reply.tool_calls:
        return reply.text
    steps = [message for step in reply.steps if (message := _step_message(step)) is not None]
    made = list(map(message_text, steps)) or [with_calls("", reply.tool_calls)]
    return "\n\n".join([*made, *([reply.text] if reply.text else [])])


def _step_message(step: object) -> Message | None:
    """Read a step in the format of chat completions; None for a step of another form."""
    if not isinstance(step, dict) or step.get("role") not in ("assistant", "tool"):
        return None
    calls = (read_chat_tool_call(call) for call in step.get("tool_calls") or ())
    content = step.get("content")
    return Message(
        step["role"],
        content if isinstance(content, str) else "",
        tuple(call for call in calls if call is not None),
        str(step.get("tool_call_id") or ""),
        str(step.get("name") or ""),
    )
