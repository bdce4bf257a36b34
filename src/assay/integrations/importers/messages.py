"""Messages of other tools: prompts into questions, and recorded turns into turns of conversation_v1."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from assay.datasets.converters.rows import Row, RowRefused, kind
from assay.datasets.imports.items import ImportState

_ROLES = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "developer": "system",
    "human": "user",
    "model": "assistant",
}


class ImportedPrompt(msgspec.Struct, frozen=True):
    """Prompt of a model: the last message to it, and the whole conversation where there is more."""

    prompt: str
    messages: list[Row] = []


def asked(given: object, reading: ImportState, *, names_media: bool = False) -> ImportedPrompt:
    """Return a prompt from a text or a list of messages; other parts are counted. Raises RowRefused without any text.

    With `names_media` the text names each part that is not text, as in `[picture: cat.jpg]`.
    """
    if isinstance(given, str):
        if not given.strip():
            raise RowRefused("the prompt is empty")
        return ImportedPrompt(given)
    if not isinstance(given, list):
        raise RowRefused(f"the prompt is {kind(given)}, neither text nor a list of messages")
    messages = [message for one in given if (message := _message(one, reading, names_media=names_media))]
    if not messages:
        raise RowRefused("the prompt has no text")
    prompt = next((message["content"] for message in reversed(messages) if message["role"] == "user"), messages[-1]["content"])
    # One message of a user is the prompt; anything else needs its roles.
    return ImportedPrompt(prompt, messages if len(messages) > 1 or messages[0]["role"] != "user" else [])


def _message(message: object, reading: ImportState, *, names_media: bool) -> Row | None:
    if not isinstance(message, dict):
        raise RowRefused(f"a message is {kind(message)}")
    role = _ROLES.get(str(message.get("role")))
    # Gemini's API has `parts` in place of the content.
    text = content_text(message.get("content", message.get("parts")), reading, names_media=names_media)
    if role is None or not text.strip():
        reading.leave_out(f"message of role {message.get('role')}" if role is None else "message without text")
        return None
    reading.leave_out("name of a message", int("name" in message))
    return {"role": role, "content": text}


def content_text(content: object, reading: ImportState, *, names_media: bool = False) -> str:
    """Return the text of a message's content: a string, or the text parts of a list."""
    if not isinstance(content, list):
        return content if isinstance(content, str) else ""
    texts: list[str] = []
    for part in content:
        form = part.get("type", next(iter(part), None)) if isinstance(part, dict) else kind(part)
        # A refusal is what the model answered.
        said = part.get("text", part.get("refusal")) if isinstance(part, dict) else None
        if isinstance(said, str):
            texts.append(said)
        else:
            reading.leave_out(f"content of type {form}")
            texts += [_media_name(str(form), part)] if names_media else []
    return "\n".join(texts)


_MEDIA = {"image": "picture", "audio": "recording", "video": "film", "file": "document", "document": "document", "pdf": "document"}
_ADDRESS = re.compile(r"(?:https?|s3|gs|file)://\S{1,2000}|[\w./ -]{1,200}\.[A-Za-z0-9]{2,5}|\[[a-z]+: [^\]]{1,300}\]")


def media_name(form: str, address: str = "") -> str:
    """Return the text that stands for a picture or another medium in a question."""
    what = next((word for sign, word in _MEDIA.items() if sign in form.lower()), f"content of type {form}")
    return f"[{what}: {address}]" if address else f"[{what}]"


def _media_name(form: str, part: object) -> str:
    found = next((text for text in _texts_in(part) if _ADDRESS.fullmatch(text)), "")
    return found if found.startswith("[") else media_name(form, found)


def _texts_in(value: object, depth: int = 5) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif depth and isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts_in(one, depth - 1)


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
