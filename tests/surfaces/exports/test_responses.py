"""Answers go from one run into another, and are graded there as they were here."""

import json
from pathlib import Path
from typing import Any

import pytest

from assay import api
from tests.commands import assay
from tests.surfaces.exports.exported_runs import FORMULAS, ODD, hostile_run


@pytest.fixture(autouse=True)
def folder(workplace: Path) -> Path:
    """A working folder with a finished run."""
    assay("run", "golden.json", "--model", "scripted/echo", "--judge", "scripted/judge-any", "--run-id", "first", "--quiet")
    return workplace


def grades(run_id: str) -> list[dict[str, Any]]:
    names = ("record_id", "model_response", "response_sha256", "score", "raw_score", "passed", "justification", "evaluator_scores")
    return [{name: getattr(line, name) for name in names} for line in api.open_run(run_id).predictions()]


@pytest.mark.parametrize("name", ["answers.jsonl", "answers.json"])
def test_answers_of_one_run_are_graded_the_same_in_another(name: str) -> None:
    written = assay("export", "first", "--format", "responses", "-o", name)
    again = assay("run", "golden.json", "--responses", name, "--judge", "scripted/judge-any", "--run-id", "second", "--quiet")
    assert (written.exit_code, written.stderr) == (0, "")
    assert again.exit_code in (0, 1)
    assert grades("second") == grades("first")


def test_rows_are_those_of_the_artifact() -> None:
    assay("export", "first", "--format", "responses", "-o", "answers.jsonl")
    written, kept = (
        path.read_text(encoding="utf-8").splitlines() for path in map(Path, ("answers.jsonl", "runs/first/responses.jsonl"))
    )
    assert [json.loads(line) for line in written] == [json.loads(line) for line in kept]


def test_the_object_has_every_answer_under_its_id(tmp_path: Path) -> None:
    hostile_run(tmp_path, *FORMULAS, *ODD)
    assay("export", "hostile", "--format", "responses", "-o", "answers.json")
    assert list(json.loads(Path("answers.json").read_text(encoding="utf-8")).values()) == [*FORMULAS, *ODD]


def test_an_object_cannot_hold_several_answers_to_a_record() -> None:
    assay(
        *("run", "golden.json", "--model", "scripted/echo", "--judge", "scripted/judge-4"),
        *("--repeat", "2", "--run-id", "twice", "--quiet"),
    )
    result = assay("export", "twice", "--format", "responses", "-o", "answers.json")
    assert result.exit_code == 2
    assert "hint: write rows: -o answers.jsonl" in result.stderr
    assert not Path("answers.json").exists()


def test_records_without_an_answer_are_told_of() -> None:
    failing = ("--model", "scripted/fail-authentication_error", "--judge", "scripted/judge-4", "--run-id", "failed", "--quiet")
    assay("run", "golden.json", *failing)
    result = assay("export", "failed", "--format", "responses", "-o", "none.jsonl")
    assert (result.exit_code, Path("none.jsonl").read_bytes()) == (0, b"")
    assert "left out: 5 records without an answer" in result.stderr
