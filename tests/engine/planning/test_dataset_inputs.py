"""Folders and patterns as datasets of a run: which files they stand for, in which order, and what is said of each."""

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import in_one_line, problem_count
from assay.engine.planning.dataset_inputs import FAULTY_FILES
from assay.engine.planning.request import RunRequest
from assay.engine.planning.selection import prepared_records
from tests.engine.run_settings import mcq_row, planned, problems_of, write_rows

MODEL = "scripted/say-A"


def _request(*datasets: Path, **members: Any) -> RunRequest:
    return RunRequest(datasets=tuple(map(str, datasets)), models=(MODEL,), runs_dir=str(datasets[0].parent / "runs"), **members)


def _folder(tmp_path: Path, *names: str) -> Path:
    """A folder with a row in each of its files, whose id is the name of the file."""
    for name in names:
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_rows(path, mcq_row(name))
    return tmp_path / "data"


def test_a_folder_is_all_its_datasets_in_the_order_of_their_names(tmp_path: Path) -> None:
    folder = _folder(tmp_path, "part-2.jsonl", "part-1.jsonl", "more/part-1.jsonl")
    runs = planned(_request(folder))
    assert [dataset.name for dataset in runs.plans[0].datasets] == ["more/part-1", "part-1", "part-2"]
    ids = [row.record_id for row in prepared_records(runs.plans[0], runs.inputs)]
    assert ids == ["more/part-1.jsonl", "part-1.jsonl", "part-2.jsonl"]


def test_each_file_of_a_folder_has_its_own_hash(tmp_path: Path) -> None:
    folder = _folder(tmp_path, "a.jsonl", "b.jsonl")
    whole = planned(_request(folder)).plans[0].datasets
    single = [planned(_request(folder / name)).plans[0].datasets[0] for name in ("a.jsonl", "b.jsonl")]
    assert list(whole) == single


def test_packed_files_are_read_like_the_others(tmp_path: Path) -> None:
    folder = _folder(tmp_path, "a.jsonl")
    (folder / "b.jsonl.gz").write_bytes(gzip.compress(json.dumps(mcq_row("packed")).encode()))
    runs = planned(_request(folder))
    assert [dataset.name for dataset in runs.plans[0].datasets] == ["a", "b"]
    assert [row.record_id for row in prepared_records(runs.plans[0], runs.inputs)] == ["a.jsonl", "packed"]


def test_a_pattern_is_the_files_that_match(tmp_path: Path) -> None:
    folder = _folder(tmp_path, "x-2.jsonl", "x-1.jsonl", "y.jsonl")
    assert [dataset.name for dataset in planned(_request(folder / "x-*.jsonl")).plans[0].datasets] == ["x-1", "x-2"]


def test_a_folder_is_named_like_any_dataset_in_a_run_file(tmp_path: Path) -> None:
    _folder(tmp_path, "a.jsonl", "b.jsonl")
    (tmp_path / "run.yaml").write_text(f"candidates: [{MODEL}]\ndatasets: [{{path: data, name: law, limit: 1}}]\n")
    runs = planned(RunRequest(run_file=str(tmp_path / "run.yaml"), runs_dir=str(tmp_path / "runs")))
    assert [(dataset.name, dataset.limit) for dataset in runs.plans[0].datasets] == [("law/a", 1), ("law/b", 1)]


def test_files_whose_names_differ_in_their_endings_alone_are_told_apart(tmp_path: Path) -> None:
    folder = _folder(tmp_path, "a.jsonl", "a.ndjson")
    assert [dataset.name for dataset in planned(_request(folder)).plans[0].datasets] == ["a", "a.ndjson"]


def test_what_is_no_dataset_is_left_out_and_named(tmp_path: Path) -> None:
    folder = _folder(tmp_path, "a.jsonl", ".hidden/b.jsonl")
    (folder / "package.json").write_text('{"name": "something else"}')
    runs = planned(_request(folder))
    assert [dataset.name for dataset in runs.plans[0].datasets] == ["a"]
    assert [note for note in runs.notes if "package.json" in note and "shows no contract" in note]


def test_the_runs_in_a_folder_are_no_datasets_of_it(tmp_path: Path) -> None:
    folder = _folder(tmp_path, "a.jsonl", "runs/earlier/b.jsonl")
    request = RunRequest(datasets=(str(folder),), models=(MODEL,), runs_dir=str(folder / "runs"))
    assert [dataset.name for dataset in planned(request).plans[0].datasets] == ["a"]


def test_folders_of_runs_are_left_out_of_a_folder_and_said_in_one_line(tmp_path: Path) -> None:
    folder = _folder(tmp_path, "a.jsonl", "archive/one/input/b.jsonl", "archive/two/c.jsonl", "runs/three/d.jsonl")
    for name in ("archive/one", "archive/two"):
        (folder / name / "run_manifest.json").write_text("{}")
    request = RunRequest(datasets=(str(folder),), models=(MODEL,), runs_dir=str(folder / "runs"))
    runs = planned(request)
    assert [dataset.name for dataset in runs.plans[0].datasets] == ["a"]
    (note,) = [note for note in runs.notes if "left out" in note]
    assert note == f"'{folder / 'archive' / 'one'}' and 2 more like it left out: runs are not datasets"


def test_the_folder_of_a_run_is_read_where_it_is_named(tmp_path: Path) -> None:
    folder = _folder(tmp_path, "a.jsonl")
    (folder / "run_manifest.json").write_text("{}")
    assert [dataset.name for dataset in planned(_request(folder)).plans[0].datasets] == ["a"]


