from pathlib import Path

import pytest

from assay.engine.judge_quality.labels import HumanLabel, guarded, read_labels
from assay.engine.planning.request import PlanProblems


def labels_of(path: Path, text: str) -> tuple[HumanLabel, ...]:
    path.write_text(text, encoding="utf-8")
    return read_labels(path).labels


@pytest.mark.parametrize("word", ["pass", "Passed", "true", "yes", "1", "GOOD"])
def test_people_may_say_in_several_words_that_an_answer_passes(tmp_path: Path, word: str) -> None:
    (label,) = labels_of(tmp_path / "labels.csv", f"record_id,passed\nq1,{word}\n")
    assert (label.record_id, label.passed, label.score) == ("q1", True, None)


def test_labels_come_from_lines_with_raters_and_scores(tmp_path: Path) -> None:
    lines = '{"record_id": "a", "rater": "ann", "score": 4}\n\n{"record_id": "a", "rater": "bob", "passed": false, "sample": 2}\n'
    first, second = labels_of(tmp_path / "labels.jsonl", lines)
    assert (first.rater, first.score, first.passed) == ("ann", 4.0, None)
    assert (second.rater, second.passed, second.sample, second.line) == ("bob", False, 2, 3)


def test_an_id_that_is_a_number_is_the_text_of_it(tmp_path: Path) -> None:
    (label,) = labels_of(tmp_path / "labels.jsonl", '{"record_id": 17, "passed": true}')
    assert label.record_id == "17"


@pytest.mark.parametrize("sign", [",", ";", "\t"])
def test_cells_stand_between_commas_semicolons_or_tabs(tmp_path: Path, sign: str) -> None:
    (label,) = labels_of(tmp_path / "labels.csv", f"record_id{sign}passed{sign}note\nq1{sign}pass{sign}so\n")
    assert (label.record_id, label.passed) == ("q1", True)


def test_a_table_that_is_not_utf8_is_refused_with_the_line(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_bytes(b"record_id,passed\na,pass\n\xe4,pass\n")
    with pytest.raises(PlanProblems, match=r"labels\.csv:3: the text is not UTF-8"):
        read_labels(path)


def test_rows_that_nobody_has_filled_in_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("record_id,passed,score\na,,\nb,fail,\n", encoding="utf-8")
    read = read_labels(path)
    assert ([label.record_id for label in read.labels], read.empty) == (["b"], 1)


def test_a_table_from_a_spreadsheet_may_begin_with_a_mark_of_its_encoding(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_bytes("\ufeffrecord_id,passed\r\nä,pass\r\n".encode())
    assert [label.record_id for label in read_labels(path).labels] == ["ä"]


@pytest.mark.parametrize("record_id", ["=1+1", "-x", "@me", "+49", "plain", "'=1", "''@me", "'quoted'"])
def test_an_id_that_looks_like_a_formula_comes_back_as_it_was(tmp_path: Path, record_id: str) -> None:
    (label,) = labels_of(tmp_path / "labels.csv", f"record_id,passed\n{guarded(record_id)},pass\n")
    assert label.record_id == record_id


def test_every_wrong_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    lines = (
        '{"record_id": "a", "passed": "maybe"}',
        '{"recordid": "a", "passed": true}',
        '{"record_id": "a", "score": "high"}',
        '{"record_id": "b", "passed": true}',
        '{"record_id": "b", "passed": false}',
        "[1]",
        '{"record_id": "c"',
        '{"record_id": "d", "passed": true, "sample": 0.7}',
        '{"record_id": ["e"], "passed": true}',
    )
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(PlanProblems) as refused:
        read_labels(path)
    found = sorted(problem.removeprefix(f"{path}:") for problem in refused.value.problems)
    assert found == [
        "1: passed is 'maybe', which is not a verdict (passed or not passed)",
        "2: record_id is missing (did you mean 'recordid'?)",
        "3: score is 'high', which is not a number",
        "5: a second label for 'b'; the first is on line 4",
        "6: a label must be an object",
        "7: the text ends where ',' or '}' should be",
        "8: sample is 0.7, which is not a whole number",
        "9: record_id is ['e'], which is not a text",
    ]
