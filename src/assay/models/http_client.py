"""HTTP/1.1 to a provider: connections with deadlines, lookup, TLS and proxies, kept in a pool."""

import asyncio
import errno
import select
import ssl
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from socket import SOCK_STREAM
from typing import cast
from urllib.parse import SplitResult, quote, unquote, urlsplit

import msgspec
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from assay.core.tls import client_context

MAX_REPLY_BYTES = 32 << 20
"""Maximum size of one body; a longer one is refused."""
MAX_HEAD_BYTES = 64 << 10
"""Maximum size of one reply's headers together; longer ones are refused."""


class HttpReply(msgspec.Struct, frozen=True):
    """A whole reply."""

    status: int
    headers: dict[str, str]
    """By lower-case name; the first value of a repeated header."""
    body: bytes


class ExchangeFailed(Exception):
    """An exchange without a whole reply; `code` is that of its failure."""

    def __init__(self, code: str, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.status = status


class HttpConnection(asyncio.Protocol):
    """An open connection for one exchange after the other."""

    max_bytes = MAX_REPLY_BYTES

    def __init__(self) -> None:
        self.is_reusable = True
        """No unrequested bytes have arrived, and the server accepts a further request."""
        self.idle_since = 0.0
        self._loop = asyncio.get_running_loop()
        self._reply: asyncio.Future[HttpReply] | None = None
        # Made on first use: most connections of a short run carry one request and are never examined.
        self._poller: select.poll | None = None
        self._parser = HttpResponseParser(self)
        # As lenient as browsers with servers that end lines in non-standard ways: the answer is paid for.
        self._parser.set_dangerous_leniencies(
            lenient_headers=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )
        self._reset()

    async def exchange(self, request: bytes) -> HttpReply:
        """Send a request and return its reply; raises ExchangeFailed, or TimeoutError when it expires before it is whole."""
        if self._transport.is_closing():
            # Closed between dialing and this call: no event would wake the waiting caller.
            raise ExchangeFailed("service_unavailable", "the connection was closed before the request was sent")
        reply: asyncio.Future[HttpReply] = self._loop.create_future()
        # From here on bytes are an answer, and no longer a reason to close.
        self._reply = reply
        self._transport.write(request)
        try:
            return await reply
        finally:
            self._reply = None
            # A cancelled or expired exchange leaves a reply under way, which the next request would get.
            self.is_reusable = self.is_reusable and self._is_whole
            self._reset()

    def is_quiet(self) -> bool:
        """Return whether there is nothing to be read or sent."""
        # The event loop may not have read yet what has arrived, and an end of the stream is readable too: ask the system.
        descriptor = self._descriptor
        if not hasattr(select, "poll"):  # Windows, where `select` takes every number.
            return select.select([descriptor], [descriptor], [], 0) == ([], [descriptor], [])
        if self._poller is None:
            self._poller = select.poll()
            self._poller.register(descriptor, select.POLLIN | select.POLLOUT)
        return self._poller.poll(0) == [(descriptor, select.POLLOUT)]

    def expire(self) -> None:
        """Fail the exchange because its deadline is over."""
        self._fail(TimeoutError())

    def close(self) -> None:
        """Close at once."""
        self.is_reusable = False
        # Not `close`, which would first wait for the rest of a request that the server no longer reads.
        self._transport.abort()

    def _reset(self) -> None:
        self._status = 0
        self._headers: dict[str, str] = {}
        self._body = bytearray()
        self._last_piece = b""
        self._header_bytes = self._body_bytes = self._unreported_bytes = 0
        self._is_whole = False

    # Callbacks of the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the open transport."""
        self._transport = cast("asyncio.Transport", transport)
        # Kept as a number, since it is needed before every request.
        self._descriptor = transport.get_extra_info("socket").fileno()

    def data_received(self, data: bytes) -> None:
        """Parse the next bytes of a reply."""
        if self._reply is None:
            # Unrequested bytes: no request may ever read them.
            self.close()
            return
        # The parser reports endless headers and trailers to no callback; count them here so that they cannot fill the memory.
        self._unreported_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as problem:
            # Bytes after a whole reply do not invalidate it.
            self.is_reusable = False
            if not self._is_whole:
                self._fail(ExchangeFailed("internal_error", f"it does not speak HTTP ({problem})"))
        if max(self._header_bytes, self._unreported_bytes) > MAX_HEAD_BYTES:
            self._fail(ExchangeFailed("service_unavailable", f"its headers are larger than {MAX_HEAD_BYTES >> 10} KiB"))
        elif self._body_bytes > self.max_bytes:
            self._fail(
                ExchangeFailed("reply_too_large", f"its reply is larger than {self.max_bytes >> 20} MiB", status=self._status)
            )
        elif self._is_whole:
            self.is_reusable = self.is_reusable and not self._has_blank_lines_after(data)
            self._succeed()

    def _has_blank_lines_after(self, data: bytes) -> bool:
        """Return whether the bytes that end a reply go on with blank lines, which the parser skips without a callback.

        They are harmless in themselves, but a server that sends more than its reply is not trusted with another request.
        """
        end = len(data.rstrip(b"\r\n"))
        if end == len(data):
            return False
        # A body of a given length may end in blank lines of its own; anything else ends with one: two line ends.
        piece = self._last_piece if "content-length" in self._headers else b""
        own = _line_ends(piece[len(piece.rstrip(b"\r\n")) :]) if piece else 2
        return _line_ends(data[end:]) > own

    def eof_received(self) -> None:
        """Stop reusing the connection: the server has closed its side."""
        # A reply without a length is not whole yet: `connection_lost` ends it, and knows whether the end was clean.
        self.is_reusable = False

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle a closed or broken connection; a body without a length ends here."""
        self.is_reusable = False
        has_open_end = self._status and not {"content-length", "transfer-encoding"} & self._headers.keys()
        if has_open_end and exc is None:
            self._succeed()
        else:
            reason = f" ({exc})" if exc is not None else ""
            self._fail(ExchangeFailed("service_unavailable", f"the connection was closed before a whole answer{reason}"))
        # The parser and this object refer to each other; break the cycle.
        del self._parser

    # Callbacks of the parser

    def on_message_begin(self) -> None:
        """Handle the start of a reply, or of an unrequested message after it."""
        if self._is_whole:
            self.is_reusable = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header; a trailer is only counted."""
        self._header_bytes += len(name) + len(value)
        # The first value counts: proxies on the way append theirs.
        if not self._status and self._header_bytes <= MAX_HEAD_BYTES:
            self._headers.setdefault(name.decode("latin-1").lower(), value.decode("utf-8", "replace"))

    def on_headers_complete(self) -> None:
        """Check the announced length of the body."""
        self._unreported_bytes = 0
        if not self._is_whole:
            self._status = self._parser.get_status_code()
            # `isdecimal` also takes digits of other scripts, which `int` reads; the parser has refused them before.
            length = self._headers.get("content-length", "")
            # Refuse an oversized body by its announced length, without waiting for it.
            self._body_bytes = int(length) if length.isdecimal() and int(length) > self.max_bytes else 0

    def on_body(self, body: bytes) -> None:
        """Store a part of the body."""
        self._unreported_bytes = 0
        # The body of an unrequested reply after this one belongs to no request.
        if self._is_whole:
            return
        self._body_bytes += len(body)
        self._last_piece = body
        if self._body_bytes <= self.max_bytes:
            self._store_body(body)

    def _store_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        """Finish a reply; an interim (1xx) response is skipped."""
        if self._is_whole:
            return
        if self._status < 200:
            # The reply itself follows; a thousand of these are bounded by the deadline, and each by the limit on headers.
            self._reset()
            return
        self._is_whole = True
        # The reply came before the whole request was sent: the rest would be taken for the next request.
        is_sent = not self._transport.get_write_buffer_size()
        self.is_reusable = self.is_reusable and is_sent and self._parser.should_keep_alive()

    # The caller may have been cancelled, or the deadline may have passed: the first outcome counts.

    def _succeed(self) -> None:
        if self._reply is not None and not self._reply.done():
            self._reply.set_result(HttpReply(self._status, self._headers, bytes(self._body)))

    def _fail(self, problem: Exception) -> None:
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(problem)


def _line_ends(text: bytes) -> int:
    return len(text.replace(b"\r\n", b"\n"))


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
                # A host whose first address hangs (IPv6 behind a broken router) must not cost a whole deadline.
                done, _ = await asyncio.wait(attempts, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
                for attempt in done:
                    attempts.remove(attempt)
                    # The last failure is the one that is raised: all addresses were tried by then.
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
            # A failed lookup is not kept: the network may be back for the next attempt.
            lookup = self._lookup = asyncio.create_task(_resolve(self._first))
            self._looked_up_at = now
        # A caller that is cancelled must not take the lookup from the others.
        return await asyncio.shield(lookup)

    async def _open(self, address: str) -> HttpConnection:
        """Open a connection to one address, with TLS and the proxy as configured."""
        # Over plain HTTP the proxy gets the whole address in each request instead.
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
            # The certificate must be the provider's, not the proxy's: the key goes through here.
            inner = await loop.start_tls(transport, connection, self._tls(), server_hostname=name)
        finally:
            if inner is None:
                transport.abort()
        if inner is None:
            raise ExchangeFailed("service_unavailable", "the proxy closed the connection")
        # `start_tls` does not call it.
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
        # Bytes before the handshake do not come from the provider.
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


class Deadlines:
    """Times, by the event loop's clock, at which exchanges expire."""

    def __init__(self) -> None:
        self._deadlines: dict[HttpConnection, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def set(self, connection: HttpConnection, at: float) -> None:
        """Set the deadline of the exchange that starts on a connection."""
        self._deadlines[connection] = at
        # One timer for all calls: a timer for each would be set and cancelled a thousand times to fire once.
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


MAX_BYTES = 8 << 30
"""Maximum bytes of a download; more than any provider's batch."""


class HttpTransfer(HttpConnection):
    """A connection for one exchange whose deadline limits the time without progress."""

    max_bytes = MAX_BYTES

    def __init__(self) -> None:
        super().__init__()
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._sink: Callable[[bytes], object] | None = None
        self._seconds = 0.0
        self._timer: asyncio.TimerHandle | None = None

    async def transfer(
        self, request: Iterable[bytes], *, seconds: float, sink: Callable[[bytes], object] | None = None
    ) -> HttpReply:
        """Send a request in pieces; a successful reply's body goes to the sink. Raises ExchangeFailed or TimeoutError."""
        if self._transport.is_closing():
            raise ExchangeFailed("service_unavailable", "the connection was closed before the request was sent")
        self._sink, self._seconds = sink, seconds
        reply: asyncio.Future[HttpReply] = self._loop.create_future()
        self._reply = reply
        self._extend_deadline()
        # In a task of its own: a server may refuse before the whole body is there, and that is the answer.
        sending = asyncio.create_task(self._send(request))
        try:
            return await reply
        finally:
            self._reply = None
            sending.cancel()
            if self._timer is not None:
                self._timer.cancel()

    async def _send(self, request: Iterable[bytes]) -> None:
        for piece in request:
            # Without it a file of 200 MB would be in the buffer of the transport.
            await self._may_write.wait()
            if self._transport.is_closing():
                return
            self._transport.write(piece)
            self._extend_deadline()

    def _extend_deadline(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(self._seconds, self.expire)

    def pause_writing(self) -> None:
        """Pause sending: the write buffer is full."""
        self._may_write.clear()

    def resume_writing(self) -> None:
        """Resume sending."""
        self._may_write.set()
        if self._reply is not None:
            self._extend_deadline()

    def data_received(self, data: bytes) -> None:
        """Parse the next bytes of a reply and extend the deadline."""
        if self._reply is not None:
            self._extend_deadline()
        super().data_received(data)

    def _store_body(self, body: bytes) -> None:
        # An error's text must not end up in the file of the results.
        if self._sink is not None and 200 <= self._status < 300:
            self._sink(body)
        elif len(self._body) + len(body) <= MAX_REPLY_BYTES:
            super()._store_body(body)
        else:
            self._fail(
                ExchangeFailed("reply_too_large", f"its reply is larger than {MAX_REPLY_BYTES >> 20} MiB", status=self._status)
            )


IDLE_SECONDS = 15.0
"""Seconds after which an idle connection is not reused: servers close theirs without notice."""
SETTLE_SECONDS = 0.025
"""Seconds for which a connection rests after a reply: unrequested bytes arrive before the next request.

A reply says nothing of the request that it answers, so that a second one that arrives just after the next request would be taken
for the answer to that. Real calls take hundreds of milliseconds, and another connection serves in the meantime.
"""
MAX_SETTLING = 64
"""Connections that rest at once; where replies come so fast that there are more, they rest for less."""
_NO_HANDLES = (errno.EMFILE, errno.ENFILE)
_URL_CHARACTERS = "/%:=&?~+!$,;'@()*[]"
"""Characters besides letters and digits that are not quoted in a URL."""


class HttpPool:
    """Connections to the host of one address."""

    def __init__(self, url: str, *, seconds: float, proxy: str = "") -> None:
        self._proxy = urlsplit(proxy) if proxy else None
        self._url = url
        self._dialer = Dialer(urlsplit(url), self._proxy)
        self._seconds = seconds
        self._settling: deque[HttpConnection] = deque()
        """Connections that rest after a reply, the longest first."""
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
            # A proxy needs the whole address, and its login in each request.
            path = f"http://{authority_of(target)}{path}"
            lines += proxy_authorization(self._proxy)
        return "\r\n".join((f"{method} {path} HTTP/1.1", *lines, "")).encode()

    async def send(self, request: bytes) -> HttpReply:
        """Send a request and return its reply; raises ExchangeFailed, OSError, or TimeoutError without an errno when it is late.

        A request is sent only once: after a broken connection, the provider may have received it already.
        """
        loop = asyncio.get_running_loop()
        start = loop.time()
        connection = self._idle_connection(start) or await self._new_connection()
        self._deadlines.set(connection, start + self._seconds)
        try:
            return await connection.exchange(request)
        finally:
            self._deadlines.lift(connection)
            if connection.is_reusable:
                connection.idle_since = loop.time()
                self._settling.append(connection)
            else:
                connection.close()

    async def transfer(self, request: Iterable[bytes], *, sink: Callable[[bytes], object] | None = None) -> HttpReply:
        """Send a request in pieces over a connection of its own; the body of a successful reply goes to the sink.

        Raises what `send` raises; the deadline limits the time without progress.
        """
        # Transfers are rare and long: a connection of the pool would be lost to the calls for minutes.
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
        for connection in (*self._settling, *self._idle):
            connection.close()
        self._deadlines.close()
        self._dialer.close()
        # Yield once: the event loop closes transports in its next iteration.
        await asyncio.sleep(0)

    async def _new_connection(self) -> HttpConnection:
        """Open a connection; where the process may open no more, take one that has not settled."""
        while True:
            try:
                async with asyncio.timeout(self._seconds):
                    return await self._dialer.connect()
            except OSError as problem:
                if problem.errno not in _NO_HANDLES or not self._settling:
                    raise
            self._idle.append(self._settling.popleft())
            connection = self._idle_connection(asyncio.get_running_loop().time())
            if connection is not None:
                return connection

    def _idle_connection(self, now: float) -> HttpConnection | None:
        """Take the most recently used connection of those that have settled, so that the others can expire."""
        # No request waits for a connection to settle: budgets and limits have let it go now.
        while self._settling and (now - self._settling[0].idle_since >= SETTLE_SECONDS or len(self._settling) > MAX_SETTLING):
            self._idle.append(self._settling.popleft())
        while self._idle:
            connection = self._idle.pop()
            if connection.is_reusable and now - connection.idle_since < IDLE_SECONDS and connection.is_quiet():
                return connection
            # Closed by the server, too old, or with unrequested bytes: a request on it would be lost or misread.
            connection.close()
        return None
