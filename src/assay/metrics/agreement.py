"""Agreement of two or more raters: confusion, Cohen's kappa, Krippendorff's alpha, sensitivity and specificity."""

from collections.abc import Sequence
from math import atanh, sqrt, tanh
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from assay.core.summary import LEVEL, Interval
from assay.metrics.distributions import student_quantile
from assay.metrics.intervals import Estimate, Floats, wilson

Weights = Literal["none", "linear", "quadratic"]
Scale = Literal["nominal", "ordinal", "interval"]
Label = float | str | bool
_SHARE = (1 + LEVEL) / 2
# Both amounts come from simulation (tests/stats): with them 95 % intervals hold for 30 units and for perfect agreement.
_FOR_ALPHA = 0.5
"""Units rated at random that are added to those of alpha; kappa gets a whole one."""
_TOO_FEW = "one unit has no spread to make an interval of"


class ConfusionMatrix(msgspec.Struct, frozen=True):
    """Counts of the categories that the first rater gave, by those of the second."""

    categories: tuple[Label, ...]
    """In ascending order."""
    counts: tuple[tuple[int, ...], ...]
    """A row for each category of the first rater, a column for each of the second."""

    @property
    def n(self) -> int:
        """Units that both raters have rated."""
        return sum(map(sum, self.counts))


def confusion(first: Sequence[Label | None], second: Sequence[Label | None]) -> ConfusionMatrix:
    """Return the table of two raters over the same units; a unit that either has not rated (None) is left out."""
    # Left out and not counted as disagreement: a missing rating says nothing about agreement.
    pairs = [(a, b) for a, b in zip(first, second, strict=True) if a is not None and b is not None]
    categories = sorted({rating for pair in pairs for rating in pair})
    places = {category: place for place, category in enumerate(categories)}
    counts = np.zeros((len(categories), len(categories)), dtype=np.int64)
    if pairs:
        np.add.at(counts, tuple(np.array([(places[a], places[b]) for a, b in pairs]).T), 1)
    return ConfusionMatrix(tuple(categories), tuple(map(tuple, counts.tolist())))


def raw_agreement(table: ConfusionMatrix) -> Estimate:
    """Return the share of units on which both raters agree."""
    same = sum(row[place] for place, row in enumerate(table.counts))
    return _rate(same, table.n, reason="no unit was rated by both")


def cohen_kappa(table: ConfusionMatrix, *, weights: Weights = "none") -> Estimate:
    """Return the agreement beyond chance: 1 is perfect, 0 is chance; undefined when both raters always give one category.

    Linear and quadratic weights measure disagreement by the distance of the categories' values, so an unused category
    between two others counts; categories that are words are taken to be one apart.
    """
    n = table.n
    if n == 0:
        return Estimate(n=0, reason="no unit was rated by both")
    counts = np.array(table.counts, dtype=np.float64)
    apart = _distance(table.categories, weights=weights)
    rows, columns = counts.sum(axis=1) / n, counts.sum(axis=0) / n
    expected = float(rows @ apart @ columns)
    # 0 / 0: agreement by chance is already perfect, so there is nothing to be better than.
    if expected == 0:
        return Estimate(n=n, reason="both raters gave every unit the same category")
    observed = float((counts * apart).sum() / n)
    value = 1 - observed / expected
    if n == 1:
        return Estimate(value=value, n=n, reason=_TOO_FEW)
    # The formula gives 0 for any second rater; an interval around it would suggest a finding.
    if rows.max() == 1 or columns.max() == 1:
        return Estimate(
            value=0.0, n=n, reason="one rater gave every unit the same category: kappa is then 0, regardless of what the other says"
        )
    by_chance = np.outer(rows, columns)

    def error(disagreement: float, weights: Floats) -> float:
        influence = _influence(apart, rows, columns=columns, disagreement=disagreement)
        return sqrt(float((weights * np.square(influence)).sum())) / (float(weights.sum()) * expected)

    # As one further unit, rated at random, would change it: perfect agreement of few units would otherwise have no spread.
    held_back = value * n / (n + 1)
    interval = _shrunk_interval(value, held_back, error=error(1 - held_back, counts + by_chance), n=n, method="kappa")
    return Estimate(value=value, interval=interval, error=error(1 - value, counts), n=n)


def kappa_influence(first: Sequence[Label], second: Sequence[Label], *, weights: Weights = "none") -> Floats:
    """Return how much each unit moves Cohen's kappa, up to a factor that all of them share."""
    table = confusion(first, second)
    counts = np.array(table.counts, dtype=np.float64)
    rows, columns = counts.sum(axis=1) / table.n, counts.sum(axis=0) / table.n
    apart = _distance(table.categories, weights=weights)
    disagreement = float((counts * apart).sum() / table.n / (rows @ apart @ columns))
    places = {category: place for place, category in enumerate(table.categories)}
    units = [places[a] for a in first], [places[b] for b in second]
    found: Floats = _influence(apart, rows, columns=columns, disagreement=disagreement)[units]
    return found


