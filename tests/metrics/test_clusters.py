"""Intervals of rows that hang together."""

import numpy as np
import pytest

from assay.metrics.clusters import Rows, clustered, clustered_mean, design_effect
from assay.metrics.intervals import Estimate, Interval

VALUES = np.random.default_rng(7).random(60)


def mean_of(values: np.ndarray):  # type: ignore[type-arg]
    def mean(rows: Rows) -> float | None:
        return float(values[rows].mean())

    return mean


@pytest.mark.parametrize("copies", [2, 5])
def test_copies_of_a_row_have_the_variance_of_the_row(copies: int) -> None:
    found = design_effect(np.repeat(np.arange(60), copies), mean_of(np.repeat(VALUES, copies)))
    assert found == pytest.approx(copies, rel=0.15)


def test_clusters_that_show_nothing_in_common_change_nothing() -> None:
    ordered = np.sort(VALUES)
    assert design_effect(np.tile(np.arange(30), 2), mean_of(np.concatenate([ordered[:30], ordered[:29:-1]]))) == 1.0


def test_where_nothing_varies_each_cluster_counts_as_one_row() -> None:
    assert design_effect(np.repeat(np.arange(6), 5), mean_of(np.ones(30))) == 5.0


def test_a_figure_that_some_clusters_cannot_be_left_out_of_counts_clusters() -> None:
    assert design_effect(np.repeat(np.arange(6), 5), lambda rows: None if rows[0] else 1.0) == 5.0


def plain() -> Estimate:
    return Estimate(value=0.8, interval=Interval(low=0.7, high=0.9, method="kappa", n=60), n=60)


def test_an_interval_stays_on_its_scale_and_counts_clusters() -> None:
    found = clustered(plain(), np.repeat(np.arange(6), 10), statistic=mean_of(np.repeat(VALUES[:6], 10)), bounds=(-1.0, 1.0))
    assert found.interval is not None
    assert (found.interval.high, found.interval.n, found.interval.method) == (1.0, 6, "kappa_cluster")
    assert found.interval.low < 0.5


def test_one_cluster_has_no_interval() -> None:
    clusters = np.zeros(60, dtype=np.int64)
    found = clustered(plain(), clusters, statistic=mean_of(VALUES), bounds=(-1.0, 1.0))
    assert (found.value, found.interval, found.reason) == (0.8, None, "one cluster has no spread to make an interval of")
    assert clustered_mean(plain(), VALUES, clusters, ends=(0.0, 1.0)).interval is None


def test_rows_that_stand_for_themselves_keep_their_interval() -> None:
    assert clustered(plain(), np.arange(60), statistic=mean_of(VALUES), bounds=(-1.0, 1.0)) == plain()
