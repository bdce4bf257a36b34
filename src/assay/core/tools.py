"""Tools that a candidate may call, and its calls."""

from collections.abc import Iterable, Mapping
from typing import cast

import msgspec

from assay.core.canonical import JsonObject

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class ToolDefinition(msgspec.Struct, frozen=True):
    """One tool that a candidate is offered."""

    name: str
    description: str = ""
    parameters: JsonObject = {}
    """JSON Schema of its input."""


class ToolCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """One call of a tool, by a model or in a recorded conversation."""

    name: str
    arguments: JsonObject | None = None
    """The input; None when what the model sent is not a JSON object."""
    # Kept as text because it is evidence: what a model sent is not always JSON, and rarely in the form in which we would write it.
    raw: str = ""
    """The input as it was sent."""
    id: str = ""
    """The provider's id of the call, which its output is sent back with."""


def tool_call(name: str, arguments: object, call_id: str = "") -> ToolCall:
    """Build a call from arguments as providers send them: an object, a text that should hold one, or nothing for no arguments."""
    if isinstance(arguments, str):
        return storable_call(ToolCall(name, _object_in(arguments), arguments, call_id))
    raw = "" if arguments is None else _encode(arguments).decode()
    parsed = {} if arguments is None else arguments
    return storable_call(ToolCall(name, cast("JsonObject", parsed) if isinstance(parsed, dict) else None, raw, call_id))


def _object_in(text: str) -> JsonObject | None:
    # Some models send an empty text for a tool without parameters.
    if not text.strip():
        return {}
    try:
        value = _decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None
    return value if isinstance(value, dict) else None


def storable_call(call: ToolCall) -> ToolCall:
    """Replace characters that no store can hold, NUL and unpaired surrogates, in the name and in texts at any depth."""
    # Nearly all calls are plain; a NUL stands in JSON as an escape, and an unpaired surrogate is never decoded from one.
    if call.name.isprintable() and "\\u0000" not in call.raw and "\x00" not in call.raw:
        return call
    raw, arguments = call.raw.translate(_UNSTORABLE), call.arguments
    if arguments is not None:
        arguments = cast("JsonObject", _storable(arguments))
        raw = _encode(arguments).decode()
    return ToolCall(call.name.translate(_UNSTORABLE), arguments, raw, call.id.translate(_UNSTORABLE))


_UNSTORABLE = dict.fromkeys((0, *range(0xD800, 0xE000)), "\ufffd")


def _storable(value: object) -> object:
    if isinstance(value, str):
        return value.translate(_UNSTORABLE)
    if isinstance(value, dict):
        return {str(_storable(name)): _storable(member) for name, member in value.items()}
    return [_storable(member) for member in value] if isinstance(value, list) else value


def output_text(output: object) -> str:
    """Return the output of a tool as the text that a model is sent: texts as they are, other values as JSON."""
    return output if isinstance(output, str) else _encode(output).decode()


def arguments_text(call: ToolCall) -> str:
    """Return the arguments as the JSON text in which chat completions send them back."""
    return call.raw or _encode(call.arguments or {}).decode()


def arguments_object(call: ToolCall) -> JsonObject:
    """Return the arguments as an object, for protocols that take nothing else; text that is not one becomes its only member."""
    return {"arguments": call.raw} if call.arguments is None else call.arguments


def read_chat_tool_call(value: object) -> ToolCall | None:
    """Read a call in the format of chat completions, or `{"name": ..., "arguments": ...}` alone; None for anything else."""
    if not isinstance(value, dict):
        return None
    function = value.get("function", value)
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(name, str) or not name:
        return None
    return tool_call(name, function.get("arguments"), str(value.get("id") or ""))


class ToolNames:
    """Names of tools as a provider takes them, and back: most providers take letters, digits, `_` and `-` only."""

    def __init__(self, names: Iterable[str]) -> None:
        self._sent: dict[str, str] = {}
        for name in names:
            self._sent.setdefault(name, self._free(_plain(name)))
        self._own: Mapping[str, str] = {sent: name for name, sent in self._sent.items()}

    def _free(self, wanted: str) -> str:
        taken, name, number = set(self._sent.values()), wanted, 2
        while name in taken:
            ending = f"_{number}"
            name, number = wanted[: _MAX_NAME - len(ending)] + ending, number + 1
        return name

    def sent(self, name: str) -> str:
        """Return the name as it is sent."""
        return self._sent.get(name) or _plain(name)

    def own(self, sent: str) -> str:
        """Return the tool's own name for one that a provider sent."""
        return self._own.get(sent, sent)


_MAX_NAME = 64
"""The limit of OpenAI, which others share or exceed."""


def _plain(name: str) -> str:
    plain = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "_-") else "_" for letter in name)
    # Gemini takes no name that begins with a digit.
    return (plain if plain[:1].isalpha() or plain[:1] == "_" else f"_{plain}")[:_MAX_NAME]
