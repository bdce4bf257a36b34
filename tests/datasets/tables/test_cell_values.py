"""Cells as what their column holds."""

import pytest

from assay.datasets.tables.cell_values import (
    AnswerKey,
    ChoiceText,
    UnfitCell,
    cell,
    choices_of,
    correct_choices,
    criteria_of,
    list_of,
    messages_of,
    object_in,
    text_of,
    texts_of,
)

CHOICES = [ChoiceText(text) for text in ("red", "green", "blue", "7")]


def test_a_dotted_name_leads_into_an_object_unless_a_column_is_called_so() -> None:
    assert cell({"inputs": {"question": "Why?"}}, "inputs.question") == "Why?"
    assert cell({"inputs": '{"question": "Why?"}'}, "inputs.question") == "Why?"
    assert cell({"inputs.question": "Who?", "inputs": {"question": "Why?"}}, "inputs.question") == "Who?"
    assert cell({"inputs": "text"}, "inputs.question") is None


@pytest.mark.parametrize("value", [["a", "b"], '["a", "b"]', "['a', 'b']", "('a', 'b')", "a\nb", "a|b", "a; b", "a,b"])
def test_a_list_in_a_cell_is_read_in_every_spelling(value: object) -> None:
    assert list_of(value) == ["a", "b"]


def test_nothing_in_a_cell_is_executed() -> None:
    assert list_of("[__import__('os').getpid()]") == ["[__import__('os').getpid()]"]


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        ("Paris; the capital", ["Paris; the capital"]),
        (["Paris", "", None], ["Paris"]),
        ('["Paris", "paris"]', ["Paris", "paris"]),
        ({"text": ["Paris"], "answer_start": [3]}, ["Paris"]),
        (True, ["true"]),
        (4.0, ["4"]),
        ({"min": 1}, ['{"min":1}']),
    ],
)
def test_one_text_or_several_are_references(value: object, texts: list[str]) -> None:
    assert texts_of(value, "answer") == texts


def test_an_object_is_no_text() -> None:
    with pytest.raises(UnfitCell, match="the cell is an object, not text"):
        text_of({"a": 1}, "question")


@pytest.mark.parametrize(
    "value",
    [
        ["red", "green"],
        "['red', 'green']",
        {"A": "red", "B": "green"},
        {"text": ["red", "green"], "label": ["A", "B"]},
        [{"label": "A", "text": "red"}, {"label": "B", "text": "green"}],
        ["(A)red", "(B)green"],
        ["A. red", "B. green"],
        "A) red\nB) green",
    ],
)
def test_choices_are_read_in_the_form_of_every_benchmark(value: object) -> None:
    assert [choice.text for choice in choices_of(value, "choices")] == ["red", "green"]


def test_a_letter_that_not_all_choices_begin_with_is_part_of_the_text() -> None:
    assert [choice.text for choice in choices_of(["A. Lincoln", "G. Washington"], "choices")] == ["A. Lincoln", "G. Washington"]


@pytest.mark.parametrize(
    ("value", "first", "position"),
    [
        ("B", None, 1),
        ("b)", None, 1),
        (1, 0, 1),
        ("2", 1, 1),
        ("green", None, 1),
        ("7", None, 3),
        (3.0, 1, 2),
        ("(B) Green", None, 1),
    ],
)
def test_the_correct_choice_is_named_by_letter_number_or_text(value: object, first: int | None, position: int) -> None:
    assert correct_choices(value, CHOICES, AnswerKey("answer", first)) == [position]


@pytest.mark.parametrize("value", [["A", "C"], '["A", "C"]', "A, C", "A;C"])
def test_several_correct_choices_are_a_list(value: object) -> None:
    assert correct_choices(value, CHOICES, AnswerKey("answer")) == [0, 2]


def test_a_label_of_the_table_names_a_choice_before_its_place_does() -> None:
    choices = [ChoiceText("red", "1"), ChoiceText("green", "2")]
    assert correct_choices("2", choices, AnswerKey("answer", 0)) == [1]


@pytest.mark.parametrize("value", ["E", "purple", 9, "B) blue"])
def test_a_key_that_names_no_choice_is_a_problem_of_its_cell(value: object) -> None:
    with pytest.raises(UnfitCell, match="is not one of the 4 choices") as refused:
        correct_choices(value, CHOICES, AnswerKey("answer", 0))
    assert refused.value.problem.column == "answer"


def test_lines_with_bullets_are_criteria_of_their_own() -> None:
    assert [one["title"] for one in criteria_of("- names it\n2) is polite", "rubric")] == ["names it", "is polite"]
    assert [one["title"] for one in criteria_of("names it\nand is polite", "rubric")] == ["names it\nand is polite"]
    assert criteria_of([{"criterion": "names it", "weight": 2}], "rubric") == [{"id": "c1", "title": "names it", "weight": 2}]


@pytest.mark.parametrize(
    "value",
    [
        [{"role": "user", "content": "Hi"}],
        [{"from": "human", "value": "Hi"}],
        '[{"role": "user", "content": "Hi"}]',
        [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
        {"messages": [{"role": "user", "content": "Hi"}]},
    ],
)
def test_messages_are_read_in_the_words_of_chats_and_of_sharegpt(value: object) -> None:
    assert messages_of(value, "messages") == [{"role": "user", "content": "Hi"}]


def test_a_message_that_cannot_be_sent_is_a_problem() -> None:
    with pytest.raises(UnfitCell, match="message 1 has no role and text"):
        messages_of([{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}], "messages")


def test_an_object_may_be_written_as_json_or_by_python() -> None:
    assert object_in('{"a": 1}') == object_in("{'a': 1}") == {"a": 1}
    assert object_in("{a}") is None
