"""A provider on loopback that counts every call before it answers: the truth about how often it was asked."""

import asyncio
import json
import re
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

Answer = tuple[int, dict[str, Any] | str, dict[str, str]]
"""Status, the text of a completion or a whole body, further headers."""
Script = Callable[[str, str, int], Answer]
"""The answer to a model about a case, the so-and-so-many-th time."""

MARK = re.compile(r"\[case ([\w-]+)\]")
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


class CountingProvider:
    """Speaks chat completions for the time of a `with` block; requests are told apart by model and by `[case NAME]` in them."""

    def __init__(self, script: Script, *, latency: float = 0.0) -> None:
        self.script = script
        self.latency = latency
        self._turns: asyncio.Semaphore | None = None
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self.port = 0
        self.calls: Counter[tuple[str, str]] = Counter()
        self.heard: list[tuple[float, str]] = []
        """When which case was asked about, by the monotonic clock."""
        self.most_in_flight = 0
        self._in_flight = 0

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def hold(self, *, after: int = 0) -> None:
        """Give so many more answers and then none: whoever asks stays at work, however long a test takes to look."""
        self._turns = asyncio.Semaphore(after)

    def let(self, answers: int) -> None:
        """A provider that is held gives so many more answers."""
        turns = self._turns
        assert turns is not None
        self._loop.call_soon_threadsafe(lambda: [turns.release() for _ in range(answers)])

    def let_go(self) -> None:
        """Answer everything again."""
        turns, self._turns = self._turns, None
        if turns is not None:
            # Whoever waits is in flight.
            self._loop.call_soon_threadsafe(lambda: [turns.release() for _ in range(self._in_flight)])

    def wait_for(self, calls: int, *, while_alive: "subprocess.Popen[str] | None" = None) -> None:
        """Return when so many calls were heard; fails when the process that should make them has ended."""
        while self.calls.total() < calls:
            assert while_alive is None or while_alive.poll() is None, while_alive.communicate()
            time.sleep(0.005)

    def calls_to(self, model: str) -> int:
        """How many calls one model has heard."""
        return sum(count for (name, _), count in self.calls.items() if name == model)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._exchange, "127.0.0.1", 0, limit=1 << 24))
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0.05))
        self._loop.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = _LENGTH.search(head)
                writer.write(await self._reply(await reader.readexactly(int(length[1]) if length else 0)))
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            # Whoever asked was killed, or the block has ended.
            writer.close()

    async def _reply(self, body: bytes) -> bytes:
        model = json.loads(body)["model"]
        mark = MARK.search(body.decode())
        key = (model, mark[1] if mark else "")
        self.calls[key] += 1
        self.heard.append((time.monotonic(), key[1]))
        self._in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self._in_flight)
        # Read once: it may be let go of meanwhile.
        if turns := self._turns:
            await turns.acquire()
        if self.latency:
            await asyncio.sleep(self.latency)
        self._in_flight -= 1
        status, said, headers = self.script(*key, self.calls[key])
        content = json.dumps(completion(model, said) if isinstance(said, str) else said).encode()
        lines = {"Content-Type": "application/json", "Content-Length": str(len(content)), **headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        return f"HTTP/1.1 {status} X\r\n{head}\r\n".encode() + content


def completion(model: str, text: str) -> dict[str, Any]:
    """A chat completion that says a text."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 40, "completion_tokens": 12, "total_tokens": 52}
    return {"id": "chatcmpl-1", "model": model, "choices": [choice], "usage": usage}


def error(message: str, *, kind: str = "server_error", code: str | None = None) -> dict[str, Any]:
    """The body of a refusal."""
    return {"error": {"message": message, "type": kind, **({"code": code} if code else {})}}
