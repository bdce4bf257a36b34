"""Every answer has its id and latency, and every error the one envelope."""

import json
import re
import socket
from pathlib import Path
from typing import Any

import pytest

from assay.surfaces.server.app import HANDLERS
from assay.surfaces.server.middleware import CHANGING_METHODS
from tests.surfaces.server.serving import Serving, dataset

ODD_REQUESTS = [
    ("GET", "/nowhere", 404, "not_found"),
    ("GET", "/v1/runs/run_of_nobody", 404, "not_found"),
    ("DELETE", "/v1/runs", 405, "invalid_request"),
    ("PUT", "/v1/runs/x/artifacts/predictions.jsonl", 405, "invalid_request"),
    ("PUT", "/runs", 405, "invalid_request"),
    ("DELETE", "/runs/x", 405, "invalid_request"),
    ("PATCH", "/", 405, "invalid_request"),
    ("GET", "/v1/runs?cursor=nobody", 404, "not_found"),
    ("POST", "/v1/runs", 415, "invalid_request"),
]


@pytest.mark.parametrize(("method", "path", "status", "code"), ODD_REQUESTS)
def test_error_has_the_envelope_with_the_id_of_the_request(
    service: Serving, method: str, path: str, status: int, code: str
) -> None:
    answer = service.ask(method, path, headers={"x-request-id": "my-request.1"})
    assert (answer.status, answer.json["error"]["code"]) == (status, code)
    assert answer.json["request_id"] == answer.headers["x-request-id"] == "my-request.1"
    assert float(answer.headers["x-latency-ms"]) >= 0


ROUTES = sorted({(str(method), path) for handler in HANDLERS for path in handler.paths for method in handler.http_methods})
"""Every method of every address, as the application itself lists them."""


def _nowhere(path: str) -> str:
    """The address of something that is not there."""
    return re.sub(r"\{(\w+):(\w+)\}", lambda found: "7" if found[2] == "int" else "nobody", path)


def _has_whole_envelope(body: Any) -> bool:
    error = body["error"]
    types = {name: type(value) for name, value in error.items()}
    return types == {"code": str, "message": str, "details": dict} and body.keys() == {"error", "request_id"}


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_every_error_of_every_route_has_the_same_members(service: Serving, method: str, path: str) -> None:
    # A parameter that is there twice is wrong everywhere, also where an answer would be a stream without an end.
    answer = service.ask(method, f"{_nowhere(path)}?nobody=1&nobody=2", headers={})
    if answer.status >= 400:
        assert _has_whole_envelope(answer.json), answer.json
    refused = service.ask("DELETE", _nowhere(path), headers={})
    assert refused.status == 405
    assert _has_whole_envelope(refused.json), refused.json


@pytest.mark.parametrize(
    "path", ["/nowhere", "/v1", "/v1/nowhere", "/v2/runs", "/runs/a/b/c/d", "/static/nothing", "/%00", "/v1/runs/%2e"]
)
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "PATCH", "TRACE"])
def test_every_error_of_an_unknown_address_has_the_same_members(service: Serving, method: str, path: str) -> None:
    answer = service.ask(method, path, headers={})
    assert answer.status >= 400
    assert _has_whole_envelope(answer.json), answer.json


def test_people_who_look_at_pages_get_their_errors_as_pages(service: Serving) -> None:
    answer = service.ask("GET", "/runs/nobody", headers={"Accept": "text/html"})
    assert (answer.status, answer.headers["content-type"]) == (404, "text/html; charset=utf-8")


def test_request_is_found_again_in_the_log_and_in_the_audit_log(tmp_path: Path) -> None:
    with Serving(tmp_path, settings="log_requests: true\n") as serving:
        assert serving.submit(dataset(1), headers={"x-request-id": "mine-1"}).status == 202
        assert serving.ask("GET", "/nowhere", headers={"x-request-id": "mine-2"}).status == 404
        assert [entry["request_id"] for entry in serving.ask("GET", "/v1/audit").json["entries"]] == ["mine-1"]
        # A line is written when its answer has been sent.
        serving.wait_for(lambda: "GET unknown 404" in (tmp_path / "server.log").read_text(encoding="utf-8"))
        log = (tmp_path / "server.log").read_text(encoding="utf-8")
        [line] = [line for line in log.splitlines() if "request=mine-1" in line]
        assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO POST /v1/runs 202 ", line)


def test_request_id_that_could_break_a_log_is_replaced(service: Serving) -> None:
    answer = service.ask("GET", "/healthz", headers={"x-request-id": "a" * 500})
    assert answer.headers["x-request-id"] == answer.json["request_id"] != "a" * 500


@pytest.mark.parametrize("request_text", [b"GARBAGE\r\n\r\n", b"GET /healthz HTTP/1.1\r\nX-A: " + b"a" * 65536 + b"\r\n\r\n"])
def test_what_is_no_request_is_answered_with_the_envelope_too(service: Serving, request_text: bytes) -> None:
    with socket.create_connection(("127.0.0.1", service.port), timeout=60) as connection:
        connection.sendall(request_text)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 400")
    assert b'"code":"invalid_request"' in answer
    assert _has_whole_envelope(json.loads(answer.partition(b"\r\n\r\n")[2]))


@pytest.mark.parametrize(
    ("path", "methods"),
    [("/runs", "GET, HEAD, OPTIONS"), ("/v1/runs", "GET, HEAD, OPTIONS, POST"), ("/v1/runs/x/cancel", "OPTIONS, POST")],
)
def test_methods_of_an_address_are_named_and_head_among_them_where_it_is_answered(
    service: Serving, path: str, methods: str
) -> None:
    assert service.ask("PUT", path).headers["allow"] == service.ask("OPTIONS", path).headers["allow"] == methods
    assert (service.ask("HEAD", path).status == 200) is ("HEAD" in methods)


def test_what_changes_something_is_guarded_by_its_method() -> None:
    taken = {str(method) for handler in HANDLERS for method in handler.http_methods}
    assert taken <= CHANGING_METHODS | {"GET", "HEAD", "OPTIONS"}
