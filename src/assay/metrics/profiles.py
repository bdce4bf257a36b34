"""Profiles: how published benchmarks make a score of a record's marks, and one figure of all records."""

from collections.abc import Callable, Sequence
from math import fsum, isfinite
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from assay.core.artifact_lines import ScoreRange
from assay.core.canonical import canonical_json, sha256_hex
from assay.core.manifest import ScoringProfile
from assay.core.outcome import CriterionResult
from assay.core.settings import ProfileId
from assay.core.summary import Interval

NO_CRITERIA = "no_criteria"
NO_VERDICT = "no_verdict"
NO_POSITIVE_WEIGHT = "no_positive_weight"
NO_WEIGHT = "no_weight"
TOO_LARGE = "weights_too_large"

FormulaId = Literal["points_of_positive", "points_of_range", "share_met", "mean", "weighted_mean"]
_WEIGHTED = frozenset({"points_of_positive", "points_of_range", "weighted_mean"})
Pairs = Sequence[tuple[float, float]]
"""Weight and value of each criterion."""


class UnscoredRecord(msgspec.Struct, frozen=True):
    """A record that the profile gives no score."""

    reason: str


class CompatibilityRule(msgspec.Struct, frozen=True, kw_only=True):
    """Treatment of failures by the benchmark's own program."""

    missing: float = 0.0
    """Value of a criterion without a verdict, on its own scale."""
    replies: Literal["first", "graded"] = "graded"
    """`first`: only a judge's first reply counts, as written; nothing is salvaged or rounded."""
    unanswered: Literal["missing", "left_out"] = "missing"
    """A record without an answer has no criterion met, or it is left out with all its repeats."""


# Compared in the tests with a plain version of the benchmark's rules. The hash is in the manifest, so a rule never changes.
class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """Rules of one benchmark; another rule is another version."""

    id: ProfileId
    version: str = "1"
    kinds: tuple[str, ...]
    """Ways of grading that it can be used for; empty for all."""
    formula: FormulaId
    """Formula from the marks of a record to its score, which is never clipped."""
    repeats: Literal["mean", "median"] = "mean"
    """Value of several answers to one record."""
    factor: float = 1.0
    """Headline is the mean over the records times this."""
    lowest: float | None = None
    """Headline is at least this."""
    highest: float | None = None
    """Headline is at most this."""
    scale: str
    """Of the headline."""
    compat: CompatibilityRule
    is_compat: bool = False
    """Failures are treated as the benchmark treats them; otherwise they leave a record without a score."""

    @property
    def sha256(self) -> str:
        """Hash of all the rules."""
        return sha256_hex(canonical_json(msgspec.to_builtins(self)))

    @property
    def name(self) -> str:
        """`prbench` or `prbench (compat)`."""
        return f"{self.id} (compat)" if self.is_compat else self.id

    def fits(self, kind: str) -> bool:
        """Return True for records that are graded in this way."""
        return not self.kinds or kind in self.kinds

    @property
    def ends(self) -> tuple[float, float]:
        """Ends of the scale, for the score of one record; penalties may take it below."""
        low, high = map(float, self.scale.split("-"))
        return low / self.factor, high / self.factor

    def has_on_scale(self, score: float) -> bool:
        """Return True when the headline may have this value."""
        low, high = map(float, self.scale.split("-"))
        return low <= score <= high

    def named(self) -> ScoringProfile:
        """Return the profile as a manifest names it."""
        return ScoringProfile(id=self.id, version=self.version, sha256=self.sha256, compat=self.is_compat)


_RUBRIC = ("rubric",)
_FIRST = CompatibilityRule(replies="first")