def _influence(apart: Floats, rows: Floats, *, columns: Floats, disagreement: float) -> Floats:
    """Return the influence of a unit in each cell on observed / expected, from Fleiss, Cohen and Everitt (1969)."""
    expected = float(rows @ apart @ columns)
    found: Floats = apart - disagreement * ((apart @ columns)[:, None] + (rows @ apart)[None, :] - expected)
    return found


def _shrunk_interval(value: float, middle: float, *, error: float, n: int, method: str) -> Interval:
    """Return Fisher's transformation of a coefficient whose middle one further random unit has pulled towards 0.

    The spread of a coefficient shrinks near 1, and vanishes for perfect agreement, which few units do not prove.
    """
    # On Fisher's scale, where the spread does not depend on the value, and the ends cannot pass 1.
    half = student_quantile(_SHARE, n - 1) * error / (1 - middle**2)
    low, high = tanh(atanh(middle) - half), tanh(atanh(middle) + half)
    return Interval(low=min(low, value), high=max(high, value), method=method, n=n)


def _distance(categories: tuple[Label, ...], *, weights: Weights) -> Floats:
    # Words have no distance, so that weights treat any two of them alike.
    is_number = all(isinstance(category, (int, float)) for category in categories)
    values = np.array([float(category) for category in categories] if is_number else range(len(categories)), dtype=np.float64)
    apart = np.abs(values[:, None] - values[None, :])
    return {"none": (apart > 0).astype(np.float64), "linear": apart, "quadratic": np.square(apart)}[weights]


class DetectionRates(msgspec.Struct, frozen=True, kw_only=True):
    """Rates at which a judge recognizes passes and failures, with the labels as the truth."""

    true_positives: int
    false_negatives: int
    false_positives: int
    true_negatives: int
    sensitivity: Estimate
    """Share of the truly good that the judge passes."""
    specificity: Estimate
    """Share of the truly bad that the judge fails."""
    positive_predictive: Estimate
    """Share of the judge's passes that are truly good."""
    negative_predictive: Estimate
    """Share of the judge's failures that are truly bad."""


def detect(judged: Sequence[bool | None], truth: Sequence[bool | None]) -> DetectionRates:
    """Return the four rates of a judge; units without a verdict or a label (None) are left out."""
    pairs = [(a, b) for a, b in zip(judged, truth, strict=True) if a is not None and b is not None]
    hits, misses = pairs.count((True, True)), pairs.count((False, True))
    alarms, refusals = pairs.count((True, False)), pairs.count((False, False))
    return DetectionRates(
        true_positives=hits,
        false_negatives=misses,
        false_positives=alarms,
        true_negatives=refusals,
        sensitivity=_rate(hits, hits + misses, reason="no label says that a record is good"),
        specificity=_rate(refusals, refusals + alarms, reason="no label says that a record is bad"),
        positive_predictive=_rate(hits, hits + alarms, reason="the judge passed none of the labelled records"),
        negative_predictive=_rate(refusals, refusals + misses, reason="the judge failed none of the labelled records"),
    )


def _rate(successes: int, n: int, *, reason: str) -> Estimate:
    if n == 0:
        return Estimate(n=0, reason=reason)
    rate = successes / n
    # n - 1, as for the standard error of any mean, of which a rate is one.
    error = sqrt(rate * (1 - rate) / (n - 1)) if n > 1 else None
    return Estimate(value=rate, interval=wilson(successes, n), error=error, n=n)


def krippendorff_alpha(ratings: Floats, *, scale: Scale) -> Estimate:
    """Return the agreement of any number of raters beyond chance; a row is a unit, a column a rater, NaN a missing rating.

    Units with fewer than two ratings say nothing about agreement and are left out; `n` counts the others.
    """
    pairable = ratings[is_pairable(ratings)] if ratings.size else np.empty((0, 0))
    n = len(pairable)
    if n == 0:
        return Estimate(n=0, reason="no unit was rated twice")
    pieces = _disagreement_parts(pairable, scale=scale)
    if pieces is None:
        return Estimate(n=n, reason="all raters gave every unit the same category")
    value = 1 - pieces.observed / pieces.expected
    if n == 1:
        return Estimate(value=value, n=n, reason=_TOO_FEW)
    error = sqrt(_spread(pieces, disagreement=1 - value)) / pieces.expected
    held_back, by_chance = value * n / (n + _FOR_ALPHA), pieces.expected / n
    spread = _spread(pieces, disagreement=1 - held_back) + _FOR_ALPHA * (held_back * by_chance) ** 2
    held_error = sqrt(spread) / (pieces.expected + _FOR_ALPHA * by_chance)
    interval = _shrunk_interval(value, held_back, error=held_error, n=n, method="alpha")
    return Estimate(value=value, interval=interval, error=error, n=n)


def is_pairable(ratings: Floats) -> NDArray[np.bool_]:
    """Return which units were rated twice at least."""
    found: NDArray[np.bool_] = (~np.isnan(ratings)).sum(axis=1) >= 2
    return found


