"""CSV: nothing is evaluated, and everything can be had back."""

import csv
import io
from pathlib import Path

import pytest

from assay import api
from assay.surfaces.exports import EXPORTS
from assay.surfaces.exports.text_tables import GUARD, ExportProgress, cell
from tests.surfaces.exports.exported_runs import FORMULAS, ODD, PLAIN, hostile_run


def rows_of(run: api.RunReader) -> list[dict[str, str]]:
    text = b"".join(EXPORTS["csv"].write(run, ExportProgress())).decode("utf-8")
    return list(csv.DictReader(io.StringIO(text, newline="")))


@pytest.mark.parametrize("text", FORMULAS)
def test_a_text_that_a_spreadsheet_would_evaluate_is_guarded(text: str) -> None:
    assert cell(text) == GUARD + text


@pytest.mark.parametrize("text", [*PLAIN, *ODD])
def test_any_other_text_is_as_it_was(text: str) -> None:
    assert cell(text) == text


def test_numbers_stay_numbers_and_what_is_not_known_is_empty() -> None:
    assert [cell(value) for value in (-1, -0.5, None, True, ["-1"])] == [-1, -0.5, "", "true", '["-1"]']


def test_every_answer_can_be_had_back_by_taking_off_one_guard(tmp_path: Path) -> None:
    answers = (*FORMULAS, *ODD, *PLAIN)
    read = [row["model_response"].removeprefix(GUARD) for row in rows_of(hostile_run(tmp_path, *answers))]
    assert read == list(answers)


def test_a_row_has_what_was_asked_and_what_came_of_it(tmp_path: Path) -> None:
    first, second = rows_of(hostile_run(tmp_path, "A", "B"))
    assert (first["passed"], first["score"], first["raw_score"], second["passed"]) == ("true", "1.0", "1.0", "false")
    assert first["question"] == "Is it?"
    assert (first["correct_choice_ids"], second["selected_choice_ids"]) == ('["A"]', '["B"]')
