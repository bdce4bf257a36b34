"""Records that were asked several times: pass@k and pass^k, variance within and between records, intervals by record."""

from collections import Counter
from math import comb, sqrt
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from assay.metrics.distributions import student_quantile
from assay.metrics.intervals import LEVEL, Interval, cluster_interval

NOT_IN_RUN = "not_in_run"
"""Why a record is left out of whose samples this run has only some, as a retry has."""

Json = dict[str, Any]
Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
_Z = 1.959963984540054


class Samples(msgspec.Struct, frozen=True, kw_only=True):
    """The evaluations of records that were each asked `repeat` times, as columns of equal length."""

    repeat: int
    record: Codes
    """Which record an evaluation is of, as a number from 0."""
    score: Floats
    """0..1; not a number where there is none."""
    passed: Floats
    """1 or 0; of an evaluation with a score."""
    reason: tuple[str, ...]
    """Why an evaluation has no score; empty for those that have one."""


def pass_at_k(n: int, passes: int, k: int) -> float:
    """The chance that one of k answers passes, estimated without bias from `passes` among n answers."""
    return 1 - comb(n - passes, k) / comb(n, k)


def pass_hat_k(n: int, passes: int, k: int) -> float:
    """The chance that all of k answers pass (pass^k), estimated without bias from `passes` among n answers."""
    return comb(passes, k) / comb(n, k)


def summarize_repeats(samples: Samples) -> Json:
    """The `repeats` block of a summary: only records all of whose answers have a score are in it, the others are counted."""
    records = int(samples.record.max()) + 1 if len(samples.record) else 0
    is_scored = ~np.isnan(samples.score)
    scored = np.bincount(samples.record[is_scored], minlength=records)
    is_complete = scored == samples.repeat
    kept = is_scored & is_complete[samples.record]
    passes = np.bincount(samples.record[kept], weights=samples.passed[kept], minlength=records)[is_complete].astype(np.int64)
    return {
        "repeat": samples.repeat,
        "n_records": records,
        "n_complete": int(is_complete.sum()),
        "n_left_out": int((~is_complete).sum()),
        "left_out": _left_out(samples, is_complete),
        "passes": [
            {"passes": count, "records": found}
            for count, found in enumerate(np.bincount(passes, minlength=samples.repeat + 1).tolist())
        ],
        "pass_at_k": _by_k(samples.repeat, passes, estimate=pass_at_k),
        "pass_hat_k": _by_k(samples.repeat, passes, estimate=pass_hat_k),
        "variance": {
            "score": variance_parts(samples.score[kept], samples.record[kept]),
            "passed": variance_parts(samples.passed[kept], samples.record[kept]),
        },
    }


def _left_out(samples: Samples, is_complete: NDArray[np.bool_]) -> dict[str, int]:
    """Records without all their scores, each under what became of the first of its answers that has none."""
    first: dict[int, str] = {}
    for row in np.flatnonzero(np.isnan(samples.score)).tolist():
        first.setdefault(int(samples.record[row]), samples.reason[row])
    reasons = Counter(first.get(record, NOT_IN_RUN) for record in np.flatnonzero(~is_complete).tolist())
    return dict(sorted(reasons.items()))


def _by_k(repeat: int, passes: Codes, *, estimate: Any) -> list[Json]:
    """The mean over records for k = 1 up to the number of answers, each with its interval by records."""
    found: list[Json] = []
    for k in range(1, repeat + 1):
        table = np.array([estimate(repeat, count, k) for count in range(repeat + 1)])
        values = table[passes]
        interval = rate_interval(values, np.arange(len(values)), trials=repeat * len(values))
        value = float(values.mean()) if len(values) else None
        found.append({"k": k, "value": value, "interval": None if interval is None else interval.to_json()})
    return found


def variance_parts(values: Floats, record: Codes) -> Json:
    """Variance of answers within a record and between records, by one-way analysis of variance; every record has equally many.

    `between` is what is left of the spread of the records' means when the part that answers alone explain is taken off; by chance
    it may be below 0. None where there are too few values to tell.
    """
    _, index, counts = np.unique(record, return_inverse=True, return_counts=True)
    records, repeat = len(counts), int(counts[0]) if len(counts) else 0
    if not records or repeat < 2:
        return {"within": None, "between": None, "intraclass_correlation": None}
    means = np.bincount(index, weights=values) / repeat
    within = float(np.square(values - means[index]).sum()) / (records * (repeat - 1))
    if records < 2:
        return {"within": within, "between": None, "intraclass_correlation": None}
    between = float(means.var(ddof=1)) - within / repeat
    total = within + between
    return {"within": within, "between": between, "intraclass_correlation": between / total if total > 0 else None}


def score_interval(values: Floats, records: NDArray[np.int32]) -> Interval | None:
    """The interval of a mean score over several answers to each record; scores of 0 and 1 alone are a rate."""
    if ((values == 0) | (values == 1)).all():
        return rate_interval(values, records.astype(np.int64))
    return cluster_interval(values, records)


def rate_interval(values: Floats, groups: Codes, *, trials: int | None = None) -> Interval | None:
    """The interval of a mean of values from 0 to 1 whose groups hang together; None for fewer than two groups.

    Wilson's, for as many independent trials as would err as much as the groups do (Korn and Graubard), at most `trials`. Where
    all values are 0 or all are 1 the groups do not show how much they err, so that each of them is one trial.
    """
    _, index = np.unique(groups, return_inverse=True)
    count = int(index.max()) + 1 if len(index) else 0
    if count < 2:
        return None
    rate = float(values.mean())
    bounds = _wilson(rate, _effective(values, index, most=trials or len(values)))
    return Interval(low=bounds[0], high=bounds[1], method="wilson_cluster", n=count, level=LEVEL)


def _effective(values: Floats, index: NDArray[np.intp], *, most: int) -> float:
    """How many independent trials of the same rate would err as much."""
    rate, count = float(values.mean()), int(index.max()) + 1
    spread = rate * (1 - rate)
    if spread <= 0:
        return float(count)
    sums = np.bincount(index, weights=values - rate)
    error = float(np.square(sums).sum()) * count / (count - 1) / len(values) ** 2
    found = min(spread / error, float(most)) if error > 0 else float(most)
    return found * (_Z / student_quantile((1 + LEVEL) / 2, count - 1)) ** 2


def _wilson(rate: float, n: float) -> tuple[float, float]:
    squared = _Z * _Z
    middle = (rate + squared / (2 * n)) / (1 + squared / n)
    half = _Z * sqrt(max(0.0, rate * (1 - rate)) / n + squared / (4 * n * n)) / (1 + squared / n)
    return (0.0 if rate <= 0 else max(0.0, middle - half), 1.0 if rate >= 1 else min(1.0, middle + half))
