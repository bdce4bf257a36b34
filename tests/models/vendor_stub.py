"""A vendor on loopback with a list of its models: a function answers each request, and all requests are noted."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Asked(NamedTuple):
    """One request."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any


class Said(NamedTuple):
    """One reply; a body that is text is sent as it is."""

    body: Any
    status: int = 200
    headers: Mapping[str, str] = {}


@contextmanager
def vendor(answer: Callable[[Asked], Said]) -> Iterator[tuple[str, list[Asked]]]:
    """The address of a vendor without a path, and what it was asked."""
    asked: list[Asked] = []

    class Exchange(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.reply(None)

        def do_POST(self) -> None:
            self.reply(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def reply(self, body: Any) -> None:
            asked.append(Asked(self.command, self.path, dict(self.headers), body))
            said = answer(asked[-1])
            sent = (said.body if isinstance(said.body, str) else json.dumps(said.body)).encode()
            self.send_response(said.status)
            for name, value in {"Content-Type": "application/json", **said.headers, "Content-Length": str(len(sent))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the parent's names
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Exchange) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", asked
        finally:
            server.shutdown()
