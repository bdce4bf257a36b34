import pytest

from assay.grading import GradingSettings
from tests.grading.driving import drive, judged, mcq_case
from tests.grading.test_choice_parser import NOT_READABLE

ANY = GradingSettings(candidate="model", mcq_mode="any")


def test_the_right_choice_passes_without_a_judge() -> None:
    driven = drive(mcq_case(), judged("", answer='{"answer": "B"}'))
    assert (driven.grade.passed, driven.grade.score, driven.grade.scale) == (True, 1.0, "0/1")
    assert driven.grade.selected_choice_ids == ("B",)
    assert list(driven.asks) == ["candidate"]


def test_a_wrong_choice_is_an_incorrect_answer() -> None:
    grade = drive(mcq_case(), judged("", answer="A")).grade
    assert (grade.passed, grade.score, grade.label, grade.flags) == (False, 0.0, "incorrect_answer", ())


@pytest.mark.parametrize("answer", NOT_READABLE)
def test_an_unreadable_answer_is_wrong_and_says_so(answer: str) -> None:
    grade = drive(mcq_case(), judged("", answer=answer)).grade
    assert (grade.passed, grade.score, grade.label) == (False, 0.0, "format_or_schema_violation")
    assert grade.flags == ("unparseable_answer",)


@pytest.mark.parametrize("answer", ['{"answer": "A"}', '{"answer": ["A", "B", "C"]}', '{"answer": ["A", "D"]}'])
def test_only_the_exact_set_of_choices_is_right(answer: str) -> None:
    assert not drive(mcq_case(("A", "C")), judged("", answer=answer)).grade.passed
    assert drive(mcq_case(("A", "C")), judged("", answer='{"answer": ["C", "A", "C"]}')).grade.passed


@pytest.mark.parametrize(
    ("answer", "passed"),
    [('{"answer": "A"}', True), ('["A", "C"]', True), ("A, C", True), ('{"answer": ["A", "B"]}', False), ("B", False), ("", False)],
)
def test_in_the_mode_any_some_of_the_correct_choices_suffice_and_wrong_ones_spoil_it(answer: str, *, passed: bool) -> None:
    grade = drive(mcq_case(("A", "C")), judged("", answer=answer), settings=ANY).grade
    assert (grade.passed, grade.evaluator) == (passed, "mcq_any/1")


def test_the_mode_any_asks_for_one_of_the_correct_choices() -> None:
    text = drive(mcq_case(("A", "C")), judged("", answer="A"), settings=ANY).asks["candidate"].messages[0].content
    assert "Select one of the correct choices" in text
    assert '{"answer": "id",' in text


def test_the_modes_ask_the_same_where_one_choice_is_correct() -> None:
    exact, any_of_them = (drive(mcq_case(), judged("", answer="B"), **more) for more in ({}, {"settings": ANY}))
    assert exact.rounds == any_of_them.rounds
    assert exact.grade.evaluator == "mcq_exact/1"
