"""Metrics of a run for scripts, with their intervals, to assert on."""

import msgspec

from assay.core import summary
from assay.core.summary import Summary
from assay.presentation.words import decimal, ends_of, rate, with_interval


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
        ends = None if self.low is None or self.high is None else (self.low, self.high)
        return with_interval(self.value, ends, rate if self.is_rate else decimal)


def pass_rate_of(metrics: Summary | None) -> Metric:
    """Return the pass rate of a run, with the interval that accounts for clusters if it has some."""
    return _NONE if metrics is None else _metric(metrics.pass_rate_metric, is_rate=True)


def score_of(metrics: Summary | None) -> Metric:
    """Return the score of a run: the headline of its profile, or else the mean, with mixed scales normalized to 0-1."""
    if metrics is None:
        return Metric(value=None, low=None, high=None, n=0)
    if metrics.profile is not None:
        return _metric(metrics.profile.metric, scale=metrics.profile.scale)
    if metrics.scale is not None:
        return _metric(metrics.raw_score_mean_metric, scale=metrics.scale)
    return _metric(metrics.score_mean_metric)


# Where clusters were declared, the metric carries the interval over them.
def _metric(found: summary.MetricValue, *, scale: str = "0-1", is_rate: bool = False) -> Metric:
    low, high = ends_of(found.interval) or (None, None)
    return Metric(value=found.value, low=low, high=high, n=found.n, scale=scale, is_rate=is_rate)


_NONE = Metric(value=None, low=None, high=None, n=0, is_rate=True)
