"""What is full, gone, somebody else's or wrong in more than one way, on a real socket."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from assay import api
from assay.core.errors import UsageProblem
from tests.surfaces.server.serving import Serving, dataset

SLOW = "candidates: [scripted/slow-60000]\njudges: [scripted/judge-5]\n"


def test_full_queue_refuses_nothing_that_needs_no_place_in_it(tmp_path: Path) -> None:
    with Serving(tmp_path, settings="max_runs: 1\nmax_queue: 1\n", run_file=SLOW) as serving:
        working, waiting = (serving.submit(dataset(1), headers={"Idempotency-Key": key}).json["run_id"] for key in ("a", "b"))
        assert serving.submit(dataset(1)).status == 503
        assert serving.submit(dataset(1), headers={"Idempotency-Key": "b"}).json["run_id"] == waiting
        assert serving.ask("POST", f"/v1/runs/{working}/resume").status == 202
        assert serving.ask("POST", f"/v1/runs/{waiting}/cancel").json["state"] == "cancelled"
        assert serving.submit(dataset(1)).status == 202


def test_run_of_another_process_is_not_resumed(tmp_path: Path) -> None:
    with Serving(tmp_path, run_file=SLOW) as serving:
        (tmp_path / "data.json").write_bytes(b'{"dataset_id":"d","dataset_version":"1","schema_version":"1.0","records":[')
        with (tmp_path / "data.json").open("ab") as file:
            file.write(b'{"record_id":"1","input":{"prompt":"Hello"}}]}')
        options = ["--runs-dir", str(serving.runs_dir), "--run-id", "by-hand", "--model", "scripted/slow-60000"]
        command = [sys.executable, "-m", "assay", "run", str(tmp_path / "data.json"), *options, "--judge", "scripted/judge-5"]
        by_hand = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        serving.wait_for(lambda: serving.ask("GET", "/v1/runs/by-hand").json.get("state") == "running")
        assert serving.ask("GET", "/v1/runs/by-hand").json["problem"] is None
        assert serving.ask("POST", "/v1/runs/by-hand/resume").status == 409
        by_hand.kill()
        by_hand.wait()
        assert "no process is working on this run" in serving.ask("GET", "/v1/runs/by-hand").json["problem"]
        assert serving.ask("POST", "/v1/runs/by-hand/resume").status == 202


@pytest.fixture(scope="module")
def purged(service: Serving) -> Any:
    """A run of which only the manifest is left."""
    document = dataset(3, dataset_id="purged")
    document["records"][1]["input"]["prompt"] = 7
    run = service.ended(service.submit(document).json["run_id"])
    api.purge(service.runs_dir, run_name=run["run_id"], reason="somebody asked for it")
    return run


def test_what_retention_has_removed_is_listed_with_its_hash_and_reason(service: Serving, purged: Any) -> None:
    found = service.ask("GET", f"/v1/runs/{purged['run_id']}/artifacts").json
    assert [entry["name"] for entry in found["artifacts"]] == ["run_manifest.json"]
    assert {entry["reason"] for entry in found["removed"]} == {"somebody asked for it"}
    assert {"predictions.jsonl", "input_dataset.json", "metrics_summary.json"} <= {entry["name"] for entry in found["removed"]}
    assert service.ask("GET", found["artifacts"][0]["url"]).status == 200


@pytest.mark.parametrize(
    "part",
    [
        "artifacts/predictions.jsonl",
        "records",
        "records/q_0000",
        "errors",
        "failures",
        "distribution",
        "export",
        "export?format=csv",
    ],
)
def test_what_retention_has_removed_is_gone(service: Serving, purged: Any, part: str) -> None:
    answer = service.ask("GET", f"/v1/runs/{purged['run_id']}/{part}")
    assert (answer.status, answer.json["error"]["code"]) == (410, "not_found")
    assert "removed by retention" in answer.json["error"]["message"]
    assert str(service.runs_dir) not in answer.json["error"]["message"]


def test_purged_run_is_still_shown_and_listed(service: Serving, purged: Any) -> None:
    run = service.ask("GET", f"/v1/runs/{purged['run_id']}").json
    assert (run["state"], run["counts"]["evaluated_records"], run["metrics"]) == ("completed_with_failures", 2, {})
    assert [found["run_id"] for found in service.ask("GET", "/v1/runs?dataset=purged").json["runs"]] == [run["run_id"]]


def test_finished_run_is_neither_resumed_nor_repeated_because_its_upload_is_gone(service: Serving) -> None:
    run = service.ended(service.submit(dataset(1), "?model=scripted/fail-bad_request").json["run_id"])
    answer = service.ask("POST", f"/v1/runs/{run['run_id']}/resume")
    assert answer.status == 409
    assert "submit the records with an error again" in answer.json["error"]["details"]["hint"]
    with pytest.raises(UsageProblem, match="was uploaded to a server"):
        api.retry(run["run_id"], runs_dir=service.runs_dir)


def test_everything_that_is_wrong_with_a_dataset_is_listed_beside_its_records(service: Serving) -> None:
    document = dataset(2, dataset_id="a b", created_at="x")
    document["records"][1]["input"]["prompt"] = 7
    details = service.submit(document).json["error"]["details"]
    assert [error["path"] for error in details["errors"]] == ["dataset_id", "created_at"]
    assert [error["index"] for error in details["record_errors"]] == [1]


@pytest.mark.parametrize("origin", ["http://203.0.113.5", "http://localhost:3000", "null", "http://evil.example"])
def test_other_sites_change_nothing(service: Serving, origin: str) -> None:
    headers = {"Origin": origin, "Host": f"localhost:{service.port}"}
    assert service.ask("POST", "/v1/runs/x/cancel", headers=headers).status == 403
    assert service.ask("POST", "/v1/runs/x/cancel", headers={**headers, "Origin": f"http://localhost:{service.port}"}).status == 404
