"""Records by candidate, and records that did not pass, as sections."""

from pathlib import Path

import pytest

from assay import api
from assay.presentation.matrix import (
    matrix_document,
    matrix_section,
    result_text,
    unpassed_reasons,
    unpassed_records,
    unpassed_section,
)
from tests.engine.graded_runs import CORRECT, INCORRECT, answering, graded, group, judged, open_question, passing, question
from tests.engine.run_settings import write_rows

ROWS = [question(f"q-{number}") for number in range(30)]


@pytest.fixture
def runs(tmp_path: Path) -> tuple[api.RunReader, ...]:
    group(tmp_path, "night", ROWS, {"big": passing(ROWS, 29), "small": passing(ROWS, 27, 28, 29)})
    return api.open_group("night", runs_dir=tmp_path / "runs").runs


def test_a_cell_has_score_result_and_answer(runs: tuple[api.RunReader, ...]) -> None:
    (table,) = matrix_section(api.run_matrix(runs), is_verbose=True).tables
    assert [column.title for column in table.columns] == ["record", "big", "small"]
    assert [[cell.full for cell in row] for row in table.rows[-3:]] == [
        ["q-27", "1.00 passed · A", "0.00 not passed · B"],
        ["q-28", "1.00 passed · A", "0.00 not passed · B"],
        ["q-29", "0.00 not passed · B", "0.00 not passed · B"],
    ]
    assert [cell.tone for cell in table.rows[-3]] == ["", "good", "bad"]


def test_of_many_records_those_that_tell_most_are_listed_and_the_rest_is_counted(runs: tuple[api.RunReader, ...]) -> None:
    (table,) = matrix_section(api.run_matrix(runs), limit=3).tables
    assert [row[0].text for row in table.rows] == ["q-27", "q-28", "q-29"]
    assert table.note == "… and 27 more records on which the candidates differ less (--verbose lists all)"


def test_a_record_with_other_contents_has_a_mark_that_is_explained(tmp_path: Path) -> None:
    changed = [question("q-0", prompt="Is it not?"), ROWS[1]]
    graded(tmp_path, "a", ROWS[:2], passing(ROWS[:2]), group="night")
    graded(tmp_path, "b", changed, passing(changed), group="night")
    (table,) = matrix_section(api.run_matrix(api.open_group("night", runs_dir=tmp_path / "runs").runs)).tables
    assert [row[0].text for row in table.rows] == ["q-0 *", "q-1"]
    assert table.note == "a record with other contents in one of the runs is marked *"


def test_an_error_is_named_in_the_place_of_a_score(tmp_path: Path) -> None:
    dataset = write_rows(tmp_path / "law.jsonl", ROWS[0])
    models = ("scripted/mcq-first", "scripted/fail-invalid_request")
    api.run(dataset, models=models, run_id="night", runs_dir=str(tmp_path / "runs"))
    (row,) = api.run_matrix(api.open_group("night", runs_dir=tmp_path / "runs").runs).rows()
    assert [result_text(cell) for cell in row.cells if cell is not None] == ["1.00 passed", "error invalid_request"]


def test_a_row_as_a_document_has_the_question_what_is_right_and_every_result(runs: tuple[api.RunReader, ...]) -> None:
    matrix = api.run_matrix(runs)
    (row,) = matrix.rows([27])
    found = matrix_document(row, matrix.columns)
    assert {name: value for name, value in found.items() if name != "results"} == {
        "record_id": "q-27",
        "dataset": "law",
        "question": "Is it?",
        "references": [],
        "correct_choice_ids": ["A"],
    }
    assert [(name, result["passed"], result["score"], result["answer"]) for name, result in found["results"].items()] == [
        ("big", True, 1.0, "A"),
        ("small", False, 0.0, "B"),
    ]


def test_records_that_did_not_pass_have_question_answer_and_reason(tmp_path: Path) -> None:
    rows = [open_question(f"q-{number}", prompt=f"Which {number}?") for number in range(4)]
    judged(tmp_path, "one", rows, answering(rows, 1, 3))
    run = api.open_run("one", runs_dir=tmp_path / "runs")
    found = list(unpassed_records(run, kinds=("not_passed",)))
    assert [(one.record_id, one.question, one.answer, one.score) for one in found] == [
        ("q-1", "Which 1?", INCORRECT, 0.0),
        ("q-3", "Which 3?", INCORRECT, 0.0),
    ]
    (reason,) = unpassed_reasons(run, kinds=("not_passed",))
    assert {one.reason for one in found} == {reason}
    assert list(unpassed_records(run, kinds=("not_passed",), reason="else")) == []
    assert len(list(unpassed_records(run, kinds=("not_passed",), reason=reason))) == 2
    section = unpassed_section(run, found)
    assert [cell.text for cell in section.heading] == ["one", "big", "2 records"]
    assert [cell.text for cell in section.tables[0].rows[0]][:5] == ["q-1", "0.00", reason, "Which 1?", INCORRECT]
    assert CORRECT not in str(found)


def test_errors_are_listed_apart_and_so_are_records_that_broke_their_contract(tmp_path: Path) -> None:
    dataset = write_rows(tmp_path / "law.jsonl", ROWS[0], {**ROWS[1], "choices": []})
    api.run(dataset, model="scripted/fail-invalid_request", run_id="one", runs_dir=str(tmp_path / "runs"), on_invalid="skip")
    run = api.open_run("one", runs_dir=tmp_path / "runs")
    assert list(unpassed_records(run, kinds=("not_passed",))) == []
    asked, broken = unpassed_records(run, kinds=("error",))
    assert (asked.record_id, asked.reason, asked.question, asked.score) == ("q-0", "invalid_request", "Is it?", None)
    assert (broken.record_id, broken.answer, broken.kind) == ("q-1", None, "error")
    rows = unpassed_section(run, [asked, broken]).tables[0].rows
    assert [row[2].text.split()[0] for row in rows] == ["error", "error"]
