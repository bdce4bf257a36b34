"""Tools that a candidate may call, and its calls."""

from collections.abc import Iterable, Mapping
from typing import Literal, cast

import msgspec

from assay.core.call_rules import RecordRule
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
    if arguments is None:
        return storable_call(ToolCall(name, {}, "", call_id))
    try:
        raw = _encode(arguments).decode()
    except UnicodeEncodeError:
        # An unpaired surrogate cannot be encoded.
        arguments = _storable(arguments)
        raw = _encode(arguments).decode()
    return storable_call(ToolCall(name, cast("JsonObject", arguments) if isinstance(arguments, dict) else None, raw, call_id))


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


def chat_tool_calls(calls: Iterable[ToolCall]) -> list[JsonObject]:
    """Build calls in the format of chat completions."""
    return [
        {"id": call.id or f"call_{number}", "type": "function", "function": {"name": call.name, "arguments": arguments_text(call)}}
        for number, call in enumerate(calls)
    ]


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


# What a recording, or a dataset's author, expects of a candidate.
class ExpectedCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """One call that the candidate is expected to make."""

    name: str
    arguments: JsonObject = {}
    output: object = msgspec.UNSET
    """Recorded output, which may be null; unset when there is none."""
    step: int = 0
    """Calls of one step are parallel, so that their order does not count."""
    rules: dict[str, RecordRule] = {}
    """Rules of the record for single arguments, before those of the run."""


METADATA_CALLS = "expected_tool_calls"
"""Member of `metadata` with the expected calls; in `reference` of batch_v1 it is called `tool_calls`."""


def expects_calls(calls: object, *others: object) -> bool:
    """Return whether a member of a record holds expected calls: a list of calls, or an empty one next to tools or a matching."""
    # Exports of other programs write an empty list into every record, whether there are tools or not.
    if not isinstance(calls, list):
        return False
    return any(isinstance(call, dict) and ("name" in call or "function" in call) for call in calls) if calls else any(others)


CallVerdict = Literal["correct", "wrong_arguments", "wrong_name", "missing", "extra", "not_json", "unknown"]


class CallResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Verdict on one call, made or expected."""

    verdict: CallVerdict
    """`unknown` for an expected call after the candidate left the recording: nothing says what it would have done."""
    made: int | None = None
    """Position among the calls that were made."""
    expected: int | None = None
    """Position among the calls that were expected."""
    wrong_arguments: tuple[str, ...] = ()
    reason: str = ""


class MadeCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """One call as artifacts list it."""

    name: str
    arguments: JsonObject | None = None
    raw: str = ""
    """What the model sent, where it is not a JSON object."""


class ToolCallResults(msgspec.Struct, frozen=True, kw_only=True):
    """Calls that an answer made, those that were expected, and the verdict on each."""

    made: tuple[MadeCall, ...]
    expected: tuple[MadeCall, ...]
    verdicts: tuple[CallResult, ...]

    def count(self, *verdicts: CallVerdict) -> int:
        """Count the verdicts of these kinds."""
        return sum(one.verdict in verdicts for one in self.verdicts)

    @property
    def is_all_correct(self) -> bool:
        """True when every expected call was made right, and no other."""
        return all(one.verdict == "correct" for one in self.verdicts)


def infer_tools(calls: Iterable[tuple[str, JsonObject]]) -> tuple[tuple[ToolDefinition, ...], tuple[str, ...]]:
    """Infer definitions from recorded inputs; the second value says where the inputs contradict each other."""
    uses: dict[str, int] = {}
    kinds: dict[str, dict[str, dict[str, int]]] = {}
    for name, arguments in calls:
        uses[name] = uses.get(name, 0) + 1
        members = kinds.setdefault(name, {})
        for member, value in arguments.items():
            found = members.setdefault(member, {})
            kind = _json_kind(value)
            found[kind] = found.get(kind, 0) + 1
    definitions, contradictions = [], []
    for name in sorted(kinds):
        properties: JsonObject = {}
        required = []
        for member in sorted(kinds[name]):
            found = kinds[name][member]
            # A whole number where others have fractions is no contradiction.
            types = sorted({"number" if kind == "integer" and "number" in found else kind for kind in found})
            if len([kind for kind in types if kind != "null"]) > 1:
                contradictions.append(f"'{member}' of '{name}' is {' and '.join(types)}")
            properties[member] = {"type": types[0] if len(types) == 1 else types}
            if sum(found.values()) == uses[name]:
                required.append(member)
        schema: JsonObject = {"type": "object", "properties": properties}
        definitions.append(ToolDefinition(name, "", schema | ({"required": required} if required else {})))
    return tuple(definitions), tuple(contradictions)


def _json_kind(value: object) -> str:
    # bool first: it is an int in Python.
    kinds = ((bool, "boolean"), (int, "integer"), (float, "number"), (str, "string"), (list, "array"), (dict, "object"))
    return next((kind for python, kind in kinds if isinstance(value, python)), "null")
