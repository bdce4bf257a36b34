"""Records that were asked several times: pass@k and pass^k, variance within and between records."""

from collections import Counter
from collections.abc import Callable
from math import comb

import msgspec
import numpy as np
from numpy.typing import NDArray

from assay.core.summary import Interval, PassAtK, PassCount, RepeatSummary, RepeatVariance, VarianceParts
from assay.metrics.intervals import cluster_interval, standard_error

NOT_IN_RUN = "not_in_run"
"""Reason to leave out a record of which this run has only some samples, as a retry has."""

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


class RepeatedAnswers(msgspec.Struct, frozen=True, kw_only=True):
    """Evaluations of records that were each asked `repeat` times, as columns of equal length."""

    repeat: int
    record: Codes
    """Number of the record that an evaluation belongs to, from 0."""
    score: Floats
    """0..1; not a number where there is none."""
    passed: Floats
    """1 or 0; of an evaluation with a score."""
    reason: tuple[str, ...]
    """Reason why an evaluation has no score; empty for those that have one."""


def pass_at_k(n: int, passes: int, k: int) -> float:
    """Return the chance that one of k answers passes, estimated without bias from `passes` among n answers."""
    # Counted out over all choices of k answers; 1 - (1 - rate)^k is too low for small n.
    return 1 - comb(n - passes, k) / comb(n, k)


def pass_hat_k(n: int, passes: int, k: int) -> float:
    """Return the chance that all of k answers pass (pass^k), estimated without bias from `passes` among n answers."""
    return comb(passes, k) / comb(n, k)


def summarize_repeats(samples: RepeatedAnswers) -> RepeatSummary:
    """Return the `repeats` of a summary: only records all of whose answers have a score are in it, the others are counted."""
    records = int(samples.record.max()) + 1 if len(samples.record) else 0
    is_scored = ~np.isnan(samples.score)
    scored = np.bincount(samples.record[is_scored], minlength=records)
    # A record with a lost answer is left out as a whole: the estimates above need the same n for every record.
    is_complete = scored == samples.repeat
    kept = is_scored & is_complete[samples.record]
    passes = np.bincount(samples.record[kept], weights=samples.passed[kept], minlength=records)[is_complete].astype(np.int64)
    counts = np.bincount(passes, minlength=samples.repeat + 1).tolist()
    return RepeatSummary(
        repeat=samples.repeat,
        n_records=records,
        n_complete=int(is_complete.sum()),
        n_left_out=int((~is_complete).sum()),
        left_out=_left_out(samples, is_complete),
        passes=tuple(PassCount(passes=count, records=found) for count, found in enumerate(counts)),
        pass_at_k=_by_k(samples.repeat, passes, estimate=pass_at_k),
        pass_hat_k=_by_k(samples.repeat, passes, estimate=pass_hat_k),
        variance=RepeatVariance(
            score=variance_parts(samples.score[kept], samples.record[kept]),
            passed=variance_parts(samples.passed[kept], samples.record[kept]),
        ),
    )


def _left_out(samples: RepeatedAnswers, is_complete: NDArray[np.bool_]) -> dict[str, int]:
    """Count records without all their scores, each under the reason of the first of its answers without one."""
    first: dict[int, str] = {}
    for row in np.flatnonzero(np.isnan(samples.score)).tolist():
        first.setdefault(int(samples.record[row]), samples.reason[row])
    reasons = Counter(first.get(record, NOT_IN_RUN) for record in np.flatnonzero(~is_complete).tolist())
    return dict(sorted(reasons.items()))


def _by_k(repeat: int, passes: Codes, *, estimate: Callable[[int, int, int], float]) -> tuple[PassAtK, ...]:
    """Return the mean over records for k = 1 up to the number of answers, each with its interval by records."""
    found: list[PassAtK] = []
    for k in range(1, repeat + 1):
        table = np.array([estimate(repeat, count, k) for count in range(repeat + 1)])
        values = table[passes]
        interval = _interval(values, passes, repeat=repeat, k=k)
        value = float(values.mean()) if len(values) else None
        found.append(PassAtK(k=k, value=value, interval=interval, standard_error=standard_error(values)))
    return tuple(found)


def _interval(values: Floats, passes: Codes, *, repeat: int, k: int) -> Interval | None:
    """Return the interval by records; the chance that one answer passes is the pass rate, and has its interval."""
    records = np.arange(len(values))
    if k > 1:
        return cluster_interval(values, records)
    answers = np.arange(repeat)[None, :] < passes[:, None]
    return cluster_interval(answers.ravel().astype(np.float64), np.repeat(records, repeat))


def variance_parts(values: Floats, record: Codes) -> VarianceParts:
    """Return the variance of answers within a record and between records, by one-way analysis of variance.

    `between` is what is left of the spread of the records' means when the part that answers alone explain is taken off; by chance
    it may be below 0. None where there are too few values to tell.
    """
    _, index, counts = np.unique(record, return_inverse=True, return_counts=True)
    records, repeat = len(counts), int(counts[0]) if len(counts) else 0
    if not records or repeat < 2:
        return VarianceParts(within=None, between=None, intraclass_correlation=None)
    means = np.bincount(index, weights=values) / repeat
    within = float(np.square(values - means[index]).sum()) / (records * (repeat - 1))
    if records < 2:
        return VarianceParts(within=within, between=None, intraclass_correlation=None)
    # Not cut at 0: a negative estimate tells that records differ less than chance would have it.
    between = float(means.var(ddof=1)) - within / repeat
    total = within + between
    return VarianceParts(within=within, between=between, intraclass_correlation=between / total if total > 0 else None)
