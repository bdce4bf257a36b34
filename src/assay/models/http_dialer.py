"""New connections to a provider: address lookup, TLS with a verified certificate, and proxies."""

import asyncio
import ssl
from base64 import b64encode
from socket import SOCK_STREAM
from typing import cast
from urllib.parse import SplitResult, unquote

from assay.core.tls import client_context
from assay.models.http_connection import MAX_HEAD_BYTES, ExchangeFailed, HttpConnection

RESOLVED_SECONDS = 60.0
"""Seconds for which the addresses of a host are reused."""
HEAD_START = 0.25
"""Seconds before the next address of a host is tried in parallel (RFC 8305)."""


class Dialer:
    """Opens connections to one host."""

    def __init__(self, target: SplitResult, proxy: SplitResult | None, *, protocol: type[HttpConnection] = HttpConnection) -> None:
        self._target = target
        self._protocol = protocol
        self._proxy = proxy
        self._first = proxy or target
        """The proxy or host to connect to first."""
        self._context: ssl.SSLContext | None = None
        self._lookup: asyncio.Task[list[str]] | None = None
        self._looked_up_at = 0.0

    async def connect(self) -> HttpConnection:
        """Return the first open connection of those to all addresses of the host; raises OSError or ExchangeFailed."""
        remaining = list(await self._addresses())
        attempts: set[asyncio.Task[HttpConnection]] = set()
        try:
            while True:
                if remaining:
                    attempts.add(asyncio.create_task(self._open(remaining.pop(0))))
                wait = HEAD_START if remaining else None
                done, _ = await asyncio.wait(attempts, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
                for attempt in done:
                    attempts.remove(attempt)
                    if attempt.exception() is None or not (remaining or attempts):
                        return attempt.result()
        finally:
            for attempt in attempts:
                attempt.cancel()
                attempt.add_done_callback(_close_unused)

    def close(self) -> None:
        """Cancel a running lookup."""
        if self._lookup is not None:
            self._lookup.cancel()

    async def _addresses(self) -> list[str]:
        """Look up the addresses of the host, once for all concurrent callers."""
        now, lookup = asyncio.get_running_loop().time(), self._lookup
        is_old = lookup is not None and lookup.done() and (lookup.exception() or now - self._looked_up_at > RESOLVED_SECONDS)
        if lookup is None or is_old:
            lookup = self._lookup = asyncio.create_task(_resolve(self._first))
            self._looked_up_at = now
        return await asyncio.shield(lookup)

    async def _open(self, address: str) -> HttpConnection:
        """Open a connection to one address, with TLS and the proxy as configured."""
        if self._proxy is not None and self._target.scheme == "https":
            return await self._open_tunnel(self._proxy, address)
        transport = await self._open_transport(address, self._protocol)
        return cast("HttpConnection", transport.get_protocol())

    async def _open_tunnel(self, proxy: SplitResult, address: str) -> HttpConnection:
        """Open an encrypted connection through the proxy, which cannot read it."""
        transport = await self._open_transport(address, _Tunnel)
        inner: asyncio.Transport | None = None
        try:
            await cast("_Tunnel", transport.get_protocol()).open_to(self._target, proxy)
            connection = self._protocol()
            loop, name = asyncio.get_running_loop(), self._target.hostname
            inner = await loop.start_tls(transport, connection, self._tls(), server_hostname=name)
        finally:
            if inner is None:
                transport.abort()
        if inner is None:
            raise ExchangeFailed("service_unavailable", "the proxy closed the connection")
        connection.connection_made(inner)
        return connection

    async def _open_transport(self, address: str, protocol: "type[HttpConnection | _Tunnel]") -> asyncio.Transport:
        first, loop = self._first, asyncio.get_running_loop()
        is_tls = first.scheme == "https"
        transport, _ = await loop.create_connection(
            protocol,
            address,
            port_of(first),
            ssl=self._tls() if is_tls else None,
            server_hostname=first.hostname if is_tls else None,
        )
        return transport

    def _tls(self) -> ssl.SSLContext:
        """Build the TLS context: the machine's certificate authorities, and matching host names."""
        if self._context is None:
            self._context = client_context()
            self._context.set_alpn_protocols(["http/1.1"])
        return self._context


class _Tunnel(asyncio.Protocol):
    """A connection to a proxy until it leads to the provider."""

    def __init__(self) -> None:
        self._head = b""
        self._reply_head: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def open_to(self, target: SplitResult, proxy: SplitResult) -> None:
        """Request a tunnel from the proxy; raises ExchangeFailed when it refuses."""
        authority = f"{_host_of(target)}:{port_of(target)}"
        lines = (f"CONNECT {authority} HTTP/1.1", f"Host: {authority}", *proxy_authorization(proxy), "", "")
        self._transport.write("\r\n".join(lines).encode())
        head = await self._reply_head
        first, _, rest = head.decode("latin-1").partition("\r\n")
        version, _, status = first.partition(" ")
        if not version.startswith("HTTP/1.") or not status.startswith("200"):
            raise ExchangeFailed("service_unavailable", f"the proxy gives no connection: {status or version}")
        if rest.partition("\r\n\r\n")[2]:
            raise ExchangeFailed("service_unavailable", "the proxy speaks for the provider")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the open transport."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Collect the proxy's reply."""
        self._head += data
        if b"\r\n\r\n" in self._head and not self._reply_head.done():
            self._reply_head.set_result(self._head)
        elif len(self._head) > MAX_HEAD_BYTES:
            self._fail(f"the proxy's headers are larger than {MAX_HEAD_BYTES >> 10} KiB")

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the request for a tunnel."""
        self._fail(f"the proxy closed the connection{f' ({exc})' if exc else ''}")

    def _fail(self, message: str) -> None:
        if not self._reply_head.done():
            self._reply_head.set_exception(ExchangeFailed("service_unavailable", message))


def _close_unused(task: asyncio.Task[HttpConnection]) -> None:
    """Close the connection of a task that lost the race."""
    if not task.cancelled() and task.exception() is None:
        task.result().close()


async def _resolve(host: SplitResult) -> list[str]:
    lookup = await asyncio.get_running_loop().getaddrinfo(host.hostname, port_of(host), type=SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in lookup))


def port_of(host: SplitResult) -> int:
    """Return the port of an address, or the default of its scheme."""
    return host.port or (443 if host.scheme == "https" else 80)


def authority_of(host: SplitResult) -> str:
    """Return the host, with the port if the address names one, as in a Host header."""
    return _host_of(host) + (f":{host.port}" if host.port else "")


def proxy_authorization(proxy: SplitResult) -> list[str]:
    """Build the header with the credentials in the proxy's address; none without them."""
    if not proxy.username:
        return []
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return [f"Proxy-Authorization: Basic {b64encode(pair.encode()).decode()}"]


def _host_of(host: SplitResult) -> str:
    name = host.hostname or ""
    return f"[{name}]" if ":" in name else name.encode("idna").decode()
