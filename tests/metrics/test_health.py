"""Verdicts on judges: no sound judge is accused more often than one time in twenty, and gross faults are found."""

import pytest
from scipy import stats

from assay.metrics.health import LEVEL, decide_rises, decide_slips, excess_p_value, rise_p_value


@pytest.mark.parametrize(("slips", "n", "tolerance"), [(0, 16, 0.1), (4, 16, 0.1), (16, 16, 0.01), (1, 1, 0.25), (700, 1000, 0.25)])
def test_an_excess_is_the_binomial_tail(slips: int, n: int, tolerance: float) -> None:
    oracle = stats.binomtest(slips, n, tolerance, alternative="greater").pvalue
    assert excess_p_value(slips, n, tolerance=tolerance) == pytest.approx(oracle, rel=1e-9, abs=1e-300)


@pytest.mark.parametrize(("rises", "falls"), [(0, 0), (5, 0), (3, 9), (12, 4)])
def test_rises_are_weighed_against_falls_by_the_one_sided_sign_test(rises: int, falls: int) -> None:
    oracle = stats.binomtest(rises, rises + falls, alternative="greater").pvalue if rises + falls else 1.0
    assert rise_p_value(rises, falls) == pytest.approx(oracle, rel=1e-9)


@pytest.mark.parametrize("tolerance", [0.01, 0.1, 0.25])
@pytest.mark.parametrize("n", range(1, 80))
def test_a_judge_within_the_tolerance_is_accused_at_most_one_time_in_twenty(n: int, tolerance: float) -> None:
    accused = [slips for slips in range(n + 1) if decide_slips(slips, n, tolerance=tolerance).verdict == "fail"]
    assert sum(stats.binom.pmf(accused, n, tolerance)) <= LEVEL


@pytest.mark.parametrize("changed", range(1, 40))
def test_a_judge_that_goes_up_and_down_alike_is_accused_at_most_one_time_in_twenty(changed: int) -> None:
    accused = [rises for rises in range(changed + 1) if decide_rises([(rises, changed - rises)], n=40).verdict == "fail"]
    assert sum(stats.binom.pmf(accused, changed, 0.5)) <= LEVEL


def test_several_series_share_the_level() -> None:
    alone, among = ((6, 0),), ((6, 0), (0, 0), (0, 0), (0, 0))
    assert decide_rises(alone, n=16).verdict == "fail"
    assert decide_rises(among, n=16).verdict == "warn"


def test_what_could_not_be_noticed_is_not_decided() -> None:
    assert decide_slips(0, 3, tolerance=0.25).verdict == "not_enough_evidence"
    assert decide_rises([(0, 0)], n=4).verdict == "not_enough_evidence"
    assert decide_rises([], n=0).verdict == "not_enough_evidence"
