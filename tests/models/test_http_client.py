"""Large bodies: sent and received piece by piece, for as long as something moves, and whole or not at all."""

import asyncio
import gzip
import socket
import threading
import tracemalloc
from collections.abc import Iterable

import msgspec
import pytest

from assay.core.model_call import ModelFailure
from assay.models.endpoint import Endpoint
from assay.models.transport import open_transport
from tests.models.faulty_provider import (
    CERTIFICATE,
    Play,
    chunked,
    drip,
    faulty_provider,
    http,
    send,
    send_and_close,
    send_and_hang,
)
from tests.models.test_connections import server

PIECE = b"x" * 65_536
KEY = "sk-canary-123456"
ANY = msgspec.json.Decoder(dict[str, int])


def endpoint(url: str, *, timeout: float = 5.0) -> Endpoint:
    return Endpoint(provider="shop", kind="openai", url=url, key=KEY, headers={"Authorization": f"Bearer {KEY}"}, timeout=timeout)


def uploaded(url: str, pieces: Iterable[bytes], *, size: int, timeout: float = 5.0) -> dict[str, int]:
    """What a server says to a body in pieces."""

    async def sent() -> dict[str, int]:
        async with open_transport(endpoint(url, timeout=timeout)) as transport:
            exchanged = await transport.upload("/files", pieces, size=size, content_type="text/plain", decoder=ANY)
            return exchanged.value

    return asyncio.run(sent())


def downloaded(*plays: Play, timeout: float = 5.0, tls: bool = False) -> bytes:
    """What a server has at a path."""
    received = bytearray()

    async def fetched(url: str) -> None:
        async with open_transport(endpoint(url, timeout=timeout)) as transport:
            await transport.download("/files/1/content", received.extend)

    with faulty_provider(*plays, tls=tls) as url:
        asyncio.run(fetched(url))
    return bytes(received)


def counting(connection: socket.socket) -> None:
    """Says how many bytes of a body came."""
    head, _, body = connection.recv(65_536).partition(b"\r\n\r\n")
    wanted = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    received = len(body)
    while received < wanted:
        received += len(connection.recv(65_536))
    connection.sendall(http(b'{"bytes": %d}' % received))


def test_a_large_body_arrives_whole_and_is_never_in_memory_as_a_whole() -> None:
    tracemalloc.start()
    with server(counting) as port:
        said = uploaded(f"http://127.0.0.1:{port}/v1", (PIECE for _ in range(800)), size=800 * len(PIECE))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert said == {"bytes": 800 * len(PIECE)}
    assert peak < 100 * len(PIECE)


def test_a_server_that_says_no_before_the_body_is_there_is_heard() -> None:
    def refuse(connection: socket.socket) -> None:
        connection.recv(1_024)
        connection.sendall(http(b'{"error": {"message": "too large"}}', status=413))
        while connection.recv(65_536):
            pass

    with server(refuse) as port, pytest.raises(ModelFailure, match="too large") as caught:
        uploaded(f"http://127.0.0.1:{port}/v1", (PIECE for _ in range(400)), size=400 * len(PIECE))
    assert caught.value.code == "request_too_large"


def test_a_server_that_takes_no_more_is_given_up_after_a_while_without_movement() -> None:
    def sleep(connection: socket.socket) -> None:
        connection.recv(1_024)
        threading.Event().wait(60)

    with server(sleep) as port, pytest.raises(ModelFailure) as caught:
        uploaded(f"http://127.0.0.1:{port}/v1", (PIECE for _ in range(400)), size=400 * len(PIECE), timeout=0.2)
    assert caught.value.code == "timeout"


def test_a_slow_download_has_as_long_as_it_moves() -> None:
    assert downloaded(drip(http(b"line\n" * 6), 0.02), timeout=1.5) == b"line\n" * 6


def test_a_download_that_stalls_is_given_up() -> None:
    with pytest.raises(ModelFailure) as caught:
        downloaded(send_and_hang(http(b"half", length=8), 1.0), timeout=0.2)
    assert caught.value.code == "timeout"


@pytest.mark.parametrize("play", [send_and_close(http(b"half", length=8)), send_and_close(chunked(b"half")[:-5])])
def test_a_download_that_is_cut_off_is_a_failure(play: Play) -> None:
    with pytest.raises(ModelFailure) as caught:
        downloaded(play)
    assert caught.value.code == "service_unavailable"


def test_what_is_packed_without_being_asked_for_is_not_taken_for_results() -> None:
    with pytest.raises(ModelFailure, match="encoded as 'gzip'"):
        downloaded(send(http(gzip.compress(b"line\n"), headers="Content-Encoding: gzip\r\n")))


def test_what_is_wrong_with_a_download_is_told_and_not_taken_for_results() -> None:
    with pytest.raises(ModelFailure, match="No such File") as caught:
        downloaded(send(http(b'{"error": {"message": "No such File object [sk-canary-123456]"}}', status=404)))
    assert (caught.value.code, "canary" in caught.value.message) == ("not_found", False)


def test_transfers_go_through_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    assert downloaded(send(http(b"line\n" * 100_000)), tls=True) == b"line\n" * 100_000
