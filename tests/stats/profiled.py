"""Made-up runs for what `assay run` and `assay rescore` print: headlines of profiles, slices, repeats, panels, probes."""

from collections.abc import Callable
from functools import cache

import numpy as np

from assay.metrics.facts import RecordFacts
from assay.metrics.health import decide_rises, decide_slips
from assay.metrics.intervals import cluster_interval, mean_interval, wilson
from assay.metrics.profiles import condense, headline_figures, profile_of
from assay.metrics.repeats import pass_at_k, pass_hat_k
from tests.metrics.documents import summarize_slices
from tests.stats.scenario import FEW_CLUSTERS, FEW_RECORDS, FIVE, GOOD, RESAMPLES, SKEWED, Generator, Scenario, Trial, holds

Draws = Callable[[Generator, int], np.ndarray]
"""Scores of so many answers, one after the other; the answers to one record stand together."""


def rubric(chance: float) -> Draws:
    """Ten points for what an answer says, and three off for each of two things that it should not say, of a tenth each."""
    return lambda draw, n: draw.binomial(10, chance, n) / 10 - 0.3 * draw.binomial(2, 0.2, n)


def levels(shares: np.ndarray, *, low: float = 0.0, high: float = 1.0) -> Draws:
    return lambda draw, n: low + (high - low) * draw.choice(FIVE, n, p=shares)


def tenths(draw: Generator, n: int) -> np.ndarray:
    return np.round(draw.beta(4, 2, n), 1)


