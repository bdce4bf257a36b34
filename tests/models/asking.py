"""What the tests of models share: a plan with one model, one ask, one answer."""

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

from assay.core.case import Message
from assay.core.model_call import ModelFailure, ModelRequest, Reply
from assay.core.plan import DatasetPlan, ModelPlan, Plan, ProviderPlan
from assay.core.provider import ProviderKind
from assay.core.settings import ModelParameters
from assay.models import open_models

KEY = "sk-very-secret-1234567890"
ENVIRON = {"TEST_KEY": KEY}
DATASET = DatasetPlan(path="x", contract="golden_v1", dataset_id="d", dataset_version="1", schema_version="1", sha256="")
SCHEMA = {"type": "object", "properties": {"score": {"type": "integer"}}, "required": ["score"], "additionalProperties": False}


def ask_of(text: str = "What is 2 + 2?", *, system: str = "", reply_schema: dict[str, Any] | None = None) -> ModelRequest:
    before = (Message("system", system),) if system else ()
    return ModelRequest(
        stage="candidate", call_id="candidate", model="m", messages=(*before, Message("user", text)), reply_schema=reply_schema
    )


def provider_of(kind: ProviderKind, base_url: str = "", **settings: Any) -> ProviderPlan:
    return ProviderPlan(name="p", kind=kind, base_url=base_url, **settings)


def plan_of(provider: ProviderPlan, model: str = "stub", *, parameters: ModelParameters | None = None, **settings: Any) -> Plan:
    candidate = ModelPlan(name="m", provider="p", model=model, parameters=parameters or ModelParameters())
    return Plan(run_id="r", datasets=(DATASET,), candidate=candidate, providers=(provider,), **settings)


def reply_to(plan: Plan, ask: ModelRequest | None = None, *, environ: Mapping[str, str] = ENVIRON) -> Reply:
    """What the plan's model answers; raises ModelFailure."""
    return replies_to(plan, ask or ask_of(), times=1, environ=environ)[0]


def replies_to(
    plan: Plan, ask: ModelRequest, *, times: int, environ: Mapping[str, str] = ENVIRON, awaited: threading.Event | None = None
) -> list[Reply]:
    """What the plan's model answers so many times, each time after what is awaited."""

    async def answers() -> list[Reply]:
        replies = []
        async with open_models(plan, environ=environ) as models:
            for _ in range(times):
                replies.append(await models["m"].reply(ask))
                if awaited:
                    await asyncio.to_thread(awaited.wait, 60)
        return replies

    return asyncio.run(answers())


def class_of(plan: Plan, ask: ModelRequest | None = None, *, attempts: int = 1) -> str:
    """How an attempt is classed: ok, permanent, or the code of a failure that is tried again; the last of several attempts."""

    async def tried() -> str:
        async with open_models(plan, environ=ENVIRON) as models:
            for _ in range(attempts):
                try:
                    await models["m"].reply(ask or ask_of())
                except ModelFailure as failure:
                    found = failure.code if failure.is_transient else "permanent"
                else:
                    return "ok"
        return found

    return asyncio.run(tried())
