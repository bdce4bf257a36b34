from importlib import import_module

import numpy as np
import pytest

from assay.metrics.distributions import student_quantile
from assay.metrics.ranking import ComparisonCounts, rank

NAMES = ("a", "b", "c", "d", "e")


def tournament(seed: int, n: int = 400) -> ComparisonCounts:
    draw = np.random.default_rng(seed)
    strengths = np.linspace(1, -1, 5)
    first = draw.integers(0, 5, n)
    second = (first + draw.integers(1, 5, n)) % 5
    outcome = (draw.random(n) < 1 / (1 + np.exp(strengths[second] - strengths[first]))).astype(float)
    outcome[draw.random(n) < 0.1] = 0.5
    return ComparisonCounts(first, second, outcome)


def logistic(games: ComparisonCounts, **options: object) -> tuple[np.ndarray, np.ndarray]:
    """Strengths and their robust covariance from a regression in statsmodels."""
    design = np.zeros((len(games.first), 5))
    rows = np.arange(len(games.first))
    design[rows, games.first] += 1
    design[rows, games.second] -= 1
    sm = import_module("statsmodels.api")
    fit = sm.GLM(games.outcome, design[:, 1:], family=sm.families.Binomial()).fit(tol=1e-14, **options)
    centre = np.eye(5) - 1 / 5
    covariance = np.zeros((5, 5))
    covariance[1:, 1:] = fit.cov_params()
    return centre @ np.concatenate([[0], fit.params]), centre @ covariance @ centre


@pytest.mark.parametrize("seed", range(5))
def test_strengths_and_intervals_are_those_of_a_logistic_regression(seed: int) -> None:
    games = tournament(seed)
    strengths, covariance = logistic(games, cov_type="HC0")
    half = student_quantile(0.975, 399) * np.sqrt(np.diag(covariance) * 400 / 399)
    for candidate in rank(NAMES, games).candidates:
        place = NAMES.index(candidate.name)
        assert candidate.strength.value == pytest.approx(strengths[place], abs=1e-9)
        assert candidate.strength.interval is not None
        assert candidate.strength.interval.low == pytest.approx(strengths[place] - half[place], abs=1e-9)


def test_comparisons_of_one_record_are_taken_together() -> None:
    games, clusters = tournament(7), np.repeat(np.arange(100), 4)
    strengths, covariance = logistic(games, cov_type="cluster", cov_kwds={"groups": clusters, "use_correction": False})
    best = rank(NAMES, games, clusters=clusters).candidates[0]
    place = NAMES.index(best.name)
    half = student_quantile(0.975, 99) * np.sqrt(covariance[place, place] * 100 / 99)
    assert best.strength.interval is not None
    assert (best.strength.interval.high, best.strength.n) == (pytest.approx(strengths[place] + half, abs=1e-9), 100)


def test_the_strongest_is_first_and_knows_its_lead() -> None:
    found = rank(NAMES, tournament(1, 4000))
    values = [candidate.strength.value for candidate in found.candidates]
    assert [candidate.name for candidate in found.candidates] == list(NAMES)
    assert sum(values) == pytest.approx(0, abs=1e-9)
    assert found.candidates[0].ahead_of_next.value == pytest.approx(values[0] - values[1])
    assert found.candidates[0].win_chance.value == pytest.approx(1 / (1 + np.exp(-values[0])))
    assert found.candidates[-1].ahead_of_next.value is None


def test_candidates_that_never_met_are_not_ordered() -> None:
    found = rank("abcd", ComparisonCounts(np.array([0, 2]), np.array([1, 3]), np.array([1.0, 0.0])))
    assert found.candidates == ()
    assert found.reason.endswith("a, b; c, d")


def test_a_candidate_that_won_everything_is_held_back_by_half_a_win() -> None:
    found = rank("ab", ComparisonCounts(np.zeros(9, dtype=int), np.ones(9, dtype=int), np.ones(9)))
    assert found.is_bounded is False
    assert found.candidates[0].win_chance.n == 9
    assert found.candidates[0].ahead_of_next.value == pytest.approx(np.log(9.5 / 0.5), abs=1e-9)
    assert "half a win" in found.reason


def test_a_single_comparison_has_no_interval() -> None:
    found = rank("ab", ComparisonCounts(np.array([0]), np.array([1]), np.array([0.5])))
    assert [(candidate.strength.value, candidate.strength.interval) for candidate in found.candidates] == [(0.0, None), (0.0, None)]


@pytest.mark.parametrize("names", ["", "a", "ab"])
def test_nothing_compared_gives_no_ranking(names: str) -> None:
    nothing = np.empty(0, dtype=int)
    found = rank(names, ComparisonCounts(nothing, nothing, np.empty(0)))
    assert (found.candidates, found.n) == ((), 0)
    assert found.reason
