"""A door before a bucket: everything goes through it, and it can be told to do something at a write, or to refuse."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

from tests.store.buckets import Bucket


class Gateway(Bucket):
    """The bucket as it is seen through the door."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.refusal = 0
        """The status with which everything is refused; 0 lets everything through."""
        self.writes = 0
        self.on_written: Callable[[int], None] = lambda _: None
        """Called with the number of the write when the bucket has it, before whoever wrote is told."""
        self.reads = 0
        self.on_read: Callable[[int], None] = lambda _: None
        """Called with the number of the read before it is answered."""


class _Door(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    gateway: ClassVar[Gateway]
    behind: ClassVar[Bucket]

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.gateway.refusal:
            self._answer(self.gateway.refusal, {}, b"")
            return
        connection = HTTPConnection("127.0.0.1", self.behind.port, timeout=60)
        connection.request(self.command, self.path, body, dict(self.headers))
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        if self.command == "PUT" and answer.status == 200:
            self.gateway.writes += 1
            self.gateway.on_written(self.gateway.writes)
        if self.command == "GET":
            self.gateway.reads += 1
            self.gateway.on_read(self.gateway.reads)
        self._answer(answer.status, dict(answer.getheaders()), content)

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _pass  # noqa: N815  # the names that the server calls

    def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        try:
            self.send_response(status)
            for name, value in headers.items():
                if name.lower() not in ("connection", "date", "server", "transfer-encoding", "content-length"):
                    self.send_header(name, value)
            self.send_header("Content-Length", headers.get("Content-Length", str(len(body))))
            self.end_headers()
            self.wfile.write(body)
        except ConnectionError:
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the signature of the server
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Whoever is killed leaves connections behind: nothing to tell of."""


@contextmanager
def gateway_to(bucket: Bucket) -> Iterator[Gateway]:
    """A door that is open for the time of a block."""
    door = type("Door", (_Door,), {"behind": bucket})
    server = _Server(("127.0.0.1", 0), door)
    door.gateway = gateway = Gateway(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield gateway
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
