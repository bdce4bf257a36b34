import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.summary import percentile
from assay.metrics.distributions import student_quantile
from assay.metrics.intervals import Estimate, cluster_interval, mean_interval, rule_of_three, score_bounds, wilson

Z = 1.959963984540054


@pytest.mark.parametrize(("successes", "n"), [(1, 10), (8, 10), (37, 120), (81, 263), (40_000, 50_000)])
def test_wilson_ends_solve_its_quadratic_equation(successes: int, n: int) -> None:
    found = wilson(successes, n)
    assert found is not None
    for end in (found.low, found.high):
        assert math.isclose((successes / n - end) ** 2, Z**2 * end * (1 - end) / n, rel_tol=1e-9)


def test_wilson_without_failures_or_successes_reaches_the_end() -> None:
    none, all_of_them = wilson(0, 10), wilson(10, 10)
    assert none is not None
    assert all_of_them is not None
    assert (none.low, all_of_them.high) == (0.0, 1.0)
    assert none.high == pytest.approx(Z**2 / (10 + Z**2))
    assert all_of_them.low == pytest.approx(10 / (10 + Z**2))


def test_no_trials_have_no_interval() -> None:
    assert wilson(0, 0) is None


@given(st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_holds_the_rate_within_0_and_1(drawn: tuple[int, int]) -> None:
    successes, n = drawn
    found = wilson(successes, n)
    assert found is not None
    assert 0 <= found.low <= successes / n <= found.high <= 1


def test_a_bootstrap_agrees_with_the_normal_approximation_for_many_records() -> None:
    values = np.repeat([1.0, 2.0, 3.0, 4.0, 5.0], [100, 200, 300, 250, 150])
    found = mean_interval(values, seed=(1,))
    half = 1.959964 * values.std() / math.sqrt(len(values))
    assert found is not None
    assert (found.method, found.resamples) == ("bootstrap", 10_000)
    assert found.low == pytest.approx(values.mean() - half, abs=0.01)
    assert found.high == pytest.approx(values.mean() + half, abs=0.01)


def test_many_different_values_get_students_t_with_half_a_record_at_each_end() -> None:
    values = np.linspace(0.2, 0.9, 300)
    found = mean_interval(values, seed=(1,))
    pooled, weights = np.concatenate([values, [0, 1]]), np.concatenate([np.ones(300), [0.5, 0.5]])
    middle = np.average(pooled, weights=weights)
    half = student_quantile(0.975, 299) * math.sqrt(np.average((pooled - middle) ** 2, weights=weights) / 301)
    assert found is not None
    assert (found.method, found.low, found.high) == ("t", pytest.approx(middle - half), pytest.approx(middle + half))


@pytest.mark.parametrize("values", [[], [0.5]])
def test_fewer_than_two_values_have_no_interval(values: list[float]) -> None:
    assert mean_interval(np.array(values), seed=(0,)) is None


def test_few_values_have_the_score_interval() -> None:
    values = np.linspace(0.2, 0.9, 99)
    found = mean_interval(values, seed=(0,))
    assert found is not None
    assert (found.method, found.n, (found.low, found.high)) == ("score", 99, score_bounds(values, (0.0, 1.0)))


@pytest.mark.parametrize("n", [30, 300])
def test_equal_values_do_not_prove_that_all_others_are_equal(n: int) -> None:
    found = mean_interval(np.full(n, 0.9), seed=(0,))
    assert found is not None
    assert 0.9 / (1 + Z**2 / 30) - 1e-12 <= found.low < 0.9 < found.high < 0.92


@pytest.mark.parametrize("values", [[1.0] * 9, [0.0, 1.0, 1.0], [0.0, 0.0]])
def test_scores_of_0_and_1_are_a_rate(values: list[float]) -> None:
    assert mean_interval(np.array(values), seed=(0,)) == wilson(int(sum(values)), len(values))


@pytest.mark.parametrize(("score", "n"), [(1.0, 9), (4.0, 9), (4.0, 300), (5.0, 300)])
def test_scores_from_1_to_5_are_asked_how_good_or_bad_others_may_be_on_that_scale(score: float, n: int) -> None:
    found = mean_interval(np.full(n, score), seed=(0,), ends=(1.0, 5.0))
    unit = mean_interval(np.full(n, (score - 1) / 4), seed=(0,))
    assert found is not None
    assert unit is not None
    assert (found.low, found.high) == (pytest.approx(1 + 4 * unit.low, abs=0.02), pytest.approx(1 + 4 * unit.high, abs=0.02))


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), min_size=2, max_size=60))
def test_the_interval_of_a_mean_holds_it_within_the_scale(values: list[float]) -> None:
    found = mean_interval(np.array(values), seed=(4,), resamples=2000)
    assert found is not None
    assert 0 <= found.low <= sum(values) / len(values) <= found.high <= 1


