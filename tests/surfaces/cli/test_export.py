"""`assay export`: which file it writes, what it says, and what it refuses."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from assay.surfaces.exports import EXPORTS
from assay.testing import example_dataset
from tests.commands import assay
from tests.engine.readers.test_record_search import half_done
from tests.surfaces.exports.exported_runs import hostile_run


@pytest.fixture(autouse=True)
def folder(workplace: Path) -> Path:
    """A working folder with a finished run of three records."""
    hostile_run(workplace, "A", "=1+1", "B")
    return workplace


@pytest.mark.parametrize("name", [name for name in EXPORTS if name != "eval-results"])
def test_without_a_path_the_file_is_named_after_run_and_format(name: str) -> None:
    result = assay("export", "latest", "--format", name)
    written = f"hostile{'.jsonl' if name == 'dataset' else EXPORTS[name].suffix}"
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith(f"{written} (")
    assert result.stdout.endswith(", 3 records)\n")
    assert Path(written).stat().st_size > 0


@pytest.mark.parametrize("name", ["table.csv", "TABLE.CSV", "table.jsonl", "table.json", "table.parquet", "table.xlsx"])
def test_the_ending_decides_the_format(name: str) -> None:
    told = json.loads(assay("export", "latest", "-o", name, "--json").stdout)
    assert (told["format"], told["records"], told["bytes"]) == (
        name.lower().removeprefix("table."),
        3,
        Path(name).stat().st_size,
    )


def test_what_is_there_is_replaced_only_when_asked_to() -> None:
    Path("kept.csv").write_text("mine", encoding="utf-8")
    refused = assay("export", "latest", "-o", "kept.csv")
    assert (refused.exit_code, Path("kept.csv").read_text(encoding="utf-8")) == (2, "mine")
    assert "--force" in refused.stderr
    assert assay("export", "latest", "-o", "kept.csv", "--force").exit_code == 0
    assert Path("kept.csv").read_text(encoding="utf-8").startswith("index,record_id")


def test_excel_gets_its_mark_only_when_asked_to() -> None:
    assay("export", "latest", "-o", "with.csv", "--bom")
    assay("export", "latest", "-o", "without.csv")
    assert Path("with.csv").read_bytes() == b"\xef\xbb\xbf" + Path("without.csv").read_bytes()


def test_standard_output_gets_the_file_and_nothing_else() -> None:
    lines = assay("export", "latest", "--format", "jsonl", "-o", "-").stdout.splitlines()
    assert [json.loads(line)["model_response"] for line in lines] == ["A", "=1+1", "B"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("-o", "table.ods"), "the ending of 'table.ods' names no format"),
        ((), "no output given"),
        (("-o", "table.json", "--bom"), "--bom is for CSV"),
        (("--format", "csv", "-o", "-", "--json"), "both write to standard output"),
        (("--format", "hf", "-o", "-"), "standard output cannot be"),
        (("-o", "nowhere/table.csv"), "there is no folder 'nowhere'"),
        (("--format", "jsonl", "-o", "runs/hostile/predictions.jsonl", "--force"), "part of a finished run"),
        (("-o", "runs/hostile/extra.csv"), "part of a finished run"),
    ],
)
def test_what_cannot_be_written_is_said_before_anything_is_done(arguments: tuple[str, ...], said: str) -> None:
    result = assay("export", "latest", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr


def test_a_folder_is_replaced_only_when_it_is_an_earlier_export() -> None:
    assert assay("export", "latest", "--format", "hf").stdout.startswith("hostile-hf (")
    assert assay("export", "latest", "--format", "hf").exit_code == 2
    assert assay("export", "latest", "--format", "hf", "--force").exit_code == 0
    Path("hostile-hf", "mine.txt").write_text("mine", encoding="utf-8")
    refused = assay("export", "latest", "--format", "hf", "--force")
    assert "is not an earlier export" in refused.stderr
    assert Path("hostile-hf", "mine.txt").read_text(encoding="utf-8") == "mine"
    assert sorted(path.name for path in Path().iterdir() if "hostile-hf" in path.name) == ["hostile-hf"]


def test_a_run_that_has_not_ended_is_refused_with_the_command_that_ends_it(tmp_path: Path) -> None:
    half_done(tmp_path)
    result = assay("export", "half", "-o", "half.csv")
    assert result.exit_code == 2
    assert "hint: resume it: assay resume half" in result.stderr
    assert not Path("half.csv").exists()


def test_a_folder_that_looks_like_an_export_and_is_not_is_left_alone() -> None:
    mine = Path("mine")
    (mine / "data").mkdir(parents=True)
    for name in ("README.md", "data/labels.csv"):
        (mine / name).write_text("precious", encoding="utf-8")
    assert assay("export", "latest", "--format", "hf", "-o", "mine", "--force").exit_code == 2
    (mine / "data" / "labels.csv").rename(mine / "data" / "test-00000-of-00001.parquet")
    assert "is not an earlier export" in assay("export", "latest", "--format", "hf", "-o", "mine", "--force").stderr
    assert (mine / "README.md").read_text(encoding="utf-8") == "precious"


def test_records_without_an_answer_are_not_counted_as_written(tmp_path: Path) -> None:
    Path("asked.json").write_bytes(example_dataset("golden_v1"))
    assay(
        "run", "asked.json", "--model", "scripted/fail-invalid_request", "--judge", "scripted/judge-4", "--run-id", "failed", "-q"
    )
    told = assay("export", "failed", "--format", "responses", "-o", str(tmp_path / "none.jsonl"))
    assert told.stdout.endswith("none.jsonl (0 bytes, 0 records)\n")
    assert "without an answer" in told.stderr


def test_a_pipe_is_written_as_it_is() -> None:
    command = [sys.executable, "-m", "assay", "export", "latest", "--format", "jsonl", "-o", "/dev/stdout"]
    written = subprocess.run(command, capture_output=True, check=True).stdout
    assert written.count(b'"record_id"') == 3


def test_invalid_records_are_said_to_be_left_out() -> None:
    records = [{"record_id": "good", "input": {"prompt": "?"}}, {"record_id": "bad", "input": {"prompt": 5}}]
    head = {"dataset_id": "half", "dataset_version": "1", "schema_version": "1.0"}
    Path("half.json").write_text(json.dumps({**head, "records": records}), encoding="utf-8")
    assay(
        "run",
        "half.json",
        "--model",
        "scripted/echo",
        "--judge",
        "scripted/judge-4",
        "--run-id",
        "half",
        "-q",
        "--on-invalid",
        "skip",
    )
    assert "left out: 1 invalid record; failures.jsonl" in assay("export", "half", "-o", "half.csv").stderr
    assert assay("export", "half", "-o", "half.xlsx").stderr == ""
    refused = assay("export", "half", "--format", "json", "-o", "half.json", "--force")
    assert "is one of the sources" in refused.stderr
