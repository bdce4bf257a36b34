"""Records of several runs side by side."""

import json
from pathlib import Path

import pytest

from assay import api
from assay.core.errors import RunDamaged
from tests.engine.graded_runs import RIGHT, WRONG, graded, group, passing, question

ROWS = [question(f"q-{number}") for number in range(6)]


@pytest.fixture
def several(tmp_path: Path) -> api.RunGroup:
    """Three candidates: `big` fails the last record, `small` the last three, `other` the first."""
    failing = {"big": (5,), "small": (3, 4, 5), "other": (0,)}
    group(tmp_path, "night", ROWS, {name: passing(ROWS, *places) for name, places in failing.items()})
    return api.open_group("night", runs_dir=tmp_path / "runs")


def test_a_row_has_what_each_candidate_answered_and_came_to(several: api.RunGroup) -> None:
    matrix = api.run_matrix(several.runs)
    assert [column.title for column in matrix.columns] == ["big", "small", "other"]
    assert [column.run_ids for column in matrix.columns] == [("night-big",), ("night-small",), ("night-other",)]
    rows = list(matrix.rows())
    assert [row.record_id for row in rows] == [row["id"] for row in ROWS]
    assert [[cell and cell.passed for cell in row.cells] for row in rows] == [
        [True, True, False],
        [True, True, True],
        [True, True, True],
        [True, False, True],
        [True, False, True],
        [False, False, True],
    ]
    assert [cell and cell.model_response for cell in rows[3].cells] == [RIGHT, WRONG, RIGHT]
    assert rows[3].case is not None
    assert (rows[3].case.id, rows[3].case.prompt, rows[3].sample, rows[3].is_changed) == ("q-3", "Is it?", None, False)


def test_of_many_records_those_on_which_the_candidates_differ_come_first(several: api.RunGroup) -> None:
    matrix = api.run_matrix(several.runs)
    assert (len(matrix), matrix.n_differing) == (6, 4)
    # In the order of the dataset, whatever they are chosen by.
    assert matrix.telling(4) == [0, 3, 4, 5]
    assert matrix.telling(None) == list(range(6))
    assert [row.record_id for row in matrix.rows([5, 0])] == ["q-5", "q-0"]


def test_records_that_none_passed_come_before_those_that_all_passed(tmp_path: Path) -> None:
    group(tmp_path, "night", ROWS, {"big": passing(ROWS, 4), "small": passing(ROWS, 4)})
    matrix = api.run_matrix(api.open_group("night", runs_dir=tmp_path / "runs").runs)
    assert (matrix.n_differing, matrix.telling(1)) == (0, [4])


def test_a_record_with_other_contents_is_marked(tmp_path: Path) -> None:
    changed = [question("q-0", prompt="Is it not?"), *ROWS[1:]]
    graded(tmp_path, "a", ROWS, passing(ROWS), group="night")
    graded(tmp_path, "b", changed, passing(changed), group="night")
    rows = list(api.run_matrix(api.open_group("night", runs_dir=tmp_path / "runs").runs).rows())
    assert [row.is_changed for row in rows] == [True, False, False, False, False, False]


def test_two_runs_of_one_candidate_over_the_same_records_have_a_column_each(tmp_path: Path) -> None:
    for run_id, failing in (("a", 1), ("b", 2)):
        graded(tmp_path, run_id, ROWS, passing(ROWS, failing), group="night")
    matrix = api.run_matrix(api.open_group("night", runs_dir=tmp_path / "runs").runs)
    assert [column.title for column in matrix.columns] == ["big (a)", "big (b)"]


def test_runs_of_one_candidate_over_different_records_share_a_column(tmp_path: Path) -> None:
    graded(tmp_path, "a", ROWS[:3], passing(ROWS[:3]), group="night")
    graded(tmp_path, "b", ROWS[3:], passing(ROWS[3:]), group="night")
    (column,) = (matrix := api.run_matrix(api.open_group("night", runs_dir=tmp_path / "runs").runs)).columns
    assert (column.title, column.run_ids, len(matrix)) == ("big", ("a", "b"), 6)
    assert [row.cells[0] and row.cells[0].record_id for row in matrix.rows()] == [row["id"] for row in ROWS]


def test_a_record_that_only_one_run_has_is_empty_for_the_other(tmp_path: Path) -> None:
    graded(tmp_path, "a", ROWS[:4], passing(ROWS[:4]), group="night")
    dataset = tmp_path / "law.jsonl"
    dataset.write_text("".join(json.dumps(row) + "\n" for row in ROWS[2:]), encoding="utf-8")
    api.run(dataset, model="scripted/mcq-first", run_id="b", group="night", runs_dir=str(tmp_path / "runs"))
    rows = {row.record_id: row for row in api.run_matrix(api.open_group("night", runs_dir=tmp_path / "runs").runs).rows()}
    assert [tuple(cell is not None for cell in rows[f"q-{number}"].cells) for number in (0, 2, 5)] == [
        (True, False),
        (True, True),
        (False, True),
    ]
    question_of_last = rows["q-5"].case
    assert question_of_last is not None
    assert question_of_last.id == "q-5"


def test_each_answer_to_a_record_that_is_asked_several_times_is_a_row(tmp_path: Path) -> None:
    dataset = tmp_path / "law.jsonl"
    dataset.write_text(json.dumps(ROWS[0]) + "\n", encoding="utf-8")
    options = {"models": ("scripted/mcq-first", "scripted/mcq-last"), "repeat": 3, "runs_dir": str(tmp_path / "runs")}
    api.run(dataset, run_id="night", **options)
    rows = list(api.run_matrix(api.open_group("night", runs_dir=tmp_path / "runs").runs).rows())
    assert [(row.record_id, row.sample) for row in rows] == [("q-0", 0), ("q-0", 1), ("q-0", 2)]


def test_a_run_whose_records_are_gone_has_no_column(several: api.RunGroup) -> None:
    api.purge(several.runs[0].folders.runs_dir, run_name="night-big", reason="erasure request")
    matrix = api.run_matrix(several.runs)
    assert [column.title for column in matrix.columns] == ["small", "other"]
    assert list(matrix.left_out) == ["night-big"]
    assert [row.record_id for row in matrix.rows()] == [row["id"] for row in ROWS]


def test_a_run_whose_records_are_gone_since_is_damage_only_where_lines_are_missing(several: api.RunGroup) -> None:
    cases = several.runs[0].artifact("cases.jsonl")
    cases.chmod(0o600)
    cases.write_bytes(b"")
    with pytest.raises(RunDamaged, match="fewer records"):
        api.run_matrix(several.runs)
