"""All other providers, through LiteLLM: an optional extra, imported only when a plan names it."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

import msgspec

from assay.core.canonical import RequestMembers
from assay.core.errors import MissingExtra
from assay.core.model_call import ModelFailure, ModelRequest, Reply
from assay.core.plan import ModelPlan
from assay.core.provider import PROVIDERS
from assay.core.tools import ToolNames
from assay.models.failures import ErrorResponse, error_failure, exception_failure, status_failure
from assay.models.http_model import with_role
from assay.models.negotiation import Dialect, Negotiator, SentParameters
from assay.models.openai_chat import Completion, completion_reply
from assay.models.provider_protocol import Maker, ProviderContext
from assay.models.rejections import THINKING
from assay.models.requests import chat_messages, chat_tools
from assay.models.transport import HttpResult, KeyScrubber

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD", re.IGNORECASE)
_NAMES = ("temperature", "top_p", "frequency_penalty", "presence_penalty", "max_tokens", "seed", "reasoning_effort", THINKING)
_DIALECT = Dialect(names={name: (name,) for name in _NAMES}, formats=("plain",), roles=("system", "user"))


@asynccontextmanager
async def open_provider(context: ProviderContext) -> AsyncIterator[Maker]:
    """Open LiteLLM, which calls any model it knows; raises MissingExtra. Its keys come from its own environment variables."""
    try:
        # It takes seconds to import, so that only a run that names it pays for it.
        library = import_module("litellm")
        errors = import_module("openai").OpenAIError
    except ImportError:
        raise MissingExtra("this provider needs LiteLLM", hint=PROVIDERS["litellm"].install) from None
    yield lambda model: LiteLLMModel(context, model, library=library, errors=errors)


class LiteLLMModel:
    """One model behind LiteLLM."""

    def __init__(self, context: ProviderContext, model: ModelPlan, *, library: Any, errors: type[Exception]) -> None:
        self._opening = context
        self._model = model.model
        self._library = library
        self._errors = errors
        self.negotiator = Negotiator(model.parameters, _DIALECT, explicit=model.explicit or ())
        self._settings = _settings(context)
        # LiteLLM takes keys from variables of any vendor, and its errors may repeat them.
        self._scrub = KeyScrubber(value.strip() for name, value in context.environ.items() if _SECRET_NAME.search(name))

    async def reply(self, ask: ModelRequest) -> Reply:
        """Make one attempt; raises ModelFailure, which says whether the request can be sent again with other parameters.

        LiteLLM's own retries are off: every attempt must be logged.
        """
        sent = self.negotiator.sent
        applied = _parameters(sent)
        names = ToolNames(tool.name for tool in ask.tools)
        messages = msgspec.to_builtins(chat_messages(with_role(ask.messages, sent.role), names))
        tools = chat_tools(ask.tools, names) if ask.tools else {}
        try:
            answer = await self._library.acompletion(model=self._model, messages=messages, **applied, **tools, **self._settings)
        except (self._errors, TimeoutError, OSError) as problem:
            raise self.negotiator.rejected(self._failure(problem), sent, ask) from None
        # It gives every vendor's reply in OpenAI's form.
        completion = msgspec.convert(answer.model_dump(), Completion, strict=False)
        raw = answer.model_dump_json() if self._opening.keep_raw else ""
        return completion_reply(HttpResult(completion, "", False, raw), applied, refused=self._refused)

    def _failure(self, problem: Exception) -> ModelFailure:
        provider = self._opening.provider.name
        status = getattr(problem, "status_code", None)
        # Errors of the network have no status.
        if not isinstance(status, int):
            return self._scrub.failure(exception_failure(problem, provider=provider))
        headers = getattr(getattr(problem, "response", None), "headers", None) or {}
        body = self._scrub.text(str(problem))
        return self._scrub.failure(status_failure(ErrorResponse(provider=provider, status=status, body=body, headers=headers)))

    def _refused(self, body: object, request_id: str) -> ModelFailure:
        headers = {"x-request-id": request_id}
        refusal = ErrorResponse(provider=self._opening.provider.name, status=200, body=self._scrub.value(body), headers=headers)
        return self._scrub.failure(error_failure(refusal))


def _settings(context: ProviderContext) -> RequestMembers:
    provider = context.provider
    key = context.environ.get(provider.key_variable, "") if provider.key_variable else ""
    given = {"api_base": provider.base_url, "api_key": key, "extra_headers": dict(provider.headers)}
    return {
        "timeout": provider.timeout,
        "num_retries": 0,
        "max_retries": 0,
        **{name: value for name, value in given.items() if value},
    }


def _parameters(sent: SentParameters) -> RequestMembers:
    members = sent.body()
    if THINKING in members:
        members["thinking"] = {"type": "enabled", "budget_tokens": members.pop(THINKING)}
    return members
