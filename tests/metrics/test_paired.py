import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.contingency_tables import mcnemar as their_mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestPower

from assay.metrics.intervals import Interval
from assay.metrics.paired import (
    decide,
    detectable_effect,
    difference_p_value,
    holm,
    mcnemar,
    paired_difference,
    required_records,
    spread_of_passes,
    unpaired_difference,
)

scores = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=3, max_size=50)


def interval(low: float, high: float) -> Interval:
    return Interval(low=low, high=high, method="t", n=10)


@given(st.integers(0, 2**32))
def test_a_difference_of_scores_has_the_interval_of_a_paired_t_test(seed: int) -> None:
    before, after = np.random.default_rng(seed).random((2, 30))
    found, expected = paired_difference(before, after), scipy.stats.ttest_rel(after, before).confidence_interval(0.95)
    assert found.interval is not None
    assert (found.interval.low, found.interval.high) == (
        pytest.approx(expected.low, abs=1e-9),
        pytest.approx(expected.high, abs=1e-9),
    )


def test_a_difference_of_verdicts_has_bonett_and_prices_interval() -> None:
    before, after = np.repeat([0.0, 1.0, 0.0, 1.0], [9, 3, 20, 18]), np.repeat([1.0, 0.0, 0.0, 1.0], [9, 3, 20, 18])
    found = paired_difference(before, after)
    gain, loss = 10 / 52, 4 / 52
    half = scipy.stats.norm.ppf(0.975) * np.sqrt((gain + loss - (gain - loss) ** 2) / 52)
    assert (found.value, found.n) == (pytest.approx(0.12), 50)
    assert found.interval is not None
    assert (found.interval.low, found.interval.high) == (pytest.approx(gain - loss - half), pytest.approx(gain - loss + half))


def test_two_runs_without_a_flip_are_not_surely_equal() -> None:
    found = paired_difference(np.ones(50), np.ones(50))
    assert found.value == 0
    assert found.interval is not None
    assert found.interval.low < 0 < found.interval.high


def test_equal_differences_leave_open_what_the_rule_of_three_does() -> None:
    found = paired_difference(np.full(100, 0.5), np.full(100, 0.5), span=4.0)
    assert found.interval is not None
    assert found.interval.high == pytest.approx(4 * (1 - 0.025 ** (1 / 100)))


def test_clusters_widen_the_interval_of_a_difference() -> None:
    before, after = np.zeros(40), np.repeat([0.1, 0.5, 0.2, 0.9], 10)
    clusters = np.repeat([1, 2, 3, 4], 10).astype(np.int32)
    plain, clustered = paired_difference(before, after), paired_difference(before, after, clusters=clusters)
    assert plain.interval is not None
    assert clustered.interval is not None
    assert clustered.interval.low < plain.interval.low
    assert clustered.interval.n == 4


@pytest.mark.parametrize(("before", "after", "value"), [([], [], None), ([0.5], [0.7], pytest.approx(0.2))])
def test_fewer_than_two_scores_have_no_interval(before: list[float], after: list[float], value: float | None) -> None:
    found = paired_difference(np.array(before), np.array(after))
    assert (found.value, found.interval) == (value, None)
    assert found.reason


def test_one_cluster_has_no_interval_of_a_difference() -> None:
    found = paired_difference(np.zeros(3), np.ones(3), clusters=np.zeros(3, dtype=np.int32))
    assert (found.value, found.interval) == (1.0, None)
    assert found.reason


@given(st.integers(0, 2**32))
def test_different_records_have_welchs_interval(seed: int) -> None:
    draw = np.random.default_rng(seed)
    before, after = draw.random(12), draw.random(20) * 3
    found, expected = (
        unpaired_difference(before, after),
        scipy.stats.ttest_ind(after, before, equal_var=False).confidence_interval(0.95),
    )
    assert found.interval is not None
    assert (found.interval.low, found.interval.high) == (
        pytest.approx(expected.low, abs=1e-9),
        pytest.approx(expected.high, abs=1e-9),
    )


