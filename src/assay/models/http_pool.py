"""Connection pool of one provider: a request uses an idle connection, or a new one."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import cast
from urllib.parse import quote, urlsplit

from assay.models.http_connection import HttpConnection, HttpReply
from assay.models.http_deadlines import Deadlines
from assay.models.http_dialer import Dialer, authority_of, proxy_authorization
from assay.models.http_transfer import HttpTransfer

IDLE_SECONDS = 15.0
"""Seconds after which an idle connection is not reused: servers close theirs without notice."""
_URL_CHARACTERS = "/%:=&?~+!$,;'@()*[]"
"""Characters besides letters and digits that are not quoted in a URL."""


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
        """Build the head of a request to this host, without its length, the empty line and its body."""
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
        """Send a request and return its reply; raises ExchangeFailed, OSError, or TimeoutError without an errno when it is late.

        A request is sent only once: after a broken connection, the provider may have received it already.
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
        """Send a request in pieces over a connection of its own; the body of a successful reply goes to the sink.

        Raises what `send` raises; the deadline limits the time without progress.
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
        """Close every idle connection."""
        for connection in self._idle:
            connection.close()
        self._deadlines.close()
        self._dialer.close()
        # Yield once: the event loop closes transports in its next iteration.
        await asyncio.sleep(0)

    def _idle_connection(self, now: float) -> HttpConnection | None:
        """Take the most recently used connection, so that the others can expire."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_reusable and now - connection.idle_since < IDLE_SECONDS and connection.is_quiet():
                return connection
            connection.close()
        return None
