"""Score intervals beside Wilson's, Tango's and a likelihood that is maximised by somebody else."""

from importlib import import_module
from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

from assay.metrics.intervals import ClusterSums, score_bounds

Z = 1.959963984540054
UNIT = (0.0, 1.0)
LEVELS = st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), min_size=1, max_size=60)


@pytest.mark.parametrize(("passed", "n"), [(0, 1), (1, 1), (0, 12), (12, 12), (7, 10), (77, 300), (399_990, 400_000)])
def test_passes_and_failures_have_wilsons_interval(passed: int, n: int) -> None:
    expected = import_module("statsmodels.stats.proportion").proportion_confint(passed, n, method="wilson")
    assert score_bounds(np.repeat([0.0, 1.0], [n - passed, passed]), UNIT) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("better", "worse", "n"), [(11, 3, 100), (3, 0, 10), (0, 4, 100), (0, 0, 25), (200, 150, 2000), (6, 5, 11)]
)
def test_differences_of_passes_have_tangos_interval(better: int, worse: int, n: int) -> None:
    def tango(supposed: float) -> float:
        linear, constant = (2 * n - better + worse) * supposed - better - worse, -worse * supposed * (1 - supposed)
        share = (sqrt(linear**2 - 8 * n * constant) - linear) / (4 * n)
        return (better - worse - n * supposed) / sqrt(n * (2 * share + supposed * (1 - supposed)))

    seen = (better - worse) / n
    expected = (
        brentq(lambda supposed: tango(supposed) - Z, -1 + 1e-9, seen - 1e-9, xtol=1e-13),
        brentq(lambda supposed: tango(supposed) + Z, seen + 1e-9, 1 - 1e-9, xtol=1e-13),
    )
    found = score_bounds(np.repeat([1.0, -1.0, 0.0], [better, worse, n - better - worse]), (-1.0, 1.0))
    assert found == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("counts", [(2, 3, 5, 12, 8), (1, 1, 2, 9, 18), (1, 0, 0, 0, 3), (1, 20, 0, 0, 1)])
def test_the_ends_are_as_many_errors_away_as_the_level_asks_for(counts: tuple[int, ...]) -> None:
    """The error is that of the likeliest distribution with the mean of the end, by Owen's equation for its one unknown."""
    values, n = np.repeat(np.linspace(0, 1, 5), counts), sum(counts)
    for end, worst in zip(score_bounds(values, UNIT), UNIT, strict=True):
        apart = values - end
        pull = brentq(lambda tilt, apart=apart: (apart / (1 + tilt * apart)).sum(), 0, (1 - 1e-12) / (end - worst), xtol=1e-14)
        variance = (apart**2 / (n * (1 + pull * apart))).sum()
        assert (values.mean() - end) ** 2 == pytest.approx(Z**2 * variance / n, rel=1e-9)


def test_scores_that_were_not_seen_stand_at_the_end_of_the_scale() -> None:
    """All 31 are good: the likeliest lower mean has some zeros among them, and they alone make its variance."""
    values = np.repeat([0.75, 1.0], [1, 30])
    low, _ = score_bounds(values, UNIT)
    others = low / values / len(values)
    variance = (others * (values - low) ** 2).sum() + (1 - others.sum()) * low**2
    assert (values.mean() - low) ** 2 == pytest.approx(Z**2 * variance / 31, rel=1e-9)
    assert low == pytest.approx(values.mean() * 31 / (31 + Z**2))


@given(LEVELS)
def test_an_interval_holds_its_mean_within_the_scale(values: list[float]) -> None:
    low, high = score_bounds(np.array(values), UNIT)
    mean = sum(values) / len(values)
    assert 0 <= low <= mean + 1e-12
    assert mean - 1e-12 <= high <= 1


@given(LEVELS, st.sampled_from([2, 5]))
def test_copies_of_a_record_say_no_more_than_the_record(values: list[float], copies: int) -> None:
    once = np.array(values)
    found = score_bounds(np.repeat(once, copies), UNIT, clusters=np.repeat(np.arange(len(once)), copies))
    assert found == pytest.approx(score_bounds(once, UNIT), abs=1e-9)


@given(LEVELS)
def test_clusters_of_one_record_are_records(values: list[float]) -> None:
    seen = np.array(values)
    assert score_bounds(seen, UNIT, clusters=np.arange(len(seen))) == pytest.approx(score_bounds(seen, UNIT), abs=1e-12)


def test_clusters_whose_records_contradict_each_other_change_nothing() -> None:
    values, clusters = np.tile([0.0, 1.0], 20), np.repeat(np.arange(20), 2)
    assert score_bounds(values, UNIT, clusters=clusters) == pytest.approx(score_bounds(values, UNIT), abs=0.01)
    assert ClusterSums.of(values, clusters).effect(0.5) == 1.0


def test_a_longer_scale_leaves_more_open() -> None:
    values = np.full(20, 0.5)
    short, long = score_bounds(values, UNIT), score_bounds(values, (-1.0, 1.0))
    assert long[0] < short[0]
    assert long[1] == pytest.approx(short[1])
