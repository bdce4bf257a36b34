"""The examples with curl do what the page says, and the answers have exactly the shape that the contract shows."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.surfaces.server.serving import Serving, dataset

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "how-to" / "use-the-server.md").read_text(encoding="utf-8")
SHOWN_RUN = "run_01M7FPWMZ51ZRFNS0DHBXPT6G2"

pytestmark = pytest.mark.skipif(shutil.which("curl") is None or shutil.which("jq") is None, reason="needs curl and jq")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def examples() -> list[tuple[str, str]]:
    """Every command with curl and what the page shows as its answer."""
    found: list[tuple[str, str]] = []
    for block in blocks("console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            lines = part.splitlines()
            end = next(number for number, line in enumerate(lines) if not line.endswith("\\"))
            found.append(("\n".join(lines[: end + 1]), "\n".join(lines[end + 1 :])))
    return [example for example in found if example[0].startswith("curl")]


def run_shell(script: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, **variables}
    return subprocess.run(["sh", "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)


def said(service: Serving, command: str, run_id: str) -> str:
    """What a command of the page prints here."""
    here = command.replace("http://127.0.0.1:8321", f"http://127.0.0.1:{service.port}").replace(SHOWN_RUN, run_id)
    models = {"model": "scripted/say-4", "judge": "scripted/judge-5"}
    scripted = re.sub(r"\b(model|judge)=openai/[\w.-]+", lambda match: f"{match[1]}={models[match[1]]}", here)
    done = run_shell(f"{scripted} --fail-with-body")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def shape(value: Any) -> Any:
    """Names and kinds of everything in a document, in their order."""
    if isinstance(value, dict):
        return [(name, shape(member)) for name, member in value.items()]
    return [shape(member) for member in value] if isinstance(value, list) else type(value).__name__


def test_submitting_with_curl_is_answered_as_shown(service: Serving) -> None:
    command, shown = next(example for example in examples() if "/v1/runs?" in example[0])
    assert shape(json.loads(said(service, command, ""))) == shape(json.loads(shown))


@pytest.mark.parametrize("number", range(1, len(examples())))
def test_command_with_curl_does_what_it_should(service: Serving, number: int) -> None:
    run_id = service.ended(service.submit(dataset(4)).json["run_id"])["run_id"]
    assert run_id in said(service, examples()[number][0], run_id)


def test_events_with_curl_have_the_shape_that_is_shown(service: Serving) -> None:
    command, shown = next(example for example in examples() if "/events" in example[0])
    run_id = service.ended(service.submit(dataset(4)).json["run_id"])["run_id"]
    (event,) = said(service, command, run_id).strip().split("\n\n")
    names = [line.partition(":")[0] for line in shown.strip().split("\n\n")[-1].splitlines()]
    assert [line.partition(":")[0] for line in event.splitlines()] == names
    assert event.startswith("id: completed-4\nevent: end\n")


def test_pipeline_of_the_page_passes_and_fails_by_the_gate(service: Serving, tmp_path: Path) -> None:
    (script,) = blocks("sh")
    (tmp_path / "golden.json").write_text(json.dumps(dataset(2)), encoding="utf-8")
    here = {"ASSAY_URL": f"http://127.0.0.1:{service.port}", "ASSAY_KEY": "any"}
    passing, failing = (
        f"cd {tmp_path}\n{script}",
        f"cd {tmp_path}\n{script.replace('pass_rate', 'judge=scripted/judge-1&pass_rate')}",
    )
    assert run_shell(passing, CI_PIPELINE_ID="one", **here).stdout.strip() == "true"
    assert run_shell(failing, CI_PIPELINE_ID="two", **here).returncode == 1


def test_answer_to_malformed_records_is_that_of_the_contract_member_by_member(service: Serving) -> None:
    document = dataset(3)
    document["records"][1]["input"]["prompt"] = 7
    summary = [("total_records", "int"), ("accepted_records", "int"), ("rejected_records", "int")]
    error = [("index", "int"), *((name, "str") for name in ("record_id", "code", "message", "path", "severity"))]
    texts = [("run_id", "str"), ("status", "str")]
    assert shape(service.submit(document).json) == [*texts, ("summary", summary), ("record_errors", [error]), ("request_id", "str")]


def test_refusal_of_a_dataset_without_a_valid_record_is_that_of_the_contract_member_by_member(service: Serving) -> None:
    document = dataset(1)
    document["records"][0]["input"] = {}
    ((error, ((code, _), (message, _), (details, listed))), (request_id, _)) = shape(service.submit(document).json)
    assert (error, code, message, details, request_id) == ("error", "code", "message", "details", "request_id")
    assert listed[:2] == [("rejected_records", "int"), ("accepted_records", "int")]


def test_example_dataset_of_the_contract_is_accepted_and_kept(service: Serving) -> None:
    record: dict[str, Any] = {
        "record_id": "q_0001",
        "input": {"prompt": "Explain overfitting in two sentences."},
        "reference": {"answer": "Overfitting is when..."},
        "tags": ["ml", "definitions"],
        "expected": {"max_latency_ms": 2000, "required_criteria": ["accuracy", "clarity"]},
    }
    head = {
        "dataset_id": "qa_eval_set",
        "dataset_version": "2026-01-15",
        "schema_version": "1.0",
        "created_at": "2026-01-15T10:05:12Z",
    }
    document = {**head, "metadata": {"owner": "eval-team", "task_type": "qa"}, "records": [record]}
    run_id = service.ended(service.submit(document).json["run_id"])["run_id"]
    kept = service.ask("GET", f"/v1/runs/{run_id}/artifacts/input_dataset.json").json
    assert kept == document
    case = json.loads(service.ask("GET", f"/v1/runs/{run_id}/artifacts/cases.jsonl").body)["record"]
    assert (case["id"], case["prompt"], case["references"]) == ("q_0001", record["input"]["prompt"], ["Overfitting is when..."])
    assert (case["tags"], case["max_latency_ms"]) == (["ml", "definitions"], 2000)
    assert [criterion["id"] for criterion in case["criteria"]] == ["accuracy", "clarity"]
