"""Every answer has its id and latency, and every error the one envelope."""

import re
import socket
from pathlib import Path

import pytest

from tests.server.serving import Serving, dataset

ODD_REQUESTS = [
    ("GET", "/nowhere", 404, "not_found"),
    ("GET", "/v1/runs/run_of_nobody", 404, "not_found"),
    ("DELETE", "/v1/runs", 405, "invalid_request"),
    ("PUT", "/v1/runs/x/artifacts/predictions.jsonl", 405, "invalid_request"),
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


def test_request_is_found_again_in_the_log_and_in_the_audit_log(tmp_path: Path) -> None:
    with Serving(tmp_path, settings="log_requests: true\n") as serving:
        assert serving.submit(dataset(1), headers={"x-request-id": "mine-1"}).status == 202
        assert serving.ask("GET", "/nowhere", headers={"x-request-id": "mine-2"}).status == 404
        assert [entry["request_id"] for entry in serving.ask("GET", "/v1/audit").json["entries"]] == ["mine-1"]
        log = (tmp_path / "server.log").read_text(encoding="utf-8")
        [line] = [line for line in log.splitlines() if "request=mine-1" in line]
        assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO POST /v1/runs 202 ", line)
        assert "GET unknown 404" in log


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
    assert b'"request_id"' in answer
