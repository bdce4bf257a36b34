"""Common names of columns."""

import pytest

from assay.datasets.tables import column_names as names
from assay.datasets.tables.column_names import folded, is_qualified


@pytest.mark.parametrize(
    "spelling", ["Expected Answer", "expectedAnswer", "EXPECTED_ANSWER", "expected-answer", " Expected  answer "]
)
def test_one_name_in_any_spelling(spelling: str) -> None:
    assert folded(spelling) == "expected_answer"


@pytest.mark.parametrize("name", ["Frage", "Pregunta", "Énoncé", "問題", "вопрос", "user_input", "User Query", "Question Text"])
def test_questions_are_known_in_many_languages(name: str) -> None:
    assert folded(name) in names.PROMPTS[0]


@pytest.mark.parametrize("name", ["Musterantwort", "réponse attendue", "参考答案", "ground_truth", "Ideal", "expectedOutput"])
def test_references_are_known_in_many_languages(name: str) -> None:
    assert folded(name) in names.REFERENCES[0]


@pytest.mark.parametrize(("column", "sign"), [("choice_a", "a"), ("Option 1", "1"), ("B", "b"), ("answerC", "c"), ("ending0", "0")])
def test_columns_of_single_choices_have_a_sign(column: str, sign: str) -> None:
    match = names.FAMILY.fullmatch(folded(column))
    assert match is not None
    assert match["sign"] == sign


@pytest.mark.parametrize("column", ["customer_question", "question_text", "Question (EN)", "用户输入的问题"])
def test_a_known_name_with_a_word_more_is_known(column: str) -> None:
    assert is_qualified(folded(column), names.PROMPTS[0])


@pytest.mark.parametrize(
    "column", ["question_id", "Question No.", "question_type", "total_questions_count", "prompt_template", "system_prompt"]
)
def test_what_numbers_or_describes_questions_is_no_question(column: str) -> None:
    assert not is_qualified(folded(column), names.PROMPTS[0])
