from decimal import Decimal

import pytest

from assay.grading.answer_number import find_number, numbers_in


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("42", "42"),
        ("The result is 3.14159.", "3.14159"),
        ("1,234,567.50 dollars", "1234567.50"),
        ("1.234.567,5 Euro", "1234567.5"),
        ("3,14", "3.14"),
        ("1,234", "1234"),
        ("0,234", "0.234"),
        ("1.234", "1.234"),
        ("CHF 1\u2019234.50", "1234.50"),
        ("12\u00a0345 Einwohner", "12345"),
        ("-7 degrees", "-7"),
        ("\u22127", "-7"),
        ("6.02e23", "6.02e23"),
        ("6.02 \u00d7 10^23 per mole", "6.02e23"),
        ("1.5*10^-3", "0.0015"),
        (".5", "0.5"),
        ("$4.20!", "4.20"),
        ("10km", "10"),
        # The last one, unless words announce another.
        ("First 3, then 4, so 12 in all", "12"),
        ("The answer is 12, because 3 times 4 is 12 and 5 is not.", "12"),
        ("Answer: 5 (rounded to 2 digits)", "5"),
        ("So we get 7 apples.\n#### 7", "7"),
        ("\\boxed{36} in 4 boxes", "36"),
        ("**Answer:** 9 of 10", "9"),
        ("Die Antwort lautet 8, nicht 9", "8"),
        ("1, 2 and 3", "3"),
        ("values 1,2,3", "3"),
        ("2024-01-15", "15"),
    ],
)
def test_the_number_of_an_answer(text: str, number: str) -> None:
    assert find_number(text) == Decimal(number)


@pytest.mark.parametrize("text", ["", "none", "GPT4 and H2O", "version 1.2.3", "..."])
def test_a_text_without_a_number_has_none(text: str) -> None:
    assert find_number(text) is None


def test_numbers_are_read_in_order() -> None:
    assert [str(number) for number in numbers_in("from -1 to 2.5, or 3 or 1,2,4")] == ["-1", "2.5", "3", "1", "2", "4"]


@pytest.mark.parametrize("piece", ["1,111", "1", "1.", "answer is ", "1e", "1 x 10^", "- ", "1,1,"])
def test_a_megabyte_of_what_looks_like_numbers_is_read_in_one_pass(piece: str) -> None:
    # With more than one pass for each number this would take longer than a test may.
    assert find_number(f"{piece * (1_000_000 // len(piece))} and 7") == 7
