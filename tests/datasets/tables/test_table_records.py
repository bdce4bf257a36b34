"""Records of a table, in chunks and in whole, and where each came from."""

import csv
from pathlib import Path

import pytest

from assay.core.settings import ColumnSection
from assay.datasets import read
from assay.datasets.dataset_paths import open_dataset
from assay.datasets.parsing.config import ReadOptions, ValidationConfig
from assay.datasets.parsing.source import Source, filled_lines, open_source
from assay.datasets.tables import TableOptions, read_objects
from tests.commands import assay

ROWS = 3_000


def big(path: Path) -> Path:
    """A table of a dozen batches, with rows of every kind that need a closer look."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["Question", "Answer", "Topic"])
        for number in range(ROWS):
            row = [f"Question {number}?\nReally?", f"Answer {number}", "x" if number % 3 else ""]
            if number % 500 == 7:
                row = ["", "", ""]
            elif number % 500 == 8:
                row = ["", "no question", "y"]
            elif number % 500 == 9:
                row = ["short"]
            elif number % 500 == 10:
                row = ["Question 1?\nReally?", "asked before", "z"]
            writer.writerow(row)
    return path


def test_chunks_and_lines_give_the_same_verdict(tmp_path: Path) -> None:
    path = big(tmp_path / "big.csv")
    quick, whole = (
        read(open_dataset(path), "auto", config=ValidationConfig(), options=ReadOptions(hashes=hashes)) for hashes in (False, True)
    )
    assert quick.counts == whole.counts
    assert (quick.counts.total_records, quick.counts.rejected_records) == (ROWS - 6, 12)
    assert [(issue.code, issue.message, issue.line, issue.index) for issue in quick.issues] == [
        (issue.code, issue.message, issue.line, issue.index) for issue in whole.issues
    ]
    assert list(quick.broken) == list(whole.broken)
    assert quick.fields == whole.fields
    assert [case.id for case in quick.cases] == [case.id for case in whole.cases]


def test_issues_name_row_line_column_and_cell(tmp_path: Path) -> None:
    report = read(open_dataset(big(tmp_path / "big.csv")), "auto", config=ValidationConfig())
    issue = next(issue for issue in report.issues if issue.severity == "error")
    # Two lines for each of the rows before, one for the header and for the empty row.
    assert issue.details == {"row": 10, "column_name": "Question", "cell": "A10"}
    assert (issue.line, issue.path) == (2 + 2 * 7 + 1, "Question")
    assert "row 10, column 'Question', cell A10" in issue.message


def test_a_question_that_is_there_twice_gets_a_second_id(tmp_path: Path) -> None:
    report = read(open_dataset(big(tmp_path / "big.csv")), "auto", config=ValidationConfig())
    ids = [case.id for case in report.cases if case.prompt == "Question 1?\nReally?"]
    assert ids == [ids[0], *(f"{ids[0]}-{number}" for number in range(2, 8))]


def test_a_repeated_id_of_the_table_is_an_issue_of_its_cell() -> None:
    rows = "".join(f"{number % 400},Question {number}?,x\n" for number in range(600))
    source = open_source(f"No,Question,Answer\n{rows}".encode(), name="t.csv")
    report = read(source, "auto", config=ValidationConfig(), options=ReadOptions(table=(ColumnSection(id="No"), "")))
    assert report.counts.rejected_records == 200
    first = report.record_errors[0]
    assert (first.code, first.details) == ("duplicate_record_id", {"row": 402, "column_name": "No", "cell": "A402"})


def test_a_table_whose_last_rows_are_in_another_encoding_is_read_whole() -> None:
    rows = "".join(f"Question {number}?,x\n" for number in range(30_000))
    source = open_source(f"Question,Answer\n{rows}Was heißt das?,Öl\n".encode("cp1252"), name="t.csv")
    report = read(source, "auto", config=ValidationConfig())
    assert report.counts.accepted_records == 30_001
    assert source.table.plan.encoding == "cp1252"
    assert [case.references for case in report.cases][-1] == ("Öl",)


def test_rows_in_memory_are_records_too() -> None:
    table = read_objects([{"Frage": "Wer?", "Antwort": "Ich"}], TableOptions())
    assert table.contract == "legal_eval_v1"
    assert [line.content.count(b'"prompt":"Wer?"') for line in filled_lines(table.source)] == [1]


@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
def test_the_plan_of_a_run_has_the_columns_and_the_hash_of_the_file(ending: str, workplace: Path) -> None:
    text = "Frage,Antwort\nWer?,Ich\n" if ending == ".csv" else '{"Frage": "Wer?", "Antwort": "Ich"}\n'
    path = workplace / f"t{ending}"
    path.write_text(text, encoding="utf-8")
    result = assay("run", path, "--model", "scripted/echo", "--judge", "scripted/judge-any", "--run-id", "r", "--json")
    assert result.exit_code == 0, result.stderr
    manifest = (Path("runs") / "r" / "run_manifest.json").read_text()
    assert '"reference":"Antwort"' in manifest.replace(" ", "")
    assert open_source(path).sha256() in manifest
    stored = Path("runs") / "r" / "input_dataset.json"
    assert read(Source(str(stored), stored.open("rb"), size=stored.stat().st_size), "auto", config=ValidationConfig()).is_valid
    assert assay("run", stored, "--model", "scripted/echo", "--judge", "scripted/judge-any").exit_code == 0


def test_a_table_of_strange_rows_is_read_with_its_warnings() -> None:
    source = open_source(b"Question,Answer\nWhy?,x\n,\nWho?\n", name="t.csv")
    report = read(source, "auto", config=ValidationConfig())
    assert [issue.message for issue in report.warnings] == [
        "1 empty row skipped: row 3",
        "row 4: it has 1 cells under a header of 2",
    ]


def test_two_tables_in_one_run_that_share_an_id_name_their_rows(workplace: Path) -> None:
    for name in ("a", "b"):
        (workplace / f"{name}.csv").write_text("id,Question,Answer\n1,Why?,x\n", encoding="utf-8")
    result = assay("run", workplace / "a.csv", workplace / "b.csv", "--model", "scripted/echo", "--judge", "scripted/judge-any")
    assert result.exit_code == 2
    assert "a.csv row 2 and" in result.stderr
