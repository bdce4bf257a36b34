"""An accepted run survives everything, and a key never makes two."""

import os
import shutil
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path

import pytest

from tests.surfaces.server.crash import kill_at_random, kill_at_system_calls
from tests.surfaces.server.serving import Answered, Serving, dataset

SLOW = "candidates: [scripted/slow-200]\njudges: [scripted/judge-5]\nrun: {concurrency: 2}\n"


def keyed(serving: Serving, key: str, records: int = 2) -> Answered:
    return serving.submit(dataset(records), headers={"Idempotency-Key": key})


def test_same_key_and_body_are_the_same_run(service: Serving) -> None:
    first, second = keyed(service, "same"), keyed(service, "same")
    assert (first.status, second.status) == (202, 202)
    assert first.json["run_id"] == second.json["run_id"]
    assert second.headers["idempotent-replayed"] == "true"


def test_same_key_with_another_body_is_a_conflict(service: Serving) -> None:
    keyed(service, "other", 2)
    answer = keyed(service, "other", 3)
    assert (answer.status, answer.json["error"]["code"]) == (409, "conflict")
    assert service.submit(dataset(2), "?limit=1", {"Idempotency-Key": "other"}).status == 409


def test_twenty_at_once_under_one_key_make_one_run(service: Serving) -> None:
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: keyed(service, "twenty"), range(20)))
    assert {answer.status for answer in answers} == {202}
    assert len({answer.json["run_id"] for answer in answers}) == 1


def test_key_of_a_refused_upload_can_be_used_again(service: Serving) -> None:
    assert service.submit(b"{", headers={"Idempotency-Key": "again"}).status == 400
    assert keyed(service, "again").status == 202


@pytest.mark.parametrize("key", ["", " ", "a" * 256])
def test_key_that_is_none_is_refused(service: Serving, key: str) -> None:
    assert keyed(service, key).status == 400


def test_killed_service_goes_on_with_every_accepted_run(tmp_path: Path) -> None:
    with Serving(tmp_path, run_file=SLOW) as serving:
        accepted = [keyed(serving, f"k{number}", 4).json["run_id"] for number in range(4)]
        serving.kill()
        serving.start()
        again = [keyed(serving, f"k{number}", 4).json["run_id"] for number in range(4)]
        assert again == accepted
        assert {serving.ended(run_id)["state"] for run_id in accepted} == {"completed"}
        assert len(serving.runs()) == 4
        assert serving.left_over() == []


def test_service_that_is_killed_while_it_takes_uploads_keeps_what_it_has_answered(tmp_path: Path) -> None:
    # However many are sent before it is killed, none is refused.
    serving = Serving(tmp_path, settings="requests_per_minute: 100000\nmax_queue: 10000\n")
    accepted: list[str] = []

    def submit_until_it_dies(number: int) -> None:
        with suppress(OSError, HTTPException):
            for turn in range(1_000):
                answer = keyed(serving, f"w{number}-{turn}", 3)
                assert answer.status == 202, answer.body
                accepted.append(answer.json["run_id"])

    with serving, ThreadPoolExecutor(4) as pool:
        workers = [pool.submit(submit_until_it_dies, number) for number in range(4)]
        serving.wait_for(lambda: len(accepted) >= 20 or any(worker.done() for worker in workers))
        serving.kill()
        for worker in workers:
            worker.result()
        serving.start()
        assert {serving.ended(run_id)["state"] for run_id in accepted} == {"completed"}
        assert {run["run_id"] for run in serving.runs()} >= set(accepted)
        assert serving.left_over() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_stopped_service_drains_its_runs_and_goes_on_with_them(tmp_path: Path, number: int) -> None:
    with Serving(tmp_path, run_file=SLOW) as serving:
        run_id = serving.submit(dataset(20)).json["run_id"]
        serving.wait_for(lambda: serving.ask("GET", f"/v1/runs/{run_id}").json["done_records"] >= 1)
        assert serving.end(number) == 0
        assert "assay: stopped; unfinished runs continue at the next start" in (tmp_path / "server.log").read_text(encoding="utf-8")
        serving.start()
        run = serving.ended(run_id)
        assert (run["state"], run["counts"]["evaluated_records"]) == ("completed", 20)
        attempts = serving.ask("GET", f"/v1/runs/{run_id}/artifacts/attempt_logs.jsonl").body.splitlines()
        assert len(attempts) == 40


