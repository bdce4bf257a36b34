"""Made-up evaluations whose truth is known: whether an interval holds it, and whether a test cries wolf."""

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from assay.metrics.agreement import Confusion, cohen_kappa, detect, krippendorff_alpha
from assay.metrics.correction import correct_mean, correct_rate
from assay.metrics.intervals import Interval, cluster_interval, mean_interval, wilson
from assay.metrics.paired import Flips, decide, difference_p_value, holm, mcnemar, paired_difference, unpaired_difference
from assay.metrics.pairwise import Meeting, PairwiseFigures, Result, Vote
from assay.metrics.power import detectable_effect
from assay.metrics.ranking import Comparisons, rank
from assay.metrics.repeats import pass_at_k, pass_hat_k
from assay.metrics.trend import trend

Generator = np.random.Generator
Trial = Callable[[Generator], bool | None]
"""True for a truth that was covered, or for an alarm; None when the numbers allow no answer."""
Repeats = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Verdicts before and after, and the record of each."""

FIVE = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
GOOD = np.array([0.05, 0.10, 0.15, 0.30, 0.40])
SKEWED = np.array([0.03, 0.02, 0.05, 0.10, 0.80])
RESAMPLES = 2_000


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table."""

    name: str
    sizes: str
    trial: Trial
    target: float = 95.0
    """Percent of trials that should be covered, or alarmed."""
    note: str = ""
    """Why it misses its target by more than one point, where it does by nature."""


def holds(interval: Interval | None, truth: float) -> bool | None:
    return None if interval is None else interval.low <= truth <= interval.high


def rates(n: int, low: float, high: float) -> Trial:
    def trial(draw: Generator) -> bool | None:
        rate = draw.uniform(low, high)
        return holds(wilson(int(draw.binomial(n, rate)), n), rate)

    return trial


def means(n: int, shares: np.ndarray) -> Trial:
    def trial(draw: Generator) -> bool | None:
        values = np.repeat(FIVE, draw.multinomial(n, shares))
        return holds(mean_interval(values, seed=(1,), resamples=RESAMPLES), float(FIVE @ shares))

    return trial


def fine_means(n: int) -> Trial:
    return lambda draw: holds(mean_interval(draw.beta(4, 2, n), seed=(1,)), 4 / 6)


