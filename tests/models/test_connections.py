"""Connections to providers: when they are used again, TLS, proxies, and how replies end."""

import asyncio
import socket
import threading
import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import takewhile
from urllib.parse import urlsplit

import pytest

from assay.core.model_call import ModelFailure
from assay.core.plan import Plan
from assay.models import http_client
from assay.models.http_client import Dialer, ExchangeFailed, HttpPool, HttpReply
from tests.models.asking import ENVIRON, class_of, plan_of, provider_of, reply_to
from tests.models.faulty_provider import (
    CERTIFICATE,
    chunked,
    completion,
    endless_trailer,
    faulty_provider,
    http,
    send,
    send_and_close,
    send_late,
)

OK = http(completion())


def statuses(url: str, *, times: int, awaited: threading.Event | None = None) -> list[int]:
    """The statuses of so many requests, one after the other; between them something is awaited."""

    async def asked() -> list[HttpReply]:
        pool = HttpPool(url, seconds=60.0)
        replies = []
        for number in range(times):
            if number and awaited:
                await asyncio.to_thread(awaited.wait, 60)
                awaited.clear()
            replies.append(await pool.send(pool.head("GET", url, {}) + b"\r\n"))
        await pool.close()
        return replies

    return [reply.status for reply in asyncio.run(asked())]


def failure_of(plan: Plan, *, environ: Mapping[str, str] = ENVIRON) -> ModelFailure:
    with pytest.raises(ModelFailure) as caught:
        reply_to(plan, environ=environ)
    return caught.value


@contextmanager
def server(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """The port of a server that gives every connection a thread."""

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=served, args=(listening.accept()[0],), daemon=True).start()

    def served(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            serve(connection)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=accept, daemon=True).start()
        try:
            yield listening.getsockname()[1]
        finally:
            # Wakes the thread that waits for a connection.
            listening.shutdown(socket.SHUT_RDWR)


@contextmanager
def counting_provider(answer: bytes, *, closed: threading.Event | None = None) -> Iterator[tuple[str, list[int]]]:
    """An address, and for each connection to it the number of its requests; `closed` makes it close each after one, and say so."""
    requests: list[int] = []

    def serve(connection: socket.socket) -> None:
        number = len(requests)
        requests.append(0)
        while connection.recv(65536):
            requests[number] += 1
            connection.sendall(answer)
            if closed:
                connection.close()
                closed.set()
                return

    with server(serve) as port:
        yield f"http://127.0.0.1:{port}/", requests


@contextmanager
def tunnelling_proxy(answer: bytes = b"HTTP/1.1 200 Connection established\r\n\r\n") -> Iterator[tuple[str, Sequence[bytes]]]:
    """The address of a proxy with a user name, and what it was asked."""
    asked: list[bytes] = []

    def serve(inside: socket.socket) -> None:
        asked.append(inside.recv(65536))
        host, _, port = asked[0].split()[1].decode().partition(":")
        with socket.create_connection((host, int(port))) as outside:
            inside.sendall(answer)
            threading.Thread(target=pass_on, args=(outside, inside), daemon=True).start()
            pass_on(inside, outside)

    def pass_on(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while passed := source.recv(65536):
                target.sendall(passed)

    with server(serve) as port:
        yield f"http://anna:s%40me@127.0.0.1:{port}", asked


@pytest.mark.parametrize(
    ("answer", "connections"),
    [
        (OK, [3]),
        (chunked(completion()), [3]),
        (http(b"{}", status=500), [3]),
        (http(b"", status=204), [3]),
        (http(completion(), headers="Connection: close\r\n"), [1, 1, 1]),
        (OK.replace(b"HTTP/1.1", b"HTTP/1.0"), [1, 1, 1]),
        (OK + b"more", [1, 1, 1]),
        (OK + OK, [1, 1, 1]),
    ],
    ids=["length", "chunked", "an error", "no body", "close", "HTTP/1.0", "bytes after it", "another answer after it"],
)
def test_a_connection_is_used_again_where_nothing_is_left_to_say(answer: bytes, connections: list[int]) -> None:
    with counting_provider(answer) as (url, requests):
        statuses(url, times=3)
    assert requests == connections


def test_a_connection_that_was_closed_while_it_was_idle_is_not_used_again() -> None:
    closed = threading.Event()
    with counting_provider(OK, closed=closed) as (url, requests):
        assert statuses(url, times=3, awaited=closed) == [200, 200, 200]
    assert requests == [1, 1, 1]


def test_a_request_that_got_no_answer_is_not_sent_twice() -> None:
    with counting_provider(b"", closed=threading.Event()) as (url, requests):
        assert class_of(plan_of(provider_of("openai", url))) == "service_unavailable"
    assert requests == [1]


@pytest.mark.parametrize(
    "play",
    [
        send_and_close(b"HTTP/1.1 200 OK\r\n\r\n" + completion()),
        send_and_close(b"HTTP/1.0 200 OK\r\n\r\n" + completion()),
        send(OK.replace(b"\r\n", b"\n")),
        send(chunked(completion()).replace(b"0\r\n\r\n", b"0\r\nX-Checked: yes\r\n\r\n")),
        send(OK.replace(b"200 X", b"200")),
    ],
    ids=["until the end", "until the end of HTTP/1.0", "bare line feeds", "a trailer", "a status without words"],
)
def test_an_answer_in_an_unusual_form_is_an_answer(play: object) -> None:
    with faulty_provider(play) as url:  # type: ignore[arg-type]
        assert reply_to(plan_of(provider_of("openai", url))).text == "4"


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"a"', "service_unavailable"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}}", "internal_error"),
        (b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", "internal_error"),
        (b"HTTP/1.1 200 OK\r\n" + b"X-Many: 1\r\n" * 10_000 + b"\r\n", "service_unavailable"),
    ],
    ids=["half a chunk", "two lengths", "another protocol", "many headers"],
)
def test_a_reply_that_breaks_the_rules_is_no_answer(sent: bytes, code: str) -> None:
    with faulty_provider(send_and_close(sent)) as url:
        assert class_of(plan_of(provider_of("openai", url))) == code


