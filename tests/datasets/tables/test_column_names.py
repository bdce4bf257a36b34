"""Common names of columns."""

import pytest

from assay.datasets.tables import column_names as names
from assay.datasets.tables.column_names import folded


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
