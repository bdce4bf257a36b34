"""The scores that a profile gives records into its one figure, with its interval and what it leaves out."""

from math import fsum
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from assay.core.summary import Interval
from assay.metrics.profiles import Profile

Floats = NDArray[np.float64]
Rows = NDArray[np.uint32]
Numbers = NDArray[np.integer[Any]]


class CondensedRecords(NamedTuple):
    """One value for each record, however often it was answered, and the row that stands for it."""

    values: Floats
    rows: Rows


def condense(profile: Profile, scores: Floats, *, rows: Rows, records: Numbers) -> CondensedRecords:
    """The repeats of each record as one value; `scores` and `records` belong to `rows`, and NaN is no score.

    What has no score is left out of its record's value. Where the profile is compatible with a benchmark that skips a record of
    which an answer failed, so does this.
    """
    is_scored = ~np.isnan(scores)
    if profile.is_compat and profile.compat.unanswered == "left_out":
        is_scored &= ~np.isin(records, records[~is_scored])
    scores, rows, records = scores[is_scored], rows[is_scored], records[is_scored]
    _, first, counts = np.unique(records, return_index=True, return_counts=True)
    if len(first) == len(scores):
        return CondensedRecords(scores, rows)
    ordered = scores[np.lexsort((scores, records))]
    starts = np.concatenate(([0], np.cumsum(counts)[:-1]))
    if profile.repeats == "median":
        return CondensedRecords((ordered[starts + (counts - 1) // 2] + ordered[starts + counts // 2]) / 2, rows[first])
    return CondensedRecords(np.add.reduceat(ordered, starts) / counts, rows[first])


def headline(profile: Profile, values: Floats) -> float | None:
    """The figure of a benchmark from one value for each record; None without any."""
    return _clipped(profile, _mean(profile, values)) if len(values) else None


class HeadlineFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What a summary says of the headline; intervals and standard errors are those of the plain mean."""

    headline: float | None
    headline_interval: Interval | None
    headline_cluster_interval: Interval | None
    headline_standard_error: float | None
    headline_cluster_standard_error: float | None
    mean: float | None
    n: int


def headline_figures(
    profile: Profile,
    values: Floats,
    *,
    interval: Interval | None,
    clustered: Interval | None,
    errors: tuple[float | None, float | None],
) -> HeadlineFigures:
    """The headline from one value for each record; intervals and standard errors (plain, clustered) are those of the plain mean."""
    plain, robust = (None if error is None else profile.factor * error for error in errors)
    return HeadlineFigures(
        headline=headline(profile, values),
        headline_interval=_shown(profile, interval),
        headline_cluster_interval=_shown(profile, clustered),
        headline_standard_error=plain,
        headline_cluster_standard_error=robust,
        mean=_mean(profile, values) if len(values) else None,
        n=len(values),
    )


def _mean(profile: Profile, values: Floats) -> float:
    return profile.factor * fsum(values) / len(values)


def _clipped(profile: Profile, value: float) -> float:
    floor = value if profile.lowest is None else max(profile.lowest, value)
    return floor if profile.highest is None else min(profile.highest, floor)


def _shown(profile: Profile, interval: Interval | None) -> Interval | None:
    """The interval goes where its value goes: what is clipped keeps its order, so the ends stay the ends."""
    if interval is None:
        return None
    low, high = (_clipped(profile, profile.factor * end) for end in (interval.low, interval.high))
    # Nothing scores above the top of its scale; below the bottom penalties may take it.
    high = min(high, float(profile.scale.rpartition("-")[2]))
    return msgspec.structs.replace(interval, low=low, high=high)
