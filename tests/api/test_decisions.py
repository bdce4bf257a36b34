"""Suites: several runs that are started, gated and decided about together."""

import json
from pathlib import Path
from typing import Any

import pytest

from assay import api
from tests.engine.batch_runs import write_run
from tests.engine.comparison.test_suite_file import write_part, write_suite
from tests.engine.graded_runs import RIGHT, WRONG
from tests.models.batch_provider import BatchProvider


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_part(tmp_path, "good", RIGHT, pass_rate=0.5)
    write_part(tmp_path, "bad", WRONG, pass_rate=0.5)
    return tmp_path


def test_a_suite_fails_when_a_required_run_does(folder: Path) -> None:
    found = api.run_suite(write_suite(folder, {"run": "good.yaml"}, {"run": "bad.yaml"}), runs_dir=folder / "runs", run_id="night")
    assert (found.word, found.passed, found.is_finished) == ("REGRESSION", False, True)
    assert [one.run_id for one in found.runs] == ["night-good", "night-bad"]


def test_a_run_that_is_not_required_only_warns(folder: Path) -> None:
    suite = write_suite(folder, {"run": "good.yaml"}, {"run": "bad.yaml", "required": False})
    found = api.run_suite(suite, runs_dir=folder / "runs")
    assert (found.word, found.passed) == ("WARNING", True)


def test_a_suite_is_in_the_audit_log_after_the_gates_of_its_runs(folder: Path) -> None:
    api.run_suite(write_suite(folder, {"run": "good.yaml"}), runs_dir=folder / "runs", run_id="night")
    gated, suite = api.audit(folder / "runs")
    assert (gated["action"], suite["action"], suite["suite"], suite["runs"]) == ("gate", "suite", "nightly", ["night-good"])


def test_a_repeated_suite_goes_on_with_the_runs_that_it_has(folder: Path) -> None:
    suite = write_suite(folder, {"run": "good.yaml"})
    first, second = (api.run_suite(suite, runs_dir=folder / "runs", run_id="night") for _ in range(2))
    assert first.runs[0].run_id == second.runs[0].run_id
    assert len(list(api.list_runs(folder / "runs"))) == 1


def test_problems_of_all_run_files_are_found_before_the_first_call(folder: Path) -> None:
    (folder / "broken.yaml").write_text("datasets: [nowhere.jsonl]\ncandidate: x\n", encoding="utf-8")
    with pytest.raises(api.PlanProblems) as refused:
        api.plan_suite(
            write_suite(folder, {"run": "good.yaml"}, {"run": "broken.yaml"}, {"run": "gone.yaml"}), runs_dir=folder / "runs"
        )
    assert any("unknown key 'candidate'" in problem for problem in refused.value.problems)
    assert any("gone.yaml" in problem for problem in refused.value.problems)
    assert not (folder / "runs").exists()


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"mode": "superiority"}, "'good': --mode superiority needs a baseline"),
        ({"baseline": "nonesuch"}, "'good': there is no baseline and no run 'nonesuch'"),
    ],
)
def test_a_gate_that_could_not_be_decided_is_found_before_the_first_call(folder: Path, entry: dict[str, Any], problem: str) -> None:
    with pytest.raises(api.PlanProblems) as refused:
        api.plan_suite(write_suite(folder, {"run": "good.yaml", **entry}), runs_dir=folder / "runs")
    assert list(refused.value.problems) == [problem]


def test_a_run_that_evaluated_nothing_is_no_success(folder: Path) -> None:
    settings = {"datasets": [{"path": "good.jsonl"}], "candidates": [{"model": "scripted/fail-invalid_request"}]}
    (folder / "dead.yaml").write_text(json.dumps(settings), encoding="utf-8")
    found = api.run_suite(write_suite(folder, {"run": "dead.yaml"}), runs_dir=folder / "runs")
    assert (found.passed, found.is_finished, found.runs[0].verdict) == (False, True, None)
    assert "evaluated nothing" in found.runs[0].problem


def test_a_part_that_cannot_be_kept_in_a_shared_ledger_is_a_problem_before_any_run(folder: Path) -> None:
    with BatchProvider() as provider:
        write_run(folder, provider)
        suite = write_suite(folder, {"run": "good.yaml"}, {"run": "run.json"})
        with pytest.raises(api.PlanProblems) as refused:
            api.run_suite(suite, runs_dir=folder / "runs", placement=api.RunBackend(ledger="postgresql://127.0.0.1:9/none"))
    assert refused.value.problems == ("'run': a run with provider batches needs a local ledger",)
