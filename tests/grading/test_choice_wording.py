"""Words around a choice, in the languages of the benchmarks."""

import pytest

from assay.core.case import Choice
from assay.grading.mcq import selected_choices


@pytest.mark.parametrize(("answer", "chosen"), [("The answer is no doubt yes", ()), ("No, it is not", ()), ("Yes.", ("yes",))])
def test_ids_that_are_words_are_read_where_they_stand_alone(answer: str, chosen: tuple[str, ...]) -> None:
    assert selected_choices(answer, (Choice("yes", "Yes"), Choice("no", "No"))) == chosen


@pytest.mark.parametrize(
    ("answer", "chosen"), [("A, E", "AE"), ("A and E", "AE"), ("A e E", "AE"), ("E", "E"), ("A, D ed E", "ADE")]
)
def test_letters_that_are_words_are_choices_and_joints(answer: str, chosen: str) -> None:
    assert selected_choices(answer, tuple(Choice(name, f"x{name}") for name in "ABCDE")) == tuple(chosen)


@pytest.mark.parametrize(
    ("answer", "chosen"),
    [
        ("A. The sale is void under section 3", ("A",)),
        ("A. The sale is", ()),
        ("B) The sale is valid because both agreed", ("B",)),
        ("B) The sale is void under section 3 of the act.", ()),
        ("The answer is A sale exists.", ("C",)),
        ("The sale is valid", ("B",)),
    ],
)
def test_words_after_a_label_must_be_its_own(answer: str, chosen: tuple[str, ...]) -> None:
    texts = ("The sale is void under section 3 of the act.", "The sale is valid.", "A sale exists")
    assert selected_choices(answer, tuple(Choice(name, text) for name, text in zip("ABC", texts, strict=True))) == chosen


def test_amounts_are_words_of_their_choice_and_parts_of_calculations_are_not() -> None:
    choices = (Choice("A", "$78.50"), Choice("B", "$210.00"), Choice("C", "78.73"))
    assert selected_choices("The closest is A, which is not the answer. The best answer is B. $210.00.", choices) == ("B",)
    assert selected_choices("The solution is 78.73 + 1.2 = 79.93. The answer is (B).", choices) == ("B",)
    assert selected_choices("The solution is 78.73 + 1.2 = 79.93.", choices) == ()
