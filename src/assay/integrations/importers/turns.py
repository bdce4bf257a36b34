"""Messages of other tools into turns of conversation_v1, tool calls with their outputs included."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from assay.datasets.imports.items import Row
from assay.datasets.imports.report import ImportState


class ImportedToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """One use of a tool."""

    name: str
    given: Any
    output: Any = None


class ImportedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message: who said what, and which tools were used for it."""

    role: str
    text: str
    calls: tuple[ImportedToolCall, ...] = ()


def turns_of(messages: Sequence[ImportedMessage], reading: ImportState) -> list[Row]:
    """The turns of a conversation, numbered from 1; what is neither the user's nor the assistant's is counted."""
    turns: list[Row] = []
    for said in messages:
        if said.role == "user":
            turns.append({"speaker": "user", "message": said.text})
        elif said.role == "assistant":
            turns += _replies(said, reading)
        else:
            reading.leave_out(f"message of role {said.role} in a conversation")
    return [{"turn_id": number, **turn} for number, turn in enumerate(turns, 1)]


def _replies(said: ImportedMessage, reading: ImportState) -> Iterator[Row]:
    """A turn for each tool that was used, or one without; the text stands with the first."""
    if not said.calls:
        yield {"speaker": "assistant", "assistant_reply": said.text}
    for place, call in enumerate(said.calls):
        text = said.text if place == 0 else ""
        if not text.strip():
            reading.leave_out("text of a reply that only uses a tool, named in its place")
        given = call.given if isinstance(call.given, dict) else {"value": call.given}
        used = {"tool_used": call.name, "tool_input": given, "tool_output": call.output}
        yield {"speaker": "assistant", "assistant_reply": text if text.strip() else f"[uses {call.name}]", **used}
