"""Rows into records."""

from typing import Any

import pytest

from assay.core.settings import ColumnSection
from assay.datasets.tables.record_builder import RecordBuilder, correct_positions, list_of
from assay.datasets.tables.table_rows import TableRow

CHOICES = ("red", "green", "blue", "7")


def build(cells: dict[str, object], *, contract: str = "legal_eval_v1", **columns: Any) -> Any:
    return RecordBuilder(ColumnSection(**columns), contract=contract, dataset="t").build(TableRow(2, cells))


def test_only_the_question_and_its_context_are_for_the_candidate() -> None:
    cells: dict[str, object] = {"q": "Why?", "c": "A text.", "a": "Because", "topic": "x"}
    record, problem = build(cells, prompt="q", context="c", reference="a")
    assert problem is None
    assert {name: record[name] for name in ("prompt", "context", "reference_answers", "metadata")} == {
        "prompt": "Why?",
        "context": "A text.",
        "reference_answers": ["Because"],
        "metadata": {"topic": "x"},
    }


def test_named_metadata_is_the_only_metadata() -> None:
    record, _ = build({"q": "Why?", "a": "b", "x": 1, "y": 2}, prompt="q", reference="a", metadata=("y",))
    assert record["metadata"] == {"y": 2}


def test_a_row_without_a_question_keeps_its_id_and_its_metadata() -> None:
    record, problem = build({"n": 7.0, "q": " ", "a": "b", "topic": "x"}, prompt="q", reference="a", id="n")
    assert (record["id"], record["metadata"], "prompt" in record) == ("7", {"topic": "x"}, False)
    assert (problem.code, problem.column) == ("missing_required_field", "q")


def test_an_id_comes_from_the_question_and_outlives_a_changed_reference() -> None:
    first, changed = (build({"q": "Why?", "a": answer}, prompt="q", reference="a").record["id"] for answer in ("x", "y"))
    assert first == changed
    assert first != build({"q": "Who?", "a": "x"}, prompt="q", reference="a").record["id"]


def test_the_same_question_twice_has_two_ids() -> None:
    builder = RecordBuilder(ColumnSection(prompt="q", reference="a"), contract="legal_eval_v1", dataset="t")
    ids = [builder.build(TableRow(row, {"q": "Why?", "a": "b"})).record["id"] for row in (2, 3)]
    assert ids[1] == f"{ids[0]}-2"


@pytest.mark.parametrize("value", [["a", "b"], '["a", "b"]', "['a', 'b']", "a\nb", "a|b", "('a', 'b')"])
def test_a_list_in_a_cell_is_read_in_every_spelling(value: object) -> None:
    assert list_of(value, "c") == ["a", "b"]


@pytest.mark.parametrize(
    ("value", "form", "position"),
    [
        ("B", "letter", 1),
        ("b)", "letter", 1),
        (1, "index0", 1),
        ("2", "index1", 1),
        ("green", "text", 1),
        ("7", "text", 3),
        (3.0, "index1", 2),
    ],
)
def test_the_correct_choice_is_named_by_letter_number_or_text(value: object, form: str, position: int) -> None:
    assert correct_positions(value, CHOICES, form, "answer") == [position]


def test_several_correct_choices_are_a_list() -> None:
    assert correct_positions('["A", "C"]', CHOICES, "letter", "answer") == [0, 2]


def test_a_key_that_names_no_choice_is_a_problem_of_its_cell() -> None:
    _, problem = build({"q": "Which?", "o": ["x", "y"], "k": "E"}, prompt="q", choices=("o",), answer="k")
    assert (problem.code, problem.column) == ("invalid_enum_value", "k")


def test_messages_are_read_in_the_words_of_chats_and_of_sharegpt() -> None:
    chat = [{"from": "system", "value": "Be brief."}, {"from": "human", "value": "Hi"}]
    record, _ = build({"conversations": chat, "a": "Hello"}, messages="conversations", reference="a")
    assert record["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    assert record["prompt"] == "Hi"


def test_lines_with_bullets_are_criteria_of_their_own() -> None:
    record, _ = build({"q": "Why?", "r": "- names the reason\n- is polite"}, prompt="q", rubric="r")
    assert [criterion["title"] for criterion in record["rubric"]] == ["names the reason", "is polite"]
    assert record["task_type"] == "rubric_qa"


def test_a_plain_question_is_a_record_of_batch_v1() -> None:
    record, _ = build({"q": "Why?"}, contract="batch_v1", prompt="q")
    assert record["input"] == {"prompt": "Why?"}
