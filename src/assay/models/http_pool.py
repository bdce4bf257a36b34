"""The connections to one provider: a request goes over one that is idle, or over a new one."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import cast
from urllib.parse import quote, urlsplit

from assay.models.http_connection import HttpConnection, HttpReply
from assay.models.http_deadlines import Deadlines
from assay.models.http_dialing import Dialer, authority_of, proxy_authorization
from assay.models.http_transfer import HttpTransfer

IDLE_SECONDS = 15.0
"""A connection that was idle for longer is not used again: servers close theirs without a word."""
_URL_CHARACTERS = "/%:=&?~+!$,;'@()*[]"
"""Stand in an address as they are; everything else but letters and digits is quoted."""


class HttpPool:
    """Connections to the host of one address."""

    def __init__(self, url: str, *, seconds: float, proxy: str = "") -> None:
        self._proxy = urlsplit(proxy) if proxy else None
        self._url = url
        self._dialer = Dialer(urlsplit(url), self._proxy)
        self._seconds = seconds
        self._idle: list[HttpConnection] = []
        self._deadlines = Deadlines()

    def head(self, method: str, url: str, headers: Mapping[str, str]) -> bytes:
        """The beginning of a request to an address on this host; its length, an empty line and its body are still to come."""
        target = urlsplit(url)
        path = quote(target.path or "/", safe=_URL_CHARACTERS)
        if target.query:
            path += f"?{quote(target.query, safe=_URL_CHARACTERS)}"
        sent = {"host": f"Host: {authority_of(target)}", **{name.lower(): f"{name}: {value}" for name, value in headers.items()}}
        lines = list(sent.values())
        if self._proxy is not None and target.scheme == "http":
            path = f"http://{authority_of(target)}{path}"
            lines += proxy_authorization(self._proxy)
        return "\r\n".join((f"{method} {path} HTTP/1.1", *lines, "")).encode()

    async def send(self, request: bytes) -> HttpReply:
        """The reply to a request; raises Broken, OSError, or TimeoutError without an errno when it is not whole in time.

        A request is sent once: whether a connection that broke had brought it to the provider, nobody knows.
        """
        loop = asyncio.get_running_loop()
        start = loop.time()
        connection = self._idle_connection(start)
        if connection is None:
            async with asyncio.timeout(self._seconds):
                connection = await self._dialer.connect()
        self._deadlines.set(connection, start + self._seconds)
        try:
            return await connection.exchange(request)
        finally:
            self._deadlines.lift(connection)
            if connection.is_reusable:
                connection.idle_since = loop.time()
                self._idle.append(connection)
            else:
                connection.close()

    async def transfer(self, request: Iterable[bytes], *, sink: Callable[[bytes], object] | None = None) -> HttpReply:
        """The reply to a request that is sent piece by piece over a connection of its own; a good one's body goes to the sink.

        Raises what `send` raises; the deadline is for a while in which nothing moves.
        """
        dialer = Dialer(urlsplit(self._url), self._proxy, protocol=HttpTransfer)
        try:
            async with asyncio.timeout(self._seconds):
                connection = cast("HttpTransfer", await dialer.connect())
        finally:
            dialer.close()
        try:
            return await connection.transfer(request, seconds=self._seconds, sink=sink)
        finally:
            connection.close()

    async def close(self) -> None:
        """Close every connection that is not in use."""
        for connection in self._idle:
            connection.close()
        self._deadlines.close()
        self._dialer.close()
        # The event loop closes them in its next round.
        await asyncio.sleep(0)

    def _idle_connection(self, now: float) -> HttpConnection | None:
        """The one that was used last, so that the others can grow old."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_reusable and now - connection.idle_since < IDLE_SECONDS and connection.is_quiet():
                return connection
            connection.close()
        return None
