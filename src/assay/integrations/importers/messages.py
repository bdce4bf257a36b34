"""Messages of other tools: prompts into questions, and recorded turns into turns of conversation_v1."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from assay.datasets.converters.rows import Row, RowRefused, kind
from assay.datasets.imports.items import ImportState

_ROLES = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system", "human": "user"}


class ImportedPrompt(msgspec.Struct, frozen=True):
    """Prompt of a model: the last message to it, and the whole conversation where there is more."""

    prompt: str
    messages: list[Row] = []


_TEXT_PARTS = frozenset({"text", "input_text", "output_text", "refusal"})


def asked_in_full(given: object, reading: ImportState) -> ImportedPrompt:
    """Return a prompt as `asked`; raises RowRefused also for an image or another part that is not text."""
    # Without its picture the question would be another one. Logs keep such a sample, since it has an answer.
    for message in given if isinstance(given, list) else []:
        content = message.get("content") if isinstance(message, dict) else None
        for part in content if isinstance(content, list) else []:
            form = part.get("type") if isinstance(part, dict) else kind(part)
            if form not in _TEXT_PARTS and not (isinstance(part, dict) and isinstance(part.get("text"), str)):
                raise RowRefused(f"the question has content of type {form}, and a dataset holds only text")
    return asked(given, reading)


def asked(given: object, reading: ImportState) -> ImportedPrompt:
    """Return a prompt from a text or a list of messages; other parts are counted. Raises RowRefused without any text."""
    if isinstance(given, str):
        if not given.strip():
            raise RowRefused("the prompt is empty")
        return ImportedPrompt(given)
    if not isinstance(given, list):
        raise RowRefused(f"the prompt is {kind(given)}, neither text nor a list of messages")
    messages = [message for one in given if (message := _message(one, reading))]
    if not messages:
        raise RowRefused("the prompt has no text")
    prompt = next((message["content"] for message in reversed(messages) if message["role"] == "user"), messages[-1]["content"])
    # One message of a user is the prompt; anything else needs its roles.
    return ImportedPrompt(prompt, messages if len(messages) > 1 or messages[0]["role"] != "user" else [])


def _message(message: object, reading: ImportState) -> Row | None:
    if not isinstance(message, dict):
        raise RowRefused(f"a message is {kind(message)}")
    role = _ROLES.get(str(message.get("role")))
    text = content_text(message.get("content"), reading)
    if role is None or not text.strip():
        reading.leave_out(f"message of role {message.get('role')}" if role is None else "message without text")
        return None
    reading.leave_out("name of a message", int("name" in message))
    return {"role": role, "content": text}


def content_text(content: object, reading: ImportState) -> str:
    """Return the text of a message's content: a string, or the text parts of a list."""
    if not isinstance(content, list):
        return content if isinstance(content, str) else ""
    texts: list[str] = []
    for part in content:
        form = part.get("type") if isinstance(part, dict) else kind(part)
        # A refusal is what the model answered.
        said = part.get("text", part.get("refusal")) if isinstance(part, dict) else None
        if isinstance(said, str):
            texts.append(said)
        else:
            reading.leave_out(f"content of type {form}")
    return "\n".join(texts)


class ImportedToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """One use of a tool."""

    name: str
    given: Any
    output: Any = None


class ImportedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message: its speaker, its text, and the tools that were used for it."""

    role: str
    text: str
    calls: tuple[ImportedToolCall, ...] = ()


def turns_of(messages: Sequence[ImportedMessage], reading: ImportState) -> list[Row]:
    """Return the turns of a conversation, numbered from 1; what is neither the user's nor the assistant's is counted."""
    turns: list[Row] = []
    for said in messages:
        if said.role == "user":
            turns.append({"speaker": "user", "message": said.text})
        elif said.role == "assistant":
            turns += _replies(said, reading)
        else:
            reading.leave_out(f"message of role {said.role} in a conversation")
    # Numbered last, since messages that are left out must not leave gaps.
    return [{"turn_id": number, **turn} for number, turn in enumerate(turns, 1)]


def _replies(said: ImportedMessage, reading: ImportState) -> Iterator[Row]:
    """Return a turn for each tool that was used, or one without; the first has the text."""
    if not said.calls:
        yield {"speaker": "assistant", "assistant_reply": said.text}
    for place, call in enumerate(said.calls):
        text = said.text if place == 0 else ""
        if not text.strip():
            # conversation_v1 asks for text in a reply, and a use of a tool may have none.
            reading.leave_out("text of a reply that only uses a tool, named in its place")
        given = call.given if isinstance(call.given, dict) else {"value": call.given}
        used = {"tool_used": call.name, "tool_input": given, "tool_output": call.output}
        yield {"speaker": "assistant", "assistant_reply": text if text.strip() else f"[uses {call.name}]", **used}
