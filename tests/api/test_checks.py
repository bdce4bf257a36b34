"""The estimate of a run and what the run then costs."""

from pathlib import Path

from assay import api
from assay.engine.planning.request import RunRequest
from tests.engine.planning.test_estimate import RUBRIC, estimated
from tests.engine.run_settings import JUDGE, mcq_row, write_golden, write_rows


def test_the_estimated_calls_are_those_that_the_run_makes(tmp_path: Path) -> None:
    dataset = write_rows(tmp_path / "law.jsonl", {**RUBRIC, "id": "r1"}, mcq_row("m1"))
    request = RunRequest(datasets=(str(dataset),), models=("scripted/echo",), judges=(JUDGE,), runs_dir=str(tmp_path), repeat=2)
    expected = estimated(request).calls
    (result,) = api.run(request)
    assert (tmp_path / result.run_id / "attempt_logs.jsonl").read_bytes().count(b"\n") == expected == 10


def test_a_run_whose_estimate_is_nothing_costs_nothing(tmp_path: Path) -> None:
    dataset = write_golden(tmp_path / "golden.json")
    request = RunRequest(datasets=(str(dataset),), models=("scripted/echo",), judges=(JUDGE,), runs_dir=str(tmp_path))
    expected = estimated(request).cost
    (result,) = api.run(request)
    cost = result.metrics["cost_usd"]
    assert (cost["sum"], cost["n_unknown"]) == (expected, 0) == (0.0, 0)


def test_answers_that_are_given_cost_nothing(tmp_path: Path) -> None:
    dataset = write_rows(tmp_path / "law.jsonl", mcq_row("m1"))
    responses = write_rows(tmp_path / "said.jsonl", {"example_id": "m1", "candidate_name": "big", "response_text": "A"})
    found = estimated(RunRequest(datasets=(str(dataset),), responses=str(responses)))
    assert (found.models, found.calls, found.cost) == ((), 0, 0)
