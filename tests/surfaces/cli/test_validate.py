"""`assay validate` through its entry, in this process."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from assay.testing import example_dataset
from tests.commands import assay

TURNS = [{"turn_id": 1, "speaker": "user", "message": "Hello"}, {"turn_id": 2, "speaker": "assistant", "assistant_reply": "Hi"}]
GAP = [TURNS[0], {**TURNS[1], "turn_id": 3}]


def written(folder: Path, name: str, value: Any) -> Path:
    path = folder / name
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


@pytest.fixture
def good(tmp_path: Path) -> Path:
    return written(tmp_path, "good.json", TURNS)


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    return written(tmp_path, "bad.json", GAP)


def test_a_valid_file_exits_0_and_says_what_it_was_read_as(good: Path) -> None:
    result = assay("validate", good)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == f"{good} · conversation_v1 · accepted · 2 turns\n1 file: 1 accepted · 0 errors\n"


def test_an_invalid_file_exits_1_and_shows_the_place(bad: Path) -> None:
    result = assay("validate", bad)
    assert result.exit_code == 1
    assert f"{bad}:1:" in result.stdout
    assert "error[value_out_of_range]" in result.stdout


def test_one_invalid_file_among_valid_ones_exits_1(good: Path, bad: Path) -> None:
    result = assay("validate", good, bad)
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (1, "2 files: 1 accepted, 1 accepted with record errors · 1 error")


def test_json_goes_to_standard_output_in_the_documented_shape(bad: Path) -> None:
    part = json.loads(assay("validate", bad, "--format", "json").stdout)["files"][0]
    sent = ["candidate_and_judge", "judge_only", "not_sent"]
    assert list(part) == ["path", "contract", "outcome", "summary", *sent, "dataset_errors", "record_errors", "warnings"]
    assert part["record_errors"][0]["error_type"] == "sequence_error"


def test_standard_input_is_a_dash() -> None:
    result = assay("validate", "-", "--format", "json", stdin=json.dumps(TURNS))
    assert (result.exit_code, json.loads(result.stdout)["files"][0]["path"]) == (0, "-")


def test_a_line_that_is_no_object_is_called_a_row() -> None:
    result = assay("validate", "-", "--contract", "legal_eval_v1", stdin="[1]\n{}\n")
    assert "-:1:1: error[invalid_field_type] the row must be an object, not an array" in result.stdout


def test_gzip_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "turns.json.gz"
    path.write_bytes(gzip.compress(json.dumps(TURNS).encode()))
    assert assay("validate", path).exit_code == 0


def test_a_gzip_file_of_any_size_is_unpacked(tmp_path: Path, good: Path) -> None:
    path = tmp_path / "example.json.gz"
    path.write_bytes(gzip.compress(example_dataset("batch_v1")))
    assert path.stat().st_size > 256
    result = assay("validate", path, good)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines()[-1] == "2 files: 2 accepted · 0 errors"


def test_a_glob_and_a_folder_name_each_file_once(tmp_path: Path, good: Path, bad: Path) -> None:
    result = assay("validate", tmp_path, f"{tmp_path}/*.json", good, bad)
    assert result.stdout.splitlines()[-1].startswith("2 files:")


def test_the_contract_can_be_forced(good: Path) -> None:
    result = assay("validate", good, "--contract", "batch_v1", "--format", "json")
    assert (result.exit_code, json.loads(result.stdout)["files"][0]["contract"]) == (1, "batch_v1")


def test_console_is_another_name_of_text(bad: Path) -> None:
    assert assay("validate", bad, "--format", "console").stdout == assay("validate", bad).stdout


@pytest.mark.parametrize("option", ["--output", "--report", "-o"])
def test_the_report_goes_to_a_file_and_a_summary_to_standard_error(option: str, tmp_path: Path, bad: Path) -> None:
    target = tmp_path / "report.json"
    result = assay("validate", bad, "--format", "json", option, target)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"1 file: 1 accepted with record errors · 1 error · report in {target}\n"
    assert json.loads(target.read_bytes())["files"][0]["path"] == str(bad)


def test_warnings_pass_unless_strict(tmp_path: Path) -> None:
    unknown_field = written(tmp_path, "mood.json", [{**TURNS[0], "mood": "happy"}])
    assert assay("validate", unknown_field).exit_code == 0
    assert assay("validate", unknown_field, "--strict").exit_code == 1


def test_a_config_changes_the_rules(tmp_path: Path, bad: Path) -> None:
    config = written(tmp_path, "rules.yaml", "check_turn_sequence: false\n")
    assert assay("validate", bad, "--config", config).exit_code == 0


def test_max_issues_limits_every_format(tmp_path: Path) -> None:
    many = written(tmp_path, "many.json", [{"turn_id": n, "speaker": "x"} for n in range(1, 11)])
    shown = assay("validate", many, "--format", "jsonl", "--max-issues", "3").stdout
    assert len(shown.splitlines()) == 3


def test_verbose_shows_look_alikes_in_full(tmp_path: Path) -> None:
    many = written(tmp_path, "many.json", [{"turn_id": n, "speaker": "bot", "message": "x"} for n in range(1, 11)])
    assert "more like this" in assay("validate", many).stdout
    assert assay("validate", many, "--verbose").stdout.count("error[invalid_enum_value]") == 10


def test_no_colour_without_a_terminal(bad: Path) -> None:
    assert "\x1b" not in assay("validate", bad).stdout


def test_an_unreadable_file_does_not_stop_the_others(tmp_path: Path, bad: Path) -> None:
    result = assay("validate", tmp_path / "none.json", bad, "--format", "jsonl")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"assay: no such file or folder: '{tmp_path}/none.json'\n")
    assert len(result.stdout.splitlines()) == 1


def test_a_damaged_gzip_file_is_named_and_the_others_are_validated(tmp_path: Path, good: Path) -> None:
    damaged = tmp_path / "cut.json.gz"
    damaged.write_bytes(gzip.compress(json.dumps(TURNS).encode())[:-9])
    result = assay("validate", damaged, good)
    assert (result.exit_code, result.stderr.count("assay: ")) == (2, 1)
    assert result.stdout.endswith("1 file: 1 accepted · 0 errors\n")


def test_a_corrected_copy_is_written_and_each_change_listed(tmp_path: Path) -> None:
    source = tmp_path / "bom.json"
    source.write_bytes(b"\xef\xbb\xbf" + json.dumps(TURNS).encode())
    target = tmp_path / "fixed.json"
    result = assay("validate", source, "--fix", target)
    assert (result.exit_code, result.stdout.splitlines()[0]) == (0, f"{target} · corrected copy · 1 change")
    assert json.loads(target.read_bytes()) == TURNS
    assert source.read_bytes().startswith(b"\xef\xbb\xbf")


def test_fixes_are_part_of_the_json_report(tmp_path: Path) -> None:
    source = tmp_path / "bom.json"
    source.write_bytes(b"\xef\xbb\xbf" + json.dumps(TURNS).encode())
    part = json.loads(assay("validate", source, "--fix", tmp_path / "fixed.json", "--format", "json").stdout)["files"][0]
    assert len(part["fixes"]) == 1
    assert set(part["fixes"][0]) == {"line", "path", "message"}


def test_a_file_of_any_size_is_linted_unless_that_is_switched_off(tmp_path: Path) -> None:
    head = {"schema_version": "legal_eval_v1", "id": "a", "dataset": "d", "task_type": "rubric_qa", "prompt": "p"}
    row = {**head, "rubric": [{"id": "c", "title": "TBD"}], "context": "x" * (9 << 20)}
    path = written(tmp_path, "large.jsonl", row)
    said = [assay("validate", path, *options).stdout for options in ((), ("--lint",), ("--no-lint",))]
    assert ["warning[unscorable_criterion]" in text for text in said] == [True, True, False]


def test_warnings_about_rubrics_fail_a_strict_validation_only(tmp_path: Path) -> None:
    head = {"schema_version": "legal_eval_v1", "id": "a", "dataset": "d", "task_type": "rubric_qa", "prompt": "p"}
    path = written(tmp_path, "rubric.jsonl", {**head, "rubric": [{"id": "c", "title": "TBD"}]})
    assert [assay("validate", path, *options).exit_code for options in ((), ("--strict",), ("--strict", "--no-lint"))] == [0, 1, 0]


@pytest.mark.parametrize("option", ["--fix", "--output"])
def test_an_option_is_not_taken_for_the_name_of_an_output(tmp_path: Path, option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.jsonl").write_text("{}\n")
    result = assay("validate", option, "--null-as-absent", "rows.jsonl")
    assert result.exit_code == 2
    assert f"{option} needs the name of a file, and '--null-as-absent' looks like an option" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"]