def test_the_first_of_two_headers_counts_and_a_trailer_is_none() -> None:
    named = b"HTTP/1.1 200 OK\r\nX-Request-Id: first\r\nx-request-id: second\r\n"
    sent = chunked(completion()).replace(b"HTTP/1.1 200 OK\r\n", named).replace(b"0\r\n\r\n", b"0\r\nX-Request-Id: third\r\n\r\n")
    with faulty_provider(send(sent)) as url:
        assert reply_to(plan_of(provider_of("openai", url))).request_id == "first"


def test_a_trailer_without_end_is_refused() -> None:
    with faulty_provider(endless_trailer) as url:
        assert class_of(plan_of(provider_of("openai", url))) == "service_unavailable"


def test_a_host_is_reached_over_ipv6() -> None:
    with faulty_provider(send(OK), host="::1") as url:
        assert reply_to(plan_of(provider_of("openai", url))).text == "4"


def test_another_address_of_a_host_is_tried_where_the_first_takes_no_connection() -> None:
    with faulty_provider(send(OK), host="127.0.0.1") as url:
        assert reply_to(plan_of(provider_of("openai", url.replace("127.0.0.1", "localhost")))).text == "4"


def test_a_host_that_nobody_knows_is_named() -> None:
    failure = failure_of(plan_of(provider_of("openai", "http://nobody.invalid/v1")))
    assert failure.code == "service_unavailable"
    assert "cannot be reached at nobody.invalid: " in failure.message


def test_a_certificate_that_nobody_vouches_for_is_refused() -> None:
    with faulty_provider(send(OK), tls=True) as url:
        assert failure_of(plan_of(provider_of("openai", url))).code == "certificate_refused"


def test_a_certificate_of_another_host_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    with faulty_provider(send(OK), tls=True) as url:
        plan = plan_of(provider_of("openai", url.replace("127.0.0.1", "localhost")))
        assert failure_of(plan).code == "certificate_refused"


def test_a_trusted_certificate_lets_the_answer_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    with faulty_provider(send(OK), tls=True) as url:
        assert reply_to(plan_of(provider_of("openai", url))).text == "4"


def test_a_proxy_gets_the_name_of_the_host_and_its_own_password_but_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    with faulty_provider(send(OK), tls=True) as url, tunnelling_proxy() as (proxy, asked):
        plan = plan_of(provider_of("openai", url, key_variable="TEST_KEY"))
        assert reply_to(plan, environ={"https_proxy": proxy, "TEST_KEY": "sk-very-secret"}).text == "4"
    authority = url.removeprefix("https://").removesuffix("/v1")
    lines = (f"CONNECT {authority} HTTP/1.1", f"Host: {authority}", "Proxy-Authorization: Basic YW5uYTpzQG1l", "", "")
    assert asked == ["\r\n".join(lines).encode()]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 407 Who are you?\r\nContent-Length: 2\r\n\r\nno", "gives no connection: 407 Who are you?"),
        (b"220 mail.example ESMTP\r\n\r\n", "gives no connection"),
        (b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\n{}", "speaks for the provider"),
        (b"x" * 100_000, "headers are larger"),
    ],
)
def test_a_proxy_that_gives_no_connection_is_a_service_that_is_unavailable(answer: bytes, said: str) -> None:
    with faulty_provider(send(OK), tls=True) as url, tunnelling_proxy(answer) as (proxy, _):
        failure = failure_of(plan_of(provider_of("openai", url)), environ={"https_proxy": proxy})
    assert failure.code == "service_unavailable"
    assert said in failure.message


