"""Pass rate or mean that people would have given, estimated from labels on a part of the records."""

from math import ceil, inf, isinf, sqrt

import msgspec
import numpy as np
from numpy.typing import NDArray

from assay.core.summary import LEVEL, Interval
from assay.metrics.agreement import DetectionRates
from assay.metrics.distributions import normal_quantile, student_quantile
from assay.metrics.intervals import Ends, Estimate, Floats, rule_of_three, wilson

# Fewer labels say too little: the correction is refused, with the number that would be enough.
MIN_LABELS_EACH = 10
"""Labels of good records, and of bad ones, below which a corrected pass rate is refused."""
MIN_LABELS = 20
"""Labelled records below which a corrected mean is refused."""
_Z = normal_quantile((1 + LEVEL) / 2)
_ANYWHERE = (-inf, inf)
_AT_EACH_END = 1 / 3
"""Labels that are added at each end of the scale."""

Rows = NDArray[np.bool_]


class CorrectedEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """A corrected number with the raw one, and the effect of more labels."""

    raw: Estimate
    """Value by the judge alone."""
    corrected: Estimate
    """Without a value when the labels cannot support one; `reason` names what is missing."""
    labels: int
    """Labelled records that it rests on."""
    labels_needed: int | None = None
    """Labels that would be enough, after a refusal; None when no number would."""
    labels_to_halve: int | None = None
    """Labels that would halve the interval; None when the records without labels already make it wider than that."""


def correct_rate(passed: int, n: int, *, detection: DetectionRates) -> CorrectedEstimate:
    """Return the pass rate of n judged records, freed from the judge's errors (Rogan and Gladen 1978).

    The interval is that of Lang and Reiczigel (2014), which Lee et al. (2025) use for judges: a few pseudo-observations
    are added to each rate, so that it holds for few labels too. The labelled records must be a random sample of all, or
    random within the truly good and the truly bad ones, and must not be among the n.
    """
    hits, refusals = detection.true_positives, detection.true_negatives
    good, bad = hits + detection.false_negatives, refusals + detection.false_positives
    if n == 0:
        nothing = Estimate(n=0, reason="no record was judged")
        return CorrectedEstimate(raw=nothing, corrected=nothing, labels=good + bad)
    raw = Estimate(value=passed / n, interval=wilson(passed, n), n=n)
    refusal = _refuse_few(good, bad) or _refuse_judge(_smooth_rate(hits, good), _smooth_rate(refusals, bad), labels=good + bad)
    if refusal is not None:
        nothing = Estimate(n=n, reason=refusal.reason)
        return CorrectedEstimate(raw=raw, corrected=nothing, labels=good + bad, labels_needed=refusal.labels_needed)
    # The formula leaves 0..1 where the judge passes fewer records than its false alarms alone explain.
    value = min(1.0, max(0.0, (passed / n + refusals / bad - 1) / (refusals / bad + hits / good - 1)))
    # The pseudo-counts of Agresti and Coull, which Lang and Reiczigel use for this rate.
    rate = _SmoothedRate((passed + _Z**2 / 2) / (n + _Z**2), n + _Z**2)
    return _correct_rate(
        value, rate, sensitivity=_smooth_rate(hits, good), specificity=_smooth_rate(refusals, bad), raw=raw, labels=good + bad
    )


class _SmoothedRate(msgspec.Struct, frozen=True):
    """A share, and the trials that it counts for."""

    share: float
    trials: float

    @property
    def variance(self) -> float:
        return self.share * (1 - self.share) / self.trials


class _TooFewLabels(msgspec.Struct, frozen=True):
    reason: str
    labels_needed: int | None


def _smooth_rate(successes: int, n: int) -> _SmoothedRate:
    # One of each kind is added, so that a judge without an error among few labels is not taken for infallible.
    return _SmoothedRate((successes + 1) / (n + 2), n + 2)


def rate_influence(judged: Rows, truth: Rows, *, others: Rows) -> Floats:
    """Return the influence of each labelled record, then of each other one, on the corrected rate, up to a common factor.

    Some labels say good and some say bad.
    """
    right = judged == truth
    hits, refusals, passed = float(right[truth].mean()), float(right[~truth].mean()), float(others.mean())
    skill = hits + refusals - 1
    value = (passed + refusals - 1) / skill if skill else 0.0
    good, bad = int(truth.sum()), int((~truth).sum())
    labelled = np.where(truth, -value * (right - hits) / good, (1 - value) * (right - refusals) / bad)
    return np.concatenate([labelled, (others - passed) / len(others)])


