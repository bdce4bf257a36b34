"""Made-up labels for what `assay calibrate` prints: agreement, sensitivity, and figures with the judge's errors counted in."""

from collections.abc import Callable

import numpy as np

from assay.metrics.agreement import (
    ConfusionMatrix,
    alpha_influence,
    cohen_kappa,
    confusion,
    detect,
    is_pairable,
    kappa_influence,
    krippendorff_alpha,
)
from assay.metrics.correction import correct_mean, correct_rate, mean_influence, rate_influence
from assay.metrics.intervals import clustered, clustered_rate
from tests.stats.scenario import FIVE, GOOD, SKEWED, Generator, Scenario, Trial, holds

RARE = "so few labels seldom show those that differ most from the judge, which the interval has to allow for"


def two_raters(shares: np.ndarray, skill: float) -> np.ndarray:
    """How often two raters say what: right with a probability, otherwise one step off, or a guess between two."""
    count = len(shares)
    says = np.array([[1.0 if abs(said - true) == 1 else 0.0 for said in range(count)] for true in range(count)])
    says = skill * np.eye(count) + (1 - skill) * says / says.sum(axis=1, keepdims=True)
    return np.einsum("t,ti,tj->ij", shares, says, says)


def true_kappa(joint: np.ndarray, weights: str) -> float:
    places = np.arange(len(joint), dtype=float)
    apart = np.abs(places[:, None] - places) ** 2 if weights == "quadratic" else 1 - np.eye(len(joint))
    return float(1 - (joint * apart).sum() / (joint.sum(axis=1) @ apart @ joint.sum(axis=0)))


def kappas(n: int, shares: np.ndarray, *, skill: float, weights: str) -> Trial:
    joint = two_raters(shares, skill)
    truth, categories = true_kappa(joint, weights), tuple(map(float, range(len(shares))))

    def trial(draw: Generator) -> bool | None:
        counts = draw.multinomial(n, joint.ravel()).reshape(joint.shape)
        return holds(cohen_kappa(ConfusionMatrix(categories, tuple(map(tuple, counts.tolist()))), weights=weights).interval, truth)

    return trial


