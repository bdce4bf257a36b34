"""How far a judge can be trusted, by labels that people gave, and a run's figures once its errors are counted in."""

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

import msgspec
import numpy as np

from assay.core.case import Case
from assay.core.errors import RunNotFound, UsageProblem
from assay.core.plan import Plan
from assay.engine.alignment import Standing
from assay.engine.evidence import slices_of
from assay.engine.labels import HumanLabel
from assay.metrics.agreement import Detection, cohen_kappa, confusion, detect, krippendorff_alpha, raw_agreement
from assay.metrics.correction import Correction, correct_mean, correct_rate
from assay.metrics.intervals import Estimate, Floats, wilson
from assay.store.folder import RunFolder

MAX_SLICE_VALUES = 50
"""Values of one slice for which the judge is measured, the largest ones."""
MAX_LISTED = 100
_BINS = 10
_MANY_TIES = 0.05
"""Share of records without a majority that makes the rest look better than all are."""
_decode = msgspec.json.Decoder(Standing).decode

Key = tuple[str, int]
Json = dict[str, Any]


class Alphas(msgspec.Struct, frozen=True, kw_only=True):
    """Krippendorff's alpha of one set of raters."""

    raters: tuple[str, ...]
    nominal: Estimate
    """Of passes and failures."""
    ordinal: Estimate
    """Of scores, by their order."""
    interval: Estimate
    """Of scores, by their distance."""


class JudgeSlice(msgspec.Struct, frozen=True, kw_only=True):
    """The judge on the labelled records of one value of a slice."""

    slice: str
    value: str | None
    n: int
    agreement: Estimate
    detection: Detection


class ReliabilityBin(msgspec.Struct, frozen=True, kw_only=True):
    """Labelled records to which the judge gave about the same score."""

    given: float
    """The judge's mean score, 0-1."""
    observed: Estimate
    """What the labels say: mean score 0-1, or the share that passed where labels have no scores."""


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """A judge beside people."""

    run_id: str
    judges: tuple[str, ...]
    n_labels: int
    """Labels that were read."""
    n_records: int
    """Records with a grade and at least one label."""
    n_ties: int
    """Records whose raters are split evenly: they have no truth and count nowhere below."""
    unmatched: tuple[str, ...]
    """Labelled records that the run does not have, or has no grade for."""
    raters: tuple[str, ...]
    agreement: Estimate
    kappa: Estimate
    """Cohen's, of passes and failures."""
    weighted_kappa: Estimate
    """Quadratic weights, of scores."""
    people: Alphas | None
    """Among the raters; None for a single one."""
    everybody: Alphas
    """Among the raters and the judge."""
    detection: Detection
    judged: Estimate
    """The pass rate of all graded records as the judge has it."""
    pass_rate: Correction
    """Rogan and Gladen, with the interval of Lang and Reiczigel that Lee et al. use."""
    mean_passes: Correction
    """The pass rate by PPI++."""
    mean_score: Correction | None
    """The mean score by PPI++; None where labels have no scores."""
    slices: tuple[JudgeSlice, ...]
    reliability: tuple[ReliabilityBin, ...]
    notes: tuple[str, ...]

    def to_dict(self) -> Json:
        """The calibration as JSON documents hold it."""
        found: Json = msgspec.to_builtins(self)
        return found


class _Labelled(msgspec.Struct, frozen=True):
    """One graded record with its labels."""

    standing: Standing
    labels: tuple[HumanLabel, ...]

    @property
    def passed(self) -> bool | None:
        """What most people say; None where they are split evenly or nobody says."""
        votes = [label.passed for label in self.labels if label.passed is not None]
        yes = sum(votes)
        return None if 2 * yes == len(votes) else 2 * yes > len(votes)

    @property
    def score(self) -> float | None:
        scores = [label.score for label in self.labels if label.score is not None]
        return median(scores) if scores else None


