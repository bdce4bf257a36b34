"""Requests to providers: bodies encoded once for what they share, and the hash that addresses each request."""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence

import msgspec

from assay.core.canonical import RequestMembers
from assay.core.case import Message
from assay.core.model_call import ModelRequest
from assay.core.plan import ModelPlan, ProviderPlan
from assay.core.provider import PROVIDERS
from assay.core.settings import DESCRIPTION
from assay.core.tools import ToolDefinition, ToolNames, arguments_text
from assay.models.record_values import record_values

_encode = msgspec.json.Encoder().encode


class BodyWriter:
    """Writer of bodies that differ in their messages only."""

    def __init__(self, before: Mapping[str, object], name: str, after: Mapping[str, object]) -> None:
        # Parameters and a judge's schema are the same for thousands of requests: encoded once, they are copied as bytes.
        head = _encode(before)[:-1]
        self._head = head + (b"," if before else b"") + _encode(name) + b":"
        self._after = _encode(after)
        self._tail = b"," + self._after[1:] if after else b"}"

    def write(self, messages: Sequence[object], extra: Mapping[str, object] | None = None) -> bytes:
        """Build the body for these messages, with extra members of this request."""
        body = self._head + _encode(messages)
        if not extra:
            return body + self._tail
        return body + b"," + _encode(extra)[1:-1] + self._tail


def schema_format(schema: Mapping[str, object]) -> RequestMembers:
    """Wrap a JSON Schema for structured output; strict only if the schema closes its objects, which strict mode requires."""
    named: RequestMembers = {"name": re.sub(r"\W", "_", str(schema.get("title", "reply")))[:64], "schema": dict(schema)}
    return {**named, "strict": True} if schema.get("additionalProperties") is False else named


def chat_messages(messages: Sequence[object], names: ToolNames | None = None) -> list[object]:
    """Build messages with tool calls and their outputs in the format of chat completions."""
    return [_chat_message(message, names) if isinstance(message, Message) else message for message in messages]


def _chat_message(message: Message, names: ToolNames | None) -> object:
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.tool_call_id, "content": message.content}
    if not message.tool_calls:
        return message
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": names.sent(call.name) if names else call.name, "arguments": arguments_text(call)},
        }
        for call in message.tool_calls
    ]
    # Some servers refuse an empty text next to calls.
    return {"role": message.role, "content": message.content or None, "tool_calls": calls, **(message.native or {})}


def chat_tools(tools: Sequence[ToolDefinition], names: ToolNames) -> RequestMembers:
    """Build the member that offers tools in the format of chat completions."""
    functions = [{"name": names.sent(tool.name), "description": tool.description, "parameters": schema_of(tool)} for tool in tools]
    return {"tools": [{"type": "function", "function": function} for function in functions]}


def schema_of(tool: ToolDefinition) -> RequestMembers:
    """Return the JSON Schema of a tool's input; providers refuse one that is not of an object."""
    return tool.parameters if tool.parameters.get("type") == "object" else {"type": "object", "properties": {}, **tool.parameters}


NOWHERE: Mapping[str, str] = {}
_encode_key = msgspec.json.Encoder(order="deterministic").encode


def request_sha256(provider: ProviderPlan, model: ModelPlan, ask: ModelRequest) -> str:
    """Hash everything that a reply depends on: provider, host, model, parameters, messages and schema."""
    return request_addressing(provider, model)(ask)


def request_addressing(
    provider: ProviderPlan, model: ModelPlan, *, environ: Mapping[str, str] = NOWHERE
) -> Callable[[ModelRequest], str]:
    """Build `request_sha256` for many requests to one model; some libraries take their hosts from `environ`."""
    route = (provider.kind, provider.name, provider.base_url, model.model, model.parameters)
    # Everything that is the same for all requests to a model is hashed once, and the state copied.
    described, record_of = _endpoint(provider)
    prefix = hashlib.sha256(_encode_key((*route, *_hosts(provider, environ), *described)))
    schema: RequestMembers | None = None
    encoded = _encode_key(schema)

    def address(ask: ModelRequest) -> str:
        nonlocal schema, encoded
        if ask.reply_schema is not schema:
            # One schema object serves many requests, so it is encoded only once.
            schema, encoded = ask.reply_schema, _encode_key(ask.reply_schema)
        digest = prefix.copy()
        digest.update(b"[%b,%b]" % (_encode_key(ask.messages), encoded))
        if ask.tools:
            digest.update(_encode_key(ask.tools))
        if record_of is not None:
            digest.update(_encode_key(record_of(ask)))
        if ask.sample:
            # The first answer has the same address as a single answer, so that a cached one is reused when more are asked for.
            digest.update(b"%d" % ask.sample)
        return digest.hexdigest()

    return address


def _endpoint(provider: ProviderPlan) -> tuple[tuple[object, ...], Callable[[ModelRequest], object] | None]:
    """Return what an HTTP endpoint's entry says of its requests and replies, and which values of records it sends."""
    if not PROVIDERS[provider.kind].is_described:
        return (), None
    described = {name: value for name in DESCRIPTION if (value := getattr(provider, name)) is not msgspec.UNSET}
    return (described, provider.headers), record_values(provider)


def _hosts(provider: ProviderPlan, environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the environment variables that select a provider's host; a provider with a vendor is called by its plan alone."""
    variables = PROVIDERS[provider.kind].host_variables
    if not variables:
        return []
    return sorted((name, value) for name, value in environ.items() if re.fullmatch(variables, name))


def messages_sha256(messages: Sequence[Message]) -> str:
    """Hash the conversation alone, for any model; recorded replies are found by it.

    Hashes the RFC 8785 form of `[{"role": ..., "content": ...}, ...]`, so that other tools can compute it; tool calls and the
    ids of their outputs are members as in chat completions.
    """
    return hashlib.sha256(_encode_key(list(map(_hashed, messages)))).hexdigest()


def _hashed(message: Message) -> object:
    if not message.tool_calls and not message.tool_call_id:
        return {"role": message.role, "content": message.content}
    # Thoughts of a provider are no part of the conversation.
    return msgspec.to_builtins(_chat_message(msgspec.structs.replace(message, native=None), None))