def together(draw: Generator, records: int, repeat: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and their records: the answers to every second record are alike, those to the others have nothing in common."""
    index = np.repeat(np.arange(records), repeat)
    rows = np.arange(len(index))
    return np.where((draw.random(records) < 0.5)[index], index * repeat, rows), index


def clustered_kappas(records: int, shares: np.ndarray, *, skill: float, weights: str) -> Trial:
    joint = two_raters(shares, skill)
    truth, count = true_kappa(joint, weights), len(shares)

    def trial(draw: Generator) -> bool | None:
        rows, index = together(draw, records, 3)
        cells = draw.choice(count * count, len(rows), p=joint.ravel())[rows]
        first, second = (cells // count).tolist(), (cells % count).tolist()
        plain = cohen_kappa(confusion(first, second), weights=weights)
        influence = kappa_influence(first, second, weights=weights)
        return holds(clustered(plain, index, influence=influence, bounds=(-1.0, 1.0)).interval, truth)

    return trial


def ratings_of(draw: Generator, n: int, skill: float) -> np.ndarray:
    """Three raters of whom a fifth of the ratings is missing."""
    true = draw.choice(5, n, p=GOOD)[:, None]
    off = np.clip(true + draw.choice([-1, 1], (n, 3)), 0, 4)
    off = np.where(off == true, np.where(true == 0, 1, 3), off)
    ratings = np.where(draw.random((n, 3)) < skill, true, off).astype(float)
    ratings[draw.random((n, 3)) < 0.2] = np.nan
    return ratings


def true_alpha(scale: str, skill: float) -> float:
    joint = two_raters(GOOD, skill)
    said = joint.sum(axis=1)
    places = {"nominal": np.arange(5.0), "ordinal": np.cumsum(said) - said / 2, "interval": np.arange(5.0)}[scale]
    apart = 1 - np.eye(5) if scale == "nominal" else (places[:, None] - places) ** 2
    return float(1 - (joint * apart).sum() / (said @ apart @ said))


def alphas(n: int, *, scale: str, skill: float = 0.8) -> Trial:
    truth = true_alpha(scale, skill)
    return lambda draw: holds(krippendorff_alpha(ratings_of(draw, n, skill), scale=scale).interval, truth)


def clustered_alphas(records: int, *, scale: str, skill: float = 0.8) -> Trial:
    truth = true_alpha(scale, skill)

    def trial(draw: Generator) -> bool | None:
        rows, index = together(draw, records, 3)
        ratings = ratings_of(draw, len(rows), skill)[rows]
        paired = is_pairable(ratings)
        influence = alpha_influence(ratings[paired], scale=scale)
        plain = krippendorff_alpha(ratings, scale=scale)
        return holds(clustered(plain, index[paired], influence=influence, bounds=(-1.0, 1.0)).interval, truth)

    return trial


def verdicts(draw: Generator, n: int, rate: float, *, sensitivity: float, specificity: float) -> tuple[np.ndarray, np.ndarray]:
    truth = draw.random(n) < rate
    return draw.random(n) < np.where(truth, sensitivity, 1 - specificity), truth


def detections(labels: int, figure: str) -> Trial:
    """One of the four rates of a judge, of all labels or of those in a slice."""

    def trial(draw: Generator) -> bool | None:
        rate, sensitivity, specificity = 0.6, draw.uniform(0.75, 0.95), draw.uniform(0.75, 0.95)
        judged, truth = verdicts(draw, labels, rate, sensitivity=sensitivity, specificity=specificity)
        passed = rate * sensitivity / (rate * sensitivity + (1 - rate) * (1 - specificity))
        true = {"sensitivity": sensitivity, "specificity": specificity, "positive_predictive": passed}[figure]
        return holds(getattr(detect(judged.tolist(), truth.tolist()), figure).interval, true)

    return trial


def clustered_sensitivities(records: int) -> Trial:
    def trial(draw: Generator) -> bool | None:
        rows, index = together(draw, records, 3)
        judged, truth = (side[rows] for side in verdicts(draw, len(rows), 0.6, sensitivity=0.85, specificity=0.8))
        plain = detect(judged.tolist(), truth.tolist()).sensitivity
        return holds(clustered_rate(plain, judged[truth].astype(float), index[truth]).interval, 0.85)

    return trial


def in_proportion(judged: np.ndarray, labels: int) -> np.ndarray:
    """Records to label with the run's own share of each verdict or score."""
    order = np.argsort(judged, kind="stable")
    marks = np.zeros(len(judged), dtype=bool)
    marks[order[np.linspace(0, len(judged) - 1, labels).round().astype(int)]] = True
    return marks


def at_random(judged: np.ndarray, labels: int) -> np.ndarray:
    """Records to label whatever the judge said; they come in random order."""
    return np.arange(len(judged)) < labels


def corrected_rates(n: int, labels: int) -> Trial:
    def trial(draw: Generator) -> bool | None:
        rate, sensitivity, specificity = draw.uniform(0.4, 0.9), draw.uniform(0.8, 0.95), draw.uniform(0.75, 0.95)
        judged, truth = verdicts(draw, n + labels, rate, sensitivity=sensitivity, specificity=specificity)
        detection = detect(judged[:labels].tolist(), truth[:labels].tolist())
        return holds(correct_rate(int(judged[labels:].sum()), n, detection=detection).corrected.interval, rate)

    return trial


def corrected_rates_by_dataset(n: int, labels: int) -> Trial:
    """Two datasets, an easy and a hard one, with labels in their proportion, as `assay label` draws them."""

    def trial(draw: Generator) -> bool | None:
        halves = [verdicts(draw, (n + labels) // 2, rate, sensitivity=0.9, specificity=0.85) for rate in (0.9, 0.5)]
        known = [(judged[: labels // 2], truth[: labels // 2]) for judged, truth in halves]
        judged, truth = (np.concatenate(side) for side in zip(*known, strict=True))
        passed = int(sum(side[labels // 2 :].sum() for side, _ in halves))
        detection = detect(judged.tolist(), truth.tolist())
        return holds(correct_rate(passed, 2 * (n // 2), detection=detection).corrected.interval, 0.7)

    return trial


def clustered_corrected_rates(records: int, labelled: int) -> Trial:
    """Records with three answers each, of some of which all answers are labelled."""

    def trial(draw: Generator) -> bool | None:
        rows, index = together(draw, records, 3)
        judged, truth = (side[rows] for side in verdicts(draw, len(rows), 0.7, sensitivity=0.9, specificity=0.85))
        known = index < labelled
        detection = detect(judged[known].tolist(), truth[known].tolist())
        plain = correct_rate(int(judged[~known].sum()), int((~known).sum()), detection=detection).corrected
        influence = rate_influence(judged[known], truth[known], others=judged[~known])
        return None if plain.interval is None else holds(clustered(plain, index, influence=influence, bounds=(0, 1)).interval, 0.7)

    return trial


def scores(draw: Generator, n: int, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What people say, and a judge that is kinder."""
    people = draw.choice(FIVE, n, p=shares)
    return people, np.clip(people + draw.choice([-0.25, 0.0, 0.25, 0.5], n, p=[0.1, 0.5, 0.3, 0.1]), 0, 1)


def corrected_means(n: int, labels: int, *, shares: np.ndarray = GOOD, draws: Callable[..., np.ndarray] = at_random) -> Trial:
    def trial(draw: Generator) -> bool | None:
        people, judge = scores(draw, n + labels, shares)
        known = draws(judge, labels)
        found = correct_mean(people[known], judge[known], unlabelled=judge[~known], ends=(0.0, 1.0))
        return holds(found.corrected.interval, float(FIVE @ shares))

    return trial


def corrected_passes(n: int, labels: int) -> Trial:
    def trial(draw: Generator) -> bool | None:
        rate = draw.uniform(0.5, 0.9)
        judged, truth = (side.astype(float) for side in verdicts(draw, n + labels, rate, sensitivity=0.9, specificity=0.8))
        found = correct_mean(truth[:labels], judged[:labels], unlabelled=judged[labels:], ends=(0.0, 1.0))
        return holds(found.corrected.interval, rate)

    return trial


def clustered_corrected_means(records: int, labelled: int) -> Trial:
    def trial(draw: Generator) -> bool | None:
        rows, index = together(draw, records, 3)
        people, judge = (side[rows] for side in scores(draw, len(rows), GOOD))
        known = index < labelled
        plain = correct_mean(people[known], judge[known], unlabelled=judge[~known], ends=(0.0, 1.0)).corrected
        influence = mean_influence(people[known], judge[known], unlabelled=judge[~known])
        return holds(clustered(plain, index, influence=influence, bounds=(0.0, 1.0)).interval, float(FIVE @ GOOD))

    return trial


PASS_OR_FAIL = np.array([0.3, 0.7])

CALIBRATED = (
    *(
        Scenario(name="Cohen's kappa", sizes=f"{n} units, pass or fail", trial=kappas(n, PASS_OR_FAIL, skill=0.93, weights="none"))
        for n in (50, 100, 500)
    ),
    Scenario(name="Cohen's kappa", sizes="100 units, 5 categories", trial=kappas(100, GOOD, skill=0.85, weights="none")),
    *(
        Scenario(name="quadratic-weighted kappa", sizes=f"{n} units, 1-5", trial=kappas(n, GOOD, skill=0.7, weights="quadratic"))
        for n in (50, 200)
    ),
    Scenario(
        name="Cohen's kappa, clusters",
        sizes="60 records x 3, pass or fail",
        trial=clustered_kappas(60, PASS_OR_FAIL, skill=0.93, weights="none"),
    ),
    Scenario(
        name="quadratic-weighted kappa, clusters",
        sizes="60 records x 3, 1-5",
        trial=clustered_kappas(60, GOOD, skill=0.7, weights="quadratic"),
    ),
    *(
        Scenario(name=f"Krippendorff's alpha, {scale}", sizes=f"{n} units, 3 raters", trial=alphas(n, scale=scale))
        for scale in ("nominal", "ordinal", "interval")
        for n in (40, 100)
    ),
    *(
        Scenario(name=f"Krippendorff's alpha, {scale}, clusters", sizes="60 records x 3", trial=clustered_alphas(60, scale=scale))
        for scale in ("nominal", "interval")
    ),
    *(
        Scenario(name=f"{figure.replace('_', ' ')} (Wilson)", sizes=f"{n} labels", trial=detections(n, figure))
        for figure in ("sensitivity", "specificity", "positive_predictive")
        for n in (40, 200)
    ),
    Scenario(name="sensitivity, clusters", sizes="60 records x 3", trial=clustered_sensitivities(60)),
    *(
        Scenario(
            name="corrected pass rate (Rogan-Gladen)", sizes=f"500 records, {n} labels at random", trial=corrected_rates(500, n)
        )
        for n in (100, 200)
    ),
    Scenario(
        name="corrected pass rate (Rogan-Gladen)",
        sizes="500 records, 200 labels in proportion to datasets",
        trial=corrected_rates_by_dataset(500, 200),
        note="datasets that differ leave less of the labels to chance than the formula knows",
    ),
    Scenario(
        name="corrected pass rate (Rogan-Gladen), clusters",
        sizes="200 records x 3, 60 labelled",
        trial=clustered_corrected_rates(200, 60),
    ),
    *(
        Scenario(
            name="corrected mean (PPI++)", sizes=f"1,000 records, {n} labels at random", trial=corrected_means(1000, n), note=RARE
        )
        for n in (30, 50, 100, 200)
    ),
    Scenario(
        name="corrected mean (PPI++)",
        sizes="1,000 records, 50 labels at random, four in five perfect",
        trial=corrected_means(1000, 50, shares=SKEWED),
    ),
    Scenario(
        name="corrected mean (PPI++)",
        sizes="1,000 records, 200 labels in proportion to scores",
        trial=corrected_means(1000, 200, draws=in_proportion),
    ),
    *(
        Scenario(name="corrected pass rate (PPI++)", sizes=f"500 records, {n} labels at random", trial=corrected_passes(500, n))
        for n in (30, 50, 100, 200)
    ),
    Scenario(
        name="corrected mean (PPI++), clusters", sizes="200 records x 3, 60 labelled", trial=clustered_corrected_means(200, 60)
    ),
)
