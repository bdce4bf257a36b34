"""Prompts of other tools, plain or as chat messages, into what a question asks."""

from typing import Any

import msgspec

from assay.datasets.converters.columns import RowRefused, kind
from assay.datasets.imports.items import Row
from assay.datasets.imports.report import ImportState

_ROLES = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system", "human": "user"}


class ImportedPrompt(msgspec.Struct, frozen=True):
    """What a model is asked: the last thing said to it, and the whole conversation where there is more."""

    prompt: str
    messages: list[Row] = []


def asked(given: Any, reading: ImportState) -> ImportedPrompt:
    """A prompt or a list of messages; parts that are not text are counted. Raises RowRefused where there is no text."""
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
    return ImportedPrompt(prompt, messages if len(messages) > 1 or messages[0]["role"] != "user" else [])


def _message(message: Any, reading: ImportState) -> Row | None:
    if not isinstance(message, dict):
        raise RowRefused(f"a message is {kind(message)}")
    role = _ROLES.get(str(message.get("role")))
    text = content_text(message.get("content"), reading)
    if role is None or not text.strip():
        reading.leave_out(f"message of role {message.get('role')}" if role is None else "message without text")
        return None
    reading.leave_out("name of a message", int("name" in message))
    return {"role": role, "content": text}


def content_text(content: Any, reading: ImportState) -> str:
    """The text of a message's content: a string, or the text parts of a list."""
    if not isinstance(content, list):
        return content if isinstance(content, str) else ""
    texts: list[str] = []
    for part in content:
        form = part.get("type") if isinstance(part, dict) else kind(part)
        said = part.get("text", part.get("refusal")) if isinstance(part, dict) else None
        if isinstance(said, str):
            texts.append(said)
        else:
            reading.leave_out(f"content of type {form}")
    return "\n".join(texts)
