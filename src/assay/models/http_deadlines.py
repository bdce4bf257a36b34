"""Deadlines of exchanges: one timer for all connections of a pool, which costs less than one per call."""

import asyncio

from assay.models.http_connection import HttpConnection


class Deadlines:
    """Times, by the event loop's clock, at which exchanges expire."""

    def __init__(self) -> None:
        self._deadlines: dict[HttpConnection, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def set(self, connection: HttpConnection, at: float) -> None:
        """Set the deadline of the exchange that starts on a connection."""
        self._deadlines[connection] = at
        if self._timer is None or at < self._timer.when():
            self._wait_until(at)

    def lift(self, connection: HttpConnection) -> None:
        """Remove the deadline of a finished exchange; a timer set for it finds nothing, or re-arms for the next."""
        del self._deadlines[connection]

    def close(self) -> None:
        """Cancel an unneeded timer; exchanges in flight keep their deadlines."""
        if not self._deadlines:
            self._cancel()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait_until(self, at: float) -> None:
        self._cancel()
        self._timer = asyncio.get_running_loop().call_at(at, self._expire_due)

    def _expire_due(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        for connection, at in self._deadlines.items():
            if at <= now:
                connection.expire()
        if pending := [at for at in self._deadlines.values() if at > now]:
            self._wait_until(min(pending))