def clustered_scores(draw: Generator, clusters: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores of clusters of 3 to 12 records, whose own level makes three tenths of the variance."""
    sizes = draw.integers(3, 13, clusters)
    index = np.repeat(np.arange(clusters, dtype=np.int32), sizes)
    return 0.6 + np.sqrt(0.3) * 0.2 * draw.normal(size=clusters)[index] + np.sqrt(0.7) * 0.2 * draw.normal(size=len(index)), index


def clustered_means(clusters: int) -> Trial:
    return lambda draw: holds(cluster_interval(*clustered_scores(draw, clusters)), 0.6)


def clustered_rates(clusters: int) -> Trial:
    def trial(draw: Generator) -> bool | None:
        sizes = draw.integers(3, 13, clusters)
        index = np.repeat(np.arange(clusters, dtype=np.int32), sizes)
        passed = draw.random(len(index)) < draw.beta(2.8, 1.2, clusters)[index]
        return holds(cluster_interval(passed.astype(float), index.astype(np.int64)), 0.7)

    return trial


def repeated(records: int, repeat: int, *, k: int, estimate: Callable[[int, int, int], float]) -> Trial:
    """Records with a pass rate each, asked several times; the truth is what endless records would give."""
    chances = np.random.default_rng(0).beta(2.8, 1.2, 1_000_000)
    truth = float((1 - (1 - chances) ** k).mean() if estimate is pass_at_k else (chances**k).mean())

    def trial(draw: Generator) -> bool | None:
        passes = draw.binomial(repeat, draw.choice(chances, records))
        values = np.array([estimate(repeat, count, k) for count in range(repeat + 1)])[passes]
        return holds(cluster_interval(values, np.arange(records)), truth)

    return trial


def two_raters(shares: np.ndarray, skill: float) -> np.ndarray:
    """How often two raters say what: right with a probability, otherwise one step off, or a guess between two."""
    count = len(shares)
    says = np.array([[1.0 if abs(said - true) == 1 else 0.0 for said in range(count)] for true in range(count)])
    says = skill * np.eye(count) + (1 - skill) * says / says.sum(axis=1, keepdims=True)
    return np.einsum("t,ti,tj->ij", shares, says, says)


def kappas(n: int, shares: np.ndarray, *, skill: float, weights: str) -> Trial:
    joint, places = two_raters(shares, skill), np.arange(len(shares), dtype=float)
    apart = np.abs(places[:, None] - places) ** 2 if weights == "quadratic" else 1 - np.eye(len(shares))
    truth = 1 - (joint * apart).sum() / (joint.sum(axis=1) @ apart @ joint.sum(axis=0))

    def trial(draw: Generator) -> bool | None:
        counts = draw.multinomial(n, joint.ravel()).reshape(joint.shape)
        table = Confusion(tuple(places.tolist()), tuple(map(tuple, counts.tolist())))
        return holds(cohen_kappa(table, weights=weights).interval, truth)

    return trial


def alphas(n: int, *, scale: str, skill: float) -> Trial:
    """Three raters of whom a fifth of the ratings is missing."""
    joint = two_raters(GOOD, skill)
    said = joint.sum(axis=1)
    places = {"nominal": np.arange(5.0), "ordinal": np.cumsum(said) - said / 2, "interval": np.arange(5.0)}[scale]
    apart = 1 - np.eye(5) if scale == "nominal" else (places[:, None] - places) ** 2
    truth = 1 - (joint * apart).sum() / (said @ apart @ said)

    def trial(draw: Generator) -> bool | None:
        true = draw.choice(5, n, p=GOOD)[:, None]
        off = np.clip(true + draw.choice([-1, 1], (n, 3)), 0, 4)
        off = np.where(off == true, np.where(true == 0, 1, 3), off)
        ratings = np.where(draw.random((n, 3)) < skill, true, off).astype(float)
        ratings[draw.random((n, 3)) < 0.2] = np.nan
        return holds(krippendorff_alpha(ratings, scale=scale).interval, truth)

    return trial


def verdicts(draw: Generator, n: int, rate: float, *, sensitivity: float, specificity: float) -> tuple[np.ndarray, np.ndarray]:
    truth = draw.random(n) < rate
    return draw.random(n) < np.where(truth, sensitivity, 1 - specificity), truth


def sensitivities(labels: int) -> Trial:
    def trial(draw: Generator) -> bool | None:
        sensitivity = draw.uniform(0.75, 0.95)
        judged, truth = verdicts(draw, labels, 0.7, sensitivity=sensitivity, specificity=0.8)
        return holds(detect(judged.tolist(), truth.tolist()).sensitivity.interval, sensitivity)

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


def corrected_rates(n: int, labels: int, *, draws: Callable[[np.ndarray, int], np.ndarray]) -> Trial:
    def trial(draw: Generator) -> bool | None:
        rate, sensitivity, specificity = draw.uniform(0.4, 0.9), draw.uniform(0.8, 0.95), draw.uniform(0.75, 0.95)
        judged, truth = verdicts(draw, n + labels, rate, sensitivity=sensitivity, specificity=specificity)
        known = draws(judged, labels)
        detection = detect(judged[known].tolist(), truth[known].tolist())
        return holds(correct_rate(int(judged[~known].sum()), n, detection=detection).corrected.interval, rate)

    return trial


def corrected_means(n: int, labels: int, *, draws: Callable[[np.ndarray, int], np.ndarray]) -> Trial:
    def trial(draw: Generator) -> bool | None:
        people = draw.choice(FIVE, n + labels, p=GOOD)
        judge = np.clip(people + draw.choice([-0.25, 0.0, 0.25, 0.5], n + labels, p=[0.1, 0.5, 0.3, 0.1]), 0, 1)
        known = draws(judge, labels)
        found = correct_mean(people[known], judge[known], unlabelled=judge[~known])
        return holds(found.corrected.interval, float(FIVE @ GOOD))

    return trial


def score_pairs(draw: Generator, n: int, gain: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Two candidates on the same records: half of the variance is the record's own."""
    record = draw.beta(4, 2, n)
    before, after = (0.5 * record + 0.5 * draw.beta(4, 2, n) for _ in range(2))
    return before, after + gain


def verdict_pairs(draw: Generator, n: int, *, better: float, worse: float) -> tuple[np.ndarray, np.ndarray]:
    kind = draw.choice(4, n, p=[better, worse, 0.65 * (1 - better - worse), 0.35 * (1 - better - worse)])
    return np.isin(kind, (1, 2)), np.isin(kind, (0, 2))


def differences(n: int) -> Trial:
    return lambda draw: holds(paired_difference(*score_pairs(draw, n, 0.03)).interval, 0.03)


def verdict_differences(n: int, *, better: float, worse: float) -> Trial:
    def trial(draw: Generator) -> bool | None:
        before, after = verdict_pairs(draw, n, better=better, worse=worse)
        return holds(paired_difference(before.astype(float), after.astype(float)).interval, better - worse)

    return trial


class Shaky(msgspec.Struct, frozen=True):
    """Records that were asked several times by two candidates: each passes with a chance of its own, which some lose."""

    records: int
    repeat: int
    chances: tuple[float, float]
    """Of a beta distribution: small numbers are records that nearly always pass or nearly always fail."""
    lost: float = 0.0

    @property
    def difference(self) -> float:
        return -self.lost * self.chances[0] / sum(self.chances)

    def draw(self, draw: Generator) -> Repeats:
        chance = np.repeat(draw.beta(*self.chances, self.records), self.repeat)
        later = np.where(np.repeat(draw.random(self.records) < self.lost, self.repeat), 0.0, chance)
        index = np.repeat(np.arange(self.records, dtype=np.int32), self.repeat)
        return (draw.random(len(index)) < chance).astype(float), (draw.random(len(index)) < later).astype(float), index


class Flipping(msgspec.Struct, frozen=True):
    """Records that were asked several times, of which some flip: a share of them as a whole, the answers of others on their own."""

    records: int
    repeat: int
    better: float
    worse: float
    whole: float = 1.0

    @property
    def difference(self) -> float:
        return self.better - self.worse

    def draw(self, draw: Generator) -> Repeats:
        shares = [self.better, self.worse, 1 - self.better - self.worse]
        is_whole = draw.random((self.records, 1)) < self.whole
        alone, whole = draw.choice(3, (self.records, self.repeat), p=shares), draw.choice(3, (self.records, 1), p=shares)
        kind = np.where(is_whole, whole, alone).ravel()
        return (kind > 0).astype(float), (kind != 1).astype(float), np.repeat(np.arange(self.records), self.repeat).astype(np.int32)


def repeated_differences(pairs: Shaky | Flipping) -> Trial:
    def trial(draw: Generator) -> bool | None:
        before, after, index = pairs.draw(draw)
        return holds(paired_difference(before, after, clusters=index).interval, pairs.difference)

    return trial


def clustered_verdicts(clusters: int) -> Trial:
    """Clusters of 3 to 12 records; some of the clusters get better as a whole."""

    def trial(draw: Generator) -> bool | None:
        sizes = draw.integers(3, 13, clusters)
        index = np.repeat(np.arange(clusters, dtype=np.int32), sizes)
        chance = draw.beta(2.8, 1.2, clusters)
        later = np.where(draw.random(clusters) < 0.2, 1.0, chance)
        before, after = (draw.random(len(index)) < which[index] for which in (chance, later))
        return holds(paired_difference(before.astype(float), after.astype(float), clusters=index).interval, 0.2 * 0.3)

    return trial


def clustered_differences(clusters: int) -> Trial:
    def trial(draw: Generator) -> bool | None:
        after, index = clustered_scores(draw, clusters)
        before = 0.55 + 0.15 * draw.normal(size=len(after))
        return holds(paired_difference(before, after, clusters=index).interval, 0.05)

    return trial


def other_records(n: int, count: int) -> Trial:
    return lambda draw: holds(unpaired_difference(draw.beta(4, 2, n), draw.beta(3, 3, count)).interval, 3 / 6 - 4 / 6)


def slopes(runs: int) -> Trial:
    return lambda draw: holds(trend(0.01 * np.arange(runs) + 0.02 * draw.normal(size=runs)).slope.interval, 0.01)


def tournament(draw: Generator, strengths: np.ndarray, records: int) -> tuple[Comparisons, np.ndarray]:
    """Every pair of candidates on every record, some of which end in a tie; a record suits one candidate more than another."""
    first, second = (np.tile(side, records) for side in np.triu_indices(len(strengths), 1))
    index = np.repeat(np.arange(records), len(first) // records)
    chance = 1 / (1 + np.exp(strengths[second] - strengths[first]))
    outcome = np.where(draw.random(len(first)) < 0.2, 0.5, draw.random(len(first)) < 0.5 + (chance - 0.5) / 0.8)
    return Comparisons(first, second, outcome.astype(float)), index


def strengths(records: int) -> Trial:
    truth = np.array([0.5, 0.25, 0.0, -0.25, -0.5])

    def trial(draw: Generator) -> bool | None:
        comparisons, index = tournament(draw, truth, records)
        ranked = rank("01234", comparisons, clusters=index).candidates
        one = ranked[draw.integers(5)] if ranked else None
        return None if one is None else holds(one.strength.interval, float(truth[int(one.name)]))

    return trial


IN_ORDER, SWAPPED = 0.8, 0.4
"""How often a judge that likes the first place prefers the better answer, when it stands there and when it does not."""


def both_orders(draw: Generator, records: int) -> dict[str, Any]:
    """The ranking of two candidates by such a judge."""
    figures = PairwiseFigures(("better", "worse"))
    for record, (in_order, swapped) in enumerate(draw.random((records, 2)) < (IN_ORDER, SWAPPED)):
        result: Result = "inconsistent" if in_order != swapped else "first" if in_order else "second"
        vote = Vote("judge", float(in_order), float(swapped))
        figures.add(Meeting(first=0, second=1, cluster=str(record), result=result, votes=(vote,)))
    found: dict[str, Any] = figures.block()["ranking"]
    return found


def stated(estimate: dict[str, Any], truth: float) -> bool:
    return bool(estimate["interval"]["low"] <= truth <= estimate["interval"]["high"])


def shares_of_wins(records: int) -> Trial:
    return lambda draw: stated(both_orders(draw, records)["pairs"][0]["first_share"], (IN_ORDER + SWAPPED) / 2)


def chances_to_win(records: int) -> Trial:
    strength = np.log((IN_ORDER + SWAPPED) / (2 - IN_ORDER - SWAPPED)) / 2
    truth = {"better": float(1 / (1 + np.exp(-strength))), "worse": float(1 / (1 + np.exp(strength)))}

    def trial(draw: Generator) -> bool | None:
        one = both_orders(draw, records)["candidates"][0]
        return stated(one["win_chance"], truth[one["name"]])

    return trial


def goes_by_places(records: int) -> Trial:
    truth = IN_ORDER * (1 - SWAPPED) + SWAPPED * (1 - IN_ORDER)
    return lambda draw: stated(both_orders(draw, records)["position_bias"][0]["rate"], truth)


INTERVALS = (
    Scenario(name="pass rate (Wilson)", sizes="50 records, rate 0.5 to 0.95", trial=rates(50, 0.5, 0.95)),
    Scenario(name="pass rate (Wilson)", sizes="200 records, rate 0.5 to 0.95", trial=rates(200, 0.5, 0.95)),
    Scenario(name="mean score (bootstrap)", sizes="50 records, scores 1-5", trial=means(50, GOOD)),
    Scenario(name="mean score (bootstrap)", sizes="300 records, scores 1-5", trial=means(300, GOOD)),
    Scenario(name="mean score (bootstrap)", sizes="100 records, four in five perfect", trial=means(100, SKEWED)),
    Scenario(name="mean score (bootstrap)", sizes="20 records, scores 1-5", trial=means(20, GOOD)),
    Scenario(
        name="mean score (bootstrap)",
        sizes="20 records, four in five perfect",
        trial=means(20, SKEWED),
        note="half a record at each end of the scale weighs much among 20",
    ),
    Scenario(name="mean score (t)", sizes="200 records, fine scores", trial=fine_means(200)),
    Scenario(name="mean score, clusters", sizes="20 clusters of 3 to 12", trial=clustered_means(20)),
    Scenario(name="mean score, clusters", sizes="60 clusters of 3 to 12", trial=clustered_means(60)),
    Scenario(name="pass rate, clusters", sizes="40 clusters of 3 to 12", trial=clustered_rates(40)),
    Scenario(name="pass@3 of 5 answers", sizes="200 records", trial=repeated(200, 5, k=3, estimate=pass_at_k)),
    Scenario(name="pass^3 of 5 answers", sizes="200 records", trial=repeated(200, 5, k=3, estimate=pass_hat_k)),
    Scenario(
        name="Cohen's kappa",
        sizes="100 units, pass or fail",
        trial=kappas(100, np.array([0.3, 0.7]), skill=0.93, weights="none"),
    ),
    Scenario(name="Cohen's kappa", sizes="100 units, 5 categories", trial=kappas(100, GOOD, skill=0.85, weights="none")),
    Scenario(name="quadratic-weighted kappa", sizes="200 units, 1-5", trial=kappas(200, GOOD, skill=0.7, weights="quadratic")),
    Scenario(
        name="quadratic-weighted kappa",
        sizes="50 units, 1-5",
        trial=kappas(50, GOOD, skill=0.7, weights="quadratic"),
        note="the unit at chance weighs much among 50",
    ),
    Scenario(name="Krippendorff's alpha, nominal", sizes="100 units, 3 raters", trial=alphas(100, scale="nominal", skill=0.8)),
    Scenario(name="Krippendorff's alpha, ordinal", sizes="100 units, 3 raters", trial=alphas(100, scale="ordinal", skill=0.8)),
    Scenario(name="Krippendorff's alpha, interval", sizes="100 units, 3 raters", trial=alphas(100, scale="interval", skill=0.8)),
    Scenario(name="sensitivity, specificity (Wilson)", sizes="100 labels", trial=sensitivities(100)),
    Scenario(
        name="corrected pass rate (Rogan-Gladen)",
        sizes="500 records, 200 labels at random",
        trial=corrected_rates(500, 200, draws=at_random),
    ),
    Scenario(
        name="corrected pass rate (Rogan-Gladen)",
        sizes="500 records, 200 labels in proportion to verdicts",
        trial=corrected_rates(500, 200, draws=in_proportion),
        note="such labels leave less to chance than the formula knows; prefer the corrected mean of passes",
    ),
    Scenario(
        name="corrected mean (PPI++)",
        sizes="1,000 records, 200 labels at random",
        trial=corrected_means(1000, 200, draws=at_random),
    ),
    Scenario(
        name="corrected mean (PPI++)",
        sizes="1,000 records, 200 labels in proportion to scores",
        trial=corrected_means(1000, 200, draws=in_proportion),
    ),
    Scenario(name="paired difference of scores", sizes="50 records", trial=differences(50)),
    Scenario(name="paired difference of scores", sizes="500 records", trial=differences(500)),
    Scenario(
        name="paired difference of pass rates",
        sizes="100 records, 20 flips",
        trial=verdict_differences(100, better=0.12, worse=0.08),
    ),
    Scenario(
        name="paired difference of pass rates",
        sizes="500 records, 50 flips",
        trial=verdict_differences(500, better=0.06, worse=0.04),
    ),
    Scenario(
        name="paired difference of pass rates",
        sizes="100 records, 6 flips",
        trial=verdict_differences(100, better=0.02, worse=0.04),
        note="one more flip each way weighs much among 6",
    ),
    Scenario(
        name="paired difference of pass rates, repeats",
        sizes="100 records x 3, shaky, no difference",
        trial=repeated_differences(Shaky(100, 3, (2.8, 1.2))),
        note="half a flip of a whole record is added",
    ),
    Scenario(
        name="paired difference of pass rates, repeats",
        sizes="100 records x 3, nearly sure, 3 % lost",
        trial=repeated_differences(Shaky(100, 3, (0.3, 0.12), lost=0.03)),
        note="half a flip of a whole record is added",
    ),
    Scenario(
        name="paired difference of pass rates, repeats",
        sizes="50 records x 5, nearly sure, 5 % lost",
        trial=repeated_differences(Shaky(50, 5, (0.3, 0.12), lost=0.05)),
    ),
    Scenario(
        name="paired difference of pass rates, repeats",
        sizes="100 records x 3, 12 + 8 of which flip whole",
        trial=repeated_differences(Flipping(100, 3, 0.12, 0.08)),
        note="one more flip each way weighs much among 20",
    ),
    Scenario(
        name="paired difference of pass rates, repeats",
        sizes="100 records x 3, 1 of which is lost whole",
        trial=repeated_differences(Flipping(100, 3, 0.0, 0.01)),
        note="one more flip each way weighs more than the one that is there",
    ),
    Scenario(
        name="paired difference of pass rates, clusters",
        sizes="40 clusters of 3 to 12",
        trial=clustered_verdicts(40),
        note="half a flip of a whole cluster is added",
    ),
    Scenario(name="paired difference, clusters", sizes="20 clusters of 3 to 12", trial=clustered_differences(20)),
    Scenario(name="difference on other records (Welch)", sizes="40 and 60 records", trial=other_records(40, 60)),
    Scenario(name="slope of a trend (Theil-Sen)", sizes="10 runs", trial=slopes(10)),
    Scenario(name="slope of a trend (Theil-Sen)", sizes="30 runs", trial=slopes(30)),
    Scenario(name="strength (Bradley-Terry)", sizes="5 candidates, 60 records", trial=strengths(60)),
    Scenario(name="chance to beat the average, both orders", sizes="2 candidates, 60 records", trial=chances_to_win(60)),
    Scenario(name="share of wins in both orders", sizes="60 records", trial=shares_of_wins(60)),
    Scenario(name="how often a judge goes by places", sizes="60 records", trial=goes_by_places(60)),
)


def flips_alarm(n: int, flips: float, *, mid_p: bool = False) -> Trial:
    def trial(draw: Generator) -> bool:
        found = mcnemar(*verdict_pairs(draw, n, better=flips / 2, worse=flips / 2))
        return (found.mid_p if mid_p else found.p_value) <= 0.05

    return trial


def difference_alarm(n: int, flips: float) -> Trial:
    """What `compare` says of two equal candidates."""

    def trial(draw: Generator) -> bool:
        before, after = verdict_pairs(draw, n, better=flips / 2, worse=flips / 2)
        return decide(paired_difference(before.astype(float), after.astype(float)).interval) != "undecided"

    return trial


def repeated_alarm(pairs: Shaky | Flipping) -> Trial:
    def trial(draw: Generator) -> bool:
        before, after, index = pairs.draw(draw)
        return decide(paired_difference(before, after, clusters=index).interval) != "undecided"

    return trial


def wrong_pass(n: int, *, better: float, worse: float) -> Trial:
    """A gate on pass rates lets a candidate through that is worse by exactly the margin; without one, by nothing."""

    def trial(draw: Generator) -> bool:
        before, after = verdict_pairs(draw, n, better=better, worse=worse)
        interval = paired_difference(before.astype(float), after.astype(float)).interval
        return decide(interval, margin=worse - better) in ("improved", "not_worse")

    return trial


def wrong_pass_of_scores(n: int, *, margin: float) -> Trial:
    def trial(draw: Generator) -> bool:
        return decide(paired_difference(*score_pairs(draw, n, -margin)).interval, margin=margin) in ("improved", "not_worse")

    return trial


def trend_alarm(runs: int, *, digits: int = 9) -> Trial:
    return lambda draw: trend(np.round(draw.normal(size=runs), digits)).direction != "none"


def holm_alarm(slices: int, n: int) -> Trial:
    def trial(draw: Generator) -> bool:
        pairs = [score_pairs(draw, n) for _ in range(slices)]
        adjusted = holm([difference_p_value(before, after) for before, after in pairs])
        return any(p is not None and p <= 0.05 for p in adjusted)

    return trial


def lead_alarm(records: int) -> Trial:
    def trial(draw: Generator) -> bool | None:
        comparisons, index = tournament(draw, np.zeros(2), records)
        ranked = rank("01", comparisons, clusters=index).candidates
        interval = ranked[0].ahead_of_next.interval if ranked else None
        return None if interval is None else interval.low > 0

    return trial


def noticed(seen: Flips) -> Trial:
    """The detectable effect is there, and as many records flip as its plan takes for granted."""
    effect = detectable_effect(seen) or 0.0
    every = max(effect, sum(seen.shares))

    def trial(draw: Generator) -> bool:
        before, after = verdict_pairs(draw, int(seen.n), better=(every + effect) / 2, worse=(every - effect) / 2)
        return decide(paired_difference(before.astype(float), after.astype(float)).interval) == "improved"

    return trial


def noticed_in_repeats(records: int, repeat: int, *, flips: float, whole: float) -> Trial:
    """The same for answers of which a share flips together with the others to its record."""
    n = records * repeat / (1 + (repeat - 1) * whole)
    seen = Flips(better=n * flips / 2 - 1, worse=n * flips / 2 - 1, n=n - 2, units=records)
    effect = detectable_effect(seen) or 0.0
    every = max(effect, sum(seen.shares))
    pairs = Flipping(records, repeat, (every + effect) / 2, (every - effect) / 2, whole)

    def trial(draw: Generator) -> bool:
        before, after, index = pairs.draw(draw)
        return decide(paired_difference(before, after, clusters=index).interval) == "improved"

    return trial


FEW_FLIPS = "below 5 % because so few flips split in few ways, and one more each way is added"

TESTS = (
    Scenario(
        name="McNemar, exact",
        sizes="100 records, 20 flips",
        trial=flips_alarm(100, 0.2),
        target=5.0,
        note="exact: never above 5 %, and below it because so few flips split in few ways",
    ),
    Scenario(
        name="McNemar, exact",
        sizes="5,000 records, 1,500 flips",
        trial=flips_alarm(5000, 0.3),
        target=5.0,
    ),
    Scenario(name="McNemar, mid-p", sizes="100 records, 20 flips", trial=flips_alarm(100, 0.2, mid_p=True), target=5.0),
    Scenario(
        name="difference of pass rates (its interval)",
        sizes="12 records, 10 flips",
        trial=difference_alarm(12, 0.8),
        target=5.0,
    ),
    Scenario(
        name="difference of pass rates (its interval)",
        sizes="20 records, 6 flips",
        trial=difference_alarm(20, 0.3),
        target=5.0,
        note=FEW_FLIPS,
    ),
    Scenario(
        name="difference of pass rates (its interval)",
        sizes="100 records, 5 flips",
        trial=difference_alarm(100, 0.05),
        target=5.0,
        note=FEW_FLIPS,
    ),
    Scenario(
        name="difference of pass rates (its interval)",
        sizes="100 records, 20 flips",
        trial=difference_alarm(100, 0.2),
        target=5.0,
        note=FEW_FLIPS,
    ),
    Scenario(
        name="difference of pass rates (its interval)",
        sizes="1,000 records, 100 flips",
        trial=difference_alarm(1000, 0.1),
        target=5.0,
    ),
    Scenario(
        name="difference of pass rates, repeats",
        sizes="100 records x 3, shaky",
        trial=repeated_alarm(Shaky(100, 3, (2.8, 1.2))),
        target=5.0,
        note="half a flip of a whole record is added",
    ),
    Scenario(
        name="difference of pass rates, repeats",
        sizes="100 records x 3, 10 of which flip whole",
        trial=repeated_alarm(Flipping(100, 3, 0.05, 0.05)),
        target=5.0,
        note=FEW_FLIPS,
    ),
    Scenario(
        name="superiority gate passes wrongly",
        sizes="200 pass rates, no difference",
        trial=wrong_pass(200, better=0.1, worse=0.1),
        target=2.5,
    ),
    Scenario(
        name="superiority gate passes wrongly",
        sizes="100 scores, no difference",
        trial=wrong_pass_of_scores(100, margin=0.0),
        target=2.5,
    ),
    Scenario(
        name="non-inferiority gate passes wrongly",
        sizes="200 pass rates, worse by the margin of 0.05",
        trial=wrong_pass(200, better=0.075, worse=0.125),
        target=2.5,
    ),
    Scenario(
        name="non-inferiority gate passes wrongly",
        sizes="200 pass rates, 10 lost: the margin of 0.05",
        trial=wrong_pass(200, better=0.0, worse=0.05),
        target=2.5,
        note="one more flip each way weighs much among 10",
    ),
    Scenario(
        name="non-inferiority gate passes wrongly",
        sizes="100 scores, worse by the margin",
        trial=wrong_pass_of_scores(100, margin=0.05),
        target=2.5,
    ),
    Scenario(
        name="trend (Mann-Kendall)",
        sizes="8 runs",
        trial=trend_alarm(8),
        target=5.0,
        note="exact: never above 5 %, and below it because 8 runs have few orders",
    ),
    Scenario(name="trend (Mann-Kendall)", sizes="30 runs", trial=trend_alarm(30), target=5.0),
    Scenario(name="trend (Mann-Kendall)", sizes="30 runs with ties", trial=trend_alarm(30, digits=0), target=5.0),
    Scenario(name="any of 8 slices (Holm)", sizes="60 records each", trial=holm_alarm(8, 60), target=5.0),
    Scenario(name="lead in a ranking", sizes="2 equal candidates, 200 records", trial=lead_alarm(200), target=5.0),
)

POWER = (
    Scenario(
        name="minimum detectable effect",
        sizes="20 records without a flip",
        trial=noticed(Flips(better=0, worse=0, n=20, units=20)),
        target=80.0,
    ),
    Scenario(
        name="minimum detectable effect",
        sizes="100 records, 10 + 5 flips",
        trial=noticed(Flips(better=10, worse=5, n=100, units=100)),
        target=80.0,
    ),
    Scenario(
        name="minimum detectable effect",
        sizes="2,000 records, 200 + 200 flips",
        trial=noticed(Flips(better=200, worse=200, n=2000, units=2000)),
        target=80.0,
    ),
    Scenario(
        name="minimum detectable effect, repeats",
        sizes="100 records x 3, 20 of which flip whole",
        trial=noticed_in_repeats(100, 3, flips=0.2, whole=1.0),
        target=80.0,
    ),
    Scenario(
        name="minimum detectable effect, repeats",
        sizes="100 records x 3, flips half together",
        trial=noticed_in_repeats(100, 3, flips=0.2, whole=0.5),
        target=80.0,
    ),
)
