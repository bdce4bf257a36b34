"""Rejections by a provider: of the key, the model or the account, which end the run, or of one record, which fails alone."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from assay.core.errors import ProviderRejected
from assay.core.model_call import ModelFailure, ModelRequest

REJECTED = frozenset(
    {
        *("unauthorized", "payment_required", "forbidden", "not_found", "redirect_refused", "certificate_refused"),
        "unexpected_reply",
    }
)
"""Failures that every further call to the model would repeat, unless the provider means this record alone."""
MAX_UNEXPLAINED = 5
"""Number of unexplained rejections from which on none is waited for: a provider that rejects this many has a general reason."""
_STRICT_HINT = "leave the parameter out or set another value, or run without --strict-parameters (strict_parameters: false)"
GRACE = 1.0
"""Seconds in which a later call may show that the provider still takes calls."""


class Rejection(msgspec.Struct):
    """The reason why a provider rejects all calls of a run; shared by all parts of the run in this process."""

    problem: ProviderRejected | None = None

    def note(self, provider: str, model: str, failure: ModelFailure) -> None:
        """Store the first rejection."""
        if self.problem is None:
            self.problem = ProviderRejected(
                f"the provider '{provider}' rejects the calls to '{model}': {failure.message}",
                hint=_STRICT_HINT
                if failure.code == "parameter_refused"
                else "check its key, model and account, then resume the run: finished records are not repeated",
            )


class ModelAdmission:
    """Decides whether a provider's rejections of calls to one model concern single records or all calls.

    A rejected call looks the same in both cases. A call that is made later and succeeds tells them apart, for any number of records
    and any concurrency; without one, a request that succeeded before is sent again.
    """

    def __init__(self) -> None:
        self.in_flight = 0
        """Calls to the model in flight."""
        self.known_good: ModelRequest | None = None
        """The first request that was answered."""
        self._suspects: dict[asyncio.Future[bool], float] = {}
        """Rejected calls whose reason is not yet known, with the time of their rejection."""
        self._checking = asyncio.Lock()

    def succeeded(self, ask: ModelRequest, started: float) -> None:
        """Note a call that was made at this time and brought a reply: what was rejected before it concerned single records."""
        if self.known_good is None:
            self.known_good = ask
        if self._suspects:
            self._settle(is_records_own=True, before=started)

    async def is_records_own(
        self, rejected_at: float, *, check: Callable[[ModelRequest], Awaitable[bool]], now: Callable[[], float], stop: asyncio.Event
    ) -> bool | None:
        """Return True when a rejection concerns one record, False when it concerns all calls, None when the run is stopped first.

        `check` sends a request again and returns whether it was answered.
        """
        suspect: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._suspects[suspect] = rejected_at
        stopped: asyncio.Future[Any] = asyncio.ensure_future(stop.wait())
        try:
            if len(self._suspects) < MAX_UNEXPLAINED:
                await self._wait(suspect, stopped)
            while not suspect.done() and not stop.is_set():
                if self.known_good is None and self.in_flight and len(self._suspects) < MAX_UNEXPLAINED:
                    # A call in flight may still return the first reply.
                    await self._wait(suspect, stopped)
                    continue
                async with self._checking:
                    if not suspect.done() and not stop.is_set():
                        before = now()
                        still_answers = self.known_good is not None and await check(self.known_good)
                        self._settle(is_records_own=still_answers, before=before)
            return suspect.result() if suspect.done() else None
        finally:
            stopped.cancel()
            del self._suspects[suspect]

    async def _wait(self, *ends: asyncio.Future[Any]) -> None:
        await asyncio.wait(ends, timeout=GRACE, return_when=asyncio.FIRST_COMPLETED)

    def _settle(self, *, is_records_own: bool, before: float) -> None:
        """Resolve the rejections up to this time; a general rejection also resolves later ones."""
        for suspect, since in self._suspects.items():
            if not suspect.done() and (since <= before or not is_records_own):
                suspect.set_result(is_records_own)
