"""Finished runs in a real MLflow server: parameters, metrics and artifacts."""

import json
from pathlib import Path
from typing import Any

import pytest

from assay import api
from assay.core.errors import ServerProblem
from assay.golden import EvalRun, GoldenDataset
from assay.testing import example_dataset
from tests.integrations.mlflow.pushing import command, golden_file, golden_run, pushed, runs_in
from tests.integrations.mlflow.serving import MlflowServer, answering
from tests.surfaces.server.serving import free_port

ARTIFACTS = {
    *("run_manifest.json", "input_dataset.json", "record_validation.jsonl", "predictions.jsonl", "attempt_logs.jsonl"),
    *("metrics_summary.json", "metrics_by_slice.json", "failures.jsonl", "eval_results.json", "responses.jsonl", "cases.jsonl"),
}
MODELS = ("--model", "scripted/say-4", "--judge", "scripted/judge-5")


def test_every_artifact_is_there_byte_for_byte(client: Any, server: MlflowServer, tmp_path: Path) -> None:
    run = golden_run(tmp_path)
    mlflow_run_id = pushed(run, server.uri, "artifacts").mlflow_run_id
    assert {entry.path for entry in client.list_artifacts(mlflow_run_id)} == ARTIFACTS | {"eval_run.json"}
    local = client.download_artifacts(mlflow_run_id, "predictions.jsonl", str(tmp_path))
    assert Path(local).read_bytes() == run.artifacts()["predictions.jsonl"].read_bytes()


def test_the_eval_run_in_mlflow_has_the_id_that_mlflow_gave_it(client: Any, server: MlflowServer, tmp_path: Path) -> None:
    run = golden_run(tmp_path)
    mlflow_run_id = pushed(run, server.uri, "eval-run").mlflow_run_id
    logged = json.loads(Path(client.download_artifacts(mlflow_run_id, "eval_run.json", str(tmp_path))).read_bytes())
    assert EvalRun.model_validate(logged).run_id == mlflow_run_id
    sealed = json.loads(run.artifacts()["eval_results.json"].read_bytes())
    assert logged == {**sealed, "run_id": mlflow_run_id, "assay_run_id": sealed["run_id"]}


def test_the_golden_dataset_is_an_artifact_as_its_contract_prints_it(client: Any, server: MlflowServer, tmp_path: Path) -> None:
    """golden_v1, MLflow Mapping: the GoldenDataset is logged for reproducibility."""
    given = {**json.loads(example_dataset("golden_v1")), "description": "What must work before each release"}
    (tmp_path / "described.json").write_text(json.dumps(given))
    api.run(
        tmp_path / "described.json", run_id="x", runs_dir=str(tmp_path / "runs"), model="scripted/say-4", judge="scripted/judge-5"
    )
    mlflow_run_id = pushed(api.open_run("x", runs_dir=tmp_path / "runs"), server.uri, "described").mlflow_run_id
    local = Path(client.download_artifacts(mlflow_run_id, "input_dataset.json", str(tmp_path)))
    assert json.loads(local.read_bytes()) == given
    assert GoldenDataset.model_validate_json(local.read_bytes()).description == given["description"]
    assert api.validate(local).is_valid


def test_pushing_twice_makes_one_run_with_one_value_of_each_metric(client: Any, server: MlflowServer, tmp_path: Path) -> None:
    run = golden_run(tmp_path)
    first, second = (pushed(run, server.uri, "twice") for _ in range(2))
    assert (first.is_new, second.is_new, second.artifacts_sent) == (True, False, 0)
    assert [found.info.run_id for found in runs_in(client, "twice")] == [first.mlflow_run_id]
    assert len(client.get_metric_history(first.mlflow_run_id, "pass_rate")) == 1


def test_a_run_keeps_its_own_times_and_name(client: Any, server: MlflowServer, tmp_path: Path) -> None:
    run = golden_run(tmp_path, "mine")
    stored = client.get_run(pushed(run, server.uri, "times").mlflow_run_id)
    assert (stored.info.run_name, stored.info.status) == ("mine", "FINISHED")
    assert stored.info.start_time <= stored.info.end_time


def test_a_server_that_is_not_there_is_said_at_once_and_without_the_password(mlflow: Any, tmp_path: Path) -> None:  # noqa: ARG001
    run = golden_run(tmp_path)
    with pytest.raises(ServerProblem, match="no MLflow server answers") as problem:
        pushed(run, f"http://me:hunter22@127.0.0.1:{free_port()}", "nowhere")
    assert "hunter22" not in str(problem.value)


@pytest.mark.parametrize(("status", "body"), [(403, b"hunter22 may not"), (200, b"hello")])
def test_a_server_that_refuses_or_is_no_mlflow_is_a_problem_in_one_line(
    mlflow: Any,  # noqa: ARG001  # skips without it
    tmp_path: Path,
    status: int,
    body: bytes,
) -> None:
    run = golden_run(tmp_path)
    with answering(status, body) as uri, pytest.raises(ServerProblem) as problem:
        pushed(run, uri.replace("http://", "http://me:hunter22@"), "refused")
    assert "hunter22" not in problem.value.message
    assert "\n" not in problem.value.message


def test_what_a_run_is_called_in_mlflow_stands_in_the_audit_log(server: MlflowServer, tmp_path: Path) -> None:
    run = golden_run(tmp_path)
    found = [pushed(run, server.uri, "audited") for _ in range(2)]
    entries = [entry for entry in api.audit(tmp_path / "runs") if entry["action"] == "mlflow_pushed"]
    assert [entry["mlflow_run_id"] for entry in entries] == [found[0].mlflow_run_id]


def test_a_purged_run_keeps_its_figures_and_says_why_it_has_no_traces(client: Any, server: MlflowServer, tmp_path: Path) -> None:
    golden_run(tmp_path)
    api.purge(tmp_path / "runs", run_name="golden", reason="asked to")
    found = pushed(api.open_run("golden", runs_dir=tmp_path / "runs"), server.uri, "purged")
    assert found.traces == 0
    assert "retention has removed" in found.notes[0]
    assert client.get_run(found.mlflow_run_id).data.tags["assay.run_id"] == "golden"


def test_a_run_that_is_gone_on_with_is_pushed_like_any_other(client: Any, server: MlflowServer, tmp_path: Path) -> None:
    dataset = golden_file(tmp_path).rename(tmp_path / "gone-on.json")
    command("run", dataset, *MODELS, "--run-id", "later", folder=tmp_path)
    refused = command("resume", "later", "--mlflow", "http://[bad", folder=tmp_path)
    assert refused.returncode == 2
    went_on = command("resume", "later", "--mlflow", server.uri, folder=tmp_path)
    assert went_on.returncode == 0
    assert [found.info.run_name for found in runs_in(client, "gone-on")] == ["later"]
