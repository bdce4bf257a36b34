"""Figures of a judge beside labels, each with an interval that counts what hangs together once."""

from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np

from assay.engine.judging.labelled import Clusters, Labelled, Matched
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
    """A share with its interval; there is at least one value."""
    n = len(passed)
    plain = Estimate(value=float(passed.mean()), interval=wilson(int(passed.sum()), n), n=n)
    return plain if clusters is None else clustered_rate(plain, passed, clusters)


class Verdicts(msgspec.Struct, frozen=True):
    """Passes and failures of the judge and of people, answer by answer, where people say either."""

    judged: Rows
    truth: Rows
    places: Codes
    """Of each answer among all that are labelled."""
    clusters: Codes | None

    @classmethod
    def of(cls, labelled: Sequence[Labelled], clusters: Clusters | None) -> "Verdicts":
        """The verdicts on all labelled answers that have a truth."""
        places = [place for place, one in enumerate(labelled) if one.passed is not None]
        judged = np.array([labelled[place].standing.passed for place in places], dtype=np.bool_)
        truth = np.array([labelled[place].passed for place in places], dtype=np.bool_)
        codes = None if clusters is None else clusters.labelled[places]
        return cls(judged, truth, np.array(places, dtype=np.int64), codes)

    def at(self, places: Sequence[int]) -> "Verdicts":
        """The verdicts on some of the labelled answers."""
        rows = np.isin(self.places, places)
        codes = None if self.clusters is None else self.clusters[rows]
        return Verdicts(self.judged[rows], self.truth[rows], self.places[rows], codes)

    def agreement(self) -> Estimate:
        """How often both say the same."""
        plain = raw_agreement(confusion(self.judged.tolist(), self.truth.tolist()))
        return self._rate(plain, self.judged == self.truth, np.ones_like(self.truth))

    def kappa(self) -> Estimate:
        """Cohen's."""
        judged, truth = self.judged.tolist(), self.truth.tolist()
        plain = cohen_kappa(confusion(judged, truth))
        if self.clusters is None or plain.interval is None:
            return plain
        return clustered(plain, self.clusters, influence=kappa_influence(judged, truth), bounds=(-1.0, 1.0))

    def detection(self) -> Detection:
        """What the judge misses and what it lets through."""
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


def corrected_rate(matched: Matched, detection: Detection, *, clusters: Clusters | None) -> Correction:
    """The pass rate of the answers without labels by Rogan and Gladen's formula."""
    others = np.array([one.passed for one in matched.others], dtype=np.bool_)
    plain = correct_rate(int(others.sum()), len(others), detection=detection)
    if clusters is None or plain.raw.value is None:
        return plain
    raw = clustered_rate(plain.raw, others.astype(np.float64), clusters.others)
    verdicts = Verdicts.of(matched.labelled, clusters)
    assert verdicts.clusters is not None
    good, bad = (len(np.unique(verdicts.clusters[kind])) for kind in (verdicts.truth, ~verdicts.truth))
    if plain.corrected.value is not None and min(good, bad) < MIN_LABELS_EACH:
        reason = (
            f"labels say good in {good} {_units(clusters)} and bad in {bad}, and a corrected rate needs {MIN_LABELS_EACH} of each"
        )
        return Correction(raw=raw, corrected=Estimate(n=plain.corrected.n, reason=reason), labels=plain.labels)
    if plain.corrected.interval is None:
        return msgspec.structs.replace(plain, raw=raw)
    codes = np.concatenate([verdicts.clusters, clusters.others])
    influence = rate_influence(verdicts.judged, verdicts.truth, others=others)
    return msgspec.structs.replace(plain, raw=raw, corrected=clustered(plain.corrected, codes, influence=influence, bounds=_UNIT))


def corrected_mean(matched: Matched, clusters: Clusters | None, *, member: Literal["passed", "score"]) -> Correction:
    """The pass rate or mean score of all answers by PPI++."""
    judge = "passed" if member == "passed" else "raw_score"
    places = [
        place
        for place, one in enumerate(matched.labelled)
        if getattr(one, member) is not None and getattr(one.standing, judge) is not None
    ]
    rest = [place for place, one in enumerate(matched.others) if getattr(one, judge) is not None]
    said = np.array([getattr(matched.labelled[place], member) for place in places], dtype=np.float64)
    judged = np.array([getattr(matched.labelled[place].standing, judge) for place in places], dtype=np.float64)
    unlabelled = np.array([getattr(matched.others[place], judge) for place in rest], dtype=np.float64)
    ends = _ends(matched, member)
    plain = correct_mean(said, judged, unlabelled=unlabelled, ends=ends)
    if clusters is None:
        return plain
    codes = np.concatenate([clusters.labelled[places], clusters.others[rest]])
    everything = np.concatenate([judged, unlabelled])
    is_rate = member == "passed"
    raw = clustered_rate(plain.raw, everything, codes) if is_rate else clustered_mean(plain.raw, everything, codes, ends=ends)
    labelled = len(np.unique(clusters.labelled[places]))
    if plain.corrected.value is not None and labelled < MIN_LABELS:
        reason = f"the labels are of {labelled} {_units(clusters)}, and a corrected mean needs {MIN_LABELS}"
        return Correction(raw=raw, corrected=Estimate(n=plain.corrected.n, reason=reason), labels=plain.labels)
    if plain.corrected.interval is None:
        return msgspec.structs.replace(plain, raw=raw)
    influence = mean_influence(said, judged, unlabelled=unlabelled)
    return msgspec.structs.replace(plain, raw=raw, corrected=clustered(plain.corrected, codes, influence=influence, bounds=ends))


def _ends(matched: Matched, member: str) -> tuple[float, float]:
    scales = {one.scale or "" for one in matched.standings}
    return _UNIT if member == "passed" else _SCALES.get(scales.pop(), _UNIT) if len(scales) == 1 else (float("-inf"), float("inf"))


def _units(clusters: Clusters) -> str:
    return "records" if clusters.name == "record" else "clusters"
