"""A run as MLflow's parameters and metrics."""

import json
from pathlib import Path
from typing import Any

from assay import api
from tests.engine.graded_runs import graded, passing, question
from tests.integrations.mlflow.pushing import golden_run, pushed
from tests.integrations.mlflow.serving import MlflowServer


def test_parameters_and_metrics_have_the_names_and_values_of_the_contract(
    client: Any, server: MlflowServer, tmp_path: Path
) -> None:
    run = golden_run(tmp_path)
    document = json.loads(run.artifacts()["eval_results.json"].read_bytes())
    stored = client.get_run(pushed(run, server.uri, "names").mlflow_run_id).data
    assert {name: stored.params[name] for name in document["parameters"]} == {
        name: str(value) for name, value in document["parameters"].items()
    }
    assert {name: stored.metrics[name] for name in document["metrics"]} == document["metrics"]
    assert stored.metrics["overall_passed"] == 1.0


def test_the_ends_of_intervals_stand_beside_their_metrics(client: Any, server: MlflowServer, tmp_path: Path) -> None:
    run = golden_run(tmp_path)
    stored = client.get_run(pushed(run, server.uri, "intervals").mlflow_run_id).data.metrics
    interval = run.result.metrics["pass_rate_interval"]
    assert (stored["pass_rate_low"], stored["pass_rate_high"]) == (interval["low"], interval["high"])


def test_a_run_in_which_everything_failed_has_no_score(client: Any, server: MlflowServer, tmp_path: Path) -> None:
    run = golden_run(tmp_path, model="scripted/fail-bad_request")
    stored = client.get_run(pushed(run, server.uri, "failed").mlflow_run_id).data.metrics
    assert (stored["error_cases"], stored["overall_passed"]) == (5.0, 0.0)
    assert {"pass_rate", "average_score", "score_mean"}.isdisjoint(stored)


def _sliced(folder: Path) -> str:
    (folder / "slices.yaml").write_text("slices: [tag]\n", encoding="utf-8")
    return str(folder / "slices.yaml")


def test_names_of_metrics_survive_any_value_of_a_slice(client: Any, server: MlflowServer, tmp_path: Path) -> None:
    values = ["a/b", "ü", "", "..", "w" * 400, "a_b"]
    rows = [question(f"q{place}", tag=value) for place, value in enumerate(values)]
    graded(tmp_path, "odd", rows, passing(rows), run_file=_sliced(tmp_path))
    stored = client.get_run(
        pushed(api.open_run("odd", runs_dir=tmp_path / "runs"), server.uri, "slices").mlflow_run_id
    ).data.metrics
    assert len([name for name in stored if name.startswith("slices/tag/") and name.endswith("/n_scored")]) == len(values) - 1
