"""When exchanges expire: one timer for all connections of a pool, which costs less than one for each call."""

import asyncio

from assay.models.http_connection import HttpConnection


class Deadlines:
    """The moments, by the clock of the event loop, at which replies are waited for no longer."""

    def __init__(self) -> None:
        self._due: dict[HttpConnection, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def set(self, connection: HttpConnection, at: float) -> None:
        """The exchange that begins on a connection expires at this moment."""
        self._due[connection] = at
        if self._timer is None or at < self._timer.when():
            self._wait_until(at)

    def lift(self, connection: HttpConnection) -> None:
        """The exchange is over; a timer that was set for it finds nothing, or what comes next."""
        del self._due[connection]

    def close(self) -> None:
        """Leave no timer behind; exchanges that are under way keep their deadlines."""
        if not self._due:
            self._cancel()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait_until(self, at: float) -> None:
        self._cancel()
        self._timer = asyncio.get_running_loop().call_at(at, self._look)

    def _look(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        for connection, at in self._due.items():
            if at <= now:
                connection.expire()
        if left := [at for at in self._due.values() if at > now]:
            self._wait_until(min(left))
