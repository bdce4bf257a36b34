"""New connections to a provider: its addresses, TLS with a checked certificate, and a proxy on the way."""

import asyncio
import ssl
from base64 import b64encode
from socket import SOCK_STREAM
from typing import cast
from urllib.parse import SplitResult, unquote

from assay.core.tls import client_context
from assay.models.http_connection import MAX_HEAD_BYTES, Broken, HttpConnection

RESOLVED_SECONDS = 60.0
"""How long the addresses of a host are good for."""
HEAD_START = 0.25
"""Seconds that one address of a host is tried alone before the next one is tried beside it (RFC 8305)."""


class Dialer:
    """Opens connections to one host."""

    def __init__(self, target: SplitResult, proxy: SplitResult | None, *, protocol: type[HttpConnection] = HttpConnection) -> None:
        self._target = target
        self._protocol = protocol
        self._proxy = proxy
        self._first = proxy or target
        """The host that is called."""
        self._context: ssl.SSLContext | None = None
        self._found: asyncio.Task[list[str]] | None = None
        self._found_at = 0.0

    async def connect(self) -> HttpConnection:
        """The connection that is open first, of those to all addresses of the host; raises OSError or Broken."""
        left = list(await self._addresses())
        tries: set[asyncio.Task[HttpConnection]] = set()
        try:
            while True:
                if left:
                    tries.add(asyncio.create_task(self._open(left.pop(0))))
                wait = HEAD_START if left else None
                done, _ = await asyncio.wait(tries, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
                for one in done:
                    tries.remove(one)
                    if one.exception() is None or not (left or tries):
                        return one.result()
        finally:
            for one in tries:
                one.cancel()
                one.add_done_callback(_let_go)

    def close(self) -> None:
        """Look for no address any more."""
        if self._found is not None:
            self._found.cancel()

    async def _addresses(self) -> list[str]:
        """The addresses of the host, looked up once for all who ask at the same time."""
        now, found = asyncio.get_running_loop().time(), self._found
        is_old = found is not None and found.done() and (found.exception() or now - self._found_at > RESOLVED_SECONDS)
        if found is None or is_old:
            found = self._found = asyncio.create_task(_look_up(self._first))
            self._found_at = now
        return await asyncio.shield(found)

    async def _open(self, address: str) -> HttpConnection:
        """A connection to one address, through TLS and the proxy where they are wanted."""
        if self._proxy is not None and self._target.scheme == "https":
            return await self._open_tunnel(self._proxy, address)
        transport = await self._open_transport(address, self._protocol)
        return cast("HttpConnection", transport.get_protocol())

    async def _open_tunnel(self, proxy: SplitResult, address: str) -> HttpConnection:
        """A connection that the proxy passes on without a look inside."""
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
            raise Broken("service_unavailable", "the proxy closed the connection")
        connection.connection_made(inner)
        return connection

    async def _open_transport(self, address: str, protocol: "type[HttpConnection | _Tunnel]") -> asyncio.Transport:
        first, loop = self._first, asyncio.get_running_loop()
        is_secret = first.scheme == "https"
        transport, _ = await loop.create_connection(
            protocol,
            address,
            port_of(first),
            ssl=self._tls() if is_secret else None,
            server_hostname=first.hostname if is_secret else None,
        )
        return transport

    def _tls(self) -> ssl.SSLContext:
        """The settings of the machine: its authorities, and names that must match."""
        if self._context is None:
            self._context = client_context()
            self._context.set_alpn_protocols(["http/1.1"])
        return self._context


class _Tunnel(asyncio.Protocol):
    """A connection to a proxy until it leads to the provider."""

    def __init__(self) -> None:
        self._head = b""
        self._answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def open_to(self, target: SplitResult, proxy: SplitResult) -> None:
        """Ask the proxy for a connection; raises Broken where it gives none."""
        authority = f"{_host_of(target)}:{port_of(target)}"
        lines = (f"CONNECT {authority} HTTP/1.1", f"Host: {authority}", *proxy_authorization(proxy), "", "")
        self._transport.write("\r\n".join(lines).encode())
        head = await self._answered
        first, _, rest = head.decode("latin-1").partition("\r\n")
        version, _, status = first.partition(" ")
        if not version.startswith("HTTP/1.") or not status.startswith("200"):
            raise Broken("service_unavailable", f"the proxy gives no connection: {status or version}")
        if rest.partition("\r\n\r\n")[2]:
            raise Broken("service_unavailable", "the proxy speaks for the provider")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The proxy listens."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """A part of the proxy's answer."""
        self._head += data
        if b"\r\n\r\n" in self._head and not self._answered.done():
            self._answered.set_result(self._head)
        elif len(self._head) > MAX_HEAD_BYTES:
            self._fail(f"the proxy's headers are larger than {MAX_HEAD_BYTES >> 10} KiB")

    def connection_lost(self, exc: Exception | None) -> None:
        """The proxy has hung up."""
        self._fail(f"the proxy closed the connection{f' ({exc})' if exc else ''}")

    def _fail(self, message: str) -> None:
        if not self._answered.done():
            self._answered.set_exception(Broken("service_unavailable", message))


def _let_go(task: asyncio.Task[HttpConnection]) -> None:
    """Close what nobody needs any more, however far it has come."""
    if not task.cancelled() and task.exception() is None:
        task.result().close()


async def _look_up(host: SplitResult) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host.hostname, port_of(host), type=SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def port_of(host: SplitResult) -> int:
    """The port of an address, which its scheme implies where it names none."""
    return host.port or (443 if host.scheme == "https" else 80)


def authority_of(host: SplitResult) -> str:
    """The host, and the port where the address names one, as requests name them."""
    return _host_of(host) + (f":{host.port}" if host.port else "")


def proxy_authorization(proxy: SplitResult) -> list[str]:
    """The header with the user name and password that stand in the proxy's address; none without them."""
    if not proxy.username:
        return []
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return [f"Proxy-Authorization: Basic {b64encode(pair.encode()).decode()}"]


def _host_of(host: SplitResult) -> str:
    name = host.hostname or ""
    return f"[{name}]" if ":" in name else name.encode("idna").decode()
