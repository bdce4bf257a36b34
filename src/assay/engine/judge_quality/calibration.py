"""Metrics of a judge against labels, with intervals that count each cluster of dependent answers once."""

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec
import numpy as np

from assay.core.canonical import JsonObject
from assay.core.errors import RunNotFound
from assay.core.plan import Plan
from assay.engine.judge_quality.label_matching import Clusters, LabelledAnswer, LabelMatches, check_any, clusters_of, match_labels
from assay.engine.judge_quality.labels import HumanLabel
from assay.engine.records.groups import RecordGroups
from assay.metrics.agreement import (
    DetectionRates,
    Scale,
    alpha_influence,
    cohen_kappa,
    confusion,
    detect,
    is_pairable,
    kappa_influence,
    krippendorff_alpha,
    raw_agreement,
)
from assay.metrics.correction import (
    MIN_LABELS,
    MIN_LABELS_EACH,
    CorrectedEstimate,
    Rows,
    correct_mean,
    correct_rate,
    mean_influence,
    rate_influence,
)
from assay.metrics.intervals import Codes, Estimate, Floats, clustered, clustered_mean, clustered_rate, wilson
from assay.store.published_run import PublishedRun

_SCALES = {"1-5": (1.0, 5.0)}
_UNIT = (0.0, 1.0)


def rate(passed: Floats, clusters: Codes | None) -> Estimate:
    """Return a proportion with its interval; there is at least one value."""
    n = len(passed)
    # Wilson's interval where answers are independent.
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
        # Codes of the answers that take part, in the same order.
        return cls(judged, truth, np.array(positions, dtype=np.int64), codes)

    def at(self, positions: Sequence[int]) -> "JudgeLabelPairs":
        """Return the pairs of some of the labelled answers."""
        rows = np.isin(self.positions, positions)
        codes = None if self.clusters is None else self.clusters[rows]
        return JudgeLabelPairs(self.judged[rows], self.truth[rows], self.positions[rows], codes)

    def agreement(self) -> Estimate:
        """Return the rate at which judge and labels agree."""
        plain = raw_agreement(confusion(self.judged.tolist(), self.truth.tolist()))
        # The counts stay those of the answers; only the interval is over clusters.
        return self._rate(plain, self.judged == self.truth, np.ones_like(self.truth))

    def kappa(self) -> Estimate:
        """Return Cohen's kappa."""
        judged, truth = self.judged.tolist(), self.truth.tolist()
        plain = cohen_kappa(confusion(judged, truth))
        if self.clusters is None or plain.interval is None:
            return plain
        return clustered(plain, self.clusters, influence=kappa_influence(judged, truth), bounds=(-1.0, 1.0))

    def detection(self) -> DetectionRates:
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


def corrected_rate(matched: LabelMatches, detection: DetectionRates, *, clusters: Clusters | None) -> CorrectedEstimate:
    """Correct the pass rate of the unlabelled answers by Rogan and Gladen's formula."""
    others = np.array([one.passed for one in matched.others], dtype=np.bool_)
    plain = correct_rate(int(others.sum()), len(others), detection=detection)
    if clusters is None or plain.raw.value is None:
        return plain
    raw = clustered_rate(plain.raw, others.astype(np.float64), clusters.others)
    pairs = JudgeLabelPairs.of(matched.labelled, clusters)
    assert pairs.clusters is not None
    # Clusters of each kind, because answers of one cluster are one piece of evidence.
    good, bad = (len(np.unique(pairs.clusters[kind])) for kind in (pairs.truth, ~pairs.truth))
    if plain.corrected.value is not None and min(good, bad) < MIN_LABELS_EACH:
        reason = (
            f"labels say good in {good} {_units(clusters)} and bad in {bad}, and a corrected rate needs {MIN_LABELS_EACH} of each"
        )
        return CorrectedEstimate(raw=raw, corrected=Estimate(n=plain.corrected.n, reason=reason), labels=plain.labels)
    # Without an interval there is no point either that clusters could widen.
    if plain.corrected.interval is None:
        return msgspec.structs.replace(plain, raw=raw)
    # The judge's errors and the rate of the others are estimated from different answers, whose clusters are
    # counted together.
    codes = np.concatenate([pairs.clusters, clusters.others])
    influence = rate_influence(pairs.judged, pairs.truth, others=others)
    return msgspec.structs.replace(plain, raw=raw, corrected=clustered(plain.corrected, codes, influence=influence, bounds=_UNIT))


