"""Runs with code of others that go on in another process, or in this one with the code given again."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import assay
from assay import api
from assay.core.errors import UsageProblem
from assay.engine.folders import folders_of
from assay.engine.run import open_or_create
from tests.plugins.datasets import predictions, run_words, words
from tests.plugins.functions import is_reference, last_word

GRADER = "def grade(record, answer):\n    return {score}\n"


def begun(folder: Path, **options: Any) -> str:
    """The id of a run that was planned and not begun."""
    plan = api.plan_runs(api.RunRequest(datasets=(str(words(folder)),), runs_dir=str(folder / "runs"), **options)).plans[0]
    open_or_create(plan, folders_of(folder / "runs", plan.run_id), at=time.time())
    return plan.run_id


def mine(folder: Path, name: str, score: float = 0.5) -> str:
    """A reference to a grader in a file of its own."""
    (folder / f"{name}.py").write_text(GRADER.format(score=score), encoding="utf-8")
    return f"{folder / name}.py:grade"


def test_functions_of_modules_are_found_again(tmp_path: Path) -> None:
    run_id = begun(tmp_path, models=(last_word,), grader=is_reference)
    result = api.resume(run_id, runs_dir=tmp_path / "runs")
    assert (result.state, result.metrics["pass_rate"]) == ("completed", 1)


def test_code_in_a_file_is_found_again_by_another_process(tmp_path: Path) -> None:
    run_id = begun(tmp_path, models=("scripted/echo",), grader=mine(tmp_path, "again"))
    command = [sys.executable, "-m", "assay", "resume", run_id, "--runs-dir", str(tmp_path / "runs"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert json.loads(done.stdout)["metrics"]["score_mean"] == 0.5


def test_code_that_has_changed_is_refused(tmp_path: Path) -> None:
    run_id = begun(tmp_path, models=("scripted/echo",), grader=mine(tmp_path, "changing"))
    mine(tmp_path, "changing", 0.9)
    with pytest.raises(UsageProblem, match=r"changing.py:grade' has changed since the run was planned"):
        api.resume(run_id, runs_dir=tmp_path / "runs")


def test_code_that_is_gone_is_named(tmp_path: Path) -> None:
    run_id = begun(tmp_path, models=("scripted/echo",), grader=mine(tmp_path, "going"))
    (tmp_path / "going.py").unlink()
    with pytest.raises(UsageProblem, match=r"going.py"):
        api.resume(run_id, runs_dir=tmp_path / "runs")


def test_a_lambda_must_be_given_again(tmp_path: Path) -> None:
    run_id = begun(tmp_path, models=(last_word,), grader=lambda *_: True)
    with pytest.raises(UsageProblem, match="was given in Python") as caught:
        api.resume(run_id, runs_dir=tmp_path / "runs")
    assert "assay.run" in caught.value.hint


def test_a_lambda_that_is_given_again_goes_on(tmp_path: Path) -> None:
    def grade(_record: assay.Case, _answer: str) -> bool:
        return True

    run_id = begun(tmp_path, models=(last_word,), grader=grade)
    result = run_words(tmp_path, run_id=run_id, model=last_word, grader=grade)
    assert [line["passed"] for line in predictions(result)] == [True, True, True]


def test_another_function_under_the_same_run_id_is_refused(tmp_path: Path) -> None:
    run_id = begun(tmp_path, models=(last_word,), grader=lambda *_: True)
    with pytest.raises(UsageProblem, match=r"other settings \(plugins\)"):
        run_words(tmp_path, run_id=run_id, model=last_word, grader=lambda *_: 0.25)


def test_failed_records_are_repeated_with_the_same_code(tmp_path: Path) -> None:
    failing = run_words(tmp_path, model="scripted/fail-refused", grader=is_reference)
    retried = api.retry(failing.run_id, runs_dir=tmp_path / "runs")
    assert retried.counts.total_records == 3
    assert assay.open_run(retried.run_dir).manifest["plan"]["plugins"][0]["name"] == "tests.plugins.functions:is_reference"
