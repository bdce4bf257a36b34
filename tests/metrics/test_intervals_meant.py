"""Which interval is meant with a figure: the one that counts clusters, where records hang together."""

import pytest
from msgspec.structs import replace

from assay.core.summary import Summary
from assay.metrics.facts import RecordFacts
from assay.metrics.summary import summarize


def records(scale: str, *, cluster: str | None) -> Summary:
    scores = {"1-5": (1.0, 3.0, 5.0, 5.0), "0-1": (0.0, 0.5, 1.0, 1.0)}[scale]
    return summarize(
        RecordFacts(
            position=number,
            status="evaluated",
            score=(score - 1) / 4 if scale == "1-5" else score,
            passed=score >= 1,
            raw_score=score,
            scale=scale,
            cluster=cluster and f"{cluster}{number % 2}",
        )
        for number, score in enumerate(scores)
    )


@pytest.mark.parametrize("member", ["pass_rate", "score_mean", "raw_score_mean"])
def test_without_clusters_it_is_that_of_the_records(member: str) -> None:
    metrics = records("1-5", cluster=None)
    found = getattr(metrics, f"{member}_metric").interval
    assert found == getattr(metrics, f"{member}_interval")
    assert found.n == 4


@pytest.mark.parametrize("member", ["pass_rate", "score_mean"])
def test_with_clusters_it_is_theirs(member: str) -> None:
    metrics = records("1-5", cluster="book")
    found = getattr(metrics, f"{member}_metric").interval
    assert found == getattr(metrics, f"{member}_cluster_interval")
    assert found.n == 2


@pytest.mark.parametrize(("scale", "factor", "first"), [("1-5", 4, 1), ("0-1", 1, 0)])
def test_with_clusters_that_of_a_mean_is_on_its_own_scale(scale: str, factor: int, first: int) -> None:
    metrics = records(scale, cluster="book")
    found, mean = metrics.raw_score_mean_metric.interval, metrics.score_mean_cluster_interval
    assert mean is not None
    assert found == replace(mean, low=first + factor * mean.low, high=first + factor * mean.high)