def corrected_mean(matched: LabelMatches, clusters: Clusters | None, *, member: Literal["passed", "score"]) -> CorrectedEstimate:
    """Correct the pass rate or mean score of all answers by prediction-powered inference (PPI++)."""
    judge = "passed" if member == "passed" else "raw_score"
    positions = [
        position
        for position, one in enumerate(matched.labelled)
        if getattr(one, member) is not None and getattr(one.prediction, judge) is not None
    ]
    # The others have no label; the judge's score on them is what is corrected.
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
        return CorrectedEstimate(raw=raw, corrected=Estimate(n=plain.corrected.n, reason=reason), labels=plain.labels)
    if plain.corrected.interval is None:
        return msgspec.structs.replace(plain, raw=raw)
    influence = mean_influence(labels, judged, unlabelled=unlabelled)
    return msgspec.structs.replace(plain, raw=raw, corrected=clustered(plain.corrected, codes, influence=influence, bounds=bounds))


def _scale_bounds(matched: LabelMatches, member: str) -> tuple[float, float]:
    scales = {one.scale or "" for one in matched.predictions}
    # With several scales a mean has no bounds that would be true.
    return _UNIT if member == "passed" else _SCALES.get(scales.pop(), _UNIT) if len(scales) == 1 else (float("-inf"), float("inf"))


def _units(clusters: Clusters) -> str:
    return "records" if clusters.name == "record" else "clusters"


MAX_SLICE_VALUES = 50
"""Maximum values of one slice for which the judge is measured; the largest ones are taken."""
MAX_LISTED = 100
_BINS = 10
_MANY_TIES = 0.05
"""Fraction of ties above which a note warns: the records with a majority are then easier, and look better, than all are."""


class Alphas(msgspec.Struct, frozen=True, kw_only=True):
    """Krippendorff's alpha of one set of raters."""

    raters: tuple[str, ...]
    nominal: Estimate
    """On pass and fail."""
    ordinal: Estimate
    """On scores, as ordinal values."""
    interval: Estimate
    """On scores, as interval values."""


class JudgeSlice(msgspec.Struct, frozen=True, kw_only=True):
    """Metrics of the judge on the labelled records of one value of a slice."""

    slice: str
    value: str | None
    n: int
    agreement: Estimate
    detection: DetectionRates


class ReliabilityBin(msgspec.Struct, frozen=True, kw_only=True):
    """Labelled records to which the judge gave about the same score."""

    given: float
    """The judge's mean score, 0-1."""
    observed: Estimate
    """The labels' mean score, 0-1, or their pass rate when they have no scores."""


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """A judge compared with human labels."""

    run_id: str
    judges: tuple[str, ...]
    n_labels: int
    """Labels of graded answers."""
    n_records: int
    """Records with a grade and at least one label."""
    n_ties: int
    """Answers whose raters are split evenly; without a majority they are left out below."""
    unmatched: tuple[str, ...]
    """Labelled records that the run does not have or has not graded."""
    n_strangers: int
    """Labels of other answers than this run's; left out below."""
    cluster: str
    """The unit of intervals: `record` when records have several answers, or the plan's cluster key; otherwise every answer."""
    n_clusters: int | None
    """Number of labelled clusters."""
    raters: tuple[str, ...]
    agreement: Estimate
    kappa: Estimate
    """Cohen's kappa on pass and fail."""
    weighted_kappa: Estimate
    """Kappa with quadratic weights on scores."""
    people: Alphas | None
    """Among the raters; None for a single one."""
    everybody: Alphas
    """Among the raters and the judge."""
    detection: DetectionRates
    judged: Estimate
    """The judge's pass rate over all graded records."""
    pass_rate: CorrectedEstimate
    """Rogan and Gladen, with the interval of Lang and Reiczigel that Lee et al. use."""
    mean_passes: CorrectedEstimate
    """The pass rate by PPI++."""
    mean_score: CorrectedEstimate | None
    """The mean score by PPI++; None where labels have no scores."""
    slices: tuple[JudgeSlice, ...]
    reliability: tuple[ReliabilityBin, ...]
    notes: tuple[str, ...]

    def to_dict(self) -> JsonObject:
        """Return the calibration as a JSON object."""
        found: JsonObject = msgspec.to_builtins(self)
        return found


