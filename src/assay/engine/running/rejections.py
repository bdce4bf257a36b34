"""Rejections by a provider: of the key, the model or the account, which end the run, or of one record, which fails alone."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from assay.core.ask import Ask, ModelFailure
from assay.core.errors import ProviderRejected

REJECTED = frozenset({"unauthorized", "payment_required", "forbidden", "not_found", "redirect_refused", "certificate_refused"})
"""Failures that every further call to the model would repeat, unless the provider means this record alone."""
MANY = 5
"""So many unexplained rejections are not waited for any longer."""
GRACE = 1.0
"""Seconds in which a later call may show that the provider still takes calls."""


class Rejection(msgspec.Struct):
    """Why a provider takes no more calls of a run; shared by everything that works on the run in this process."""

    problem: ProviderRejected | None = None

    def note(self, provider: str, model: str, failure: ModelFailure) -> None:
        """Keep the first reason."""
        if self.problem is None:
            self.problem = ProviderRejected(
                f"the provider '{provider}' rejects the calls to '{model}': {failure.message}",
                hint="check its key, model and account, then resume the run: what is done is kept",
            )


class Admission:
    """Whether a provider takes the calls to one model.

    A rejected call looks the same whether the account or only the record is meant. A call that is made later and succeeds tells
    them apart, whatever the number of records and the concurrency; without one, a request that succeeded before is sent again.
    """

    def __init__(self) -> None:
        self.in_flight = 0
        """Calls to the model under way."""
        self._known_good: Ask | None = None
        self._suspects: dict[asyncio.Future[bool], float] = {}
        """Rejected calls of which it is not known who is meant, with the time of their rejection."""
        self._checking = asyncio.Lock()

    def succeeded(self, ask: Ask, started: float) -> None:
        """Note a call that was made at this time and brought a reply: what was rejected before it concerned single records."""
        if self._known_good is None:
            self._known_good = ask
        if self._suspects:
            self._settle(is_records_own=True, before=started)

    async def is_records_own(
        self, rejected_at: float, *, check: Callable[[Ask], Awaitable[bool]], now: Callable[[], float], stop: asyncio.Event
    ) -> bool | None:
        """Return True when a rejection concerns one record, False when it concerns all calls, None when the run is stopped first.

        `check` sends a request again and returns whether it was answered.
        """
        suspect: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._suspects[suspect] = rejected_at
        stopped: asyncio.Future[Any] = asyncio.ensure_future(stop.wait())
        try:
            if len(self._suspects) < MANY:
                await self._wait(suspect, stopped)
            while not suspect.done() and not stop.is_set():
                if self._known_good is None and self.in_flight and len(self._suspects) < MANY:
                    # A first reply may be under way.
                    await self._wait(suspect, stopped)
                    continue
                async with self._checking:
                    if not suspect.done() and not stop.is_set():
                        before = now()
                        is_taken = self._known_good is not None and await check(self._known_good)
                        self._settle(is_records_own=is_taken, before=before)
            return suspect.result() if suspect.done() else None
        finally:
            stopped.cancel()
            del self._suspects[suspect]

    async def _wait(self, *ends: asyncio.Future[Any]) -> None:
        await asyncio.wait(ends, timeout=GRACE, return_when=asyncio.FIRST_COMPLETED)

    def _settle(self, *, is_records_own: bool, before: float) -> None:
        """Decide about rejections up to this time; that the provider takes no calls holds for later ones too."""
        for suspect, since in self._suspects.items():
            if not suspect.done() and (since <= before or not is_records_own):
                suspect.set_result(is_records_own)