def test_upload_that_does_not_come_to_its_end_is_told_that_the_service_ends(tmp_path: Path) -> None:
    with Serving(tmp_path, settings="grace_seconds: 0\n") as serving:
        with socket.create_connection(("127.0.0.1", serving.port), timeout=60) as connection:
            connection.sendall(b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
            connection.sendall(b"Content-Length: 1000\r\n\r\n{")
            serving.wait_for(serving.left_over)
            assert serving.end(signal.SIGTERM) == 0
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        assert answer.startswith(b"HTTP/1.1 503")
        assert b'"code":"service_unavailable"' in answer
        assert serving.left_over() == []


def test_server_that_is_killed_at_random_moments_loses_and_doubles_nothing(tmp_path: Path) -> None:
    found = kill_at_random(tmp_path, kills=3, seed=2, say=lambda _: None)
    assert found.problems == []
    assert found.kills == 3


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_server_that_is_killed_at_a_system_call_loses_and_doubles_nothing(tmp_path: Path) -> None:
    found = kill_at_system_calls(tmp_path, step=9, most=28, say=lambda _: None)
    assert found.problems == []
    assert found.kills > 1


def test_second_service_over_the_same_runs_does_not_start(tmp_path: Path) -> None:
    with Serving(tmp_path) as first:
        second = Serving(tmp_path)
        with pytest.raises(AssertionError, match="serves the runs"):
            second.start()
        assert first.ask("GET", "/healthz").status == 200


def test_workers_of_a_killed_service_do_not_outlive_it(tmp_path: Path) -> None:
    with Serving(tmp_path) as serving:
        assert serving.ask("POST", "/v1/validate", b" " * (5 << 20)).status == 200
        workers = serving.children()
        assert workers
        serving.kill()
        serving.wait_for(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))


def test_replayed_answer_lists_the_same_errors(service: Serving) -> None:
    document = dataset(3)
    document["records"][1]["colour"] = document["records"][2]["colour"] = "red"
    first, again = (service.submit(document, headers={"Idempotency-Key": "errors"}).json for _ in range(2))
    assert len(first["record_errors"]) == 2
    assert {**first, "request_id": ""} == {**again, "request_id": ""}


def test_nothing_of_refused_records_is_kept_for_a_replay(tmp_path: Path) -> None:
    secret = "sk-ant-api03-" + "x" * 80
    document = dataset(2)
    document["records"][1] |= {"record_id": "jane.doe@example.org", "required_criteria": [secret]}
    with Serving(tmp_path) as serving:
        serving.ended(serving.submit(document, headers={"Idempotency-Key": "k"}).json["run_id"])
        serving.end()
        kept = b"".join(path.read_bytes() for path in serving.runs_dir.rglob("*") if path.is_file())
    assert [text for text in (secret, "jane.doe@example.org") if text.encode() in kept] == []


def test_validation_goes_on_after_its_processes_were_killed(tmp_path: Path) -> None:
    with Serving(tmp_path) as serving:
        assert serving.ask("POST", "/v1/validate", b" " * (5 << 20)).status == 200
        for worker in serving.children():
            os.kill(worker, signal.SIGKILL)
        assert [serving.ask("POST", "/v1/validate", b" " * (5 << 20)).status for _ in range(2)] == [200, 200]


def test_run_that_cannot_be_noted_in_the_audit_log_does_not_exist(tmp_path: Path) -> None:
    with Serving(tmp_path) as serving:
        first = serving.ended(keyed(serving, "first", 3).json["run_id"])
        log = serving.runs_dir / "audit.jsonl"
        whole = log.read_bytes()
        log.write_bytes(whole.replace(b"run_submitted", b"run_invented"))
        refused = keyed(serving, "second", 3)
        assert (refused.status, "retry-after" in refused.headers) == (503, True)
        assert [run["run_id"] for run in serving.runs()] == [first["run_id"]]
        log.write_bytes(whole)
        again = keyed(serving, "second", 3)
        assert serving.ended(again.json["run_id"])["state"] == "completed"
