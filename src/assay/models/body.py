"""Request bodies: the parts that all requests of a model share are encoded once."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from assay.core.canonical import JsonObject
from assay.core.case import Message

_encode = msgspec.json.Encoder().encode
_OPENAI_REASONING = re.compile(r"(o\d|gpt-5(?!.*chat))")


class BodyWriter:
    """Writer of bodies that differ in their messages only."""

    def __init__(self, before: Mapping[str, Any], name: str, after: Mapping[str, Any]) -> None:
        head = _encode(before)[:-1]
        self._head = head + (b"," if before else b"") + _encode(name) + b":"
        self._after = _encode(after)
        self._tail = b"," + self._after[1:] if after else b"}"

    def write(self, messages: Sequence[Message], extra: Mapping[str, object] | None = None) -> bytes:
        """Build the body for these messages, with extra members of this request."""
        body = self._head + _encode(messages)
        if not extra:
            return body + self._tail
        return body + b"," + _encode(extra)[1:-1] + self._tail


def applied_parameters(known: Mapping[str, object], extra_body: Mapping[str, object]) -> JsonObject:
    """Return the parameters to send: those with a value, and the plan's own members, which win."""
    return {**{name: value for name, value in known.items() if value is not None}, **extra_body}


def refuses_sampling(model: str) -> bool:
    """Tell whether a model is one of OpenAI's reasoning models, which answer a temperature with an error."""
    return _OPENAI_REASONING.match(model.rpartition("/")[2]) is not None


def schema_format(schema: Mapping[str, object]) -> JsonObject:
    """Wrap a JSON Schema for structured output; strict only if the schema closes its objects, which strict mode requires."""
    named = {"name": re.sub(r"\W", "_", str(schema.get("title", "reply")))[:64], "schema": dict(schema)}
    return {**named, "strict": True} if schema.get("additionalProperties") is False else named
