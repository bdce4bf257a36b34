"""How `metrics_summary.json` is read: which interval a figure has, and the times of calls; one way for all who show or decide."""

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

Json = dict[str, Any]


class Ordered(Protocol):
    """Sorted numbers, in a list or an array."""

    def __len__(self) -> int: ...
    def __getitem__(self, place: int, /) -> Any: ...


def percentile(ordered: Ordered, share: float) -> float:
    """The value below which a share of sorted values lies, interpolated linearly; the same of a run under way and at its end."""
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    low, high = float(ordered[below]), float(ordered[above])
    return low + (high - low) * (place - below)


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """What is said about the times of some calls, in milliseconds; None where no time is known.

    A member that is added has a default: earlier runs do not have it.
    """

    n: int
    """Records, or calls, whose time is known."""
    p50: float | None
    p95: float | None
    mean: float | None
    max: float | None

    def figures(self) -> dict[str, float | None]:
        """All that is said, by name."""
        return {name: getattr(self, name) for name in self.__struct_fields__ if name != "n"}


def latencies(metrics: Mapping[str, Any]) -> dict[str, Latency]:
    """The times of the candidate (`model`), of the judges (`judge`) and of whole records (`end_to_end`)."""
    return msgspec.convert(metrics["latency_ms"], dict[str, Latency])


def interval_of(figures: Mapping[str, Any], member: str) -> Json | None:
    """The interval that is meant with a figure: the one that counts clusters, where records hang together."""
    return cluster_interval_of(figures, member) or figures.get(f"{member}_interval")


def error_of(figures: Mapping[str, Any], member: str) -> float | None:
    """The standard error that is meant with a figure: the cluster-robust one where records belong to clusters."""
    robust: float | None = figures.get(f"{member}_cluster_standard_error")
    return figures.get(f"{member}_standard_error") if robust is None else robust


def cluster_interval_of(figures: Mapping[str, Any], member: str) -> Json | None:
    """The interval of a figure that counts clusters; None where records stand for themselves."""
    if member != "raw_score_mean":
        return figures.get(f"{member}_cluster_interval")
    found: Json | None = figures.get("score_mean_cluster_interval")
    if found is None or figures["scale"] != "1-5":
        return found
    return {**found, "low": 1 + 4 * found["low"], "high": 1 + 4 * found["high"]}
