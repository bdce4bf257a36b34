"""Replies of vendors for tests: read by a row of the table, and the bodies of Gemini and Bedrock."""

import asyncio
from typing import Any

import pytest

from assay.core.model_call import ModelFailure, Reply
from assay.core.plan import Plan
from assay.core.provider import ProviderKind
from assay.core.settings import ModelParameters
from assay.models import open_models
from assay.testing import StubProvider, StubReply
from tests.models.asking import ENVIRON, SCHEMA, ask_of, plan_of, provider_of, reply_to


def read(kind: ProviderKind, body: Any, *, status: int = 200, headers: dict[str, str] | None = None) -> Reply | ModelFailure:
    with StubProvider([StubReply(status=status, body=body, headers=headers or {})]) as stub:
        try:
            return reply_to(plan_of(provider_of(kind, stub.base_url)))
        except ModelFailure as failure:
            return failure


def generated(*parts: dict[str, Any], finish: str = "STOP", **usage: int) -> dict[str, Any]:
    candidate = {"content": {"role": "model", "parts": list(parts)}, "finishReason": finish, "index": 0}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-x", "responseId": "r-1"}


def conversed(*blocks: dict[str, Any], stop: str = "end_turn", **usage: int) -> dict[str, Any]:
    return {"output": {"message": {"role": "assistant", "content": list(blocks)}}, "stopReason": stop, "usage": usage}


def sent(kind: ProviderKind, model: str, *, path: str = "", schema: bool = False, **parameters: Any) -> tuple[str, dict[str, Any]]:
    with StubProvider(lambda _: StubReply(status=401)) as stub:
        url = f"{stub.base_url.removesuffix('/v1')}{path}"
        plan = plan_of(provider_of(kind, url), model, parameters=ModelParameters(**parameters))
        with pytest.raises(ModelFailure):
            reply_to(plan, ask_of(system="Be short.", reply_schema=SCHEMA if schema else None))
    return stub.requests[0].path, stub.requests[0].body


def negotiated(plan: Plan, *, attempts: int) -> Reply:
    async def last() -> Reply:
        async with open_models(plan, environ=ENVIRON) as models:
            for _ in range(attempts - 1):
                with pytest.raises(ModelFailure) as refused:
                    await models["m"].reply(ask_of(reply_schema=SCHEMA))
                assert refused.value.is_negotiable, refused.value.message
            return await models["m"].reply(ask_of(reply_schema=SCHEMA))

    return asyncio.run(last())


def judged(kind: ProviderKind, refusals: list[str], body: dict[str, Any]) -> Reply:
    """What a judge says after the provider has rejected these forms of its reply, one after the other."""
    answers = [*(StubReply(status=400, body={"error": {"message": said}}) for said in refusals), StubReply(body=body)]
    with StubProvider(answers) as stub:
        reply = negotiated(plan_of(provider_of(kind, stub.base_url)), attempts=len(answers))
    assert len(stub.requests) == len(answers)
    return reply