def of_records(draw: Generator, n: int, *, repeat: int = 3) -> np.ndarray:
    """Criteria met of ten, by a chance of the record's own."""
    return 100 * draw.binomial(10, np.repeat(draw.beta(2.8, 1.2, n // repeat), repeat)) / 10


def truth_of(draws: Draws, *, repeat: int = 1) -> float:
    """What endless records would give."""
    scores = draws(np.random.default_rng(0), 900_000).reshape(-1, repeat)
    return float(np.median(scores, axis=1).mean())


def headlines(profile_id: str, n: int, *, draws: Draws, repeat: int = 1) -> Trial:
    profile = profile_of(profile_id)
    assert profile is not None
    rows, records = np.arange(n * repeat, dtype=np.uint32), np.repeat(np.arange(n), repeat)

    @cache
    def truth() -> float:
        return max(profile.lowest or -np.inf, profile.factor * truth_of(draws, repeat=repeat))

    def trial(draw: Generator) -> bool | None:
        values = condense(profile, draws(draw, n * repeat), rows=rows, records=records).values
        interval = mean_interval(values, seed=(1,), resamples=RESAMPLES, ends=profile.ends)
        found = headline_figures(profile, values, interval=interval, clustered=None, errors=(None, None)).headline_interval
        assert found is not None
        return bool(found.low <= truth() <= found.high)

    return trial


def right_answers(n: int) -> Trial:
    profile = profile_of("lexam_mcq")
    assert profile is not None

    def trial(draw: Generator) -> bool | None:
        rate = draw.uniform(0.5, 0.95)
        return holds(mean_interval((draw.random(n) < rate).astype(float), seed=(1,), ends=profile.ends), rate)

    return trial


def clustered_headlines(clusters: int) -> Trial:
    """Rubrics of clusters, whose own level decides as much as chance does."""
    profile = profile_of("prbench")
    assert profile is not None

    def trial(draw: Generator) -> bool | None:
        index = np.repeat(np.arange(clusters), draw.integers(3, 13, clusters))
        values = draw.binomial(10, draw.beta(6, 4, clusters)[index]) / 10 - 0.3 * draw.binomial(2, 0.2, len(index))
        return holds(cluster_interval(values, index, ends=profile.ends), 0.6 - 0.12)

    return trial


def slices(n: int, shares: np.ndarray) -> Trial:
    """One of two values of a slice, as `metrics_by_slice.json` has it."""

    def trial(draw: Generator) -> bool | None:
        scores = draw.choice(FIVE, 2 * n, p=shares).tolist()
        facts = (
            RecordFacts(place, "evaluated", score, score, "0-1", score >= 0.75, slices={"tags": ("a" if place % 2 else "b",)})
            for place, score in enumerate(scores)
        )
        found = summarize_slices(facts)["slices"]["tags"]["values"][0]["score_mean_interval"]
        return bool(found["low"] <= float(FIVE @ shares) <= found["high"])

    return trial


@cache
def chances() -> np.ndarray:
    """The pass rates of endless records."""
    return np.random.default_rng(0).beta(2.8, 1.2, 1_000_000)


def repeated(records: int, repeat: int, *, k: int, estimate: Callable[[int, int, int], float]) -> Trial:
    """Records with a pass rate each, asked several times; the truth is what endless records would give."""
    values = np.array([estimate(repeat, count, k) for count in range(repeat + 1)])

    @cache
    def truth() -> float:
        return float((1 - (1 - chances()) ** k).mean() if estimate is pass_at_k else (chances() ** k).mean())

    def trial(draw: Generator) -> bool | None:
        passes = draw.binomial(repeat, draw.choice(chances(), records))
        return holds(cluster_interval(values[passes], np.arange(records)), truth())

    return trial


def repeated_scores(records: int, repeat: int, shares: np.ndarray) -> Trial:
    """Six of ten answers get what their record always gets."""
    index = np.repeat(np.arange(records), repeat)

    def trial(draw: Generator) -> bool | None:
        own, other = draw.choice(5, records, p=shares)[index], draw.choice(5, len(index), p=shares)
        scores = FIVE[np.where(draw.random(len(index)) < 0.6, own, other)]
        return holds(cluster_interval(scores, index), float(FIVE @ shares))

    return trial


def grouped_rates(groups: int, sizes: tuple[int, int], *, chances: tuple[float, float]) -> Trial:
    """Passes of groups with a rate each, drawn from a beta distribution."""

    def trial(draw: Generator) -> bool | None:
        index = np.repeat(np.arange(groups), draw.integers(sizes[0], sizes[1] + 1, groups))
        passed = draw.random(len(index)) < draw.beta(*chances, groups)[index]
        return holds(cluster_interval(passed.astype(float), index), chances[0] / sum(chances))

    return trial


def slip_rates(n: int) -> Trial:
    def trial(draw: Generator) -> bool | None:
        rate = draw.uniform(0.05, 0.5)
        return holds(wilson(int(draw.binomial(n, rate)), n), rate)

    return trial


def slips_alarm(n: int, *, tolerance: float) -> Trial:
    return lambda draw: decide_slips(int(draw.binomial(n, tolerance)), n, tolerance=tolerance).verdict == "fail"


def rises_alarm(n: int) -> Trial:
    """Two series of answers of which half change their score, up as often as down."""

    def trial(draw: Generator) -> bool:
        rises, falls = draw.binomial(n, 0.25, 2), draw.binomial(n, 0.25, 2)
        return decide_rises(list(zip(rises.tolist(), falls.tolist(), strict=True)), n=n).verdict == "fail"

    return trial


SELDOM = "records that never pass are rare, and the interval has to allow for those that so few do not show"
EXACT = "exact: never above 5 %, and below it because so few answers split in few ways"

PROFILED = (
    Scenario(
        name="headline healthbench",
        sizes="50 records near 0, clipped",
        trial=headlines("healthbench", 50, draws=rubric(0.16)),
        note="so weak records do not show how good others may be, which the interval has to allow for",
    ),
    Scenario(name="headline prbench", sizes="30 records", trial=headlines("prbench", 30, draws=rubric(0.6))),
    Scenario(name="headline prbench", sizes="150 records", trial=headlines("prbench", 150, draws=rubric(0.6))),
    Scenario(name="headline prbench, clusters", sizes="20 clusters of 3 to 12", trial=clustered_headlines(20)),
    Scenario(name="headline apex_v1", sizes="40 records x 3", trial=headlines("apex_v1", 40, draws=of_records, repeat=3)),
    Scenario(name="headline apex_v1", sizes="120 records x 3", trial=headlines("apex_v1", 120, draws=of_records, repeat=3)),
    Scenario(name="headline lexam_open", sizes="50 records", trial=headlines("lexam_open", 50, draws=tenths)),
    Scenario(
        name="headline lexam_mcq",
        sizes="60 records, half to all but 5 % right",
        trial=right_answers(60),
    ),
    Scenario(name="headline judge_1_5", sizes="30 records", trial=headlines("judge_1_5", 30, draws=levels(GOOD, low=1, high=5))),
    Scenario(
        name="headline judge_1_5",
        sizes="200 records, four in five perfect",
        trial=headlines("judge_1_5", 200, draws=levels(SKEWED, low=1, high=5)),
    ),
    Scenario(
        name="headline weighted_mean",
        sizes="150 records, fine",
        trial=headlines("weighted_mean", 150, draws=lambda d, n: d.beta(4, 2, n)),
    ),
    Scenario(name="mean score of a slice", sizes="25 records", trial=slices(25, GOOD)),
    *(
        Scenario(name=f"{name} of 5 answers", sizes=f"{n} records", trial=repeated(n, 5, k=3, estimate=estimate), note=note)
        for name, estimate, note in (("pass@3", pass_at_k, SELDOM), ("pass^3", pass_hat_k, ""))
        for n in (30, 50, 100, 200)
    ),
    Scenario(name="mean score, repeats", sizes="30 records x 3", trial=repeated_scores(30, 3, GOOD)),
    Scenario(
        name="mean score, repeats",
        sizes="30 records x 3, four in five perfect",
        trial=repeated_scores(30, 3, SKEWED),
        note=FEW_RECORDS,
    ),
    Scenario(name="mean score, repeats", sizes="200 records x 3", trial=repeated_scores(200, 3, GOOD)),
    Scenario(name="pass rate, repeats", sizes="30 records x 3", trial=grouped_rates(30, (3, 3), chances=(0.7, 0.3))),
    Scenario(name="pass rate, repeats", sizes="100 records x 5", trial=grouped_rates(100, (5, 5), chances=(0.7, 0.3))),
    Scenario(
        name="pass rate, clusters",
        sizes="10 clusters of 3 to 12",
        trial=grouped_rates(10, (3, 12), chances=(2.8, 1.2)),
        note=FEW_CLUSTERS,
    ),
    Scenario(name="pass rate, clusters", sizes="20 clusters of 3 to 12", trial=grouped_rates(20, (3, 12), chances=(2.8, 1.2))),
    Scenario(name="pass rate, clusters", sizes="40 clusters of 3 to 12", trial=grouped_rates(40, (3, 12), chances=(2.8, 1.2))),
    Scenario(
        name="pass rate, clusters",
        sizes="100 clusters of 3 to 12, 9 of 10 pass",
        trial=grouped_rates(100, (3, 12), chances=(2.7, 0.3)),
    ),
    Scenario(
        name="agreement with the panel", sizes="40 rubrics of 3 to 8 criteria", trial=grouped_rates(40, (3, 8), chances=(6.0, 1.5))
    ),
    Scenario(name="rate of slips of a probe (Wilson)", sizes="16 answers, rate 0.05 to 0.5", trial=slip_rates(16)),
    Scenario(name="rate of slips of a probe (Wilson)", sizes="48 answers, rate 0.05 to 0.5", trial=slip_rates(48)),
)

PROBES = (
    Scenario(
        name="probe: too many slips", sizes="16 answers, rate 0.1", trial=slips_alarm(16, tolerance=0.1), target=5.0, note=EXACT
    ),
    Scenario(
        name="probe: too many slips", sizes="48 answers, rate 0.1", trial=slips_alarm(48, tolerance=0.1), target=5.0, note=EXACT
    ),
    Scenario(name="probe: scores rise", sizes="16 answers, two series (Holm)", trial=rises_alarm(16), target=5.0, note=EXACT),
)
