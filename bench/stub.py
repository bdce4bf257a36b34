"""A provider on loopback for measurements: `python bench/stub.py LATENCY` prints its port and answers chat completions at once.

It reads just enough HTTP for the clients that are measured. A judge is known by its model name, and gets the verdict that its
prompt asks for. `GET /stats` tells what was received since the last time, and the bodies that came last.
"""

import asyncio
import json
import re
import sys
from typing import Any, cast

CANDIDATE = "bench-candidate"
JUDGE = "bench-judge"
ANSWER = "Anna has 4 apples now, because pears are not apples."
VERDICT = {"score": 4, "justification": "The answer states the right number and says why.", "label": ""}
REASONED = {"reason": "The answer states the right number.", "pass": True, "score": 1.0}
TYPED = {"result": 4, "rationale": "The answer states the right number."}
GRADED = "The submission states the right number.\n\nGRADE: C"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_TOOL = re.compile(rb'"tools": ?\[.*?"name": ?"(\w+)"', re.DOTALL)


def reply(body: bytes) -> bytes:
    """A whole HTTP reply."""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def completion(message: dict[str, Any], *, reason: str = "stop") -> bytes:
    """A chat completion with that message, as an HTTP reply."""
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": reason}
    usage = {"prompt_tokens": 90, "completion_tokens": 20, "total_tokens": 110}
    document = {"id": "chatcmpl-bench", "object": "chat.completion", "created": 1, "model": "bench", "choices": [choice]}
    return reply(json.dumps({**document, "usage": usage}).encode())


_ANSWER = completion({"content": ANSWER})
_VERDICTS = {
    words: completion({"content": text})
    for words, text in (
        (b"justification", json.dumps(VERDICT)),
        (b"GRADE: ", GRADED),
        (b"rationale", json.dumps(TYPED)),
        (b"reason", json.dumps(REASONED)),
    )
}
"""What a judge is told by the words of its prompt that name the form; the first that occur count."""


def answer_to(body: bytes) -> bytes:
    """The reply to a request: an answer, or a verdict in the form that the judge's prompt wants."""
    if JUDGE.encode() not in body:
        return _ANSWER
    tool = _TOOL.search(body)
    if tool is not None:
        function = {"name": tool[1].decode(), "arguments": json.dumps(REASONED)}
        calls = [{"id": "call_1", "type": "function", "function": function}]
        return completion({"content": None, "tool_calls": calls}, reason="tool_calls")
    return next((verdict for words, verdict in _VERDICTS.items() if words in body), _ANSWER)


class Received:
    """What has arrived since somebody asked for it."""

    def __init__(self) -> None:
        self.candidate = self.judge = self.bytes = self.in_flight = 0
        self.bodies = {"candidate": b"", "judge": b""}

    def add(self, body: bytes) -> None:
        """Count one request."""
        stage = "judge" if JUDGE.encode() in body else "candidate"
        setattr(self, stage, getattr(self, stage) + 1)
        self.bodies[stage] = body
        self.bytes += len(body)

    def document(self) -> bytes:
        """Everything as JSON."""
        seen = {name: value for name, value in vars(self).items() if name != "bodies"}
        return json.dumps({**seen, **{f"{stage}_body": body.decode() for stage, body in self.bodies.items()}}).encode()


class Exchange(asyncio.Protocol):
    """One connection; requests come one after the other."""

    received = Received()
    latency = 0.0
    waiting = 0
    """Requests that have no answer yet, over all connections."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first request."""
        self._transport = cast("asyncio.Transport", transport)
        self._buffer = b""

    def data_received(self, data: bytes) -> None:
        """Answer every request that is complete."""
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[:end]
            length = _LENGTH.search(head)
            stop = end + 4 + (int(length[1]) if length else 0)
            if len(self._buffer) < stop:
                return
            body, self._buffer = self._buffer[end + 4 : stop], self._buffer[stop:]
            self._answer(head, body)

    def _answer(self, head: bytes, body: bytes) -> None:
        if head.startswith(b"GET /stats"):
            self._transport.write(reply(Exchange.received.document()))
            Exchange.received = Received()
            return
        Exchange.waiting += 1
        Exchange.received.add(body)
        Exchange.received.in_flight = max(Exchange.received.in_flight, Exchange.waiting)
        if Exchange.latency:
            asyncio.get_running_loop().call_later(Exchange.latency, self._send, answer_to(body))
        else:
            self._send(answer_to(body))

    def _send(self, answer: bytes) -> None:
        Exchange.waiting -= 1
        if not self._transport.is_closing():
            self._transport.write(answer)


async def serve(latency: float) -> None:
    """Answer until the process ends."""
    Exchange.latency = latency
    server = await asyncio.get_running_loop().create_server(Exchange, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    try:
        import uvloop
    except ImportError:
        asyncio.run(serve(float(sys.argv[1])))
    else:
        uvloop.run(serve(float(sys.argv[1])))
