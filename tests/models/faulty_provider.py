"""A provider on loopback that breaks HTTP on purpose: each fault writes to the bare socket."""

import gzip
import json
import re
import socket
import socketserver
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

Play = Callable[[socket.socket], None]
"""Sends one reply, or what goes for one."""


def completion(text: str = "4", finish: str = "stop") -> bytes:
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": finish}
    return json.dumps({"id": "x", "model": "stub-1", "choices": [choice], "usage": {"prompt_tokens": 5}}).encode()


def http(body: bytes, *, status: int = 200, headers: str = "", length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n{headers}Content-Length: {size}\r\n\r\n".encode() + body


CERTIFICATE = Path(__file__).with_name("loopback.pem")
"""Of 127.0.0.1, with its key; nobody trusts it but those tests that say so."""


@contextmanager
def faulty_provider(*plays: Play, tls: bool = False, host: str = "127.0.0.1") -> Iterator[str]:
    """The base_url of a server that plays one fault after the other, the last one again and again, over all connections."""
    left = list(plays)
    lock = threading.Lock()

    def next_play() -> Play:
        with lock:
            return left.pop(0) if len(left) > 1 else left[0]

    class Exchange(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            while _read_request(self.request):
                try:
                    next_play()(self.request)
                except OSError:
                    return

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        block_on_close = False
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

    with Server((host, 0), Exchange) as server:
        if tls:
            server.socket = _with_tls(server.socket)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        shown = f"[{host}]" if ":" in host else host
        try:
            yield f"{'https' if tls else 'http'}://{shown}:{server.server_address[1]}/v1"
        finally:
            # A server that is not told would go on to look at the number of its closed socket, whosever that is by then.
            server.shutdown()


def _with_tls(listening: socket.socket) -> socket.socket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    # The handshake is left to the thread of each connection.
    return context.wrap_socket(listening, server_side=True, do_handshake_on_connect=False)


def _read_request(connection: socket.socket) -> bool:
    """Read one whole request; False when there is none."""
    received = b""
    try:
        while b"\r\n\r\n" not in received:
            chunk = connection.recv(65536)
            if not chunk:
                return False
            received += chunk
        head, _, body = received.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
        while length and len(body) < int(length.group(1)):
            body += connection.recv(65536)
    except OSError:
        return False
    return True


def send(*parts: bytes) -> Play:
    return lambda connection: connection.sendall(b"".join(parts))


def send_and_close(sent: bytes) -> Play:
    def play(connection: socket.socket) -> None:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_RDWR)

    return play


def send_and_reset(sent: bytes) -> Play:
    def play(connection: socket.socket) -> None:
        connection.sendall(sent)
        threading.Event().wait(0.05)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    return play


def send_and_hang(sent: bytes, seconds: float = 3.0) -> Play:
    def play(connection: socket.socket) -> None:
        connection.sendall(sent)
        threading.Event().wait(seconds)

    return play


def drip(sent: bytes, seconds: float) -> Play:
    def play(connection: socket.socket) -> None:
        for byte in sent:
            connection.sendall(bytes([byte]))
            threading.Event().wait(seconds)

    return play


def send_late(first: bytes, late: bytes, seconds: float, *, sent: threading.Event | None = None) -> Play:
    """An answer, and after a while a second one that nobody asked for; `sent` is set when that one is on its way."""

    def play(connection: socket.socket) -> None:
        connection.sendall(first)
        threading.Event().wait(seconds)
        connection.sendall(late)
        (sent or threading.Event()).set()

    return play


def endless(connection: socket.socket) -> None:
    connection.sendall(b'HTTP/1.1 200 OK\r\n\r\n{"choices":[{"message":{"content":"')
    while True:
        connection.sendall(b"x" * 65536)


def chunked(body: bytes) -> bytes:
    parts = b"".join(b"%x\r\n%s\r\n" % (len(body[at : at + 7]), body[at : at + 7]) for at in range(0, len(body), 7))
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + parts + b"0\r\n\r\n"


def gzipped(body: bytes) -> bytes:
    return http(gzip.compress(body, 1), headers="Content-Encoding: gzip\r\n")


def endless_trailer(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX-Long: ")
    while True:
        connection.sendall(b"x" * 65536)
