"""Columns and what they hold."""

from typing import Any

import pytest

from assay.core.settings import ColumnSection
from assay.datasets.tables.column_roles import ColumnSample, ColumnsUnclear, FoundColumns, find_columns


def recognised(*rows: dict[str, Any], **given: Any) -> FoundColumns:
    names = tuple(dict.fromkeys(name for row in rows for name in row))
    return find_columns(ColumnSample(names, rows), ColumnSection(**given))


def found(*rows: dict[str, Any], **given: Any) -> ColumnSection:
    return recognised(*rows, **given).columns


def refusal(*rows: dict[str, Any], **given: Any) -> ColumnsUnclear:
    with pytest.raises(ColumnsUnclear) as refused:
        recognised(*rows, **given)
    return refused.value


def test_common_names_are_found() -> None:
    row = {"No.": "7", "Frage": "Wer?", "Musterlösung": "Ich", "Thema": "x"}
    assert found(row) == ColumnSection(prompt="Frage", reference="Musterlösung", id="No.")


LAYOUTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "Alpaca": (
        {"instruction": "Translate", "input": "Hallo", "output": "Hello"},
        {"prompt": "instruction", "context": ("input",), "reference": "output"},
    ),
    "Dolly": ({"instruction": "Say hi", "context": "", "response": "Hi"}, {"prompt": "instruction", "reference": "response"}),
    "prompt/completion": ({"prompt": "Hi", "completion": "Hello"}, {"prompt": "prompt", "reference": "completion"}),
    "ShareGPT": ({"conversations": [{"from": "human", "value": "Hi"}]}, {"messages": "conversations"}),
    "chat messages": ({"messages": [{"role": "user", "content": "Hi"}]}, {"messages": "messages"}),
    "OpenAI Evals samples": (
        {"input": [{"role": "user", "content": "Hi"}], "ideal": "Hello"},
        {"messages": "input", "reference": "ideal"},
    ),
    "ragas": (
        {"user_input": "Why?", "retrieved_contexts": ["c"], "response": "of a model", "reference": "Because"},
        {"prompt": "user_input", "context": ("retrieved_contexts",), "reference": "reference"},
    ),
    "MLflow": (
        {"inputs": {"question": "Why?"}, "expectations": {"expected_facts": ["a"], "expected_response": "Because"}},
        {"prompt": "inputs.question", "reference": "expectations.expected_response", "rubric": "expectations.expected_facts"},
    ),
    "Braintrust": ({"input": "Why?", "expected": "Because", "metadata": {}}, {"prompt": "input", "reference": "expected"}),
    "LangSmith": (
        {"id": "u", "inputs": '{"question": "Why?"}', "outputs": '{"answer": "Because"}'},
        {"prompt": "inputs.question", "reference": "outputs.answer", "id": "id"},
    ),
    "Langfuse": (
        {"id": "u", "input": "Why?", "expectedOutput": {"answer": "Because"}, "sourceTraceId": "t"},
        {"prompt": "input", "reference": "expectedOutput.answer", "id": "id"},
    ),
    "Inspect samples": ({"input": "Why?", "target": ["Because"]}, {"prompt": "input", "reference": "target"}),
    "DeepEval goldens": (
        {"input": "Why?", "actual_output": "x", "expected_output": "Because", "context": ["c"]},
        {"prompt": "input", "reference": "expected_output", "context": ("context",)},
    ),
    "pydantic-evals": (
        {"name": "a", "inputs": {"prompt": "Why?", "now": "2026"}, "expected_output": {"low": 1, "high": 2}},
        {"prompt": "inputs.prompt", "context": ("inputs.now",), "reference": "expected_output"},
    ),
    "SQuAD": (
        {"id": "u", "context": "c", "question": "Why?", "answers": {"text": ["Because"], "answer_start": [1]}},
        {"prompt": "question", "context": ("context",), "reference": "answers", "id": "id"},
    ),
    "BoolQ": (
        {"question": "Is it?", "passage": "c", "answer": True},
        {"prompt": "question", "context": ("passage",), "reference": "answer"},
    ),
    "MMLU": (
        {"question": "Which?", "A": "a", "B": "b", "C": "c", "D": "d", "answer": "B"},
        {"prompt": "question", "choices": ("A", "B", "C", "D"), "answer": "answer"},
    ),
    "LEXam": (
        {"question": "Which?", "choices": "['a', 'b']", "gold": 0},
        {"prompt": "question", "choices": ("choices",), "answer": "gold", "first_choice": 0},
    ),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts_of_other_tools_are_recognised_and_named(name: str) -> None:
    row, columns = LAYOUTS[name]
    read = recognised(row)
    assert (read.columns, read.layout) == (ColumnSection(**columns), name)
    assert read.evidence


def test_the_stated_reference_wins_over_what_may_be_the_answer_of_a_model() -> None:
    columns = found({"question": "Why?", "answer": "of a model", "ground_truth": "Because"})
    assert (columns.prompt, columns.reference) == ("question", "ground_truth")


def test_what_is_expected_inside_the_input_is_no_context() -> None:
    row = {"input": {"question": "Why?", "text": "c", "expected": "x", "answer": "y"}, "expected": "Because"}
    assert found(row).context == ("input.text",)


