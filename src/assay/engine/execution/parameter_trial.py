"""The first calls to a model, one at a time until its provider has accepted their parameters: a rejection is then met once."""

import asyncio

PATIENCE = 1.0
"""Seconds after which a call counts as accepted: parameters are rejected at once, and answers take their time."""


class ParameterTrial:
    """Lets the calls to one model wait while one of them tries its parameters."""

    def __init__(self) -> None:
        self.is_settled = False
        """The parameters are accepted, as far as is known."""
        self._is_busy = False
        self._changed = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None

    async def wait(self) -> None:
        """Wait for this call's turn, or until the parameters are settled."""
        while self._is_busy and not self.is_settled:
            await self._changed.wait()
        if not self.is_settled:
            self._is_busy = True
            self._timer = asyncio.get_running_loop().call_later(PATIENCE, self._settle)

    def end(self, *, is_rejected: bool) -> None:
        """Note the end of a call: a rejection gives the turn to the next one, anything else settles the parameters."""
        if not is_rejected:
            self._settle()
        elif not self.is_settled:
            self._stop_timer()
            self._is_busy = False
            self._notify()

    def reopen(self) -> None:
        """Begin again after a parameter was adjusted, since the next one may be rejected too."""
        self.is_settled = False
        self._is_busy = False

    def _settle(self) -> None:
        self._stop_timer()
        if not self.is_settled:
            self.is_settled = True
            self._is_busy = False
            self._notify()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