def calibrate(run: RunFolder, labels: Sequence[HumanLabel], *, slices: tuple[str, ...] | None = None) -> Calibration:
    """The judge of a finished run against labels; raises UsageProblem when no label belongs to a graded record of the run."""
    plan = msgspec.convert(run.manifest["plan"], Plan)
    labelled, others, unmatched = _matched(run, labels, threshold=_threshold(plan))
    if not labelled:
        raise UsageProblem(
            f"none of the {len(labels):,} labels belongs to a graded record of run '{plan.run_id}'",
            hint="record_id must be as in predictions.jsonl; `assay label RUN` writes a file to fill in",
        )
    judged = [one.standing.passed for one in labelled]
    truth = [one.passed for one in labelled]
    table = confusion(judged, truth)
    scored = [one for one in labelled if one.score is not None and one.standing.raw_score is not None]
    raters = tuple(sorted({label.rater for one in labelled for label in one.labels}))
    names = plan.slices if slices is None else slices
    groups, problem = _groups(run, labelled, names)
    detection = detect(judged, truth)
    return Calibration(
        run_id=plan.run_id,
        judges=tuple(judge.name for judge in plan.judges),
        n_labels=len(labels),
        n_records=len(labelled),
        n_ties=sum(1 for one, said in zip(labelled, truth, strict=True) if said is None and _has_verdict(one)),
        unmatched=unmatched[:MAX_LISTED],
        raters=raters,
        agreement=raw_agreement(table),
        kappa=cohen_kappa(table),
        weighted_kappa=cohen_kappa(
            confusion([one.standing.raw_score for one in scored], [one.score for one in scored]), weights="quadratic"
        ),
        people=_alphas(labelled, raters) if len(raters) > 1 else None,
        everybody=_alphas(labelled, raters, with_judge=True),
        detection=detection,
        judged=_judged([*(one.standing for one in labelled), *others]),
        pass_rate=correct_rate(sum(bool(one.passed) for one in others), len(others), detection=detection),
        mean_passes=_mean_passes(labelled, others),
        mean_score=_mean_score(scored, others) if scored else None,
        slices=tuple(_slices(labelled, groups)),
        reliability=tuple(_reliability(labelled)),
        notes=_notes(labelled, others, unmatched, problem),
    )


def _threshold(plan: Plan) -> tuple[float, float]:
    """Scores from which a label passes that says no verdict: on 1-5, and on 0-1."""
    return float(plan.case_pass_score), plan.pass_threshold


def _matched(
    run: RunFolder, labels: Sequence[HumanLabel], *, threshold: tuple[float, float]
) -> tuple[list[_Labelled], list[Standing], tuple[str, ...]]:
    """Graded records with labels, those without, and ids that fit no graded record."""
    waiting: dict[Key, list[HumanLabel]] = {}
    for label in labels:
        waiting.setdefault((label.record_id, label.sample), []).append(label)
    labelled: list[_Labelled] = []
    others: list[Standing] = []
    used: set[int] = set()
    for line in run.raw_lines("predictions.jsonl"):
        standing = _decode(line)
        if not standing.is_scored:
            continue
        mine = [
            label
            for label in waiting.get((standing.record_id, standing.sample), ())
            if not label.dataset or label.dataset == standing.dataset
        ]
        used.update(map(id, mine))
        if mine:
            labelled.append(_Labelled(standing, tuple(_with_verdict(label, standing, threshold) for label in mine)))
        else:
            others.append(standing)
    left = dict.fromkeys(label.record_id for label in labels if id(label) not in used)
    return labelled, others, tuple(left)


def _with_verdict(label: HumanLabel, standing: Standing, threshold: tuple[float, float]) -> HumanLabel:
    """A label that has only a score passes by the run's own threshold."""
    if label.passed is not None or label.score is None:
        return label
    limit = threshold[0] if standing.scale == "1-5" else threshold[1]
    return msgspec.structs.replace(label, passed=label.score >= limit)


def _has_verdict(one: _Labelled) -> bool:
    return any(label.passed is not None for label in one.labels)


def _alphas(labelled: Sequence[_Labelled], raters: tuple[str, ...], *, with_judge: bool = False) -> Alphas:
    names = (*raters, "judge") if with_judge else raters
    passes, scores = np.full((len(labelled), len(names)), np.nan), np.full((len(labelled), len(names)), np.nan)
    places = {name: place for place, name in enumerate(raters)}
    for row, one in enumerate(labelled):
        for label in one.labels:
            passes[row, places[label.rater]] = np.nan if label.passed is None else float(label.passed)
            scores[row, places[label.rater]] = np.nan if label.score is None else label.score
        if with_judge:
            passes[row, -1] = float(bool(one.standing.passed))
            # A judge's score beside raters who gave none compares with nothing.
            scores[row, -1] = np.nan if one.standing.raw_score is None else one.standing.raw_score
    return Alphas(
        raters=names,
        nominal=krippendorff_alpha(passes, scale="nominal"),
        ordinal=krippendorff_alpha(scores, scale="ordinal"),
        interval=krippendorff_alpha(scores, scale="interval"),
    )


