"""Metrics of a run into figures that can be asserted on."""

from typing import Any

import msgspec

from assay.core.metrics_summary import interval_of
from assay.surfaces.reporters.run_numbers import RATES, UNKNOWN, decimal, rate


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """A number with its 95 % interval; what is not known is None, never 0."""

    value: float | None
    low: float | None
    high: float | None
    n: int
    """Records that it rests on."""
    scale: str = "0-1"
    is_rate: bool = False
    """A share of records, which is shown as a percentage."""

    def __str__(self) -> str:
        if self.value is None:
            return UNKNOWN
        text = rate if self.is_rate else decimal
        ends = "" if self.low is None or self.high is None else f" [{text(self.low)}, {text(self.high)}]"
        return f"{text(self.value)}{ends}"


def figure_of(metrics: dict[str, Any], member: str, *, n: str = "n_scored", scale: str = "0-1") -> Metric:
    """A member of a metrics summary with its interval: the one that counts clusters, where records hang together."""
    interval = interval_of(metrics, member) or {}
    return Metric(
        value=metrics.get(member),
        low=interval.get("low"),
        high=interval.get("high"),
        n=metrics.get(n) or 0,
        scale=scale,
        is_rate=member in RATES,
    )


def score_of(metrics: dict[str, Any]) -> Metric:
    """What a run is known by: the headline of its profile, or else the mean, of several scales each brought to 0-1."""
    profile = metrics.get("profile")
    if profile is not None:
        return figure_of(profile, "headline", n="n", scale=profile["scale"])
    scale = metrics.get("scale")
    return figure_of(metrics, "raw_score_mean", scale=scale) if scale else figure_of(metrics, "score_mean")