def test_problems_are_named_by_file_and_line(tmp_path: Path) -> None:
    folder = _folder(tmp_path, "a.jsonl", "b.jsonl", "c.jsonl")
    write_rows(folder / "b.jsonl", mcq_row("good"), mcq_row("bad", choices="none"))
    problems = "\n".join(problems_of(_request(folder)))
    assert f"'{folder / 'b.jsonl'}' has 1 invalid record(s)" in problems
    assert f"{folder / 'b.jsonl'}:2:" in problems
    assert "a.jsonl" not in problems


def test_an_id_in_two_files_is_a_problem_with_both_places(tmp_path: Path) -> None:
    folder = _folder(tmp_path, "a.jsonl", "b.jsonl")
    write_rows(folder / "b.jsonl", mcq_row("other"), mcq_row("a.jsonl"))
    (problem,) = problems_of(_request(folder))
    assert f"{folder / 'a.jsonl'}:1 and {folder / 'b.jsonl'}:2" in problem


def test_many_broken_files_are_counted(tmp_path: Path) -> None:
    folder = _folder(tmp_path, *(f"{number:02}.jsonl" for number in range(FAULTY_FILES + 3)))
    for file in folder.iterdir():
        write_rows(file, mcq_row(file.name, choices="none"))
    problems = problems_of(_request(folder))
    assert "3 more files are not usable" in problems
    assert sum("is not usable as" in problem for problem in problems) == FAULTY_FILES


def test_a_heading_is_not_counted_as_a_problem(tmp_path: Path) -> None:
    folder = _folder(tmp_path, "a.jsonl")
    write_rows(folder / "a.jsonl", *(mcq_row(f"q{number}", choices="none") for number in range(30)))
    lines = problems_of(_request(folder))
    assert "is not usable as" in lines[0]
    assert len(lines) < 15
    assert problem_count(lines) == 30
    assert in_one_line(lines).startswith(f"30 problems: {lines[0]} {lines[1]}; ")


def test_a_problem_has_the_hint_of_validation(tmp_path: Path) -> None:
    row = mcq_row("q")
    write_rows(tmp_path / "a.jsonl", {"promt" if name == "prompt" else name: value for name, value in row.items()})
    assert "prompt is required (is it written as 'promt'?)" in "\n".join(problems_of(_request(tmp_path / "a.jsonl")))


def test_a_name_where_nothing_is_suggests_its_neighbour(tmp_path: Path) -> None:
    (tmp_path / "evaluation.yaml").write_text("candidates: []\n")
    request = RunRequest(datasets=(str(tmp_path / "evaluation.yml"),), runs_dir=str(tmp_path / "runs"))
    (problem,) = problems_of(request)
    assert problem.endswith(f"no such file or directory (did you mean '{tmp_path / 'evaluation.yaml'}'?)")


def test_conversations_that_cannot_be_used_ask_for_no_candidate(tmp_path: Path) -> None:
    (tmp_path / "talk.yaml").write_text("- turn_id: 1\n  message: Hello\n")
    (tmp_path / "golden.json").write_text('{"version": "1.0.0", "cases": []}')
    of_conversation, of_golden = (
        "\n".join(problems_of(RunRequest(datasets=(str(tmp_path / name),), judges=("scripted/judge-4",), runs_dir=str(tmp_path))))
        for name in ("talk.yaml", "golden.json")
    )
    assert "speaker is required" in of_conversation
    assert "no candidate is named" not in of_conversation
    assert "no candidate is named" in of_golden


@pytest.mark.parametrize(("name", "problem"), [("", "no datasets in folder"), ("*.jsonl", "no file matches")])
def test_nothing_to_read_is_a_problem(tmp_path: Path, name: str, problem: str) -> None:
    (tmp_path / "data").mkdir()
    assert problem in problems_of(_request(tmp_path / "data" / name))[0]


def test_a_named_contract_takes_every_file_of_a_folder(tmp_path: Path) -> None:
    folder = _folder(tmp_path, "a.jsonl")
    (folder / "b.jsonl").write_text('{"unlike": "any contract"}\n')
    problems = problems_of(_request(folder, contract="legal_eval_v1"))
    assert f"'{folder / 'b.jsonl'}' is not usable as legal_eval_v1" in problems[0]


def test_a_file_that_calls_itself_packed_and_is_not_is_refused_not_left_out(tmp_path: Path) -> None:
    folder = _folder(tmp_path, "a.jsonl")
    (folder / "b.jsonl.gz").write_bytes(b"<html>not found</html>")
    assert any("b.jsonl.gz" in problem for problem in problems_of(_request(folder)))


def test_a_link_to_a_pipe_is_no_dataset_of_a_folder(tmp_path: Path) -> None:
    folder = _folder(tmp_path, "a.jsonl")
    os.mkfifo(tmp_path / "pipe")
    (folder / "b.jsonl").symlink_to(tmp_path / "pipe")
    assert [dataset.name for dataset in planned(_request(folder)).plans[0].datasets] == ["a"]


def test_a_name_that_is_no_text_is_refused_before_any_call(tmp_path: Path) -> None:
    folder = _folder(tmp_path, "a.jsonl", os.fsdecode(b"b-\xff.jsonl"))
    assert any("is not UTF-8" in problem for problem in problems_of(_request(folder)))
