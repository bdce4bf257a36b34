"""Models: requests in, replies out; the only code that talks to a provider."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any, cast

from assay.core.errors import UsageProblem
from assay.core.plan import ModelPlan, Plan, ProviderPlan
from assay.core.provider import PROVIDERS, ProviderKind
from assay.models.endpoint import endpoint_problems, key_problems, open_socket, resolve_endpoint
from assay.models.prices import has_price, is_paid
from assay.models.provider_protocol import Maker, Model, ProviderContext, ProviderModule
from assay.models.requests import messages_sha256, request_sha256

__all__ = [
    "Model",
    "asked_models",
    "budget_notes",
    "check_models",
    "load_provider",
    "messages_sha256",
    "model_problems",
    "open_models",
    "request_sha256",
    "unreachable_hosts",
]

NO_FUNCTIONS: Mapping[str, Callable[..., Any]] = {}
_KNOWN: tuple[ProviderKind, ...] = ("replay", "scripted")
"""Kinds whose models are known without a call: their modules have a `model_problems`."""
PRICES_HINT = (
    "the price list comes with: pip install 'assay[prices]'; that of your own server is set by --price or prices in the run file"
)


@asynccontextmanager
async def open_models(
    plan: Plan, *, environ: Mapping[str, str], functions: Mapping[str, Callable[..., Any]] = NO_FUNCTIONS
) -> AsyncIterator[Mapping[str, Model]]:
    """Open the plan's models by name, with one session per provider; raises UsageProblem or MissingExtra."""
    providers = {provider.name: provider for provider in plan.providers}
    async with AsyncExitStack() as stack:
        makers: dict[str, Maker] = {}
        models: dict[str, Model] = {}
        for model in (*asked_models(plan), *plan.called_graders()):
            if model.provider not in makers:
                provider = _provider_of(model, providers)
                context = ProviderContext(provider=provider, environ=environ, keep_raw=plan.keep_raw, functions=functions)
                makers[model.provider] = await stack.enter_async_context(load_provider(provider.kind).open_provider(context))
            models[model.name] = makers[model.provider](model)
        yield models


def load_provider(kind: ProviderKind) -> ProviderModule:
    """Import the module that opens providers of a kind."""
    return cast(ProviderModule, import_module(f"assay.models.{PROVIDERS[kind].home}"))


def check_models(plan: Plan, *, environ: Mapping[str, str]) -> list[str]:
    """List what would keep the plan's models from answering, as far as it is known without a call, one sentence each."""
    providers = {provider.name: provider for provider in plan.providers}
    problems: dict[str, None] = {}
    for model in asked_models(plan):
        if model.provider not in providers:
            problems[_unknown_provider(model)] = None
            continue
        provider = providers[model.provider]
        problems.update(dict.fromkeys(_provider_problems(provider, environ)))
        problems.update(dict.fromkeys(model_problems(provider.kind, model.model)))
    return [*problems, *_batch_problems(plan, providers), *_price_problems(plan, environ)]


def _batch_problems(plan: Plan, providers: Mapping[str, ProviderPlan]) -> list[str]:
    """List why the candidate cannot be called in batches."""
    if plan.batch is None:
        return []
    if plan.response_source != "sampled":
        return ["batch asks the candidate, but its answers are given; leave batch (--batch) out"]
    provider = providers.get(plan.candidate.provider)
    if provider is None or PROVIDERS[provider.kind].batches:
        return []
    kinds = ", ".join(sorted(kind for kind, row in PROVIDERS.items() if row.batches))
    return [f"the provider '{provider.name}' of kind {provider.kind} takes no batches (kinds that do: {kinds}); leave batch out"]


def _price_problems(plan: Plan, environ: Mapping[str, str]) -> list[str]:
    """Report a budget that could stop nothing because no call has a known price."""
    bill = _bill(plan, environ) if plan.max_cost is not None else {}
    if not bill or any(bill.values()):
        return []
    return [f"max_cost cannot be kept: the price of '{next(iter(bill))}' is not known ({PRICES_HINT})"]


def budget_notes(plans: Sequence[Plan], *, environ: Mapping[str, str]) -> list[str]:
    """Name the models that a run's budget leaves out because their price is unknown, while others have one."""
    bills = [_bill(plan, environ) for plan in plans if plan.max_cost is not None]
    unknown = dict.fromkeys(name for bill in bills if any(bill.values()) for name, is_known in bill.items() if not is_known)
    return [f"max_cost counts no call of '{name}', whose price is not known" for name in unknown]


def _bill(plan: Plan, environ: Mapping[str, str]) -> dict[str, bool]:
    """Map the models whose calls may cost something to whether their price is known."""
    providers = {provider.name: provider for provider in plan.providers}
    paid = (model for model in asked_models(plan) if model.provider in providers and is_paid(providers[model.provider]))
    return {model.name: has_price(providers[model.provider], model, environ=environ) for model in paid}


def has_known_price(plan: Plan, model: ModelPlan, *, environ: Mapping[str, str]) -> bool:
    """Return whether it is known what a call to one of the plan's models costs, which may be nothing."""
    provider = next((provider for provider in plan.providers if provider.name == model.provider), None)
    return provider is None or not is_paid(provider) or has_price(provider, model, environ=environ)


async def unreachable_hosts(plan: Plan, *, environ: Mapping[str, str]) -> list[str]:
    """List the plan's providers whose host accepts no connection, one sentence each; sends no request, so it costs nothing."""
    used = {model.provider for model in asked_models(plan)}
    providers = [provider for provider in plan.providers if provider.name in used and PROVIDERS[provider.kind].is_remote]
    endpoints = [resolve_endpoint(provider, environ) for provider in providers if not endpoint_problems(provider, environ)]
    tried = await asyncio.gather(*map(open_socket, endpoints))
    return [problem for problem in tried if problem]


def asked_models(plan: Plan) -> tuple[ModelPlan, ...]:
    """List the models that this plan will call: a candidate whose answers are given is not called."""
    return plan.models() if plan.response_source == "sampled" else plan.judges


def _provider_of(model: ModelPlan, providers: Mapping[str, ProviderPlan]) -> ProviderPlan:
    if model.provider not in providers:
        raise UsageProblem(_unknown_provider(model))
    return providers[model.provider]


def _unknown_provider(model: ModelPlan) -> str:
    return f"the model '{model.name}' names the provider '{model.provider}', which the plan does not have"


def _provider_problems(provider: ProviderPlan, environ: Mapping[str, str]) -> list[str]:
    row = PROVIDERS[provider.kind]
    missing = [package for package in row.packages if find_spec(package) is None]
    if missing:
        return [f"the provider '{provider.name}' needs {' and '.join(missing)}: {row.install}"]
    return endpoint_problems(provider, environ) if row.is_remote else key_problems(provider, environ)


def model_problems(kind: ProviderKind, model: str) -> list[str]:
    """List why a provider of that kind has no such model, one sentence each; empty when only a call would show it."""
    if kind not in _KNOWN:
        return []
    problems: list[str] = import_module(f"assay.models.{PROVIDERS[kind].home}").model_problems(model)
    return problems
