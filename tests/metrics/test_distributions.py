import math

import pytest
import scipy.special
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from assay.metrics.distributions import (
    beta_cdf,
    binomial_cdf,
    normal_cdf,
    normal_quantile,
    sign_test,
    student_quantile,
    student_two_sided,
)

FREEDOM = [0.5, 1, 1.5, 2, 3, 5, 10, 33.3, 100, 1000, 100_000]


@pytest.mark.parametrize("value", [-30.0, -5.0, -1.0, 0.0, 0.3, 4.0])
def test_the_normal_distribution_is_scipys(value: float) -> None:
    assert normal_cdf(value) == pytest.approx(scipy.stats.norm.cdf(value), rel=1e-12)
    assert normal_quantile(0.975) == pytest.approx(scipy.stats.norm.ppf(0.975), rel=1e-14)


@pytest.mark.parametrize("freedom", FREEDOM)
@pytest.mark.parametrize("value", [0.0, 0.01, 0.5, 1.0, 2.0, 5.0, 10.0, 40.0])
def test_students_t_is_scipys(freedom: float, value: float) -> None:
    below = scipy.stats.t.cdf(-value, freedom)
    assert student_two_sided(value, freedom) == pytest.approx(2 * below, rel=1e-11)


@pytest.mark.parametrize("freedom", FREEDOM)
@pytest.mark.parametrize("share", [0.001, 0.025, 0.5, 0.6, 0.8, 0.9, 0.975, 0.995, 0.99999])
def test_quantiles_of_students_t_are_scipys(freedom: float, share: float) -> None:
    assert student_quantile(share, freedom) == pytest.approx(scipy.stats.t.ppf(share, freedom), rel=1e-11, abs=1e-12)


def test_students_t_with_endless_freedom_is_the_normal_distribution() -> None:
    assert student_two_sided(1.5, math.inf) == pytest.approx(2 * normal_cdf(-1.5), rel=1e-14)
    assert student_two_sided(math.inf, 3) == 0.0


@given(st.floats(-1, 5), st.floats(-1, 5), st.floats(0, 1))
def test_the_incomplete_beta_function_is_scipys(a: float, b: float, share: float) -> None:
    assert beta_cdf(share, a=10**a, b=10**b) == pytest.approx(scipy.special.betainc(10**a, 10**b, share), abs=1e-12)


@given(st.integers(0, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_sign_test_is_scipys_exact_binomial_test(drawn: tuple[int, int]) -> None:
    successes, n = drawn
    expected = scipy.stats.binomtest(successes, n).pvalue if n else 1.0
    assert sign_test(successes, n) == pytest.approx(expected, abs=1e-12)


def test_mid_p_counts_half_of_what_was_seen() -> None:
    at = scipy.stats.binom.pmf(3, 12, 0.5)
    assert sign_test(3, 12, mid_p=True) == pytest.approx(sign_test(3, 12) - at, abs=1e-14)
    assert sign_test(2, 4, mid_p=True) == 1.0


@pytest.mark.parametrize(("successes", "expected"), [(-1, 0.0), (7, 1.0), (9, 1.0)])
def test_counts_beyond_the_trials_have_certain_probabilities(successes: int, expected: float) -> None:
    assert binomial_cdf(successes, 7, share=0.3) == expected
