"""Checks and graders of one run on every surface: terminal, comments, pages, files, exports, frames, MLflow."""

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

import assay
from assay import api
from assay.integrations.mlflow.run_data import run_data_of
from assay.presentation.run_report import view_of
from assay.surfaces.exports import EXPORTS
from assay.surfaces.exports.text_tables import ExportProgress
from assay.surfaces.python_api.runs import Runs
from assay.surfaces.reporters.comments import run_markdown
from assay.surfaces.reporters.formats import ReportSettings
from tests.commands import assay as command
from tests.engine.graded_files import PROMPT, graded, run_file
from tests.surfaces.exports.test_workbook import rows, workbook


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> assay.Run:
    return graded(tmp_path_factory.mktemp("graded"), run={"id": "graded"}, gates={"graders": {"house": 0.5}})


def reader(run: assay.Run) -> api.RunReader:
    return api.open_run(run.run_id, runs_dir=run.folders.runs_dir)


def shown(run: assay.Run, *words: str) -> str:
    return command(*words, "--runs-dir", str(run.folders.runs_dir)).stdout


def test_the_terminal_shows_a_run_and_a_record(run: assay.Run) -> None:
    report = shown(run, "show", "graded")
    assert "exact  equals  2  50.0 % [9.5 %, 90.5 %]\n" in report
    assert re.search(r"^polite +tone +1 +0\.90$", report, re.MULTILINE)
    assert "grader      form · primary · checks exact · all must pass\n" in report
    assert "polite  plugin           error" in shown(run, "show", "graded", "b")


def test_a_comment_has_a_table_of_each(run: assay.Run) -> None:
    text = "".join(run_markdown([view_of(reader(run))], ReportSettings(version="9")))
    assert "### Checks\n\n| check | type | n | pass rate |\n" in text
    assert "| `house` | judge | 2 | 100.0 % [34.2 %, 100.0 %] |" in text


def test_csv_has_a_column_for_each_check_and_grader(run: assay.Run) -> None:
    text = b"".join(EXPORTS["csv"].write(reader(run), ExportProgress())).decode("utf-8-sig")
    first, second = csv.DictReader(io.StringIO(text, newline=""))
    assert (first["checks.exact"], first["graders.form"], first["graders.polite"], first["graders.polite.score"]) == (
        "true",
        "true",
        "false",
        "0.5",
    )
    assert (second["graders.polite"], second["graders.polite.score"]) == ("", "")
    assert json.loads(second["checks"])[0]["reason"] == "the answer 'Lyon!' is not 'Paris'"


def test_a_workbook_has_sheets_of_checks_and_of_graders(run: assay.Run) -> None:
    book = workbook(reader(run))
    assert [row["passed"] for row in rows(book, "Checks")] == [True, False]
    assert [(row["name"], row["status"]) for row in rows(book, "Graders")][3:] == [
        ("form", "graded"),
        ("polite", "error"),
        ("house", "graded"),
    ]
    figures = {row["figure"]: row["value"] for row in rows(book, "Summary")}
    assert (figures["checks.exact"], figures["graders.house"], figures["graders.polite.tone"]) == (0.5, 1, 0.9)
    assert rows(book, "Slices")[0]["checks.exact"] == 0.5


def test_parquet_and_frames_have_typed_columns(run: assay.Run) -> None:
    pytest.importorskip("pyarrow")
    table = run.to_arrow()
    assert table.column("checks.exact").to_pylist() == [True, False]
    assert table.column("graders.polite.score").to_pylist() == [0.5, None]
    assert b"".join(EXPORTS["parquet"].write(reader(run), ExportProgress()))[:4] == b"PAR1"
    frame = run.to_pandas()
    assert str(frame["checks.exact"].dtype) == "boolean"
    assert run.to_polars()["graders.house"].to_list() == [True, True]