PROFILES: dict[str, Profile] = {
    profile.id: profile
    for profile in (
        Profile(id="prbench", kinds=_RUBRIC, formula="points_of_positive", lowest=0.0, scale="0-1", compat=_FIRST),
        Profile(id="prbench_normalized", kinds=_RUBRIC, formula="points_of_range", scale="0-1", compat=_FIRST),
        Profile(
            id="healthbench",
            kinds=_RUBRIC,
            formula="points_of_positive",
            lowest=0.0,
            highest=1.0,
            scale="0-1",
            compat=CompatibilityRule(),
        ),
        Profile(
            id="apex_v1",
            kinds=_RUBRIC,
            formula="share_met",
            repeats="median",
            scale="0-100",
            compat=CompatibilityRule(unanswered="left_out"),
        ),
        Profile(id="lexam_open", kinds=("reference",), formula="mean", factor=100.0, scale="0-100", compat=_FIRST),
        Profile(id="lexam_mcq", kinds=("mcq",), formula="mean", scale="0-1", compat=CompatibilityRule()),
        Profile(id="judge_1_5", kinds=("five_point",), formula="mean", scale="1-5", compat=CompatibilityRule(missing=1.0)),
        Profile(id="weighted_mean", kinds=(), formula="weighted_mean", scale="0-1", compat=CompatibilityRule()),
    )
}
"""All profiles by id, strict."""


def profile_of(profile_id: str | None, *, is_compat: bool = False) -> Profile | None:
    """Return the profile with its treatment of failures; None without an id."""
    return msgspec.structs.replace(PROFILES[profile_id], is_compat=is_compat) if profile_id else None


def score_record(profile: Profile, marks: Sequence[CriterionResult]) -> float | UnscoredRecord:
    """Return the score of a record, not clipped, or why it has none."""
    if not marks:
        return UnscoredRecord(NO_CRITERIA)
    # A benchmark counts a lost verdict as "not met". That is a score for an error, so it happens only in compat mode.
    if not profile.is_compat and any(mark.value is None for mark in marks):
        return UnscoredRecord(NO_VERDICT)
    missing = profile.compat.missing
    read = _unit_value if profile.formula == "weighted_mean" else _own_value
    pairs = [(mark.weight, read(mark, missing)) for mark in marks]
    try:
        score = _FORMULAS[profile.formula](pairs)
    except OverflowError:
        return UnscoredRecord(TOO_LARGE)
    return score if isinstance(score, UnscoredRecord) or isfinite(score) else UnscoredRecord(TOO_LARGE)


def score_range(profile: Profile, marks: Sequence[CriterionResult]) -> ScoreRange | None:
    """Return the scores of the worst and the best verdicts on these criteria; None where no verdict gives a score."""
    worst, best = (score_record(profile, [_extreme(profile, mark, is_best=is_best) for mark in marks]) for is_best in (False, True))
    return None if isinstance(worst, UnscoredRecord) or isinstance(best, UnscoredRecord) else ScoreRange(worst, best)


def _extreme(profile: Profile, mark: CriterionResult, *, is_best: bool) -> CriterionResult:
    """Return the best or the worst verdict; where weights count, a punished criterion is best not met."""
    low, high = (1.0, 5.0) if mark.scale == "1-5" else (0.0, 1.0)
    is_turned = mark.weight < 0 and profile.formula in _WEIGHTED
    return msgspec.structs.replace(mark, value=high if is_best != is_turned else low)


def _own_value(mark: CriterionResult, missing: float) -> float:
    return missing if mark.value is None else mark.value


def _unit_value(mark: CriterionResult, missing: float) -> float:
    """Scale a value to 0..1, where the lowest value of every scale is 0."""
    if mark.value is None:
        return missing
    return (mark.value - 1) / 4 if mark.scale == "1-5" else mark.value


def _points_of_positive(pairs: Pairs) -> float | UnscoredRecord:
    best = fsum(weight for weight, _ in pairs if weight > 0)
    return _points(pairs) / best if best else UnscoredRecord(NO_POSITIVE_WEIGHT)


def _points_of_range(pairs: Pairs) -> float | UnscoredRecord:
    """Scale the score so that the worst answer has 0 and the best 1, also where every weight is negative."""
    worst = fsum(weight for weight, _ in pairs if weight < 0)
    best = fsum(weight for weight, _ in pairs if weight > 0)
    return (_points(pairs) - worst) / (best - worst) if best > worst else UnscoredRecord(NO_WEIGHT)


def _share_met(pairs: Pairs) -> float:
    return 100 * fsum(value for _, value in pairs) / len(pairs)


