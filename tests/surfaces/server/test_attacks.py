"""What others may try on a service, on a real socket."""

import json
import os
import socket
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from assay.surfaces.server.keys import KeyStore
from tests.surfaces.server.attacks import OWN_ATTACKS, broken_promises, carried_out
from tests.surfaces.server.serving import Serving, dataset

ATTACKS = Path(os.environ.get("ASSAY_ARSENAL", ""), "http_attacks.json")
ITEMS = json.loads(ATTACKS.read_text(encoding="utf-8"))["items"] if ATTACKS.is_file() else []


@pytest.mark.skipif(not ITEMS, reason="ASSAY_ARSENAL is not set")
@pytest.mark.parametrize("attack", [pytest.param(attack, id=attack["id"]) for attack in ITEMS])
def test_attack_fails(service: Serving, attack: dict[str, Any]) -> None:
    assert broken_promises(attack, carried_out(attack, service)) == []


@pytest.mark.parametrize("attack", OWN_ATTACKS, ids=lambda attack: attack["id"])
def test_attack_of_our_own_fails(service: Serving, attack: dict[str, Any]) -> None:
    assert broken_promises(attack, carried_out(attack, service)) == []


def test_service_for_others_answers_only_keys_with_the_right_scope(tmp_path: Path) -> None:
    serving = Serving(tmp_path, host="0.0.0.0")
    keys = KeyStore(serving.runs_dir)
    reader, writer = keys.add("reader", "read"), keys.add("writer", "write")
    with serving:
        assert serving.submit(dataset(1)).status == 401
        assert serving.submit(dataset(1), headers={"x-api-key": "assay_guess"}).status == 401
        assert serving.submit(dataset(1), headers={"x-api-key": reader}).status == 403
        assert serving.submit(dataset(1), headers={"Authorization": f"Bearer {writer}"}).status == 202
        assert serving.ask("GET", "/v1/audit", headers={"x-api-key": writer}).status == 403
        assert serving.ask("GET", "/nowhere").status == 401
        keys.revoke("writer")
        assert serving.submit(dataset(1), headers={"x-api-key": writer}).status == 401


def test_revoking_the_last_key_opens_nothing(tmp_path: Path) -> None:
    serving = Serving(tmp_path)
    keys = KeyStore(serving.runs_dir)
    key = keys.add("only", "admin")
    with serving:
        assert serving.ask("GET", "/v1/audit", headers={"x-api-key": key}).status == 200
        keys.revoke("only")
        assert [serving.ask("GET", "/v1/audit", headers=given).status for given in ({}, {"x-api-key": key})] == [401, 401]


def test_keys_that_cannot_be_read_let_nobody_in_and_say_no_path(tmp_path: Path) -> None:
    with Serving(tmp_path) as serving:
        (serving.runs_dir / ".server" / "keys.json").write_bytes(b"{")
        answer = serving.ask("GET", "/v1/runs")
        assert (answer.status, answer.json["error"]["code"]) == (503, "service_unavailable")
        assert str(tmp_path) not in answer.body.decode()


def test_keys_that_are_made_at_once_are_all_kept(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: KeyStore(tmp_path).add(f"key-{number}", "read"), range(40)))
    assert {entry.name for entry in KeyStore(tmp_path).entries()} == {f"key-{number}" for number in range(40)}


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"])
def test_form_of_another_site_makes_no_run(service: Serving, content_type: str) -> None:
    before = len(service.runs())
    headers = {"Content-Type": content_type, "Origin": "http://evil.example"}
    assert service.ask("POST", "/v1/runs", dataset(1), headers).status == 403
    assert service.ask("POST", "/v1/runs", dataset(1), {"Content-Type": content_type}).status == 415
    assert len(service.runs()) == before


def test_host_name_that_is_not_ours_is_refused(service: Serving) -> None:
    assert service.ask("GET", "/v1/runs", headers={"Host": "evil.example"}).status == 403
    assert service.ask("GET", "/v1/runs", headers={"Host": f"localhost:{service.port}"}).status == 200


PATHS = [
    "/v1/runs/RUN/artifacts/../../../../etc/passwd",
    "/v1/runs/RUN/artifacts/%252e%252e%252fetc%252fpasswd",
    "/v1/runs/RUN/artifacts/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
    "/v1/runs/RUN/artifacts//etc/passwd",
    "/v1/runs/..%2f..%2f/artifacts/run_manifest.json",
    "/v1/runs/..%2f..%2f",
    "/v1/runs/.active",
    "/v1/runs/latest",
    "/v1/runs/run_",
    "/v1/runs/RUN/artifacts/id_rsa",
    "/v1/runs/RUN/artifacts/.",
    "/v1/runs/RUN%00/artifacts",
    "/v1/runs/RUN/artifacts/%ef%bc%8e%ef%bc%8e/x",
    "/v1/runs/RUN/records/..%2f..%2fledger.sqlite",
]


@pytest.mark.parametrize("path", PATHS)
def test_path_leads_nowhere_else(service: Serving, path: str) -> None:
    run = service.ended(service.submit(dataset(1)).json["run_id"])
    answer = service.ask("GET", path.replace("RUN", run["run_id"]))
    assert answer.status in (400, 404)
    assert b"root:" not in answer.body


@pytest.mark.parametrize(
    "query",
    [
        "?model=replay/%2Fetc%2Fpasswd",
        "?model=replay:server.yaml",
        "?model=%20replay//etc/passwd",
        "?judge=%20replay//etc/passwd",
        "?model=recorded//etc/passwd",
    ],
)
def test_files_of_the_machine_are_no_models(recorded: Serving, query: str) -> None:
    answer = recorded.submit(dataset(1), query)
    assert (answer.status, answer.json["error"]["code"]) == (403, "forbidden")