def test_an_answer_that_comes_after_its_connection_was_idle_is_not_taken_for_another() -> None:
    sent = threading.Event()
    with faulty_provider(send_late(OK, OK, 0.05, sent=sent), send(OK)) as url:
        assert statuses(url, times=2, awaited=sent) == [200, 200]


def test_an_answer_that_comes_soon_after_another_is_not_taken_for_that_of_the_next_request(monkeypatch: pytest.MonkeyPatch) -> None:
    # Longer than by default, so that the late answer of a busy machine is still in time.
    monkeypatch.setattr(http_client, "SETTLE_SECONDS", 0.5)
    with faulty_provider(send_late(OK, http(b"{}", status=418), 0.05), send(OK)) as url:
        assert statuses(url, times=2) == [200, 200]


def test_connections_that_settle_are_at_most_as_many_as_there_are_requests() -> None:
    async def asked(url: str) -> None:
        pool = HttpPool(url, seconds=60.0)

        async def work() -> None:
            for _ in range(25):
                await pool.send(pool.head("GET", url, {}) + b"\r\n")

        await asyncio.gather(*(work() for _ in range(8)))
        await pool.close()

    with counting_provider(OK) as (url, requests):
        asyncio.run(asked(url))
    assert (sum(requests), 8 <= len(requests) <= 16) == (200, True)


def test_bytes_that_nobody_has_read_yet_answer_no_other_request() -> None:
    sent = threading.Event()

    async def asked(url: str) -> list[int]:
        pool = HttpPool(url, seconds=60.0)
        request = pool.head("GET", url, {}) + b"\r\n"
        first = await pool.send(request)
        # Holds the event loop, so that what arrives meanwhile stays with the operating system.
        sent.wait(60)
        second = await pool.send(request)
        await pool.close()
        return [first.status, second.status]

    with faulty_provider(send_late(OK, http(b"{}", status=418), 0.05, sent=sent), send(OK)) as url:
        assert asyncio.run(asked(url)) == [200, 200]


@pytest.mark.parametrize("said", [b"", OK], ids=["closes", "speaks unasked"])
def test_a_provider_that_ends_a_connection_before_the_request_is_no_answer_at_once(said: bytes) -> None:
    async def asked(port: int) -> None:
        connection = await Dialer(urlsplit(f"http://127.0.0.1:{port}"), None).connect()
        for _ in takewhile(lambda _: connection.is_reusable, range(1000)):
            await asyncio.sleep(0.01)
        await connection.exchange(b"GET / HTTP/1.1\r\n\r\n")

    with (
        server(lambda connection: connection.sendall(said)) as port,
        pytest.raises(ExchangeFailed, match="before the request was sent"),
    ):
        asyncio.run(asyncio.wait_for(asked(port), 60))


def test_an_answer_in_tiny_chunks_takes_little_more_memory_than_its_bytes() -> None:
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"2\r\nab\r\n" * 100_000 + b"0\r\n\r\n"
    with counting_provider(answer) as (url, _):
        tracemalloc.start()
        assert statuses(url, times=1) == [200]
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 3_000_000


@pytest.mark.parametrize("encoding", ["br", "gzip"])
def test_a_refusal_that_cannot_be_unpacked_keeps_its_status_and_its_wait(encoding: str) -> None:
    refusal = http(b"xx", status=429, headers=f"Content-Encoding: {encoding}\r\nRetry-After: 20\r\n")
    with faulty_provider(send(refusal)) as url:
        failure = failure_of(plan_of(provider_of("openai", url)))
    assert (failure.code, failure.http_status, failure.retry_after) == ("rate_limited", 429, 20.0)


def test_a_trailer_names_no_request_where_the_body_does() -> None:
    sent = chunked(completion()).replace(b"0\r\n\r\n", b"0\r\nX-Request-Id: late\r\n\r\n")
    with faulty_provider(send(sent)) as url:
        assert reply_to(plan_of(provider_of("openai", url))).request_id == "x"
