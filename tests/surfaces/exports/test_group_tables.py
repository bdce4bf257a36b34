"""Groups of runs as files: a row for each record, with the answer and the score of each candidate."""

import csv
import io
import json
from pathlib import Path

import datasets
import openpyxl
import pyarrow.parquet
import pytest

from assay import api
from tests.commands import assay, document
from tests.engine.graded_runs import group, passing, question

ROWS = [question(f"q-{number}", prompt=f"Which {number}?") for number in range(4)]


@pytest.fixture(autouse=True)
def runs(workplace: Path) -> Path:
    """A group of two candidates; the first fails one record, the second three, one of them with a formula as its answer."""
    answers = {"big": passing(ROWS, 3), "small": {**passing(ROWS, 1, 2, 3), "q-1": "=1+1"}}
    group(workplace, "night", ROWS, answers)
    return workplace / "runs"


def exported(name: str) -> Path:
    result = assay("export", "night", "-o", name)
    assert result.exit_code == 0, result.output
    assert "4 records" in result.stdout
    return Path(name)


def test_csv_has_a_row_for_each_record_and_columns_for_each_candidate() -> None:
    rows = list(csv.DictReader(io.StringIO(exported("m.csv").read_text(encoding="utf-8"))))
    assert [row["record_id"] for row in rows] == ["q-0", "q-1", "q-2", "q-3"]
    assert (rows[1]["question"], rows[1]["correct_choice_ids"]) == ("Which 1?", '["A"]')
    assert (rows[1]["big.answer"], rows[1]["big.score"], rows[1]["big.passed"], rows[1]["big.reason"]) == ("A", "1.0", "true", "")
    # No cell is a formula.
    assert (rows[1]["small.answer"], rows[1]["small.passed"]) == ("'=1+1", "false")
    assert rows[2]["small.reason"] == "incorrect_answer"


def test_parquet_and_hugging_face_have_typed_columns() -> None:
    table = pyarrow.parquet.read_table(exported("m.parquet"))
    assert table.column("small.passed").to_pylist() == [True, False, False, False]
    assert table.column("big.score").to_pylist() == [1.0, 1.0, 1.0, 0.0]
    assert table.schema.metadata[b"assay.group"] == b"night"
    assert assay("export", "night", "--format", "hf").exit_code == 0
    assert datasets.load_dataset("night-hf", split="test")[0]["big.answer"] == "A"


def test_json_has_the_candidates_and_their_results_by_record() -> None:
    found = json.loads(exported("m.json").read_bytes())
    assert (found["group"], [one["candidate"] for one in found["candidates"]]) == ("night", ["big", "small"])
    assert [found["records"][2]["results"][name]["passed"] for name in ("big", "small")] == [True, False]
    lines = exported("m.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == found["records"]


def test_a_workbook_has_the_candidates_and_the_matrix() -> None:
    book = openpyxl.load_workbook(exported("m.xlsx"))
    assert book.sheetnames == ["Candidates", "Matrix"]
    first = [cell.value for cell in next(book["Candidates"].iter_rows(min_row=2, max_row=2))]
    assert first[:5] == ["big", "night-big", "completed", 4, 3]
    matrix = [[cell.value for cell in row] for row in book["Matrix"].iter_rows()]
    assert matrix[0][:2] == ["record_id", "dataset"]
    answers = matrix[0].index("small.answer")
    assert [row[answers] for row in matrix[1:]] == ["A", "=1+1", "B", "B"]
    assert {cell.data_type for cell in book["Matrix"]["K"][1:]} == {"s"}


def test_markdown_is_a_table_for_people() -> None:
    text = exported("m.md").read_text(encoding="utf-8")
    assert text.startswith("# `night`\n")
    assert "| `q-2` | 1.00 passed · A | 0.00 not passed · B |\n" in text
    alone = assay("export", "night-big", "-o", "alone.md")
    assert alone.exit_code == 0
    assert "| record | big |" in Path("alone.md").read_text(encoding="utf-8")


def test_the_answers_of_all_candidates_are_given_to_another_run(runs: Path) -> None:
    assert assay("export", "night", "--format", "responses", "-o", "answers.jsonl").exit_code == 0
    again = api.run("law.jsonl", responses="answers.jsonl", run_id="again", runs_dir=str(runs))
    assert [(result.candidate, result.metrics["pass_count"]) for result in again] == [("big", 3), ("small", 1)]


@pytest.mark.parametrize("name", ["dataset", "eval-results"])
def test_what_is_about_one_run_is_refused_for_a_group(name: str) -> None:
    refused = assay("export", "night", "--as", name)
    assert refused.exit_code == 2
    assert f"{name} is of one run, and 'night' is a group" in refused.stderr


def test_the_export_of_a_group_as_json_says_what_it_wrote() -> None:
    found = document(assay("export", "night", "-o", "m.csv", "--json"))
    assert (found["name"], found["format"], found["records"]) == ("night", "csv", 4)


def test_a_group_with_an_unfinished_run_is_not_exported(runs: Path) -> None:
    api.run("law.jsonl", model="scripted/mcq-first", run_id="open", group="night", runs_dir=str(runs), is_stopping=lambda: True)
    refused = assay("export", "night", "-o", "m.csv")
    assert (refused.exit_code, "run 'open' is unfinished" in refused.stderr) == (2, True)
