"""Content addresses: the same request has the same hash, in every run and on every machine."""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence

import msgspec

from assay.core.canonical import JsonObject
from assay.core.case import Message
from assay.core.model_call import ModelRequest
from assay.core.plan import ModelPlan, ProviderPlan
from assay.core.provider import PROVIDERS

NOWHERE: Mapping[str, str] = {}
_encode = msgspec.json.Encoder(order="deterministic").encode


def request_sha256(provider: ProviderPlan, model: ModelPlan, ask: ModelRequest) -> str:
    """Hash everything that a reply depends on: provider, host, model, parameters, messages and schema."""
    return request_addressing(provider, model)(ask)


def request_addressing(
    provider: ProviderPlan, model: ModelPlan, *, environ: Mapping[str, str] = NOWHERE
) -> Callable[[ModelRequest], str]:
    """Build `request_sha256` for many requests to one model; some libraries take their hosts from `environ`."""
    route = (provider.kind, provider.name, provider.base_url, model.model, model.parameters)
    prefix = hashlib.sha256(_encode((*route, *_hosts(provider, environ))))
    schema: JsonObject | None = None
    encoded = _encode(schema)

    def address(ask: ModelRequest) -> str:
        nonlocal schema, encoded
        if ask.reply_schema is not schema:
            # One schema object serves many requests, so it is encoded only once.
            schema, encoded = ask.reply_schema, _encode(ask.reply_schema)
        digest = prefix.copy()
        digest.update(b"[%b,%b]" % (_encode(ask.messages), encoded))
        if ask.sample:
            # The first answer has the same address as a single answer, so that a cached one is reused when more are asked for.
            digest.update(b"%d" % ask.sample)
        return digest.hexdigest()

    return address


def _hosts(provider: ProviderPlan, environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the environment variables that select a provider's host; a provider with a vendor is called by its plan alone."""
    variables = PROVIDERS[provider.kind].host_variables
    if not variables:
        return []
    return sorted((name, value) for name, value in environ.items() if re.fullmatch(variables, name))


def messages_sha256(messages: Sequence[Message]) -> str:
    """Hash the conversation alone, for any model; recorded replies are found by it.

    Hashes the RFC 8785 form of `[{"role": ..., "content": ...}, ...]`, so that other tools can compute it.
    """
    return hashlib.sha256(_encode([{"role": message.role, "content": message.content} for message in messages])).hexdigest()