def test_a_model_with_a_line_feed_is_not_a_name(recorded: Serving) -> None:
    answer = recorded.submit(dataset(1), "?model=%0Areplay:/etc/passwd%20")
    assert (answer.status, answer.json["error"]["code"]) == (400, "invalid_request")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A service whose operator has given recordings a name of their own."""
    run_file = "providers: [{name: recorded, kind: replay}]\ncandidates: [scripted/echo]\njudges: [scripted/judge-5]\n"
    settings = "max_uploads: 2\nmax_streams: 2\nidle_seconds: 120\n"
    with Serving(tmp_path_factory.mktemp("recorded"), run_file=run_file, settings=settings) as serving:
        yield serving


def test_slow_uploads_of_one_caller_keep_nobody_from_the_queue(recorded: Serving) -> None:
    head = b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
    slow = [socket.create_connection(("127.0.0.1", recorded.port)) for _ in range(2)]
    for connection in slow:
        connection.sendall(head)
    recorded.wait_for(lambda: len(recorded.left_over()) == 2)
    answer = recorded.submit(dataset(1))
    assert (answer.status, answer.json["error"]["code"], answer.headers["retry-after"]) == (429, "rate_limited", "5")
    assert recorded.ask("POST", "/validate", b"", {"Origin": f"http://127.0.0.1:{recorded.port}"}).status == 429
    assert recorded.ask("GET", "/readyz").status == 200
    for connection in slow:
        connection.close()
    recorded.wait_for(lambda: recorded.submit(dataset(1)).status == 202)


def test_streams_of_one_caller_leave_connections_to_others(recorded: Serving) -> None:
    followed = [socket.create_connection(("127.0.0.1", recorded.port)) for _ in range(2)]
    for connection in followed:
        connection.sendall(b"GET /live/runs HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200 OK" in connection.recv(1000)
    assert recorded.ask("GET", "/live/runs").status == 429
    assert recorded.ask("GET", "/v1/runs/any/events").status == 429
    assert recorded.ask("GET", "/runs").status == 200
    for connection in followed:
        connection.close()
    recorded.wait_for(lambda: recorded.ask("HEAD", "/live/runs").status == 200)


@pytest.mark.parametrize("text", ["' OR 1=1 --", '"; DROP TABLE submission; --', "%27%20UNION%20SELECT", "1;SELECT pg_sleep(9)"])
def test_database_language_means_nothing(service: Serving, text: str) -> None:
    quoted = "".join(f"%{byte:02x}" for byte in text.encode())
    asked = [f"/v1/runs?{name}={quoted}" for name in ("cursor", "state", "dataset", "model", "limit")]
    asked += [f"/v1/runs/{quoted}", f"/v1/compare?before={quoted}&after={quoted}"]
    assert {service.ask("GET", path).status for path in asked} <= {200, 400, 404}
    assert service.submit(dataset(1), headers={"Idempotency-Key": text, "x-api-key": text}).status == 202


def test_too_many_requests_are_told_when_to_come_back(tmp_path: Path) -> None:
    # So few that none is given back while these are sent.
    with Serving(tmp_path, settings="requests_per_minute: 2\n") as serving:
        answers = [serving.ask("GET", "/v1/runs") for _ in range(3)]
        assert [answer.status for answer in answers] == [200] * 2 + [429]
        assert answers[0].headers["x-ratelimit-limit"] == "2"
        assert 1 <= int(answers[-1].headers["retry-after"]) <= 30
        assert serving.ask("GET", "/healthz").status == 200


def test_full_queue_is_told_when_to_come_back(tmp_path: Path) -> None:
    settings, run_file = "max_runs: 1\nmax_queue: 2\n", "candidates: [scripted/slow-60000]\njudges: [scripted/judge-5]\n"
    with Serving(tmp_path, settings=settings, run_file=run_file) as serving:
        answers = [serving.submit(dataset(1)) for _ in range(4)]
        assert [answer.status for answer in answers] == [202, 202, 202, 503]
        assert answers[-1].headers["retry-after"] == "5"
        assert serving.ask("GET", "/readyz").status == 503


def test_model_that_is_not_offered_is_refused(tmp_path: Path) -> None:
    with Serving(tmp_path, settings="models: ['openai/*']\nmax_concurrency: 4\n") as serving:
        assert serving.submit(dataset(1), "?model=scripted/echo").status == 403
        assert serving.submit(dataset(1), "?concurrency=5").status == 403
        assert serving.submit(dataset(1)).status == 202


def test_events_of_many_followers_end_when_the_service_does(tmp_path: Path) -> None:
    # A run that goes on for long, and whose calls do not: the service has all the time it needs to end, and needs little.
    slowly = "candidates: [scripted/slow-500]\njudges: [scripted/judge-5]\nrun: {concurrency: 1}\n"
    with Serving(tmp_path, settings="grace_seconds: 60\n", run_file=slowly) as serving:
        run_id = serving.submit(dataset(500)).json["run_id"]
        address = f"http://127.0.0.1:{serving.port}/v1/runs/{run_id}/events"
        with ExitStack() as stack:
            followers = [stack.enter_context(urllib.request.urlopen(address, timeout=60)) for _ in range(5)]
            first = [follower.readline() for follower in followers]
            assert serving.end() == 0
            assert all(b"event: progress" in said + follower.read() for said, follower in zip(first, followers, strict=True))