def _mean(pairs: Pairs) -> float:
    return fsum(value for _, value in pairs) / len(pairs)


def _weighted_mean(pairs: Pairs) -> float | UnscoredRecord:
    """Return the weighted mean; none without a positive sum of weights, where a better answer would have a lower mean."""
    total = fsum(weight for weight, _ in pairs)
    return _points(pairs) / total if total > 0 else UnscoredRecord(NO_POSITIVE_WEIGHT)


def _points(pairs: Pairs) -> float:
    return fsum(weight * value for weight, value in pairs)


_FORMULAS: dict[FormulaId, Callable[[Pairs], float | UnscoredRecord]] = {
    "points_of_positive": _points_of_positive,
    "points_of_range": _points_of_range,
    "share_met": _share_met,
    "mean": _mean,
    "weighted_mean": _weighted_mean,
}


Floats = NDArray[np.float64]
Rows = NDArray[np.uint32]
Numbers = NDArray[np.integer[Any]]


class CondensedRecords(NamedTuple):
    """One value for each record, regardless of the number of answers, and the row that stands for it."""

    values: Floats
    rows: Rows


def condense(profile: Profile, scores: Floats, *, rows: Rows, records: Numbers) -> CondensedRecords:
    """Return the repeats of each record as one value; `scores` and `records` belong to `rows`, and NaN is not a score.

    What has no score is left out of its record's value. Where the profile is compatible with a benchmark that skips a record of
    which an answer failed, so does this.
    """
    is_scored = ~np.isnan(scores)
    if profile.is_compat and profile.compat.unanswered == "left_out":
        # All repeats of the record go, also those with a score: the benchmark's program does so.
        is_scored &= ~np.isin(records, records[~is_scored])
    scores, rows, records = scores[is_scored], rows[is_scored], records[is_scored]
    _, first, counts = np.unique(records, return_index=True, return_counts=True)
    if len(first) == len(scores):
        return CondensedRecords(scores, rows)
    # Sorted by record and then by score, so that medians are read off at fixed places.
    ordered = scores[np.lexsort((scores, records))]
    starts = np.concatenate(([0], np.cumsum(counts)[:-1]))
    if profile.repeats == "median":
        return CondensedRecords((ordered[starts + (counts - 1) // 2] + ordered[starts + counts // 2]) / 2, rows[first])
    return CondensedRecords(np.add.reduceat(ordered, starts) / counts, rows[first])


def headline(profile: Profile, values: Floats) -> float | None:
    """Return the figure of a benchmark from one value for each record; None without any."""
    return _clip(profile, _headline_mean(profile, values)) if len(values) else None


class HeadlineFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Headline in a summary; intervals and standard errors are those of the plain mean."""

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
    """Return the headline from one value per record; intervals and standard errors (plain, clustered) are of the plain mean."""
    plain, robust = (None if error is None else profile.factor * error for error in errors)
    return HeadlineFigures(
        headline=headline(profile, values),
        headline_interval=_scale_interval(profile, interval),
        headline_cluster_interval=_scale_interval(profile, clustered),
        headline_standard_error=plain,
        headline_cluster_standard_error=robust,
        mean=_headline_mean(profile, values) if len(values) else None,
        n=len(values),
    )


def _headline_mean(profile: Profile, values: Floats) -> float:
    return profile.factor * fsum(values) / len(values)


def _clip(profile: Profile, value: float) -> float:
    floor = value if profile.lowest is None else max(profile.lowest, value)
    # Clipped here and never per record: benchmarks clip the mean, and a record may have less than 0.
    return floor if profile.highest is None else min(profile.highest, floor)


def _scale_interval(profile: Profile, interval: Interval | None) -> Interval | None:
    """Scale and clip an interval like its value; clipping keeps the order, so the ends stay the ends."""
    if interval is None:
        return None
    low, high = (_clip(profile, profile.factor * end) for end in (interval.low, interval.high))
    # Nothing scores above the top of its scale; below the bottom penalties may take it.
    high = min(high, float(profile.scale.rpartition("-")[2]))
    return msgspec.structs.replace(interval, low=low, high=high)
