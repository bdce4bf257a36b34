"""Nulls that a table writes are read as absent by the same switch in every interface."""

import json
from pathlib import Path
from typing import Any

import pytest

import assay
from tests.commands import assay as command
from tests.surfaces.server.serving import Serving

MODELS = ("--model", "scripted/echo", "--judge", "scripted/judge-5")
RECORD: dict[str, Any] = {"record_id": "r", "input": {"prompt": "p"}, "reference": {"answer": None}, "tags": None, "metadata": None}
BATCH = {"dataset_id": "d", "dataset_version": "1", "schema_version": "1.0", "created_at": None, "records": [RECORD]}
ROW: dict[str, Any] = {"schema_version": "legal_eval_v1", "id": "a", "dataset": "d", "prompt": "p", "task_type": "reference_qa"} | {
    "reference_answers": ["x"],
    **dict.fromkeys(("context", "metadata", "rubric", "choices", "correct_choice_ids")),
}


@pytest.fixture(params=["batch.json", "rows.jsonl"])
def path(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    found = tmp_path / request.param
    found.write_text(json.dumps(BATCH if request.param == "batch.json" else ROW), encoding="utf-8")
    return found


def test_python_takes_it(path: Path) -> None:
    assert not assay.validate(path).is_valid
    assert assay.validate(path, null_as_absent=True).is_valid
    (run,) = assay.run(path, model="scripted/echo", judge="scripted/judge-5", null_as_absent=True)
    assert run.state == "completed"


def test_the_command_line_takes_it(path: Path) -> None:
    assert command("validate", str(path)).exit_code == 1
    assert command("validate", "--null-as-absent", str(path)).exit_code == 0
    assert command("run", str(path), *MODELS).exit_code == 2
    assert command("run", "--null-as-absent", str(path), *MODELS).exit_code == 0


def test_a_run_file_and_a_config_take_it(path: Path) -> None:
    lines = f"datasets: [{path.name}]\ncandidates: [scripted/echo]\njudges: [scripted/judge-5]\n"
    Path("run.yaml").write_text(f"{lines}null_as_absent: true\n", encoding="utf-8")
    assert command("run", "run.yaml").exit_code == 0
    Path("config.yaml").write_text("null_as_absent: true\n", encoding="utf-8")
    assert command("validate", "--config", "config.yaml", str(path)).exit_code == 0


def test_the_stored_input_of_a_run_has_no_such_nulls(path: Path) -> None:
    assert command("run", "--null-as-absent", str(path), *MODELS).exit_code == 0
    (stored,) = Path("runs").glob("*/input_dataset.json")
    assert command("validate", str(stored)).exit_code == 0


def test_the_service_takes_it(service: Serving) -> None:
    assert service.ask("POST", "/v1/validate", BATCH).json["outcome"] == "rejected"
    assert service.ask("POST", "/v1/validate?null_as_absent=true", BATCH).json["outcome"] == "accepted"
    assert service.submit(BATCH).status == 400
    assert service.submit(BATCH, "?null_as_absent=true").status == 202
