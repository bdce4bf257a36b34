"""A provider on loopback with a limit, for measurements: `python bench/limited_stub.py SPEC` prints its port.

SPEC is JSON: `{"limit": ["TokenBucket", 10, 10], "latency": 0.2, "headers": "openai"}`; `changes` has `[seconds, limit]`, and
`rejection` is the latency of a rejection, null for that of an answer. `GET /stats` tells what was received.
"""

import asyncio
import json
import re
import sys
import time
from typing import Any, cast

from assay.models import limited_stub
from assay.models.limited_stub import StubLimit, limit_headers
from stub import answer_to, reply

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


def limit_of(words: list[Any]) -> StubLimit:
    """The limit that a list of its class and its arguments describes; a mapping at the end has the arguments by name."""
    options = words.pop() if isinstance(words[-1], dict) else {}
    return cast("StubLimit", getattr(limited_stub, words[0])(*words[1:], **options))


class Provider:
    """What the stub does, and what it has received."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.limits = [limit_of(words) for words in spec.get("limits") or [spec["limit"]]]
        self.latency = spec.get("latency", 0.1)
        self.rejection = spec.get("rejection", 0.001)
        self.status = spec.get("status", 429)
        self.headers = spec.get("headers", "none")
        self.changes = [(seconds, limit_of(words)) for seconds, words in spec.get("changes", [])]
        self.tokens = spec.get("tokens", [110])
        self.in_flight = 0
        self.begun: float | None = None
        self.log: list[tuple[float, bool]] = []
        self.first_rejection: float | None = None

    def take(self) -> tuple[bool, dict[str, str]]:
        """Accept or reject a request."""
        now = time.monotonic()
        self.begun = self.begun or now
        while self.changes and now - self.begun >= self.changes[0][0]:
            self.limits = [self.changes.pop(0)[1]]
        number = len(self.log)
        tokens = self.tokens[number % len(self.tokens)]
        states = [
            (limit, limit.take(now - self.begun, tokens if limit.unit == "tokens" else 1, self.in_flight)) for limit in self.limits
        ]
        is_accepted = all(state.is_accepted for _, state in states)
        self.log.append((now - self.begun, is_accepted))
        headers: dict[str, str] = {}
        for limit, state in states:
            headers |= limit_headers(self.headers, state, limit.unit, now=time.time(), seconds=getattr(limit, "seconds", None))
        if self.headers == "retry-after-one" and not is_accepted:
            headers["retry-after"] = "1"
        return is_accepted, headers

    def stats(self) -> bytes:
        """What has arrived: starts in seconds, and whether each was accepted."""
        first = next((at for at, is_accepted in self.log if not is_accepted), None)
        return json.dumps({"log": self.log, "first_rejection": first}).encode()


class Exchange(asyncio.Protocol):
    """One connection; requests come one after the other."""

    provider: Provider

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first request."""
        self._transport = cast("asyncio.Transport", transport)
        self._buffer = b""

    def data_received(self, data: bytes) -> None:
        """Answer every request that is complete."""
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            length = _LENGTH.search(self._buffer[:end])
            stop = end + 4 + (int(length[1]) if length else 0)
            if len(self._buffer) < stop:
                return
            head, body, self._buffer = self._buffer[:end], self._buffer[end + 4 : stop], self._buffer[stop:]
            self._answer(head, body)

    def _answer(self, head: bytes, body: bytes) -> None:
        provider = self.provider
        if head.startswith(b"GET /stats"):
            self._transport.write(reply(provider.stats()))
            return
        is_accepted, headers = provider.take()
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode()
        if is_accepted:
            provider.in_flight += 1
            whole = answer_to(body)
            latency = provider.latency
        else:
            error = json.dumps({"error": {"message": "rate limit reached", "type": "rate_limit_error"}}).encode()
            whole = reply(error).replace(b"200 OK", f"{provider.status} Busy".encode(), 1)
            latency = provider.latency if provider.rejection is None else provider.rejection
        whole = whole.replace(b"\r\n", b"\r\n" + lines, 1) if lines else whole
        asyncio.get_running_loop().call_later(latency, self._send, whole, int(is_accepted))

    def _send(self, whole: bytes, answers: int) -> None:
        self.provider.in_flight -= answers
        if not self._transport.is_closing():
            self._transport.write(whole)


async def serve(spec: dict[str, Any]) -> None:
    """Answer until the process ends."""
    Exchange.provider = Provider(spec)
    server = await asyncio.get_running_loop().create_server(Exchange, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(json.loads(sys.argv[1])))
