import itertools
import warnings
from importlib import import_module

import krippendorff
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.metrics.agreement import cohen_kappa, confusion, detect, krippendorff_alpha, raw_agreement
from assay.metrics.intervals import wilson

pairs_of_ratings = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=2, max_size=60)
KINDS = [("none", None), ("linear", "linear"), ("quadratic", "quadratic")]
SCALES = ["nominal", "ordinal", "interval"]


def ratings(seed: int) -> np.ndarray:
    """Units of a few raters who agree on half of them, with gaps."""
    draw = np.random.default_rng(seed)
    units, raters, values = draw.integers(2, 40), draw.integers(2, 6), draw.integers(2, 7)
    found = draw.integers(0, values, (units, raters)).astype(float)
    found = np.where(draw.random((units, raters)) < 0.5, draw.integers(0, values, units)[:, None], found)
    found[draw.random((units, raters)) < 0.2] = np.nan
    return found


def test_a_confusion_counts_what_the_first_said_by_what_the_second_said() -> None:
    table = confusion(["a", "a", "b", None, "c"], ["a", "b", "b", "a", None])
    assert (table.categories, table.counts, table.n) == (("a", "b"), ((1, 1), (0, 1)), 3)
    assert raw_agreement(table).value == pytest.approx(2 / 3)
    assert raw_agreement(table).interval == wilson(2, 3)


@pytest.mark.parametrize(("weights", "theirs"), KINDS)
@given(pairs=pairs_of_ratings)
def test_kappa_is_that_of_scikit_learn(weights: str, theirs: str | None, pairs: list[tuple[int, int]]) -> None:
    first, second = zip(*pairs, strict=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Loaded here: every process that collects tests would load it.
        expected = import_module("sklearn.metrics").cohen_kappa_score(first, second, labels=[1, 2, 3, 4, 5], weights=theirs)
    found = cohen_kappa(confusion(first, second), weights=weights).value
    assert found is None if np.isnan(expected) else found == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("weights", "theirs"), KINDS)
def test_the_error_of_kappa_is_that_of_fleiss_in_statsmodels(weights: str, theirs: str | None) -> None:
    table = np.array([[11, 3, 1], [2, 9, 4], [0, 5, 15]])
    first, second = (
        np.repeat(places, table.ravel()).tolist() for places in zip(*itertools.product(range(3), range(3)), strict=True)
    )
    expected = import_module("statsmodels.stats.inter_rater").cohens_kappa(table, wt=theirs)
    assert cohen_kappa(confusion(first, second), weights=weights).error == pytest.approx(expected.std_kappa, abs=1e-9)


def test_kappa_of_words_takes_them_to_be_one_apart() -> None:
    words, numbers = confusion("abca", "abbc"), confusion([1, 2, 3, 1], [1, 2, 2, 3])
    assert cohen_kappa(words, weights="quadratic") == cohen_kappa(numbers, weights="quadratic")


@pytest.mark.parametrize(
    ("first", "second", "reason"), [([], [], "no unit"), ([1, None], [None, 1], "no unit"), ([1, 1], [1, 1], "same")]
)
def test_kappa_without_anything_to_tell_apart_is_undefined(first: list[int], second: list[int], reason: str) -> None:
    found = cohen_kappa(confusion(first, second))
    assert (found.value, found.interval) == (None, None)
    assert reason in found.reason


def test_one_unit_has_a_kappa_and_no_interval() -> None:
    found = cohen_kappa(confusion([1], [2]))
    assert (found.value, found.interval, found.n) == (0.0, None, 1)
    assert found.reason


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("seed", range(34))
def test_alpha_is_that_of_the_krippendorff_package(scale: str, seed: int) -> None:
    expected = krippendorff.alpha(reliability_data=ratings(seed).T, level_of_measurement=scale)
    assert krippendorff_alpha(ratings(seed), scale=scale).value == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("scale", SCALES)
def test_the_error_of_alpha_is_the_spread_of_resampled_units(scale: str) -> None:
    draw = np.random.default_rng(5)
    truth = draw.integers(1, 6, 150)[:, None]
    rated = np.where(draw.random((150, 3)) < 0.7, truth, draw.integers(1, 6, (150, 3))).astype(float)
    resampled = [krippendorff_alpha(rated[draw.integers(0, 150, 150)], scale=scale).value for _ in range(1500)]
    assert krippendorff_alpha(rated, scale=scale).error == pytest.approx(np.std(resampled), rel=0.08)


@pytest.mark.parametrize(
    ("rated", "reason"),
    [(np.empty((0, 0)), "twice"), (np.array([[1.0, np.nan], [np.nan, 2.0]]), "twice"), (np.full((4, 3), 2.0), "same")],
)
def test_alpha_without_anything_to_tell_apart_is_undefined(rated: np.ndarray, reason: str) -> None:
    found = krippendorff_alpha(rated, scale="nominal")
    assert (found.value, found.interval) == (None, None)
    assert reason in found.reason


def test_one_unit_has_an_alpha_and_no_interval() -> None:
    found = krippendorff_alpha(np.array([[1.0, 2.0, 2.0]]), scale="interval")
    assert found.value == pytest.approx(0.0)
    assert (found.interval, found.n) == (None, 1)


def test_a_judge_is_measured_against_labels() -> None:
    found = detect([True, True, False, True, False, None, True], [True, True, True, False, False, True, None])
    assert (found.true_positives, found.false_negatives, found.false_positives, found.true_negatives) == (2, 1, 1, 1)
    assert (found.sensitivity.value, found.sensitivity.interval) == (2 / 3, wilson(2, 3))
    assert (found.specificity.value, found.positive_predictive.value, found.negative_predictive.value) == (0.5, 2 / 3, 0.5)


def test_labels_of_one_kind_leave_the_other_rate_undefined() -> None:
    found = detect([True, True], [True, True])
    assert (found.specificity.value, found.specificity.interval, found.specificity.n) == (None, None, 0)
    assert "bad" in found.specificity.reason
    assert found.negative_predictive.value is None


@pytest.mark.parametrize("weights", ["none", "quadratic"])
def test_a_rater_who_always_says_the_same_shows_no_agreement_and_no_interval_of_it(weights: str) -> None:
    found = cohen_kappa(confusion([1] * 10, [1] * 7 + [0] * 3), weights=weights)
    assert (found.value, found.interval) == (0.0, None)
    assert "regardless of what the other says" in found.reason
