"""One HTTP/1.1 connection to a provider: a request goes out in one write, and its reply comes back whole or not at all.

The rules of HTTP are kept by llhttp, the parser of Node.js, through httptools. A connection that has anything left to say after its
answer, or says something unasked, is closed. Only bytes that arrive just after the next request went out pass for its answer:
HTTP/1.1 has nothing to tell them apart by.
"""

import asyncio
import select
from typing import cast

import msgspec
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

MAX_REPLY_BYTES = 32 << 20
"""Of one body; a longer one is refused."""
MAX_HEAD_BYTES = 64 << 10
"""Of the headers of one reply together; longer ones are refused."""


class HttpReply(msgspec.Struct, frozen=True):
    """A whole reply."""

    status: int
    headers: dict[str, str]
    """By lower-case name; of a header that comes twice, the first."""
    body: bytes


class Broken(Exception):
    """An exchange that brought no whole reply; `code` is that of its failure."""

    def __init__(self, code: str, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.status = status


class HttpConnection(asyncio.Protocol):
    """An open connection, for one exchange after the other."""

    most_bytes = MAX_REPLY_BYTES

    def __init__(self) -> None:
        self.is_reusable = True
        """Nothing has arrived that nobody asked for, and the other side will take a further request."""
        self.idle_since = 0.0
        self._loop = asyncio.get_running_loop()
        self._reply: asyncio.Future[HttpReply] | None = None
        self._watched: select.poll | None = None
        self._parser = HttpResponseParser(self)
        # As lenient as browsers are with servers that end lines in their own way: an answer is paid for.
        self._parser.set_dangerous_leniencies(
            lenient_headers=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )
        self._begin()

    async def exchange(self, request: bytes) -> HttpReply:
        """The reply to one request; raises Broken, or TimeoutError when it expires before it is whole."""
        if self._transport.is_closing():
            # Between dialing and this call; nobody would ever wake the one who waits.
            raise Broken("service_unavailable", "the connection was closed before the request was sent")
        reply: asyncio.Future[HttpReply] = self._loop.create_future()
        self._reply = reply
        self._transport.write(request)
        try:
            return await reply
        finally:
            self._reply = None
            self.is_reusable = self.is_reusable and self._is_whole
            self._begin()

    def is_quiet(self) -> bool:
        """Nothing waits to be read, and nothing to be sent."""
        number = self._number
        if not hasattr(select, "poll"):  # Windows, where `select` takes every number.
            return select.select([number], [number], [], 0) == ([], [number], [])
        if self._watched is None:
            self._watched = select.poll()
            self._watched.register(number, select.POLLIN | select.POLLOUT)
        return self._watched.poll(0) == [(number, select.POLLOUT)]

    def expire(self) -> None:
        """The time for a whole reply is over."""
        self._fail(TimeoutError())

    def close(self) -> None:
        """Close at once."""
        self.is_reusable = False
        self._transport.abort()

    def _begin(self) -> None:
        self._status = 0
        self._headers: dict[str, str] = {}
        self._body = bytearray()
        self._header_bytes = self._body_bytes = self._silent_bytes = 0
        self._is_whole = False

    # What the event loop says

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open."""
        self._transport = cast("asyncio.Transport", transport)
        self._number = transport.get_extra_info("socket").fileno()

    def data_received(self, data: bytes) -> None:
        """Some bytes of a reply."""
        if self._reply is None:
            self.close()
            return
        # Headers and trailers without an end are given to nobody; they must not fill the memory all the same.
        self._silent_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as problem:
            # What comes after an answer cannot spoil it any more.
            self.is_reusable = False
            if not self._is_whole:
                self._fail(Broken("internal_error", f"it does not speak HTTP ({problem})"))
        if max(self._header_bytes, self._silent_bytes) > MAX_HEAD_BYTES:
            self._fail(Broken("service_unavailable", f"its headers are larger than {MAX_HEAD_BYTES >> 10} KiB"))
        elif self._body_bytes > self.most_bytes:
            self._fail(Broken("reply_too_large", f"its reply is larger than {self.most_bytes >> 20} MiB", status=self._status))
        elif self._is_whole:
            self._succeed()

    def eof_received(self) -> None:
        """The other side has nothing more to say."""
        self.is_reusable = False

    def connection_lost(self, exc: Exception | None) -> None:
        """The other side has closed the connection, or it broke; a body without a length ends here."""
        self.is_reusable = False
        has_open_end = self._status and not {"content-length", "transfer-encoding"} & self._headers.keys()
        if has_open_end and exc is None:
            self._succeed()
        else:
            reason = f" ({exc})" if exc is not None else ""
            self._fail(Broken("service_unavailable", f"the connection was closed before a whole answer{reason}"))
        # The parser holds this object, and the other way round.
        del self._parser

    # What the parser says

    def on_message_begin(self) -> None:
        """A reply, or something after it that nobody asked for."""
        if self._is_whole:
            self.is_reusable = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer."""
        self._header_bytes += len(name) + len(value)
        if not self._status and self._header_bytes <= MAX_HEAD_BYTES:
            self._headers.setdefault(name.decode("latin-1").lower(), value.decode("utf-8", "replace"))

    def on_headers_complete(self) -> None:
        """The body is next."""
        self._silent_bytes = 0
        if not self._is_whole:
            self._status = self._parser.get_status_code()
            length = self._headers.get("content-length", "")
            # What is announced is not waited for.
            self._body_bytes = int(length) if length.isdecimal() and int(length) > self.most_bytes else 0

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._silent_bytes = 0
        if self._is_whole:
            return
        self._body_bytes += len(body)
        if self._body_bytes <= self.most_bytes:
            self._keep(body)

    def _keep(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        """The end of a reply; one that only says that another will come is passed over."""
        if self._is_whole:
            return
        if self._status < 200:
            self._begin()
            return
        self._is_whole = True
        # An answer that came before the request was out: the rest of the request is still on its way.
        is_sent = not self._transport.get_write_buffer_size()
        self.is_reusable = self.is_reusable and is_sent and self._parser.should_keep_alive()

    def _succeed(self) -> None:
        if self._reply is not None and not self._reply.done():
            self._reply.set_result(HttpReply(self._status, self._headers, bytes(self._body)))

    def _fail(self, problem: Exception) -> None:
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(problem)
