"""Content addresses: the same request has the same hash, in every run and on every machine."""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from assay.core.ask import Ask
from assay.core.case import Message
from assay.core.plan import ModelPlan, ProviderPlan
from assay.core.provider import PROVIDERS

NOWHERE: Mapping[str, str] = {}
_encode = msgspec.json.Encoder(order="deterministic").encode


def request_sha256(provider: ProviderPlan, model: ModelPlan, ask: Ask) -> str:
    """The hash of everything that decides what a provider answers: where, which model, what is asked and how."""
    return request_addressing(provider, model)(ask)


def request_addressing(provider: ProviderPlan, model: ModelPlan, *, environ: Mapping[str, str] = NOWHERE) -> Callable[[Ask], str]:
    """The same as a function of the ask alone, for many asks to one model; some libraries find their hosts in `environ`."""
    route = (provider.kind, provider.name, provider.base_url, model.model, model.parameters)
    begun = hashlib.sha256(_encode((*route, *_hosts(provider, environ))))
    schema: dict[str, Any] | None = None
    encoded = _encode(schema)

    def address(ask: Ask) -> str:
        nonlocal schema, encoded
        if ask.reply_schema is not schema:
            # One object serves all asks of a kind, so that it is encoded once.
            schema, encoded = ask.reply_schema, _encode(ask.reply_schema)
        hashed = begun.copy()
        hashed.update(b"[%b,%b]" % (_encode(ask.messages), encoded))
        if ask.sample:
            # The first answer has the address that it would have alone, so that one answer may be kept and more be asked for.
            hashed.update(b"%d" % ask.sample)
        return hashed.hexdigest()

    return address


def _hosts(provider: ProviderPlan, environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """What the environment says on whom a provider asks; one with a vendor asks whom its plan names, whatever the environment."""
    variables = PROVIDERS[provider.kind].host_variables
    if not variables:
        return []
    return sorted((name, value) for name, value in environ.items() if re.fullmatch(variables, name))


def messages_sha256(messages: Sequence[Message]) -> str:
    """The hash of the conversation alone, whoever is asked; recorded replies are found by it.

    It is that of the RFC 8785 form of `[{"role": ..., "content": ...}, ...]`, so that other tools can compute it.
    """
    return hashlib.sha256(_encode([{"role": message.role, "content": message.content} for message in messages])).hexdigest()
