"""Rates, scores and differences as every report writes them."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.number_text import rate_change_text, rate_text, score_change_text, score_text


@pytest.mark.parametrize(
    ("rate", "text"),
    [
        (0.475, "47.5 %"),
        (0.0625, "6.3 %"),
        (19 / 40, "47.5 %"),
        (1 / 16, "6.3 %"),
        (0.0005, "0.1 %"),
        (0.0, "0.0 %"),
        (1.0, "100.0 %"),
    ],
)
def test_a_rate_is_a_percentage_with_one_decimal_and_halves_go_away_from_zero(rate: float, text: str) -> None:
    assert rate_text(rate) == text


@given(st.integers(1, 5_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_counts_decide_about_halves_and_not_their_binary_quotient(counts: tuple[int, int]) -> None:
    passed, total = counts
    tenths = (Fraction(1000 * passed, total) + Fraction(1, 2)) // 1
    assert rate_text(passed / total) == f"{tenths // 10}.{tenths % 10} %"


@pytest.mark.parametrize(
    ("score", "text"), [(0.125, "0.13"), (2.675, "2.68"), (-0.125, "-0.13"), (-0.001, "0.00"), (4.3333, "4.33"), (1e300, "1e+300")]
)
def test_a_score_has_two_decimals_and_halves_go_away_from_zero(score: float, text: str) -> None:
    assert score_text(score).startswith(text.split("e")[0])


@given(st.integers(1, 3_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.integers(0, n), st.just(n))))
def test_before_and_the_difference_add_up_to_after_as_they_are_shown(counts: tuple[int, int, int]) -> None:
    before, after, total = counts
    first, last = before / total, after / total
    difference = rate_change_text(last - first, before=first, after=last)
    shown = [round(10 * float(text.split()[0])) for text in (rate_text(first), difference, rate_text(last))]
    assert shown[0] + shown[1] == shown[2]


def test_a_difference_has_a_sign_unless_it_is_nothing() -> None:
    assert [rate_change_text(value) for value in (0.025, -0.125, 0.0, -0.0001)] == ["+2.5 pp", "-12.5 pp", "0.0 pp", "0.0 pp"]
    assert [score_change_text(value) for value in (0.125, -0.5, -0.001)] == ["+0.13", "-0.50", "0.00"]


def test_a_change_over_other_records_than_the_two_means_is_shown_as_it_was_measured() -> None:
    assert score_change_text(0.25, before=3.0, after=4.0) == "+0.25"
