import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.case import Choice
from assay.grading import GradingSettings
from assay.grading.choices import selected_choices
from tests.grading.driving import drive, judged, mcq_case

ANY = GradingSettings(candidate="model", mcq_mode="any")
CHOICES = mcq_case().choices
NOT_READABLE = [
    "",
    "I do not know.",
    "the answer is a river",
    "The answer is A. No, the answer is B.",
    "A) Paris\nB) London",
    "B) Paris",
    "<think>The answer is B",
    '{"answer": "Z"}',
    '{"answer": ["A", "Z"]}',
    '{"answer": "A", "answer": "B"}',
    '{"answer": []}',
    '{"answer": null}',
    '{"answer": {"id": "B"}}',
    "A is a good letter.",
]


@pytest.mark.parametrize(
    "answer",
    [
        '{"answer": "B", "reasoning": "It is the capital."}',
        '{"answer": "b"}',
        '{"answer": ["B"]}',
        '{"answer": "B) London"}',
        '{"answer": "London"}',
        '{"answer": "Option B"}',
        "{'answer': 'B'}",
        '```json\n{"answer": "B", "reasoning": "two\nlines"}\n```',
        'Here you go: {"reasoning": "He said \\"answer\\": \\"A\\".", "answer": "B"}',
        '{"answer": "B", "reasoning": "cut off in the mid',
        '<think>The answer is A, or {"answer": "C"}</think>\n{"answer": "B"}',
        "B",
        "(b)",
        "**B**",
        "B.",
        "London",
        "B) London",
        "The answer is B because it is the capital.",
        "Reasoning first.\nFinal answer: **B**",
        "The correct option is (B).",
        r"So \boxed{B}.",
        "B) London\n\nIt is the capital.",
    ],
)
def test_a_choice_is_read_from(answer: str) -> None:
    assert selected_choices(answer, CHOICES) == ("B",)


@pytest.mark.parametrize(
    "answer", ['{"answer": ["C", "A"]}', '{"answer": "A, C"}', "A and C", "Answer: A, C", "A C", "The answers are A and C."]
)
def test_several_choices_are_read_from(answer: str) -> None:
    assert selected_choices(answer, CHOICES) == ("A", "C")


@pytest.mark.parametrize("answer", NOT_READABLE)
def test_no_choice_is_guessed_from(answer: str) -> None:
    assert selected_choices(answer, CHOICES) == ()


@pytest.mark.parametrize("answer", ['{"answer": "AA"}', "AA", "The answer is AA.", "aa", "AA) x27"])
def test_ids_of_two_letters_are_ids_of_their_own(answer: str) -> None:
    choices = tuple(Choice(name, f"x{number}") for number, name in enumerate([*"ABCDEFGHIJKLMNOPQRSTUVWXYZ", "AA"], 1))
    assert selected_choices(answer, choices) == ("AA",)


def test_case_counts_where_ids_differ_by_case_alone() -> None:
    choices = (Choice("a", "one"), Choice("A", "two"), Choice("b", "three"))
    assert selected_choices('{"answer": "A"}', choices) == ("A",)
    assert selected_choices('{"answer": "B"}', choices) == ("b",)
    assert selected_choices("Answer is a strange thing.", choices) == ()


@pytest.mark.parametrize("answer", ['{"answer": "D. v"}', "D. v", "D) v"])
def test_a_labelled_text_that_looks_like_an_id_is_the_label(answer: str) -> None:
    choices = (Choice("D", "v"), Choice("V", "i, iv"), Choice("E", "iii"))
    assert selected_choices(answer, choices) == ("D",)


def test_numbers_are_ids_too() -> None:
    choices = (Choice("1", "one"), Choice("2", "two"))
    assert selected_choices('{"answer": 2}', choices) == ("2",)


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


@given(st.text(max_size=300))
def test_any_text_has_a_reading_or_none(answer: str) -> None:
    assert set(selected_choices(answer, CHOICES)) <= {"A", "B", "C", "D"}


@given(st.sampled_from("ABCD"), st.text(max_size=40))
def test_a_json_answer_is_read_whatever_its_reasoning(choice: str, reasoning: str) -> None:
    reasoning = reasoning.replace('"', "").replace("'", "").replace("\\", "").replace("<", "")
    assert selected_choices(f'{{"reasoning": "{reasoning}", "answer": "{choice}"}}', CHOICES) == (choice,)


def test_a_choice_is_read_at_the_end_of_a_long_text() -> None:
    assert selected_choices("Let me think about the capitals first. " * 50 + "The answer is B.", CHOICES) == ("B",)


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