def _refuse_few(good: int, bad: int) -> _TooFewLabels | None:
    """Explain that one kind of label is too rare; more labels help, unless one kind is missing altogether."""
    fewer, kind = (good, "good") if good < bad else (bad, "bad")
    if fewer >= MIN_LABELS_EACH:
        return None
    needed = ceil(MIN_LABELS_EACH * (good + bad) / fewer) if fewer else None
    more = f"; about {needed} labels like these would do" if needed else ""
    reason = f"{fewer} of {good + bad} labels say {kind}, and a corrected rate needs {MIN_LABELS_EACH} of each kind{more}"
    return _TooFewLabels(reason, needed)


def _refuse_judge(sensitivity: _SmoothedRate, specificity: _SmoothedRate, *, labels: int) -> _TooFewLabels | None:
    """Refuse a judge whose verdicts may be unrelated to the labels: it can correct nothing."""
    skill = sensitivity.share + specificity.share - 1
    half = _Z * sqrt(sensitivity.variance + specificity.variance)
    # The corrected rate divides by this; where it may be 0, the interval would be the whole scale.
    if skill - half > 0:
        return None
    if skill <= 0:
        return _TooFewLabels(
            "the judge passes bad records as often as good ones: no number of labels makes its verdicts say anything", None
        )
    needed = ceil(labels * (half / skill) ** 2) + 1
    reason = (
        f"{labels} labels cannot tell the judge from a coin (sensitivity + specificity - 1 is {skill:.2f} ± {half:.2f});"
        f" about {needed} would, if it is as good as it looks"
    )
    return _TooFewLabels(reason, needed)


def _correct_rate(
    value: float, rate: _SmoothedRate, *, sensitivity: _SmoothedRate, specificity: _SmoothedRate, raw: Estimate, labels: int
) -> CorrectedEstimate:
    skill = sensitivity.share + specificity.share - 1
    middle = (rate.share + specificity.share - 1) / skill
    # The rates stand in the denominator too, which moves the middle.
    shifted = middle + 2 * _Z**2 * (middle * sensitivity.variance - (1 - middle) * specificity.variance)
    from_labels = (1 - middle) ** 2 * specificity.variance + middle**2 * sensitivity.variance
    half = _Z * sqrt(rate.variance + from_labels) / skill
    low, high = max(0.0, min(value, shifted - half)), min(1.0, max(value, shifted + half))
    return CorrectedEstimate(
        raw=raw,
        corrected=Estimate(value=value, interval=Interval(low=low, high=high, method="rogan_gladen", n=raw.n), n=raw.n),
        labels=labels,
        labels_to_halve=_labels_to_halve(labels, from_records=rate.variance, from_labels=from_labels),
    )


def correct_mean(labels: Floats, judged: Floats, *, unlabelled: Floats, ends: Ends = _ANYWHERE) -> CorrectedEstimate:
    """Return the mean score that people would give: the judge's scores, shifted by how people differ from it (PPI++).

    `judged` are the judge's scores of the labelled records, `unlabelled` its scores of the others, which must be records
    of the same kind. The judge's weight is tuned so that a useless judge costs nothing (Angelopoulos, Duchi, Zrnic 2023).
    `ends` of the scale bound the interval; where all labels are equal, they say what others may be.
    """
    n, others = len(labels), len(unlabelled)
    raw = _mean(np.concatenate([judged, unlabelled]), ends=ends)
    if n < MIN_LABELS:
        reason = f"there are {n} labels, and a corrected mean needs {MIN_LABELS}"
        return CorrectedEstimate(raw=raw, corrected=Estimate(n=n, reason=reason), labels=n, labels_needed=MIN_LABELS)
    # Without other records there is nothing to correct, and equal labels say that the judge's spread means nothing.
    if others < 2 or np.ptp(labels) == 0:
        return CorrectedEstimate(raw=raw, corrected=_mean(labels, ends=ends), labels=n)
    # A judge that does not go with the labels gets the weight 0, and the estimate is the mean of the labels.
    trust = _trust(labels, judged, unlabelled=unlabelled)
    rest = labels - trust * judged
    value = float(trust * unlabelled.mean() + rest.mean())
    # The mean of the labels takes a degree of freedom, and trust in the judge another.
    freedom = n - 2 if trust else n - 1
    middle, from_labels = _of_labels(value, rest, ends=ends, freedom=freedom)
    from_records = trust**2 * float(unlabelled.var(ddof=1)) / others
    total = from_records + from_labels
    half = student_quantile((1 + LEVEL) / 2, total**2 / (from_records**2 / (others - 1) + from_labels**2 / freedom)) * sqrt(total)
    return CorrectedEstimate(
        raw=raw,
        corrected=_clip_interval(value, half, ends=ends, middle=middle, method="ppi", n=n),
        labels=n,
        labels_to_halve=_labels_to_halve(n, from_records=from_records, from_labels=from_labels),
    )