@pytest.mark.parametrize("after", [[1.0], [1.0, 1.0]])
def test_different_records_without_spread_have_no_interval(after: list[float]) -> None:
    found = unpaired_difference(np.array([0.0, 0.0]), np.array(after))
    assert found.interval is None
    assert found.reason


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=80))
def test_mcnemar_is_that_of_statsmodels(pairs: list[tuple[bool, bool]]) -> None:
    before, after = np.array(pairs, dtype=bool).reshape(-1, 2).T
    found = mcnemar(before, after)
    expected = their_mcnemar([[0, found.better], [found.worse, 0]], exact=True).pvalue if found.better + found.worse else 1.0
    assert found.p_value == pytest.approx(expected, abs=1e-9)
    assert (found.better, found.n) == (sum(b > a for a, b in pairs), len(pairs))
    assert found.mid_p <= found.p_value


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_is_that_of_statsmodels(p_values: list[float]) -> None:
    assert holm(p_values) == pytest.approx(multipletests(p_values, method="holm")[1].tolist(), abs=1e-12)


def test_holm_leaves_out_what_is_undefined() -> None:
    assert holm([0.01, None, 0.04]) == (0.02, None, 0.04)
    assert holm([]) == ()


@pytest.mark.parametrize("n", [5, 10, 30, 200])
def test_the_detectable_effect_is_noticed_in_four_of_five_cases(n: int) -> None:
    found = detectable_effect(1.7, n)
    assert found is not None
    assert float(np.squeeze(TTestPower().power(found / 1.7, n, 0.05))) == pytest.approx(0.8, abs=1e-9)


@pytest.mark.parametrize("effect", [0.1, 0.3, 0.5, 1.2, 5.0])
def test_the_required_records_are_the_fewest_that_suffice(effect: float) -> None:
    found = required_records(-effect, 1.0)
    assert found is not None
    assert TTestPower().power(effect, found, 0.05) >= 0.8
    assert found == 2 or TTestPower().power(effect, found - 1, 0.05) < 0.8


def test_nothing_to_detect_and_nothing_to_detect_with_are_undefined() -> None:
    assert (detectable_effect(1.0, 1), required_records(0.0, 1.0), required_records(0.5, 0.0)) == (None, None, None)


@pytest.mark.parametrize(
    ("low", "high", "margin", "decision"),
    [
        (0.01, 0.1, 0.0, "improved"),
        (-0.01, 0.1, 0.0, "undecided"),
        (-0.1, -0.01, 0.0, "worse"),
        (0.01, 0.1, 0.02, "improved"),
        (-0.01, 0.1, 0.02, "not_worse"),
        (-0.01, -0.005, 0.02, "not_worse"),
        (-0.03, 0.1, 0.02, "undecided"),
        (-0.03, -0.01, 0.02, "undecided"),
        (-0.1, -0.03, 0.02, "worse"),
    ],
)
def test_an_interval_decides_only_what_it_supports(low: float, high: float, margin: float, decision: str) -> None:
    assert decide(interval(low, high), margin=margin) == decision


def test_without_an_interval_nothing_is_decided() -> None:
    assert decide(None, margin=0.1) == "undecided"


@given(st.integers(0, 2**32))
def test_p_of_a_difference_is_that_of_a_paired_t_test(seed: int) -> None:
    before, after = np.random.default_rng(seed).random((2, 30))
    assert difference_p_value(after - before) == pytest.approx(scipy.stats.ttest_rel(after, before).pvalue, abs=1e-9)


def test_clusters_of_one_record_each_give_the_p_of_single_records() -> None:
    differences = np.random.default_rng(1).normal(0.2, 1, 25)
    assert difference_p_value(differences, clusters=np.arange(25, dtype=np.int32)) == pytest.approx(difference_p_value(differences))


@pytest.mark.parametrize(("differences", "p"), [([0.0, 0.0, 0.0], 1.0), ([], None), ([0.5], None), ([0.5, 0.5], None)])
def test_p_without_a_spread_is_undefined_unless_nothing_differs(differences: list[float], p: float | None) -> None:
    assert difference_p_value(np.array(differences)) == p


def test_runs_without_a_flip_have_a_spread_all_the_same() -> None:
    assert spread_of_passes(0, 0, n=98) == pytest.approx(np.sqrt(0.02))
