"""HTTP/1.1 protocol of the service: ambiguous, endless and slow input is refused before it becomes a request."""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from assay.surfaces.server.errors import RETRY_SECONDS, whole_answer
from assay.surfaces.server.settings import ServerSettings

MAX_HEADERS = 100
HEADER_BYTES = 32 << 10
TARGET_BYTES = 8 << 10
METHOD_BYTES = 32
LINGER_SECONDS = 2.0
"""Seconds of reading after a refusal, so that the client reads the answer instead of getting a connection reset."""
LINGER_BYTES = 1 << 20
READ_SECONDS = 60.0
"""Seconds for which a client may leave its answer unread."""
_REASONS = {400: "this cannot be read as a request of HTTP/1.1", 431: "the headers are too long"}


class Protocol(H11Protocol):
    """uvicorn's HTTP protocol with limits on time and connections, and the error envelope for input that is not HTTP."""

    settings = ServerSettings()

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        # A parser of ours, which checks requests before uvicorn sees them.
        self._parser_check = _UnambiguousParser()
        self.conn = self._parser_check
        self._is_over = False
        self._left_to_discard = LINGER_BYTES
        self._has_begun = False
        self._waiting_since = self.loop.time()
        self._deadline: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as its parent has it
        """Accept a connection; if there are too many, close the one that has been idle longest."""
        super().connection_made(transport)
        self._expect_request()
        # Counted after it was added: this one may stay if an idle one can be closed instead.
        if len(self.connections) > self.settings.max_connections:
            self._make_room()

    def _make_room(self) -> None:
        # Only connections without a request are closed for room: a slow but honest upload is not.
        waiting = [other for other in self.connections if isinstance(other, Protocol) and other.is_waiting and other is not self]
        if waiting:
            min(waiting, key=lambda other: other._waiting_since).drop()
        else:
            self._refuse(503, "too many connections", {"retry-after": str(RETRY_SECONDS)})

    @property
    def is_waiting(self) -> bool:
        """True if there is no request to answer."""
        # Between two requests uvicorn keeps the last exchange.
        return not self._is_over and (self._exchange is None or self._exchange.response_complete)

    @property
    def _exchange(self) -> RequestResponseCycle | None:
        """Return the current request, or the last one."""
        return self.cycle

    def drop(self) -> None:
        """Close an idle connection."""
        self._is_over = True
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel all timers."""
        for timer in (self._deadline, self._unread):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse received bytes; the head of a request has a deadline, whether it arrives in one piece or in many."""
        if self._is_over:
            # After a refusal bytes are read and dropped, so that the client sees the answer and not a reset.
            self._left_to_discard -= len(data)
            if self._left_to_discard < 0:
                self.transport.abort()
            return
        self._has_begun = True
        super().data_received(data)
        # A whole head has arrived: from here on the middleware watches the time of the body.
        if not self.is_waiting:
            self._expect_nothing()
        elif self._deadline is None:
            self._expect_request()

    def on_response_complete(self) -> None:
        """Start the keep-alive timeout between two requests."""
        self._has_begun = False
        self._waiting_since = self.loop.time()
        super().on_response_complete()

    def _expect_request(self) -> None:
        self._deadline = self.loop.call_later(self.settings.idle_seconds, self._be_late)

    def _expect_nothing(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _be_late(self) -> None:
        self._deadline = None
        # A connection on which nothing was sent is closed without an answer, which the client might take for one
        # to its next request.
        if self._has_begun and not self._parser_check.has_sent_answer:
            self._refuse(408, f"the request did not come within {self.settings.idle_seconds:g} seconds")
        else:
            self.drop()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002  # the parent's name; what it says is said better here
        """Answer input that cannot be parsed as a request."""
        status, reason = self._parser_check.refusal
        exchange = self._exchange
        # The answer has begun, so a second one would be read as part of it.
        if exchange is not None and exchange.response_started and not exchange.response_complete:
            self.drop()
        else:
            self._refuse(status, reason)

    def _refuse(self, status: int, reason: str, headers: dict[str, str] | None = None) -> None:
        self._is_over = True
        self._expect_nothing()
        self.transport.write(whole_answer(status, reason, headers or {}))
        # The client learns that nothing more follows; the reading side stays open for what it still sends.
        self.transport.write_eof()
        # Reading may have been paused because the application was slow.
        self.flow.resume_reading()
        if self._exchange is not None:
            # The handler that still reads the body of a malformed request must see a disconnect.
            self._exchange.disconnected = True
            self._exchange.message_event.set()
        self._deadline = self.loop.call_later(LINGER_SECONDS, self.transport.abort)

    def pause_writing(self) -> None:
        """Disconnect a client that does not read its answer."""
        super().pause_writing()
        # A client that stops reading would hold the answer in memory for ever.
        self._unread = self.loop.call_later(READ_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Resume: the client reads again."""
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def shutdown(self) -> None:
        """End in order, unless it has ended already."""
        # uvicorn shuts down every connection, also those that were closed by a refusal.
        if not self._is_over:
            super().shutdown()

    def _unsupported_upgrade_warning(self) -> None:
        """Answer an upgrade request in HTTP/1.1, as RFC 9110 permits."""


def protocol_for(settings: ServerSettings) -> type[Protocol]:
    """Build the protocol class for an operator's settings."""
    # uvicorn makes protocols by calling a class without arguments of ours.
    return type("Protocol", (Protocol,), {"settings": settings})


class _UnambiguousParser(h11.Connection):
    """Parser that refuses requests which two parsers might understand differently."""

    def __init__(self) -> None:
        super().__init__(h11.SERVER, HEADER_BYTES)
        self.refusal = (400, _REASONS[400])

    @property
    def has_sent_answer(self) -> bool:
        """True if the current request was answered before its body was complete."""
        # An answer that began before the body was complete, such as a refusal of an upload.
        return self.our_state not in (h11.IDLE, h11.SEND_RESPONSE)

    def next_event(self) -> Any:
        """Return the next event; raises RemoteProtocolError, and `refusal` has the reason."""
        try:
            event = super().next_event()
        except h11.RemoteProtocolError as problem:
            status = problem.error_status_hint if problem.error_status_hint in _REASONS else 400
            self.refusal = (status, _REASONS[status])
            raise
        return self._checked(event) if isinstance(event, h11.Request) else event

    def _checked(self, request: h11.Request) -> h11.Request:
        names = [name for name, _ in request.headers]
        # h11 limits the bytes of a head only while it is incomplete; a head that arrives in one piece is not
        # limited.
        if len(names) > MAX_HEADERS or sum(len(name) + len(value) for name, value in request.headers) > HEADER_BYTES:
            raise self._refused(431, f"a request has at most {MAX_HEADERS} headers of {HEADER_BYTES:,} bytes together")
        # h11 takes any version number; uvicorn answers HTTP/1.0 and 1.1.
        if request.http_version not in (b"1.0", b"1.1") or len(request.method) > METHOD_BYTES:
            raise self._refused(400, _REASONS[400])
        if len(request.target) > TARGET_BYTES:
            raise self._refused(414, f"an address has at most {TARGET_BYTES:,} characters")
        # RFC 9112 6.1: if a proxy and this server frame the body differently, an attacker can smuggle a request.
        if b"transfer-encoding" in names and (b"content-length" in names or request.http_version < b"1.1"):
            raise self._refused(400, "a request has a Content-Length or a Transfer-Encoding, not both, and the latter in HTTP/1.1")
        # `*` is the target of OPTIONS for the whole server.
        return request if request.target.startswith(b"/") or request.target == b"*" else self._relative(request)

    def _relative(self, request: h11.Request) -> h11.Request:
        """Rewrite an absolute-form target to its path; RFC 9112 3.2.2 requires servers to accept both."""
        target = request.target.decode("ascii")
        scheme, _, rest = target.partition("://")
        authority = rest.partition("/")[0].partition("?")[0]
        host = next((value.decode("latin-1") for name, value in request.headers if name == b"host"), "")
        # Another authority than Host would let a proxy and this server route to different hosts.
        if scheme.lower() not in ("http", "https") or authority.lower() != host.lower():
            raise self._refused(400, "a request is for a path, or for an address at the host that it names")
        path = rest.removeprefix(authority)
        shown = path if path.startswith("/") else f"/{path}"
        return h11.Request(method=request.method, headers=list(request.headers), target=shown, http_version=request.http_version)

    def _refused(self, status: int, reason: str) -> h11.RemoteProtocolError:
        self.refusal = (status, reason)
        return h11.RemoteProtocolError(reason, error_status_hint=status)