def alpha_influence(pairable: Floats, *, scale: Scale) -> Floats:
    """Return how much each unit moves alpha, up to a factor that all of them share; every unit was rated twice at least."""
    pieces = _disagreement_parts(pairable, scale=scale)
    if pieces is None:
        return np.zeros(len(pairable))
    found: Floats = pieces.observed_by_unit - pieces.observed / pieces.expected * pieces.expected_by_unit
    return found


def _disagreement_parts(pairable: Floats, *, scale: Scale) -> "_DisagreementParts | None":
    """Return the parts of the coefficient; None where there is only one value."""
    units, columns = np.nonzero(~np.isnan(pairable))
    # Codes instead of a matrix of all pairs of values: continuous scores have as many values as ratings.
    values, codes = np.unique(pairable[units, columns], return_inverse=True)
    if len(values) == 1:
        return None
    parts = _CodedRatings(units, codes, sizes=np.bincount(units).astype(np.float64))
    return _nominal(parts) if scale == "nominal" else _squared_distances(parts, places=values if scale == "interval" else None)


def _spread(pieces: "_DisagreementParts", *, disagreement: float) -> float:
    influence = pieces.observed_by_unit - disagreement * pieces.expected_by_unit
    n = len(influence)
    return float(np.square(influence - influence.mean()).sum()) * n / (n - 1)


class _CodedRatings(msgspec.Struct, frozen=True):
    """Every rating as its unit and the place of its value among the sorted ones, and the ratings of each unit."""

    units: NDArray[np.int64]
    codes: NDArray[np.int64]
    sizes: Floats


class _DisagreementParts(msgspec.Struct, frozen=True):
    """Observed and expected disagreement, and how much both change by a little more weight of each unit."""

    observed: float
    expected: float
    observed_by_unit: Floats
    expected_by_unit: Floats


def _nominal(parts: _CodedRatings) -> _DisagreementParts:
    total = float(parts.sizes.sum())
    counts = np.bincount(parts.codes).astype(np.float64)
    keys, repeats = np.unique(parts.units * len(counts) + parts.codes, return_counts=True)
    same = np.bincount(keys // len(counts), weights=np.square(repeats.astype(np.float64)))
    observed = (np.square(parts.sizes) - same) / (parts.sizes - 1)
    expected = total**2 - float(np.square(counts).sum())
    by_unit = 2 * (total * parts.sizes - np.bincount(parts.units, weights=counts[parts.codes]))
    return _scale_expected(observed, observed_by_unit=observed, expected=expected, expected_by_unit=by_unit, parts=parts)


def _squared_distances(parts: _CodedRatings, *, places: Floats | None) -> _DisagreementParts:
    """Return squared distances of values, or of middle ranks when there are no places; ranks move with the weights of units."""
    counts = np.bincount(parts.codes).astype(np.float64)
    total = float(counts.sum())
    moves = places is None
    places = np.cumsum(counts) - counts / 2 if places is None else places - places.mean()
    rated = places[parts.codes]
    sums = _sums(parts.units, rated)
    squares = _sums(parts.units, np.square(rated))
    observed = 2 * (parts.sizes * squares - np.square(sums)) / (parts.sizes - 1)
    whole, whole_squares = float(sums.sum()), float(squares.sum())
    expected = 2 * (total * whole_squares - whole**2)
    expected_by_unit = 2 * (parts.sizes * whole_squares + total * squares - 2 * whole * sums)
    observed_by_unit = observed
    if moves:
        # Ranks depend on all ratings, so one unit also moves the ranks of the others; without this the interval is too narrow.
        pull = 4 * (parts.sizes[parts.units] * rated - sums[parts.units]) / (parts.sizes[parts.units] - 1)
        observed_by_unit = observed + _through_ranks(_sums(parts.codes, pull), parts)
        expected_by_unit = expected_by_unit + _through_ranks(4 * counts * (total * places - whole), parts)
    return _scale_expected(
        observed, observed_by_unit=observed_by_unit, expected=expected, expected_by_unit=expected_by_unit, parts=parts
    )


def _through_ranks(slopes: Floats, parts: _CodedRatings) -> Floats:
    """Carry slopes through ranks: one more rating lifts the middle rank of its value by a half and of all higher values by one."""
    above = np.cumsum(slopes[::-1])[::-1] - slopes
    return _sums(parts.units, (above + slopes / 2)[parts.codes])


def _sums(groups: NDArray[np.int64], values: Floats) -> Floats:
    return np.bincount(groups, weights=values).astype(np.float64)


def _scale_expected(
    observed: Floats, *, observed_by_unit: Floats, expected: float, expected_by_unit: Floats, parts: _CodedRatings
) -> _DisagreementParts:
    """Scale the expected disagreement, which is per pair of ratings, to the ratings that there are."""
    pairs = float(parts.sizes.sum()) - 1
    by_unit = expected_by_unit / pairs - expected / pairs**2 * parts.sizes
    return _DisagreementParts(float(observed.sum()), expected / pairs, observed_by_unit, by_unit)