def test_runs_with_other_checks_make_one_table(run: assay.Run, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    other = graded(tmp_path, graders=[], checks=[{"type": "length", "max": 9, "name": "short"}])
    found = Runs([run, other]).to_arrow()
    assert found.column("checks.exact").to_pylist() == [True, False, None, None]
    assert found.column("checks.short").to_pylist() == [None, None, True, True]


def test_junit_has_rates_and_gates_by_name(run: assay.Run, tmp_path: Path) -> None:
    command("gate", "graded", "--runs-dir", str(run.folders.runs_dir), "--junit", str(tmp_path / "j.xml"))
    text = (tmp_path / "j.xml").read_text(encoding="utf-8")
    assert '<property name="checks.exact" value="50.0 % [9.5 %, 90.5 %]"/>' in text
    assert "name=\"pass rate of the grader 'house'\"" in text


def test_mlflow_gets_metrics_by_name(run: assay.Run) -> None:
    found = run_data_of(reader(run)).metrics
    assert found["checks/exact/pass_rate"] == 0.5
    assert found["graders/house/pass_rate_low"] == pytest.approx(0.3424, abs=1e-3)
    assert found["graders/polite/scores/tone"] == 0.9


def test_the_report_in_one_file_has_them_too(run: assay.Run, tmp_path: Path) -> None:
    text = run.report(tmp_path / "run.html").read_text(encoding="utf-8")
    assert "<h2>Checks</h2>" in text
    assert "<h2>Scores of graders</h2>" in text


def test_a_gate_of_the_command_line_is_by_name(run: assay.Run) -> None:
    folder = ("--runs-dir", str(run.folders.runs_dir))
    assert command("gate", "graded", "--check-gate", "exact=0.5", *folder).exit_code == 0
    missed = command("gate", "graded", "--check-gate", "exact=0.9", "--grader-gate", "house=0.9", *folder)
    assert (missed.exit_code, "pass rate of the check 'exact' 50.0 % is below 90.0 %" in missed.stdout) == (1, True)
    unknown = command("gate", "graded", "--check-gate", "exat=0.9", *folder)
    assert (unknown.exit_code, unknown.stderr) == (2, "assay: the run has no check 'exat'\nhint: did you mean 'exact'?\n")
    wrong = command("gate", "graded", "--check-gate", "exact=9", *folder)
    assert (wrong.exit_code, "--check-gate 'exact' needs a pass rate from 0 to 1" in wrong.stderr) == (2, True)


def test_a_comparison_has_a_row_for_each(run: assay.Run) -> None:
    text = shown(run, "compare", "graded", "graded")
    assert "check   exact   2   50.0 %   50.0 %" in text
    assert "grader  house   2  100.0 %  100.0 %" in text


def test_checks_are_given_on_the_command_line(tmp_path: Path) -> None:
    run_file(tmp_path)
    given = ("--responses", str(tmp_path / "answers.jsonl"), "--runs-dir", str(tmp_path / "runs"), "--run-id", "quick", "--quiet")
    checks = ("--check", "equals", "--check", "{type: length, max: 9, name: short}")
    result = command("run", str(tmp_path / "caps.jsonl"), *given, *checks, "--check-gate", "short=1")
    assert result.exit_code == 0
    assert "short   length  2  100.0 %" in result.stdout
    wrong = command("run", str(tmp_path / "caps.jsonl"), *given, "--check", "equal")
    assert (wrong.exit_code, "did you mean 'equals'?" in wrong.stderr) == (2, True)


def test_a_prompt_is_tried_on_the_command_line(run: assay.Run, tmp_path: Path) -> None:
    prompt = tmp_path / "own.txt"
    prompt.write_text(PROMPT, encoding="utf-8")
    folder = ("--runs-dir", str(run.folders.runs_dir))
    tried = command("judge", "try", str(prompt), "a", "--run", "graded", *folder)
    assert (tried.exit_code, "result      passed · score 1.00 on 0/1\n" in tried.stdout) == (0, True)
    unread = command("judge", "try", str(prompt), "a", *folder, "--judge", "scripted/say-no", "--json")
    found: dict[str, Any] = json.loads(unread.stdout)
    assert (unread.exit_code, found["status"], len(found["replies"])) == (1, "error", 2)
    prompt.write_text("{{answr}}", encoding="utf-8")
    wrong = command("judge", "try", str(prompt), "a", *folder)
    assert (wrong.exit_code, "unknown placeholder '{{answr}}'; did you mean 'answer'?" in wrong.stderr) == (2, True)