def test_two_columns_that_may_both_be_the_reference_are_a_question_to_the_user() -> None:
    problem = refusal({"question": "Why?", "ideal": "x", "expected": "y"})
    assert "'ideal', 'expected'" in problem.message
    assert problem.hint == "name it: --reference ideal or --reference expected"


def test_two_columns_that_say_the_same_are_no_question() -> None:
    assert found({"question": "Why?", "ideal": "x", "expected": "x"}).reference == "ideal"


def test_a_column_that_is_named_settles_it() -> None:
    assert found({"question": "Why?", "ideal": "x", "expected": "y"}, reference="ideal").reference == "ideal"


@pytest.mark.parametrize("column", ["response", "model_answer", "result"])
def test_answers_of_a_model_are_not_taken_for_references(column: str) -> None:
    problem = refusal({"question": "Why?", column: "Because"})
    assert (problem.role, problem.options, problem.has_none) == ("reference", (column,), True)
    assert found({"question": "Why?", column: "Because"}, reference="-").reference == ""


def test_answers_beside_the_name_of_their_model_are_not_taken_for_references() -> None:
    assert refusal({"instruction": "Say hi", "output": "Hi", "generator": "gpt"}).role in ("prompt", "reference")


def test_a_column_of_no_known_name_that_may_hold_references_is_asked_about() -> None:
    problem = refusal({"question": "Why?", "what we say": "Because it is so"})
    assert problem.options == ("what we say",)


def test_columns_that_describe_questions_leave_them_plain_questions() -> None:
    row = {"question": "Why?", "topic": "x", "difficulty": "hard", "source_url": "y", "created_at": "2026"}
    assert found(row) == ColumnSection(prompt="question")


def test_without_a_known_question_the_columns_are_listed() -> None:
    assert "the columns are 'foo', 'bar'" in refusal({"foo": "x", "bar": "y"}).message


def test_a_word_that_many_tables_have_is_no_sign_by_itself() -> None:
    problem = refusal({"input": "Why?", "id": "1"})
    assert problem.options == ("input",)
    assert found({"input": "Why?", "id": "1"}, prompt="input").prompt == "input"


def test_a_first_row_of_data_is_not_taken_for_names() -> None:
    assert "add a header" in refusal({"What is the capital of France?": "What is 2+2?", "Paris": "4"}).message


def test_a_named_column_that_is_missing_is_reported_with_its_nearest() -> None:
    message = refusal({"Frage": "Wer?", "Antwort": "Ich"}, prompt="Fragen").message
    assert "there is no column 'Fragen'" in message
    assert "'Frage'" in message


@pytest.mark.parametrize("columns", [("A", "B", "C", "D"), ("choice_a", "choice_b"), ("Option 1", "Option 2", "Option 3")])
def test_columns_with_a_choice_each_are_found_together(columns: tuple[str, ...]) -> None:
    row = {"question": "Which?", **dict.fromkeys(columns, "x"), "answer": "A"}
    assert found(row) == ColumnSection(prompt="question", choices=columns, answer="answer")


def test_choices_without_a_key_are_asked_about() -> None:
    assert refusal({"question": "Which?", "choices": ["a", "b"], "topic": "x"}).role == "answer"


@pytest.mark.parametrize(("keys", "first"), [((0, 1), 0), ((1, 3), 1), (("1", "3"), 1)])
def test_the_numbers_in_the_key_say_what_they_count_from(keys: tuple[object, object], first: int) -> None:
    rows = [{"question": f"q{key}", "choices": ["a", "b", "c"], "answer": key} for key in keys]
    assert found(*rows).first_choice == first


def test_numbers_that_may_count_from_0_or_1_are_a_question_to_the_user() -> None:
    row = {"question": "Which?", "choices": ["a", "b", "c"], "answer": 1}
    problem = refusal(row)
    assert "its number from 0 or its number from 1" in problem.message
    assert problem.hint == "name it: --first-choice 0 or --first-choice 1"
    assert found(row, first_choice=1).first_choice == 1


def test_numbers_that_may_be_the_choice_itself_are_a_question_to_the_user() -> None:
    assert "the text of a choice" in refusal({"question": "Which?", "choices": ["1", "2", "3"], "answer": 2}).message


def test_right_and_wrong_answers_in_columns_of_their_own_are_a_question_to_the_user() -> None:
    row = {"Question": "Which?", "Correct Answer": "a", "Incorrect Answer 1": "b", "Incorrect Answer 2": "c"}
    assert "--choices" in refusal(row).message
    assert found(row, reference="Correct Answer").reference == "Correct Answer"


def test_one_option_may_name_several_columns() -> None:
    row = {"q": "Which?", "x": "1", "y": "2", "key": "x"}
    assert found(row, prompt="q", choices=("x,y",), answer="key").choices == ("x", "y")


def test_a_column_of_numbers_that_repeats_is_no_id() -> None:
    rows = [{"id": "1", "question": "a", "answer": "b"}, {"id": "1", "question": "c", "answer": "d"}]
    assert found(*rows).id == ""


def test_assertions_of_promptfoo_are_told_from_references() -> None:
    assert "assay import" in refusal({"input": "Hi", "__expected": "contains: Hello"}).message


def test_a_column_a_is_a_reference_next_to_q_alone() -> None:
    assert found({"Q": "Why?", "A": "Because"}) == ColumnSection(prompt="Q", reference="A")
    assert refusal({"question": "Which?", "A": "red one", "B": "green one", "C": "blue one"}).role == "reference"
