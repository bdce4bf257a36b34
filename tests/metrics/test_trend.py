import itertools

import numpy as np
import pytest
import scipy.stats

from assay.metrics.trend import MAX_RUNS, trend


def share_as_extreme(values: list[float]) -> float:
    """By looking at every order of the values."""

    def score(order: tuple[float, ...]) -> int:
        return abs(sum(int(np.sign(b - a)) for a, b in itertools.combinations(order, 2)))

    return float(np.mean([score(order) >= score(tuple(values)) for order in itertools.permutations(values)]))


@pytest.mark.parametrize("n", [5, 6, 8, 12, 25, 60])
def test_the_test_is_scipys_exact_one(n: int) -> None:
    values = np.random.default_rng(n).permutation(n).astype(float)
    assert trend(values).p_value == pytest.approx(scipy.stats.kendalltau(np.arange(n), values, method="exact").pvalue, abs=1e-9)


@pytest.mark.parametrize("values", [[1, 1, 2, 2, 3], [5, 2, 2, 1, 2, 5], [0, 1, 0, 1, 0, 2, 1], [2, 2, 2, 2, 3]])
def test_the_test_is_exact_with_ties(values: list[float]) -> None:
    assert trend(np.array(values, dtype=float)).p_value == pytest.approx(share_as_extreme(values), abs=1e-12)


@pytest.mark.parametrize(
    ("values", "direction"), [([1, 2, 3, 4, 5, 6], "up"), ([6, 5, 4, 3, 2, 0], "down"), ([3, 1, 4, 1, 5, 2], "none")]
)
def test_a_direction_is_named_when_the_test_supports_it(values: list[float], direction: str) -> None:
    assert trend(np.array(values, dtype=float)).direction == direction


def test_the_slope_is_theil_and_sens() -> None:
    values = np.random.default_rng(3).random(12).cumsum()
    found, expected = trend(values).slope, scipy.stats.theilslopes(values)
    assert found.value == pytest.approx(expected.slope, abs=1e-12)
    assert found.interval is not None
    assert (found.interval.low, found.interval.high) == (pytest.approx(expected.low_slope), pytest.approx(expected.high_slope))


@pytest.mark.parametrize(("values", "slope"), [([], None), ([1.0], None), ([1.0, 3.0], 2.0), ([1.0, 2.0, 3.0, 4.0], 1.0)])
def test_too_few_runs_have_no_direction(values: list[float], slope: float | None) -> None:
    found = trend(np.array(values))
    assert (found.direction, found.p_value, found.slope.value, found.slope.interval) == ("none", None, slope, None)
    assert "needs 5" in found.slope.reason


def test_equal_runs_have_no_direction() -> None:
    found = trend(np.full(9, 0.3))
    assert (found.direction, found.p_value, found.slope.value) == ("none", 1.0, 0.0)


def test_only_the_latest_runs_count() -> None:
    assert trend(np.arange(500.0)).n == MAX_RUNS
