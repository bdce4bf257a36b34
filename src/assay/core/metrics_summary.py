"""How `metrics_summary.json` is read: which interval a figure has, and the times of calls; one way for all who show or decide."""

from collections.abc import Mapping
from typing import Any

import msgspec

from assay.core.canonical import JsonObject
from assay.core.summary import Latency


def latencies(metrics: Mapping[str, object]) -> dict[str, Latency]:
    """The times of the candidate (`model`), of the judges (`judge`) and of whole records (`end_to_end`)."""
    return msgspec.convert(metrics["latency_ms"], dict[str, Latency])


def interval_of(figures: Mapping[str, Any], member: str) -> JsonObject | None:
    """The interval that is meant with a figure: the one that counts clusters, where records hang together."""
    return cluster_interval_of(figures, member) or figures.get(f"{member}_interval")


def error_of(figures: Mapping[str, Any], member: str) -> float | None:
    """The standard error that is meant with a figure: the cluster-robust one where records belong to clusters."""
    robust: float | None = figures.get(f"{member}_cluster_standard_error")
    return figures.get(f"{member}_standard_error") if robust is None else robust


def cluster_interval_of(figures: Mapping[str, Any], member: str) -> JsonObject | None:
    """The interval of a figure that counts clusters; None where records stand for themselves."""
    if member != "raw_score_mean":
        return figures.get(f"{member}_cluster_interval")
    found: JsonObject | None = figures.get("score_mean_cluster_interval")
    if found is None or figures["scale"] != "1-5":
        return found
    return {**found, "low": 1 + 4 * found["low"], "high": 1 + 4 * found["high"]}