def _judged(standings: Sequence[Standing]) -> Estimate:
    passed, n = sum(bool(standing.passed) for standing in standings), len(standings)
    return Estimate(value=passed / n, interval=wilson(passed, n), n=n)


def _mean_passes(labelled: Sequence[_Labelled], others: Sequence[Standing]) -> Correction:
    known = [one for one in labelled if one.passed is not None]
    return correct_mean(
        _floats(one.passed for one in known),
        _floats(one.standing.passed for one in known),
        unlabelled=_floats(standing.passed for standing in others),
    )


def _mean_score(scored: Sequence[_Labelled], others: Sequence[Standing]) -> Correction:
    return correct_mean(
        _floats(one.score for one in scored),
        _floats(one.standing.raw_score for one in scored),
        unlabelled=_floats(standing.raw_score for standing in others if standing.raw_score is not None),
    )


def _floats(values: Iterable[float | bool | None]) -> Floats:
    return np.array([float(value) for value in values if value is not None], dtype=np.float64)


def _groups(run: RunFolder, labelled: Sequence[_Labelled], names: tuple[str, ...]) -> tuple[Json, str]:
    """Labelled records by slice and value."""
    places: dict[tuple[str, str], list[int]] = {}
    for place, one in enumerate(labelled):
        places.setdefault((one.standing.record_id, one.standing.record_sha256), []).append(place)
    found: dict[str, dict[str | None, list[int]]] = {}
    try:
        for entry in run.records() if names else ():
            for place in places.pop((entry["record_id"], entry["record_sha256"]), ()):
                for name, values in slices_of(msgspec.convert(entry["record"], Case), names).items():
                    for value in dict.fromkeys(values) or (None,):
                        found.setdefault(name, {}).setdefault(value, []).append(place)
    except RunNotFound as problem:
        return {}, f"{problem.message}: no slices"
    return found, ""


def _slices(labelled: Sequence[_Labelled], groups: Json) -> Iterable[JudgeSlice]:
    for name, values in groups.items():
        largest = sorted(values.items(), key=lambda group: (-len(group[1]), group[0] is None, group[0] or ""))
        for value, places in largest[:MAX_SLICE_VALUES] if len(largest) > 1 else ():
            judged = [labelled[place].standing.passed for place in places]
            truth = [labelled[place].passed for place in places]
            yield JudgeSlice(
                slice=name,
                value=value,
                n=len(places),
                agreement=raw_agreement(confusion(judged, truth)),
                detection=detect(judged, truth),
            )


def _reliability(labelled: Sequence[_Labelled]) -> Iterable[ReliabilityBin]:
    """Up to ten groups of records by the judge's score, each with the share that people pass."""
    bins: dict[int, list[_Labelled]] = {}
    for one in labelled:
        if one.passed is not None and one.standing.score is not None:
            bins.setdefault(round(min(1.0, max(0.0, one.standing.score)) * _BINS), []).append(one)
    for _, members in sorted(bins.items()):
        passed = sum(bool(one.passed) for one in members)
        observed = Estimate(value=passed / len(members), interval=wilson(passed, len(members)), n=len(members))
        given = float(np.mean([one.standing.score or 0.0 for one in members]))
        yield ReliabilityBin(given=given, observed=observed)


def _notes(labelled: Sequence[_Labelled], others: Sequence[Standing], unmatched: Sequence[str], problem: str) -> tuple[str, ...]:
    notes = [problem] if problem else []
    if not others:
        notes.append("every record is labelled: the labels are the result, and there is nothing to correct")
    if unmatched:
        notes.append(f"{len(unmatched):,} labelled records are not in the run, or have no grade there")
    ties = sum(1 for one in labelled if one.passed is None and _has_verdict(one))
    if ties / len(labelled) > _MANY_TIES:
        notes.append(
            f"people are split evenly on {ties:,} of {len(labelled):,} records, which are left out: "
            "the judge is measured on the easier ones, and a third rater would settle the others"
        )
    if not any(_has_verdict(one) for one in labelled):
        notes.append("no label says pass or fail")
    return tuple(notes)
