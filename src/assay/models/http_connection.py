"""One HTTP/1.1 connection to a provider: a request is sent in one write, and its reply is returned whole or not at all.

llhttp, the parser of Node.js, enforces the rules of HTTP, through httptools. A connection with bytes after its reply, or with
unrequested ones, is closed. Only bytes that arrive just after the next request was sent pass for its reply: HTTP/1.1 cannot tell
them apart.
"""

import asyncio
import select
from typing import cast

import msgspec
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

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
        self._reply = reply
        self._transport.write(request)
        try:
            return await reply
        finally:
            self._reply = None
            self.is_reusable = self.is_reusable and self._is_whole
            self._reset()

    def is_quiet(self) -> bool:
        """Tell whether there is nothing to be read or sent."""
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
        self._transport.abort()

    def _reset(self) -> None:
        self._status = 0
        self._headers: dict[str, str] = {}
        self._body = bytearray()
        self._header_bytes = self._body_bytes = self._unreported_bytes = 0
        self._is_whole = False

    # Callbacks of the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the open transport."""
        self._transport = cast("asyncio.Transport", transport)
        self._descriptor = transport.get_extra_info("socket").fileno()

    def data_received(self, data: bytes) -> None:
        """Parse the next bytes of a reply."""
        if self._reply is None:
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
            self._succeed()

    def eof_received(self) -> None:
        """Stop reusing the connection: the server has closed its side."""
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
        if not self._status and self._header_bytes <= MAX_HEAD_BYTES:
            self._headers.setdefault(name.decode("latin-1").lower(), value.decode("utf-8", "replace"))

    def on_headers_complete(self) -> None:
        """Check the announced length of the body."""
        self._unreported_bytes = 0
        if not self._is_whole:
            self._status = self._parser.get_status_code()
            length = self._headers.get("content-length", "")
            # Refuse an oversized body by its announced length, without waiting for it.
            self._body_bytes = int(length) if length.isdecimal() and int(length) > self.max_bytes else 0

    def on_body(self, body: bytes) -> None:
        """Store a part of the body."""
        self._unreported_bytes = 0
        if self._is_whole:
            return
        self._body_bytes += len(body)
        if self._body_bytes <= self.max_bytes:
            self._store_body(body)

    def _store_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        """Finish a reply; an interim (1xx) response is skipped."""
        if self._is_whole:
            return
        if self._status < 200:
            self._reset()
            return
        self._is_whole = True
        # The reply came before the whole request was sent: the rest would be taken for the next request.
        is_sent = not self._transport.get_write_buffer_size()
        self.is_reusable = self.is_reusable and is_sent and self._parser.should_keep_alive()

    def _succeed(self) -> None:
        if self._reply is not None and not self._reply.done():
            self._reply.set_result(HttpReply(self._status, self._headers, bytes(self._body)))

    def _fail(self, problem: Exception) -> None:
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(problem)
