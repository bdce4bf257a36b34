"""What comes over a socket and is ambiguous, endless, too slow or too much, sent byte by byte as an attacker would."""

import gzip
import json
import socket
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from assay.surfaces.server.keys import KeyStore
from tests.surfaces.server.attacks import slow_connections
from tests.surfaces.server.serving import Serving, dataset

HOST = b"Host: localhost\r\n"
GET = b"GET /healthz HTTP/1.1\r\n" + HOST
POST = b"POST /v1/runs HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
SECOND = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"

UNREADABLE = {
    "length and chunks": POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SECOND,
    "chunks in HTTP/1.0": b"POST /v1/runs HTTP/1.0\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SECOND,
    "two transfer encodings": POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "unknown transfer encoding": POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "space before the colon": POST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "negative length": POST + b"Content-Length: -1\r\n\r\n",
    "length with a sign": POST + b"Content-Length: +5\r\n\r\nabcde",
    "length in base 16": POST + b"Content-Length: 0x5\r\n\r\nabcde",
    "two lengths": POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
    "length of 26 digits": POST + b"Content-Length: 99999999999999999999999999\r\n\r\nabc",
    "negative chunk": CHUNKED + b"-1\r\nabc\r\n0\r\n\r\n",
    "chunk that does not end": CHUNKED + b"3\r\nabcXX0\r\n\r\n",
    "no host": b"GET /healthz HTTP/1.1\r\n\r\n",
    "two hosts": GET + b"Host: evil.example\r\n\r\n",
    "address at another host": b"GET http://evil.example/healthz HTTP/1.1\r\n" + HOST + b"\r\n",
    "address of another kind": b"GET ftp://localhost/healthz HTTP/1.1\r\n" + HOST + b"\r\n",
    "tunnel": b"CONNECT localhost:22 HTTP/1.1\r\nHost: localhost:22\r\n\r\n",
    "another version": b"GET /healthz HTTP/3.0\r\n" + HOST + b"\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "no version": b"GET /healthz\r\n\r\n",
    "endless method": b"A" * 5000 + b" /healthz HTTP/1.1\r\n" + HOST + b"\r\n",
    "NUL in a header": GET + b"X-A: a\x00b\r\n\r\n",
    "carriage return in a header": GET + b"X-A: a\rb\r\n\r\n",
    "NUL in the path": b"GET /v1/runs/a\x00b HTTP/1.1\r\n" + HOST + b"\r\n",
    "two keys": GET + b"x-api-key: a\r\nx-api-key: b\r\nConnection: close\r\n\r\n",
}
TOO_MUCH = {
    "a thousand headers": (431, GET + b"".join(b"X-%d: a\r\n" % number for number in range(1000)) + b"\r\n"),
    "headers without an end": (431, GET + b"X-A: a\r\n" * 20_000),
    "one header of 64 KB": (431, GET + b"X-A: " + b"a" * 65536 + b"\r\n\r\n"),
    "a path of 20 KB": (414, b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n"),
    "a length beyond every disk": (413, POST + b"Content-Length: 9223372036854775807\r\n\r\n" + b" " * 100),
}
REFUSED = {
    "host of somebody else": (403, b"GET /healthz HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"),
    "host with a name before it": (403, b"GET /healthz HTTP/1.1\r\nHost: evil.example@localhost\r\nConnection: close\r\n\r\n"),
    "host that is no host": (403, b"GET /healthz HTTP/1.1\r\nHost: [::1\r\nConnection: close\r\n\r\n"),
    "origin that is no origin": (403, POST + b"Origin: http://[evil\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"),
    "origin of nobody": (403, POST + b"Origin: null\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"),
    "method that echoes": (405, b"TRACE /v1/runs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
    "run id of 480 bytes": (404, b"GET /v1/runs/" + b"%F0%9F%98%80" * 120 + b" HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"),
    "run id with a new header": (404, b"GET /v1/runs/a%0d%0aX-A:%20b HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"),
    "key that is no text": (400, POST + b"Idempotency-Key: \xff\xfe\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"),
    "two encodings": (415, POST + b"Content-Encoding: gzip, gzip\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"),
}


def answers_to(service: Serving, sent: bytes) -> list[tuple[int, Any]]:
    """Every answer on one connection: its status, and its document."""
    with socket.create_connection(("127.0.0.1", service.port), timeout=60) as connection:
        connection.sendall(sent)
        received = b"".join(iter(lambda: connection.recv(65536), b""))
    parts = [part.partition(b"\r\n\r\n") for part in received.split(b"HTTP/1.1 ")[1:]]
    return [(int(head[:3]), json.loads(body)) for head, _, body in parts]


def check_one_refusal(service: Serving, sent: bytes, status: int) -> None:
    """One answer with the envelope, and nothing behind it was taken for another request."""
    ((found, body),) = answers_to(service, sent)
    assert found == status, body
    assert set(body) == {"error", "request_id"}


@pytest.mark.parametrize("sent", UNREADABLE.values(), ids=UNREADABLE)
def test_what_two_readers_could_understand_differently_is_refused(service: Serving, sent: bytes) -> None:
    check_one_refusal(service, sent, 400)


@pytest.mark.parametrize(("status", "sent"), TOO_MUCH.values(), ids=TOO_MUCH)
def test_what_is_too_much_is_refused(service: Serving, status: int, sent: bytes) -> None:
    check_one_refusal(service, sent, status)


@pytest.mark.parametrize(("status", "sent"), REFUSED.values(), ids=REFUSED)
def test_what_a_client_may_not_say_is_refused(service: Serving, status: int, sent: bytes) -> None:
    check_one_refusal(service, sent, status)


def test_address_at_our_own_host_is_its_path(service: Serving) -> None:
    sent = b"GET http://localhost/healthz HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"
    assert [status for status, _ in answers_to(service, sent)] == [200]


def test_requests_behind_each_other_are_answered_in_order(service: Serving) -> None:
    sent = SECOND + b"GET /nowhere HTTP/1.1\r\n" + HOST + b"\r\n" + GET + b"Connection: close\r\n\r\n"
    assert [status for status, _ in answers_to(service, sent)] == [200, 404, 200]


def test_refusal_is_there_for_a_client_that_sends_its_whole_body_first(service: Serving) -> None:
    """At a pace that takes longer than ten seconds."""
    with socket.create_connection(("127.0.0.1", service.port), timeout=60) as client:
        client.sendall(b"POST /v1/runs HTTP/1.1\r\n" + HOST + b"Content-Type: text/plain\r\nContent-Length: 240000\r\n\r\n")
        for _ in range(24):
            client.sendall(b" " * 10_000)
            time.sleep(0.5)
        assert client.recv(12) == b"HTTP/1.1 415"


def test_refusal_comes_before_the_body_that_a_client_asks_about(service: Serving) -> None:
    sent = POST + b"Expect: 100-continue\r\nContent-Length: 200000000\r\n\r\n"
    check_one_refusal(service, sent, 413)


@pytest.mark.parametrize(
    "content_type",
    ["application/json, text/plain", "application/json; charset=utf-16", "application/json; charset=utf-8; charset=utf-16", ""],
)
def test_body_that_may_be_no_json_is_refused(service: Serving, content_type: str) -> None:
    assert service.submit(dataset(1), headers={"Content-Type": content_type}).status == 415


@pytest.mark.parametrize("content_type", ['Application/JSON;charset="UTF-8"', "application/json; profile=x"])
def test_content_type_may_have_parameters(service: Serving, content_type: str) -> None:
    assert service.submit(dataset(1), headers={"Content-Type": content_type}).status == 202


def test_packed_bodies_behind_each_other_are_one_body(service: Serving) -> None:
    text = json.dumps(dataset(2)).encode()
    packed = gzip.compress(text[:40]) + gzip.compress(b"") + gzip.compress(text[40:])
    assert service.submit(packed, headers={"Content-Encoding": "gzip"}).status == 202


@pytest.mark.parametrize("padding", [b"garbage", gzip.compress(b"", mtime=0) * 10_001])
def test_packed_body_with_more_behind_it_is_refused(service: Serving, padding: bytes) -> None:
    packed = gzip.compress(json.dumps(dataset(1)).encode()) + padding
    answer = service.submit(packed, headers={"Content-Encoding": "gzip"})
    assert (answer.status, answer.json["error"]["code"]) == (400, "invalid_request")


def test_every_spelling_of_an_address_needs_the_same_scope(tmp_path: Path) -> None:
    with Serving(tmp_path) as serving:
        serving.headers = {"x-api-key": KeyStore(serving.runs_dir).add("reader", "read")}
        spellings = ("/v1/audit", "/v1/audit/", "//v1//audit", "/v1/%61udit", "http://localhost/v1/audit/")
        assert {serving.ask("GET", path, headers={"Host": "localhost"}).status for path in spellings} == {403}
        assert serving.ask("GET", "/v1/runs").status == 200


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with Serving(tmp_path_factory.mktemp("strict"), settings="idle_seconds: 1\n") as serving:
        yield serving


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with Serving(tmp_path_factory.mktemp("small"), settings="max_connections: 20\n") as serving:
        yield serving


def begun(serving: Serving, sent: bytes) -> bytes:
    """What is answered to the beginning of a request; on a busy machine the connection may be given up before it is sent."""
    answer = b""
    while not answer:
        with suppress(ConnectionError), socket.create_connection(("127.0.0.1", serving.port), timeout=60) as connection:
            connection.sendall(sent)
            answer = b"".join(iter(lambda connection=connection: connection.recv(65536), b""))
    return answer


def test_request_that_does_not_come_to_its_end_is_given_up(strict: Serving) -> None:
    answer = begun(strict, b"GET /healthz HTTP/1.1\r\nX")
    assert answer.startswith(b"HTTP/1.1 408")
    assert set(json.loads(answer.partition(b"\r\n\r\n")[2])) == {"error", "request_id"}


def test_drop_by_drop_a_head_does_not_get_more_time(strict: Serving) -> None:
    assert dripped(strict, b"", b"GET /healthz HTTP/1.1\r\nX-A: " + b"a" * 200).startswith(b"HTTP/1.1 408")


def dripped(serving: Serving, first: bytes, rest: bytes) -> bytes:
    """What is answered to bytes that come one by one after some others; it is tried again as in `begun`."""
    answer = b""
    while not answer:
        with suppress(ConnectionError), socket.create_connection(("127.0.0.1", serving.port), timeout=60) as connection:
            connection.settimeout(0.1)
            connection.sendall(first)
            answer = _answer_while(connection, rest)
    return answer


def _answer_while(connection: socket.socket, rest: bytes) -> bytes:
    for byte in rest:
        connection.sendall(bytes([byte]))
        with suppress(TimeoutError):
            return connection.recv(65536)
    raise AssertionError("all of it was taken")


def test_connection_without_a_request_is_closed_without_a_word(strict: Serving) -> None:
    with socket.create_connection(("127.0.0.1", strict.port), timeout=60) as connection:
        assert connection.recv(65536) == b""


def test_body_that_stops_is_given_up_and_leaves_nothing(strict: Serving) -> None:
    answer = begun(strict, POST + b"Content-Length: 5000000\r\n\r\n" + b" " * 2_000_000)
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"comes too slowly" in answer
    assert strict.left_over() == []


def test_body_that_drips_is_given_up(strict: Serving) -> None:
    assert dripped(strict, POST + b"Content-Length: 5000\r\n\r\n", b" " * 200).startswith(b"HTTP/1.1 408")


def test_too_many_connections_take_the_place_of_those_that_only_wait(small: Serving) -> None:
    with slow_connections(small, 60):
        assert [small.ask("GET", "/healthz").status for _ in range(5)] == [200] * 5


def test_connections_at_work_are_not_given_up_for_others(small: Serving) -> None:
    slow = small.submit(dataset(1), "?model=scripted/slow-120000").json["run_id"]
    request = f"GET /v1/runs/{slow}/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    with ExitStack() as followers:
        for _ in range(20):
            # Each asks as soon as it is there: one that only waits may be given up.
            follower = followers.enter_context(socket.create_connection(("127.0.0.1", small.port), timeout=60))
            follower.sendall(request)
            assert follower.recv(65536).startswith(b"HTTP/1.1 200")
        with socket.create_connection(("127.0.0.1", small.port), timeout=60) as one_more:
            answer = b"".join(iter(lambda: one_more.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 503")
    assert b"retry-after: 5" in answer
    small.wait_for(small.answers)
