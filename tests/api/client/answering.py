"""A web server whose answers are written down beforehand, for what a real service does only on a bad day."""

import json
import threading
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self

HANG_UP = None
"""In the place of an answer: the connection is closed without one."""


class Told(NamedTuple):
    """An answer."""

    status: int
    body: bytes
    headers: dict[str, str] = {}  # noqa: RUF012  # never changed


class Asked(NamedTuple):
    """A request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


SILENT = Told(0, b"")
"""In the place of an answer: nothing, for longer than a client waits."""


def told(value: Any, status: int = 200, **headers: str) -> Told:
    return Told(status, json.dumps(value).encode(), {name.replace("_", "-"): text for name, text in headers.items()})


def refused(status: int, code: str, **headers: str) -> Told:
    return told({"error": {"code": code, "message": "not now"}, "request_id": "r-1"}, status, **headers)


class Answering:
    """Gives one answer after the other, and keeps what it was asked."""

    def __init__(self, answers: Iterable[Told | None]) -> None:
        left = list(answers)
        asked: list[Asked] = []
        ended = threading.Event()

        class Scripted(BaseHTTPRequestHandler):
            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                asked.append(Asked(self.command, self.path, {name.lower(): text for name, text in self.headers.items()}, body))
                told = left.pop(0)
                self.close_connection = True
                if told is SILENT:
                    ended.wait()
                elif told is not None:
                    self.send_response(told.status)
                    for name, text in {"Content-Length": str(len(told.body)), **told.headers}.items():
                        self.send_header(name, text)
                    self.end_headers()
                    self.wfile.write(told.body)

            do_GET = do_POST = answer  # noqa: N815  # names of the standard library

            def log_message(self, *_: object) -> None: ...

        self.asked = asked
        self._ended = ended
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()
