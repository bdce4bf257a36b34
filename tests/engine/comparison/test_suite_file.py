import json
from pathlib import Path
from typing import Any

import pytest

from assay import api
from tests.engine.graded_runs import RIGHT, WRONG, question
from tests.engine.run_settings import write_rows

ROWS = [question(f"q{number}") for number in range(8)]


def write_part(folder: Path, name: str, answer: str, **gates: float) -> None:
    """A run file whose answers are all the same."""
    write_rows(folder / f"{name}.jsonl", *ROWS)
    answers = ({"example_id": row["id"], "candidate_name": "big", "response_text": answer} for row in ROWS)
    write_rows(folder / f"{name}-answers.jsonl", *answers)
    settings = {"datasets": [{"path": f"{name}.jsonl"}], "run": {"responses": f"{name}-answers.jsonl"}, "gates": gates}
    (folder / f"{name}.yaml").write_text(json.dumps(settings), encoding="utf-8")


def write_suite(folder: Path, *entries: dict[str, Any]) -> Path:
    path = folder / "suite.yaml"
    path.write_text(json.dumps({"suite": "nightly", "runs": entries}), encoding="utf-8")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_part(tmp_path, "good", RIGHT, pass_rate=0.5)
    write_part(tmp_path, "bad", WRONG, pass_rate=0.5)
    return tmp_path


def test_a_run_file_may_have_any_name(folder: Path) -> None:
    (folder / "good.yaml").rename(folder / "güt & good.yaml")
    (folder / "bad.yaml").rename(folder / "☕.yaml")
    suite = write_suite(folder, {"run": "güt & good.yaml"}, {"run": "☕.yaml"})
    assert [one.run_id for one in api.run_suite(suite, runs_dir=folder / "runs", run_id="night").runs] == [
        "night-g-t-good",
        "night-run",
    ]


def test_everything_that_is_wrong_with_a_suite_is_said_at_once_and_nothing_runs(folder: Path) -> None:
    entries = ({"run": "good.yaml", "mode": "non-inferiority"}, {"run": "good.yaml", "dleta": 1}, {"run": "x.yaml", "delta": 0.1})
    with pytest.raises(api.PlanProblems) as refused:
        api.plan_suite(write_suite(folder, *entries), runs_dir=folder / "runs")
    assert [problem.split(": ", 1)[1] for problem in refused.value.problems] == [
        "unknown key 'dleta' (did you mean 'delta'?)",
        "'good' needs `delta`, the loss that is acceptable",
        "a second run is called 'good' (give it a `name`)",
        "'x' has a `delta` without mode non-inferiority",
    ]


def test_a_run_file_that_cannot_be_read_is_a_problem_of_its_suite(folder: Path) -> None:
    with pytest.raises(api.PlanProblems, match=r"none\.yaml"):
        api.plan_suite(write_suite(folder, {"run": "none.yaml"}), runs_dir=folder / "runs")
