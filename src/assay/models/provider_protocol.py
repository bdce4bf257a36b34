"""Interface of the provider modules."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import msgspec

from assay.core.model_call import ModelRequest, Reply
from assay.core.plan import ModelPlan, ProviderPlan
from assay.core.setup_checks import ShownExchange
from assay.models.negotiation import Negotiator


class Model(Protocol):
    """A model that answers requests."""

    async def reply(self, ask: ModelRequest) -> Reply:
        """Make one attempt; raises ModelFailure."""
        ...


def negotiator_of(model: Model) -> Negotiator | None:
    """Return the negotiator of a model's parameters; None for a model that is sent none over HTTP."""
    return getattr(model, "negotiator", None)


def exchange_of(model: Model) -> ShownExchange | None:
    """Return the last exchange of a model that shows it, as one of an endpoint described in a run file does in `exchange`."""
    return getattr(model, "exchange", None)


Maker = Callable[[ModelPlan], Model]
"""An open provider: creates the model that a plan describes."""


class ProviderContext(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that opening a provider depends on."""

    provider: ProviderPlan
    environ: Mapping[str, str]
    keep_raw: bool = False
    """Store the provider's whole bodies in the replies."""
    functions: Mapping[str, Callable[..., Any]] = {}
    """Functions that answer or grade, by the name of the plan's model."""


class ProviderModule(Protocol):
    """A module that opens one kind of provider; the table of providers names it."""

    def open_provider(self, context: ProviderContext, /) -> AbstractAsyncContextManager[Maker]:
        """Open the provider; raises UsageProblem or MissingExtra."""
        ...
