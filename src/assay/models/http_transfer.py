"""One large exchange over a connection of its own: sent and received piece by piece, so that memory stays flat."""

import asyncio
from collections.abc import Callable, Iterable

from assay.models.http_connection import MAX_REPLY_BYTES, Broken, HttpConnection, HttpReply

MOST_BYTES = 8 << 30
"""Of what is received; more than any batch of a provider brings back."""


class HttpTransfer(HttpConnection):
    """A connection for one exchange whose deadline is for a while in which nothing moves."""

    most_bytes = MOST_BYTES

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
        """The reply to a request in pieces; the body of a good one goes to the sink. Raises Broken or TimeoutError."""
        if self._transport.is_closing():
            raise Broken("service_unavailable", "the connection was closed before the request was sent")
        self._sink, self._seconds = sink, seconds
        reply: asyncio.Future[HttpReply] = self._loop.create_future()
        self._reply = reply
        self._moved()
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
            self._moved()

    def _moved(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(self._seconds, self.expire)

    def pause_writing(self) -> None:
        """The other side takes no more for the moment."""
        self._may_write.clear()

    def resume_writing(self) -> None:
        """The other side takes more again."""
        self._may_write.set()
        if self._reply is not None:
            self._moved()

    def data_received(self, data: bytes) -> None:
        """Some bytes of a reply."""
        if self._reply is not None:
            self._moved()
        super().data_received(data)

    def _keep(self, body: bytes) -> None:
        if self._sink is not None and 200 <= self._status < 300:
            self._sink(body)
        elif len(self._body) + len(body) <= MAX_REPLY_BYTES:
            super()._keep(body)
        else:
            self._fail(Broken("reply_too_large", f"its reply is larger than {MAX_REPLY_BYTES >> 20} MiB", status=self._status))