def calibrate(run: PublishedRun, labels: Sequence[HumanLabel], *, slices: tuple[str, ...] | None = None) -> Calibration:
    """Measure a run's judge against labels; raises UsageProblem when no label belongs to a graded record of the run."""
    plan = run.manifest.settings
    matched = match_labels(run, labels, plan)
    check_any(matched, labels, plan.run_id)
    labelled = matched.labelled
    clusters, no_clusters = clusters_of(run, plan, matched)
    # Ties decide nothing, and are left out of everything but their own count.
    verdicts = JudgeLabelPairs.of(labelled, clusters)
    raters = tuple(sorted({label.rater for one in labelled for label in one.labels}))
    groups, no_slices = _groups(run, labelled, plan, plan.slices if slices is None else slices)
    detection = verdicts.detection()
    codes = None if clusters is None else clusters.labelled
    pass_rate = corrected_rate(matched, detection, clusters=clusters)
    mean_passes = corrected_mean(matched, clusters, member="passed")
    has_scores = any(one.score is not None for one in labelled)
    # Labels of pass and fail alone say nothing about scores.
    mean_score = corrected_mean(matched, clusters, member="score") if has_scores else None
    return Calibration(
        run_id=plan.run_id,
        judges=tuple(judge.name for judge in plan.judges),
        n_labels=sum(len(one.labels) for one in labelled),
        # By record and dataset: answers to one record are one record.
        n_records=len({(one.prediction.dataset, one.prediction.record_id) for one in labelled}),
        n_ties=_ties(labelled),
        unmatched=matched.unmatched[:MAX_LISTED],
        n_strangers=len(matched.other_answers),
        cluster="" if clusters is None else clusters.name,
        n_clusters=None if codes is None else len(np.unique(codes)),
        raters=raters,
        agreement=verdicts.agreement(),
        kappa=verdicts.kappa(),
        weighted_kappa=_weighted_kappa(labelled, codes),
        people=_alphas(labelled, raters, clusters=codes) if len(raters) > 1 else None,
        everybody=_alphas(labelled, raters, clusters=codes, with_judge=True),
        detection=detection,
        # Over all graded answers, labelled or not: it is the figure that is to be corrected.
        judged=rate(_floats(one.passed for one in matched.predictions), None if clusters is None else clusters.all),
        pass_rate=_capped(pass_rate, matched),
        mean_passes=_capped(mean_passes, matched),
        mean_score=None if mean_score is None else _capped(mean_score, matched),
        slices=tuple(_slices(verdicts, groups)),
        reliability=tuple(_reliability(labelled, codes)),
        notes=(
            *filter(None, (no_slices, no_clusters, _together(clusters), _too_few_to_halve((mean_passes, mean_score), matched))),
            *_notes(matched, labels),
        ),
    )


def _ties(labelled: Sequence[LabelledAnswer]) -> int:
    return sum(1 for one in labelled if one.passed is None and one.has_pass_or_fail)


def _weighted_kappa(labelled: Sequence[LabelledAnswer], clusters: Codes | None) -> Estimate:
    places = [place for place, one in enumerate(labelled) if one.score is not None and one.prediction.raw_score is not None]
    judged = [float(labelled[place].prediction.raw_score or 0.0) for place in places]
    said = [float(labelled[place].score or 0.0) for place in places]
    plain = cohen_kappa(confusion(judged, said), weights="quadratic")
    if clusters is None or plain.interval is None:
        return plain
    influence = kappa_influence(judged, said, weights="quadratic")
    return clustered(plain, clusters[places], influence=influence, bounds=(-1.0, 1.0))


def _alphas(
    labelled: Sequence[LabelledAnswer], raters: tuple[str, ...], *, clusters: Codes | None, with_judge: bool = False
) -> Alphas:
    names = (*raters, "judge") if with_judge else raters
    # NaN where a rater has not labelled: alpha allows missing values.
    passes, scores = np.full((len(labelled), len(names)), np.nan), np.full((len(labelled), len(names)), np.nan)
    places = {name: place for place, name in enumerate(raters)}
    for row, one in enumerate(labelled):
        for label in one.labels:
            passes[row, places[label.rater]] = np.nan if label.passed is None else float(label.passed)
            scores[row, places[label.rater]] = np.nan if label.score is None else label.score
        if with_judge:
            passes[row, -1] = float(bool(one.prediction.passed))
            # Without a score of a rater there is nothing to compare the judge's score with.
            scores[row, -1] = np.nan if one.prediction.raw_score is None else one.prediction.raw_score
    return Alphas(
        raters=names,
        nominal=_alpha(passes, clusters, scale="nominal"),
        ordinal=_alpha(scores, clusters, scale="ordinal"),
        interval=_alpha(scores, clusters, scale="interval"),
    )


def _alpha(ratings: Floats, clusters: Codes | None, *, scale: Scale) -> Estimate:
    plain = krippendorff_alpha(ratings, scale=scale)
    if clusters is None or plain.interval is None:
        return plain
    # Answers with one rating say nothing about agreement, and are not part of alpha.
    paired = is_pairable(ratings)
    influence = alpha_influence(ratings[paired], scale=scale)
    return clustered(plain, clusters[paired], influence=influence, bounds=(-1.0, 1.0))


def _floats(values: Iterable[float | bool | None]) -> Floats:
    return np.array([float(value) for value in values if value is not None], dtype=np.float64)


