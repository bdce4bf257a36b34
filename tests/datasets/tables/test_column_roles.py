"""Columns and what they hold."""

import pytest

from assay.core.settings import ColumnSection
from assay.datasets.tables.column_roles import ColumnSample, ColumnsUnclear, cell, find_columns


def found(*rows: dict[str, object], given: ColumnSection | None = None) -> ColumnSection:
    names = tuple(dict.fromkeys(name for row in rows for name in row))
    return find_columns(ColumnSample(names, rows), given or ColumnSection()).columns


def test_a_dotted_name_leads_into_an_object_unless_a_column_is_called_so() -> None:
    assert cell({"inputs": {"question": "Why?"}}, "inputs.question") == "Why?"
    assert cell({"inputs.question": "Who?", "inputs": {"question": "Why?"}}, "inputs.question") == "Who?"
    assert cell({"inputs": "text"}, "inputs.question") is None


def test_common_names_are_found() -> None:
    row: dict[str, object] = {"No.": "7", "Frage": "Wer?", "Musterlösung": "Ich", "Thema": "x"}
    assert found(row) == ColumnSection(prompt="Frage", reference="Musterlösung", id="No.")


def test_the_stated_reference_wins_over_what_may_be_the_answer_of_a_model() -> None:
    columns = found({"question": "Why?", "answer": "of a model", "ground_truth": "Because"})
    assert (columns.prompt, columns.reference) == ("question", "ground_truth")


def test_two_columns_that_may_both_be_the_reference_are_a_question_to_the_user() -> None:
    with pytest.raises(ColumnsUnclear, match="'ideal', 'expected' may all be the reference") as refused:
        found({"question": "Why?", "ideal": "x", "expected": "y"})
    assert (refused.value.options, refused.value.hint) == (("ideal", "expected"), "name one: --reference COL")


def test_a_column_that_is_named_settles_it() -> None:
    columns = found({"question": "Why?", "ideal": "x", "expected": "y"}, given=ColumnSection(reference="ideal"))
    assert columns.reference == "ideal"


def test_without_a_known_question_the_columns_are_listed() -> None:
    with pytest.raises(ColumnsUnclear, match="the columns are 'foo', 'bar'"):
        found({"foo": "x", "bar": "y"})


def test_a_named_column_that_is_missing_is_reported_with_its_nearest() -> None:
    with pytest.raises(ColumnsUnclear, match="there is no column 'Fragen'") as refused:
        found({"Frage": "Wer?", "Antwort": "Ich"}, given=ColumnSection(prompt="Fragen"))
    assert "Frage" in refused.value.hint


@pytest.mark.parametrize("columns", [("A", "B", "C", "D"), ("choice_a", "choice_b"), ("Option 1", "Option 2", "Option 3")])
def test_columns_with_a_choice_each_are_found_together(columns: tuple[str, ...]) -> None:
    row: dict[str, object] = {"question": "Which?", **dict.fromkeys(columns, "x"), "answer": "A"}
    assert found(row) == ColumnSection(prompt="question", choices=columns, answer="answer")


def test_one_option_may_name_several_columns() -> None:
    row: dict[str, object] = {"q": "Which?", "x": "1", "y": "2", "key": "x"}
    columns = found(row, given=ColumnSection(prompt="q", choices=("x,y",), answer="key"))
    assert columns.choices == ("x", "y")


def test_a_column_of_numbers_that_repeats_is_no_id() -> None:
    rows: list[dict[str, object]] = [{"id": "1", "question": "a", "answer": "b"}, {"id": "1", "question": "c", "answer": "d"}]
    assert found(*rows).id == ""
