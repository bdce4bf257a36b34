"""Metrics of a judge against labels, with intervals that count each cluster of dependent answers once."""

from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np

from assay.engine.judge_quality.label_matching import Clusters, LabelledAnswer, LabelMatches
from assay.metrics.agreement import Detection, cohen_kappa, confusion, detect, kappa_influence, raw_agreement
from assay.metrics.clusters import Codes, clustered, clustered_mean, clustered_rate
from assay.metrics.correction import (
    MIN_LABELS,
    MIN_LABELS_EACH,
    Correction,
    Rows,
    correct_mean,
    correct_rate,
    mean_influence,
    rate_influence,
)
from assay.metrics.intervals import Estimate, Floats, wilson

_SCALES = {"1-5": (1.0, 5.0)}
_UNIT = (0.0, 1.0)


def rate(passed: Floats, clusters: Codes | None) -> Estimate:
    """Return a proportion with its interval; there is at least one value."""
    n = len(passed)
    plain = Estimate(value=float(passed.mean()), interval=wilson(int(passed.sum()), n), n=n)
    return plain if clusters is None else clustered_rate(plain, passed, clusters)


class JudgeLabelPairs(msgspec.Struct, frozen=True):
    """Verdicts of the judge and of the labels, answer by answer, for answers whose labels decide pass or fail."""

    judged: Rows
    truth: Rows
    positions: Codes
    """Position of each answer among all labelled ones."""
    clusters: Codes | None

    @classmethod
    def of(cls, labelled: Sequence[LabelledAnswer], clusters: Clusters | None) -> "JudgeLabelPairs":
        """Return the pairs of all labelled answers that have a majority."""
        positions = [position for position, one in enumerate(labelled) if one.passed is not None]
        judged = np.array([labelled[position].prediction.passed for position in positions], dtype=np.bool_)
        truth = np.array([labelled[position].passed for position in positions], dtype=np.bool_)
        codes = None if clusters is None else clusters.labelled[positions]
        return cls(judged, truth, np.array(positions, dtype=np.int64), codes)

    def at(self, positions: Sequence[int]) -> "JudgeLabelPairs":
        """Return the pairs of some of the labelled answers."""
        rows = np.isin(self.positions, positions)
        codes = None if self.clusters is None else self.clusters[rows]
        return JudgeLabelPairs(self.judged[rows], self.truth[rows], self.positions[rows], codes)

    def agreement(self) -> Estimate:
        """Return the rate at which judge and labels agree."""
        plain = raw_agreement(confusion(self.judged.tolist(), self.truth.tolist()))
        return self._rate(plain, self.judged == self.truth, np.ones_like(self.truth))

    def kappa(self) -> Estimate:
        """Return Cohen's kappa."""
        judged, truth = self.judged.tolist(), self.truth.tolist()
        plain = cohen_kappa(confusion(judged, truth))
        if self.clusters is None or plain.interval is None:
            return plain
        return clustered(plain, self.clusters, influence=kappa_influence(judged, truth), bounds=(-1.0, 1.0))

    def detection(self) -> Detection:
        """Return the judge's sensitivity, specificity and predictive values."""
        plain = detect(self.judged.tolist(), self.truth.tolist())
        right = self.judged == self.truth
        return msgspec.structs.replace(
            plain,
            sensitivity=self._rate(plain.sensitivity, right, self.truth),
            specificity=self._rate(plain.specificity, right, ~self.truth),
            positive_predictive=self._rate(plain.positive_predictive, right, self.judged),
            negative_predictive=self._rate(plain.negative_predictive, right, ~self.judged),
        )

    def _rate(self, plain: Estimate, right: Rows, among: Rows) -> Estimate:
        if self.clusters is None:
            return plain
        return clustered_rate(plain, right[among].astype(np.float64), self.clusters[among])


def corrected_rate(matched: LabelMatches, detection: Detection, *, clusters: Clusters | None) -> Correction:
    """Correct the pass rate of the unlabelled answers by Rogan and Gladen's formula."""
    others = np.array([one.passed for one in matched.others], dtype=np.bool_)
    plain = correct_rate(int(others.sum()), len(others), detection=detection)
    if clusters is None or plain.raw.value is None:
        return plain
    raw = clustered_rate(plain.raw, others.astype(np.float64), clusters.others)
    pairs = JudgeLabelPairs.of(matched.labelled, clusters)
    assert pairs.clusters is not None
    good, bad = (len(np.unique(pairs.clusters[kind])) for kind in (pairs.truth, ~pairs.truth))
    if plain.corrected.value is not None and min(good, bad) < MIN_LABELS_EACH:
        reason = (
            f"labels say good in {good} {_units(clusters)} and bad in {bad}, and a corrected rate needs {MIN_LABELS_EACH} of each"
        )
        return Correction(raw=raw, corrected=Estimate(n=plain.corrected.n, reason=reason), labels=plain.labels)
    if plain.corrected.interval is None:
        return msgspec.structs.replace(plain, raw=raw)
    codes = np.concatenate([pairs.clusters, clusters.others])
    influence = rate_influence(pairs.judged, pairs.truth, others=others)
    return msgspec.structs.replace(plain, raw=raw, corrected=clustered(plain.corrected, codes, influence=influence, bounds=_UNIT))


def corrected_mean(matched: LabelMatches, clusters: Clusters | None, *, member: Literal["passed", "score"]) -> Correction:
    """Correct the pass rate or mean score of all answers by prediction-powered inference (PPI++)."""
    judge = "passed" if member == "passed" else "raw_score"
    positions = [
        position
        for position, one in enumerate(matched.labelled)
        if getattr(one, member) is not None and getattr(one.prediction, judge) is not None
    ]
    unlabelled_positions = [position for position, one in enumerate(matched.others) if getattr(one, judge) is not None]
    labels = np.array([getattr(matched.labelled[position], member) for position in positions], dtype=np.float64)
    judged = np.array([getattr(matched.labelled[position].prediction, judge) for position in positions], dtype=np.float64)
    unlabelled = np.array([getattr(matched.others[position], judge) for position in unlabelled_positions], dtype=np.float64)
    bounds = _scale_bounds(matched, member)
    plain = correct_mean(labels, judged, unlabelled=unlabelled, ends=bounds)
    if clusters is None:
        return plain
    codes = np.concatenate([clusters.labelled[positions], clusters.others[unlabelled_positions]])
    everything = np.concatenate([judged, unlabelled])
    is_rate = member == "passed"
    raw = clustered_rate(plain.raw, everything, codes) if is_rate else clustered_mean(plain.raw, everything, codes, ends=bounds)
    labelled = len(np.unique(clusters.labelled[positions]))
    if plain.corrected.value is not None and labelled < MIN_LABELS:
        reason = f"the labels are of {labelled} {_units(clusters)}, and a corrected mean needs {MIN_LABELS}"
        return Correction(raw=raw, corrected=Estimate(n=plain.corrected.n, reason=reason), labels=plain.labels)
    if plain.corrected.interval is None:
        return msgspec.structs.replace(plain, raw=raw)
    influence = mean_influence(labels, judged, unlabelled=unlabelled)
    return msgspec.structs.replace(plain, raw=raw, corrected=clustered(plain.corrected, codes, influence=influence, bounds=bounds))


def _scale_bounds(matched: LabelMatches, member: str) -> tuple[float, float]:
    scales = {one.scale or "" for one in matched.predictions}
    return _UNIT if member == "passed" else _SCALES.get(scales.pop(), _UNIT) if len(scales) == 1 else (float("-inf"), float("inf"))


def _units(clusters: Clusters) -> str:
    return "records" if clusters.name == "record" else "clusters"