def _capped(correction: CorrectedEstimate, matched: LabelMatches) -> CorrectedEstimate:
    """Drop or qualify a required number of labels that exceeds the run's answers."""
    total, corrected = len(matched.predictions), correction.corrected
    # More labels than answers cannot be had, so the number is not promised.
    if (correction.labels_needed or 0) > total:
        reason = f"{corrected.reason}, and the run has {total:,} answers"
        return msgspec.structs.replace(correction, corrected=msgspec.structs.replace(corrected, reason=reason))
    is_possible = (correction.labels_to_halve or 0) <= total
    return correction if is_possible else msgspec.structs.replace(correction, labels_to_halve=None)


def _too_few_to_halve(corrections: Iterable[CorrectedEstimate | None], matched: LabelMatches) -> str:
    total = len(matched.predictions)
    wanted = [correction.labels_to_halve or 0 for correction in corrections if correction is not None]
    return f"labelling all {total:,} answers would not halve the interval of a corrected figure" if max(wanted) > total else ""


def _together(clusters: Clusters | None) -> str:
    if clusters is None:
        return ""
    count = len(np.unique(clusters.all))
    what = "records, of which several answers were graded" if clusters.name == "record" else f"clusters by {clusters.name}"
    return f"intervals count {count:,} {what}"


def _groups(run: PublishedRun, labelled: Sequence[LabelledAnswer], plan: Plan, names: tuple[str, ...]) -> tuple[JsonObject, str]:
    """Labelled records by slice and value."""
    places: dict[tuple[str, str], list[int]] = {}
    for place, one in enumerate(labelled):
        places.setdefault((one.prediction.record_id, one.prediction.record_sha256), []).append(place)
    found: dict[str, dict[str | None, list[int]]] = {}
    groups = RecordGroups(plan.datasets)
    try:
        for entry in run.records() if names else ():
            # Popped: an answer is listed once however many samples the record has.
            for place in places.pop((entry.record_id, entry.record_sha256), ()):
                for name, values in groups.slices(run.case_of(entry), names).items():
                    for value in dict.fromkeys(values) or (None,):
                        found.setdefault(name, {}).setdefault(value, []).append(place)
    except RunNotFound as problem:
        return {}, f"{problem.message}: no slices"
    return found, ""


def _slices(verdicts: JudgeLabelPairs, groups: JsonObject) -> Iterable[JudgeSlice]:
    for name, values in groups.items():
        largest = sorted(values.items(), key=lambda group: (-len(group[1]), group[0] is None, group[0] or ""))
        # One value of a slice is all answers once more.
        for value, places in largest[:MAX_SLICE_VALUES] if len(largest) > 1 else ():
            mine = verdicts.at(places)
            yield JudgeSlice(slice=name, value=value, n=len(places), agreement=mine.agreement(), detection=mine.detection())


def _reliability(labelled: Sequence[LabelledAnswer], clusters: Codes | None) -> Iterable[ReliabilityBin]:
    """Group answers by the judge's score into up to ten bins, each with the labels' pass rate."""
    bins: dict[int, list[int]] = {}
    for place, one in enumerate(labelled):
        if one.passed is not None and one.prediction.score is not None:
            # Scores of a profile may lie outside of 0-1; such answers count in the outermost bins.
            bins.setdefault(round(min(1.0, max(0.0, one.prediction.score)) * _BINS), []).append(place)
    for _, places in sorted(bins.items()):
        observed = rate(_floats(labelled[place].passed for place in places), None if clusters is None else clusters[places])
        given = float(np.mean([labelled[place].prediction.score or 0.0 for place in places]))
        yield ReliabilityBin(given=given, observed=observed)


def _notes(matched: LabelMatches, labels: Sequence[HumanLabel]) -> Iterable[str]:
    labelled, unmatched, other_answers = matched.labelled, matched.unmatched, matched.other_answers
    if not matched.others:
        yield "every record is labelled: the labels are the result, and there is nothing to correct"
    if unmatched:
        records = "1 labelled record is" if len(unmatched) == 1 else f"{len(unmatched):,} labelled records are"
        yield f"{records} not in the run, or ungraded there"
    if matched.programmatic:
        found = "1 label is on an answer" if matched.programmatic == 1 else f"{matched.programmatic:,} labels are on answers"
        yield f"left out: {found} that no judge graded (multiple choice, tool calls)"
    if other_answers:
        count = len(other_answers)
        found = "1 label was given to another answer" if count == 1 else f"{count:,} labels were given to other answers"
        yield f"left out: {found} than this run's (line {other_answers[0].line})"
    if not all(label.answer_sha256 for label in labels):
        yield "the labels do not all say of which answer they are (answer_sha256): they are taken to be of this run's"
    ties = _ties(labelled)
    if ties / len(labelled) > _MANY_TIES:
        yield (
            f"people are split evenly on {ties:,} of {len(labelled):,} records, which are left out: "
            "the judge is measured on the easier ones, and a third rater would settle the others"
        )
    if not any(one.has_pass_or_fail for one in labelled):
        yield "no label says passed or not passed"