def test_clusters_of_one_record_give_the_ordinary_interval() -> None:
    values = np.array([0.4, 0.6, 0.4, 0.6, 0.6, 0.5])
    found, plain = cluster_interval(values, np.arange(6, dtype=np.int32)), mean_interval(values, seed=(0,))
    assert found is not None
    assert plain is not None
    assert (found.low, found.high) == (pytest.approx(plain.low), pytest.approx(plain.high))


@pytest.mark.parametrize("count", [2, 20])
def test_clusters_that_say_the_same_leave_open_what_others_say(count: int) -> None:
    found = cluster_interval(np.full(2 * count, 0.7), np.repeat(np.arange(count), 2).astype(np.int32))
    assert found is not None
    reach = 1 + Z**2 / count
    assert (found.low, found.high) == (pytest.approx(0.7 / reach), pytest.approx(1 - 0.3 / reach))


def test_values_outside_of_the_scale_move_its_ends() -> None:
    found = cluster_interval(np.array([0.9, 0.8, -0.4]), np.arange(3, dtype=np.int32))
    assert found is not None
    assert -0.4 < found.low < 0 < found.high < 1


@pytest.mark.parametrize(("values", "method"), [([0.0, 1.0, 1.0], "wilson_cluster"), ([0.0, 0.5, 1.0], "score_cluster")])
def test_the_score_interval_of_a_rate_in_clusters_is_named_after_wilson(values: list[float], method: str) -> None:
    found = cluster_interval(np.array(values), np.arange(3, dtype=np.int32))
    assert found is not None
    assert found.method == method


@pytest.mark.parametrize("n", [1, 10, 300])
def test_the_rule_of_three_leaves_open_what_n_equal_values_show_in_one_of_forty_cases(n: int) -> None:
    assert (1 - rule_of_three(n)) ** n == pytest.approx(0.025)


def test_one_cluster_has_no_interval() -> None:
    assert cluster_interval(np.array([0.0, 1.0]), np.array([7, 7], dtype=np.int32)) is None


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50), st.floats(0, 1))
def test_percentiles_are_numpys_linear_ones(values: list[float], share: float) -> None:
    ordered = np.sort(np.array(values))
    assert percentile(ordered, share) == pytest.approx(float(np.quantile(ordered, share)), rel=1e-9, abs=1e-6)


def test_an_interval_says_its_level_in_every_document() -> None:
    found = wilson(1, 2)
    assert found is not None
    assert msgspec.to_builtins(found) == found.to_json()
    assert found.to_json()["level"] == 0.95


def test_an_estimate_says_in_json_why_it_is_undefined() -> None:
    assert Estimate(n=0, reason="nothing").to_json() == {
        "value": None,
        "interval": None,
        "standard_error": None,
        "n": 0,
        "reason": "nothing",
    }
    assert Estimate(value=0.5, interval=wilson(1, 2), n=2).to_json()["interval"]["method"] == "wilson"
