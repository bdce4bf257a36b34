"""One large exchange over a connection of its own: sent and received in pieces, so that memory stays constant."""

import asyncio
from collections.abc import Callable, Iterable

from assay.models.http_connection import MAX_REPLY_BYTES, ExchangeFailed, HttpConnection, HttpReply

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
        if self._sink is not None and 200 <= self._status < 300:
            self._sink(body)
        elif len(self._body) + len(body) <= MAX_REPLY_BYTES:
            super()._store_body(body)
        else:
            self._fail(
                ExchangeFailed("reply_too_large", f"its reply is larger than {MAX_REPLY_BYTES >> 20} MiB", status=self._status)
            )
