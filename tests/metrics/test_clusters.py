"""Intervals of rows that hang together."""

from collections.abc import Callable

import numpy as np
import pytest

from assay.core.summary import Interval
from assay.metrics.agreement import alpha_influence, cohen_kappa, confusion, kappa_influence, krippendorff_alpha
from assay.metrics.correction import correct_mean, mean_influence, rate_influence
from assay.metrics.intervals import Estimate, clustered, clustered_error, clustered_mean, design_effect, standard_error

VALUES = np.random.default_rng(7).random(60)
CENTRED = VALUES - VALUES.mean()


@pytest.mark.parametrize("copies", [2, 5])
def test_copies_of_a_row_have_the_variance_of_the_row(copies: int) -> None:
    found = design_effect(np.repeat(np.arange(60), copies), np.repeat(CENTRED, copies))
    assert found == pytest.approx(copies * 60 / 59)


@pytest.mark.parametrize("copies", [1, 4])
def test_the_error_of_a_mean_is_that_of_its_clusters_however_many_rows_they_have(copies: int) -> None:
    found = clustered_error(np.repeat(VALUES, copies), np.repeat(np.arange(60), copies))
    assert (found.value, found.clusters) == (pytest.approx(standard_error(VALUES)), 60)


def test_a_mean_without_an_interval_of_rows_has_none_of_clusters() -> None:
    plain = Estimate(value=0.5, n=2, reason="too few")
    assert clustered_mean(plain, np.array([0.0, 1.0]), np.arange(2), ends=(0.0, 1.0)) == plain


def test_clusters_that_show_nothing_in_common_change_nothing() -> None:
    assert design_effect(np.tile(np.arange(30), 2), np.concatenate([CENTRED[:30], -CENTRED[:30]])) == 1.0


def test_where_nothing_varies_each_cluster_counts_as_one_row() -> None:
    assert design_effect(np.repeat(np.arange(6), 5), np.zeros(30)) == 5.0


def left_out(figure: Callable[[np.ndarray], float | None], n: int) -> np.ndarray:
    """By how much a figure is below itself without each row in turn: its influence, up to what the rows share."""
    rows = np.arange(n)
    values = np.array([figure(rows != row) for row in rows], dtype=float)
    return (values.mean() - values) * (n - 1)


def alike(influence: np.ndarray, figure: Callable[[np.ndarray], float | None]) -> float:
    """The correlation of an influence with what leaving rows out does."""
    return float(np.corrcoef(influence, left_out(figure, len(influence)))[0, 1])


DRAW = np.random.default_rng(11)
RATED = DRAW.integers(1, 6, 80).astype(float)
RATED_AGAIN = np.clip(RATED + DRAW.integers(-1, 2, 80), 1, 5)


@pytest.mark.parametrize("weights", ["none", "linear", "quadratic"])
def test_the_influence_on_kappa_is_what_leaving_a_unit_out_does(weights: str) -> None:
    def kappa(rows: np.ndarray) -> float | None:
        return cohen_kappa(confusion(RATED[rows].tolist(), RATED_AGAIN[rows].tolist()), weights=weights).value

    assert alike(-kappa_influence(RATED.tolist(), RATED_AGAIN.tolist(), weights=weights), kappa) > 0.99


@pytest.mark.parametrize("scale", ["nominal", "ordinal", "interval"])
def test_the_influence_on_alpha_is_what_leaving_a_unit_out_does(scale: str) -> None:
    ratings = np.stack([RATED, RATED_AGAIN], axis=1)
    found = alike(-alpha_influence(ratings, scale=scale), lambda rows: krippendorff_alpha(ratings[rows], scale=scale).value)
    assert found > 0.98


def test_the_influence_on_a_corrected_rate_is_what_leaving_a_record_out_does() -> None:
    truth, others = DRAW.random(60) < 0.6, DRAW.random(90) < 0.65
    judged = np.where(DRAW.random(60) < 0.85, truth, ~truth)

    def corrected(rows: np.ndarray) -> float | None:
        mine, rest = rows[:60], rows[60:]
        right = (judged == truth)[mine]
        hits, refusals = right[truth[mine]].mean(), right[~truth[mine]].mean()
        return float((others[rest].mean() + refusals - 1) / (hits + refusals - 1))

    assert alike(rate_influence(judged, truth, others=others), corrected) > 0.99


def test_the_influence_on_a_corrected_mean_is_what_leaving_a_record_out_does() -> None:
    labels, judged, others = RATED[:40], RATED_AGAIN[:40], RATED_AGAIN[40:]

    def corrected(rows: np.ndarray) -> float | None:
        return correct_mean(labels[rows[:40]], judged[rows[:40]], unlabelled=others[rows[40:]]).corrected.value

    assert alike(mean_influence(labels, judged, unlabelled=others), corrected) > 0.98


def test_all_equal_ratings_have_no_influence() -> None:
    assert alpha_influence(np.ones((3, 2)), scale="nominal").tolist() == [0, 0, 0]


def plain() -> Estimate:
    return Estimate(value=0.8, interval=Interval(low=0.7, high=0.9, method="kappa", n=60), n=60)


def test_an_interval_stays_on_its_scale_and_counts_clusters() -> None:
    found = clustered(plain(), np.repeat(np.arange(6), 10), influence=np.repeat(CENTRED[:6], 10), bounds=(-1.0, 1.0))
    assert found.interval is not None
    assert (found.interval.high, found.interval.n, found.interval.method) == (1.0, 6, "kappa_cluster")
    assert found.interval.low < 0.5


def test_one_cluster_has_no_interval() -> None:
    clusters = np.zeros(60, dtype=np.int64)
    found = clustered(plain(), clusters, influence=CENTRED, bounds=(-1.0, 1.0))
    assert (found.value, found.interval, found.reason) == (0.8, None, "one cluster has no spread to make an interval of")
    assert clustered_mean(plain(), VALUES, clusters, ends=(0.0, 1.0)).interval is None


def test_rows_that_stand_for_themselves_keep_their_interval() -> None:
    assert clustered(plain(), np.arange(60), influence=CENTRED, bounds=(-1.0, 1.0)) == plain()


def test_fewer_clusters_than_rows_widen_an_interval_by_their_freedom() -> None:
    """No row of a cluster resembles another one, so that the quantiles of 1 and of 5 degrees of freedom are all that widens it."""
    plain = Estimate(value=0.0, interval=Interval(low=-0.01, high=0.01, method="t", n=6), n=6)
    influence = np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0])
    found = clustered(plain, np.array([0, 0, 0, 0, 1, 1]), influence=influence, bounds=(-1.0, 1.0)).interval
    assert found is not None
    assert found.high == pytest.approx(0.01 * 12.7062 / 2.5706, rel=1e-4)
