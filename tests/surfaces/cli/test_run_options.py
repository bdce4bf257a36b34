"""Options that commands on runs share."""

import json
from pathlib import Path

import pytest

from assay.testing import example_dataset
from tests.commands import assay, write_broken_batch
from tests.surfaces.cli.test_run import GOLDEN, RUN_FILE


@pytest.fixture(autouse=True)
def folder(workplace: Path) -> Path:
    """A working folder with a dataset of each kind, one of them with an invalid record, and a run file."""
    Path("questions.jsonl").write_bytes(example_dataset("legal_eval_v1"))
    write_broken_batch()
    Path("run.yaml").write_text(RUN_FILE, encoding="utf-8")
    return workplace


def test_options_win_over_the_run_file() -> None:
    result = assay("run", "run.yaml", "--judge", "scripted/judge-1", "--runs-dir", "other", "--run-id", "mine")
    assert result.exit_code == 1
    assert Path("other/mine/run_manifest.json").exists()


def test_the_environment_names_the_runs_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_RUNS_DIR", "elsewhere")
    result = assay("run", *GOLDEN, "--judge", "scripted/judge-4", "--run-id", "first")
    assert Path("elsewhere/first").is_dir()
    assert "next        assay show first sum-1\n" in result.stdout


def test_suggested_commands_name_an_unusual_runs_folder() -> None:
    result = assay("run", *GOLDEN, "--judge", "scripted/judge-4", "--run-id", "first", "--runs-dir", "my runs")
    assert "next        assay show first sum-1 --runs-dir 'my runs'\n" in result.stdout


@pytest.mark.parametrize(("record_id", "suggested"), [("sums:1", "first sums:1"), ("-1", "first -- -1")])
def test_the_suggested_command_shows_a_record_of_a_run_where_all_passed(record_id: str, suggested: str) -> None:
    text = Path("questions.jsonl").read_text(encoding="utf-8").replace("sums:1", record_id)
    Path("questions.jsonl").write_text(text, encoding="utf-8")
    said = assay("run", "questions.jsonl", "--model", "scripted/mcq-first", "--run-id", "first").stdout
    assert f"next        assay show {suggested}\n" in said
    assert assay("show", *suggested.split()).exit_code == 0


def test_the_suggested_command_names_no_record_without_an_id() -> None:
    broken = {"task_type": "mcq"}
    text = Path("questions.jsonl").read_text(encoding="utf-8")
    Path("questions.jsonl").write_text(f"{json.dumps(broken)}\n{text}", encoding="utf-8")
    options = ("--model", "scripted/mcq-first", "--on-invalid", "skip", "--run-id", "first")
    assert "next        assay show first sums:1\n" in assay("run", "questions.jsonl", *options).stdout
