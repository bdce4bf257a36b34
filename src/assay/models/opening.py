"""What a provider gets to open itself, and what it gives back."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import msgspec

from assay.core.ask import Ask, Reply
from assay.core.plan import ModelPlan, ProviderPlan


class Model(Protocol):
    """Something that answers asks."""

    async def reply(self, ask: Ask) -> Reply:
        """One attempt at one ask; raises ModelFailure."""
        ...


Maker = Callable[[ModelPlan], Model]
"""An open provider: makes the model that a plan describes."""


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that opening a provider depends on."""

    provider: ProviderPlan
    environ: Mapping[str, str]
    keep_raw: bool = False
    """Keep the provider's whole bodies in the replies."""
    functions: Mapping[str, Callable[..., Any]] = {}
    """Functions that answer or grade, by the name of the plan's model."""


class ProviderModule(Protocol):
    """What the home of a kind of provider has: the module that a row of the table of providers names."""

    def open_provider(self, opening: Opening, /) -> AbstractAsyncContextManager[Maker]:
        """The provider, ready to make its models; raises UsageProblem or MissingExtra."""
        ...
