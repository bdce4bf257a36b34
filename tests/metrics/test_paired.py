import gc
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from assay.core.summary import Interval
from assay.metrics.intervals import score_bounds
from assay.metrics.paired import (
    decide,
    difference_p_value,
    flips_of,
    holm,
    mcnemar,
    paired_difference,
)

verdicts = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60)


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


def test_a_difference_of_verdicts_has_tangos_interval() -> None:
    before, after = np.repeat([0.0, 1.0, 0.0, 1.0], [9, 3, 20, 18]), np.repeat([1.0, 0.0, 0.0, 1.0], [9, 3, 20, 18])
    found = paired_difference(before, after)
    assert (found.value, found.n) == (pytest.approx(0.12), 50)
    assert found.interval is not None
    assert (found.interval.method, (found.interval.low, found.interval.high)) == (
        "tango",
        score_bounds(after - before, (-1.0, 1.0)),
    )


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


def repeated(better: int, worse: int, *, records: int, repeat: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Records that flip as a whole, each asked several times."""
    before = np.repeat([0.0, 1.0, 1.0], [better, worse, records - better - worse])
    after = np.repeat([1.0, 0.0, 1.0], [better, worse, records - better - worse])
    return np.repeat(before, repeat), np.repeat(after, repeat), np.repeat(np.arange(records), repeat).astype(np.int32)


@pytest.mark.parametrize(("records", "better"), [(2, 0), (2, 2), (100, 0), (3, 3)])
def test_clusters_that_agree_are_not_certain(records: int, better: int) -> None:
    before, after, clusters = repeated(better, 0, records=records, repeat=2)
    found = paired_difference(before, after, clusters=clusters).interval
    assert found is not None
    assert -1 <= found.low < 0 < found.high <= 1
    assert found.n == records


def test_records_that_flip_as_a_whole_are_one_record_however_often_they_are_asked() -> None:
    plain = paired_difference(*repeated(6, 4, records=100, repeat=1)[:2]).interval
    before, after, clusters = repeated(6, 4, records=100, repeat=5)
    clustered = paired_difference(before, after, clusters=clusters).interval
    assert plain is not None
    assert clustered is not None
    assert (clustered.low, clustered.high) == (pytest.approx(plain.low), pytest.approx(plain.high))


def test_answers_that_flip_on_their_own_say_more_than_records_that_flip_as_a_whole() -> None:
    before, after, clusters = repeated(6, 4, records=100, repeat=3)
    alone = np.random.default_rng(0).permutation(300)
    whole = flips_of(before == 1, after == 1, clusters=clusters)
    mixed = flips_of(before[alone] == 1, after[alone] == 1, clusters=clusters)
    assert whole.n == pytest.approx(100)
    assert 200 < mixed.n <= 300
    assert (mixed.units, whole.units) == (100, 100)


@pytest.mark.parametrize("clusters", [None, np.repeat([0, 1], 5).astype(np.int32)])
def test_differences_that_are_equal_but_for_rounding_are_equal(clusters: np.ndarray | None) -> None:
    before = np.tile([0.1, 0.2, 0.5, 0.6, 0.7], 2)
    found = paired_difference(before, before + 0.1, clusters=clusters).interval
    assert found is not None
    assert found.method == "rule_of_three"
    assert found.high - found.low > 0.5


def test_the_interval_of_clustered_scores_stays_on_the_scale() -> None:
    found = paired_difference(np.array([0.9, 0.1, 0.0]), np.array([0.1, 0.8, 0.1]), clusters=np.arange(3, dtype=np.int32)).interval
    assert found is not None
    assert (found.low, found.high) == (-1.0, 1.0)


@pytest.mark.parametrize(("before", "after", "value"), [([], [], None), ([0.5], [0.7], pytest.approx(0.2))])
def test_fewer_than_two_scores_have_no_interval(before: list[float], after: list[float], value: float | None) -> None:
    found = paired_difference(np.array(before), np.array(after))
    assert (found.value, found.interval) == (value, None)
    assert found.reason


def test_one_cluster_has_no_interval_of_a_difference() -> None:
    found = paired_difference(np.zeros(3), np.ones(3), clusters=np.zeros(3, dtype=np.int32))
    assert (found.value, found.interval) == (1.0, None)
    assert found.reason


def their_mcnemar(table: list[list[int]], **options: bool) -> Any:
    return import_module("statsmodels.stats.contingency_tables").mcnemar(table, **options)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=80))
def test_mcnemar_is_that_of_statsmodels(pairs: list[tuple[bool, bool]]) -> None:
    before, after = np.array(pairs, dtype=bool).reshape(-1, 2).T
    found = mcnemar(before, after)
    expected = their_mcnemar([[0, found.better], [found.worse, 0]], exact=True).pvalue if found.better + found.worse else 1.0
    assert found.p_value == pytest.approx(expected, abs=1e-9)
    assert (found.better, found.n) == (sum(b > a for a, b in pairs), len(pairs))
    assert found.mid_p <= found.p_value


@pytest.fixture(scope="module")
def small_heap() -> Iterator[None]:
    """statsmodels collects garbage in each call, which takes long where many tests have run before: what is there is left alone."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("small_heap")
@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_is_that_of_statsmodels(p_values: list[float]) -> None:
    expected = import_module("statsmodels.stats.multitest").multipletests(p_values, method="holm")[1]
    assert holm(p_values) == pytest.approx(expected.tolist(), abs=1e-12)


def test_holm_leaves_out_what_is_undefined() -> None:
    assert holm([0.01, None, 0.04]) == (0.02, None, 0.04)
    assert holm([]) == ()


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
    assert difference_p_value(before, after) == pytest.approx(scipy.stats.ttest_rel(after, before).pvalue, abs=1e-9)


def test_clusters_of_one_record_each_give_the_p_of_single_records() -> None:
    before, after = np.random.default_rng(1).random((2, 25))
    clustered = difference_p_value(before, after, clusters=np.arange(25, dtype=np.int32))
    assert clustered == pytest.approx(difference_p_value(before, after))


@given(verdicts)
def test_verdicts_have_the_p_of_mcnemars_test_as_he_gave_it(pairs: list[tuple[bool, bool]]) -> None:
    before, after = np.array(pairs, dtype=bool).T
    better, worse = int((after > before).sum()), int((after < before).sum())
    expected = their_mcnemar([[0, better], [worse, 0]], exact=False, correction=False).pvalue if better + worse else 1.0
    assert difference_p_value(before.astype(float), after.astype(float)) == pytest.approx(expected, abs=1e-9)


@given(verdicts)
def test_p_of_verdicts_says_what_their_interval_says(pairs: list[tuple[bool, bool]]) -> None:
    before, after = np.array(pairs, dtype=float).T
    p = difference_p_value(before, after)
    assert p is not None
    assert (p < 0.05) == (decide(paired_difference(before, after).interval) != "undecided")


@pytest.mark.parametrize(("better", "worse"), [(11, 3), (4, 0), (3, 0), (10, 3), (36, 22), (37, 21), (5, 0), (7, 1)])
def test_p_and_interval_agree_near_the_line(better: int, worse: int) -> None:
    before, after = np.repeat([0.0, 1.0, 1.0], [better, worse, 60]), np.repeat([1.0, 0.0, 1.0], [better, worse, 60])
    p = difference_p_value(before, after)
    assert p is not None
    assert (p < 0.05) == (decide(paired_difference(before, after).interval) == "improved")


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.25, 0.7]), st.sampled_from([0.0, 0.5, 0.7])), min_size=2, max_size=40),
    st.sampled_from([1, 3]),
)
def test_p_is_below_a_twentieth_where_the_interval_leaves_out_0(pairs: list[tuple[float, float]], size: int) -> None:
    before, after = np.array([*pairs, (0.3, 0.4)]).T
    clusters = (np.arange(len(before)) // size).astype(np.int32)
    found, p = paired_difference(before, after, clusters=clusters), difference_p_value(before, after, clusters=clusters)
    assert (found.interval is None) == (p is None)
    assert (p is not None and p < 0.05) == (decide(found.interval) != "undecided")


@given(verdicts)
def test_p_of_clustered_verdicts_says_what_their_interval_says(pairs: list[tuple[bool, bool]]) -> None:
    before, after = np.repeat(np.array([*pairs, (False, True)], dtype=float), 3, axis=0).T
    clusters = np.repeat(np.arange(len(pairs) + 1), 3).astype(np.int32)
    found, p = paired_difference(before, after, clusters=clusters), difference_p_value(before, after, clusters=clusters)
    assert p is not None
    assert (p < 0.05) == (decide(found.interval) != "undecided")


@pytest.mark.parametrize(
    ("after", "p"), [([0.5, 0.5, 0.5], 1.0), ([], None), ([0.7], None), ([0.9, 0.9, 0.9], pytest.approx(2 * 0.6**3))]
)
def test_equal_differences_have_the_p_of_the_rule_of_three(after: list[float], p: float | None) -> None:
    assert difference_p_value(np.full(len(after), 0.5), np.array(after)) == p