def _of_labels(value: float, rest: Floats, *, ends: Ends, freedom: int) -> tuple[float, float]:
    """Return the middle of the interval and the variance that labels bring, with a third of a label added at each end of the scale.

    Few labels hardly show the rare ones that differ much from the judge.
    """
    n, squares = len(rest), float(np.square(rest - rest.mean()).sum())
    if isinf(ends[1] - ends[0]):
        return value, squares / freedom / n
    more = 2 * _AT_EACH_END
    middle = (n * value + _AT_EACH_END * sum(ends)) / (n + more)
    squares += n * (value - middle) ** 2 + _AT_EACH_END * sum((end - middle) ** 2 for end in ends)
    return middle, squares / (freedom + more) / (n + more)


def mean_influence(labels: Floats, judged: Floats, *, unlabelled: Floats) -> Floats:
    """Return the influence of each labelled record, then of each other one, on the corrected mean, up to a common factor."""
    if len(unlabelled) < 2 or np.ptp(labels) == 0:
        return np.concatenate([labels - labels.mean(), np.zeros(len(unlabelled))])
    trust = _trust(labels, judged, unlabelled=unlabelled)
    rest = labels - trust * judged
    return np.concatenate([(rest - rest.mean()) / len(rest), trust * (unlabelled - unlabelled.mean()) / len(unlabelled)])


def _trust(labels: Floats, judged: Floats, *, unlabelled: Floats) -> float:
    """Return the weight of the judge that makes the interval shortest, within 0 and 1."""
    everything = np.concatenate([judged, unlabelled])
    spread = float(everything.var(ddof=1))
    if spread == 0:
        return 0.0
    together = float(((labels - labels.mean()) * (judged - judged.mean())).sum()) / (len(labels) - 1)
    # Within 0 and 1: noise in few labels could otherwise turn the judge around, or trust it more than the labels.
    return min(1.0, max(0.0, together / (spread * (1 + len(labels) / len(unlabelled)))))


def _mean(values: Floats, *, ends: Ends) -> Estimate:
    """Return the mean of values themselves; equal ones have an interval only if it is known what others may be."""
    n = len(values)
    if n == 0:
        return Estimate(n=0, reason="there are no records")
    if n == 1:
        return Estimate(value=float(values[0]), n=1, reason="one record has no spread to make an interval of")
    if np.ptp(values) == 0:
        if isinf(ends[1] - ends[0]):
            return Estimate(value=float(values[0]), n=n, reason="all values are equal: no spread to make an interval of")
        return _clip_interval(float(values[0]), (ends[1] - ends[0]) * rule_of_three(n), ends=ends, method="rule_of_three", n=n)
    half = student_quantile((1 + LEVEL) / 2, n - 1) * float(values.std(ddof=1)) / sqrt(n)
    return _clip_interval(float(values.mean()), half, ends=ends, method="t", n=n)


def _clip_interval(value: float, half: float, *, ends: Ends, method: str, n: int, middle: float | None = None) -> Estimate:
    """Clip an interval to the scale, whose ends PPI++ does not know; the middle is that of the clipped interval."""
    lowest, highest = ends
    value = min(highest, max(lowest, value))
    middle = value if middle is None else middle
    low, high = max(lowest, min(value, middle - half)), min(highest, max(value, middle + half))
    interval = Interval(low=low, high=high, method=method, n=n)
    return Estimate(value=value, interval=interval, n=n)


def _labels_to_halve(labels: int, *, from_records: float, from_labels: float) -> int | None:
    """Return how many labels would halve the interval; None where none would, since they shrink their own variance only."""
    # Half the width is a quarter of the variance, of which more labels can only lower their own part.
    wanted = (from_records + from_labels) / 4 - from_records
    return ceil(labels * from_labels / wanted) if wanted > 0 else None
