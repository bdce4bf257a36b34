from math import sqrt

import numpy as np
import pytest
import scipy.stats

from assay.metrics.agreement import DetectionRates, detect
from assay.metrics.correction import correct_mean, correct_rate

Z = scipy.stats.norm.ppf(0.975)


def judge(hits: int, good: int, refusals: int, bad: int) -> DetectionRates:
    verdicts = [True] * hits + [False] * (good - hits) + [False] * refusals + [True] * (bad - refusals)
    return detect(verdicts, [True] * good + [False] * bad)


def test_a_rate_is_freed_from_the_judges_errors() -> None:
    found = correct_rate(800, 1000, detection=judge(90, 100, 85, 100))
    assert found.corrected.value == pytest.approx((0.8 + 0.85 - 1) / (0.85 + 0.9 - 1), abs=1e-12)
    assert found.raw.value == 0.8
    assert found.labels == 200


@pytest.mark.parametrize(
    ("passed", "n", "hits", "good", "refusals", "bad"), [(800, 1000, 90, 100, 85, 100), (90, 200, 50, 60, 36, 40)]
)
def test_the_interval_of_a_corrected_rate_is_the_published_formula(
    passed: int, n: int, hits: int, good: int, refusals: int, bad: int
) -> None:
    p, q0, q1 = (passed + Z**2 / 2) / (n + Z**2), (refusals + 1) / (bad + 2), (hits + 1) / (good + 2)
    theta = (p + q0 - 1) / (q0 + q1 - 1)
    shift = 2 * Z**2 * (theta * q1 * (1 - q1) / (good + 2) - (1 - theta) * q0 * (1 - q0) / (bad + 2))
    variance = p * (1 - p) / (n + Z**2) + (1 - theta) ** 2 * q0 * (1 - q0) / (bad + 2) + theta**2 * q1 * (1 - q1) / (good + 2)
    half = Z * sqrt(variance) / (q0 + q1 - 1)
    found = correct_rate(passed, n, detection=judge(hits, good, refusals, bad)).corrected.interval
    assert found is not None
    assert (found.low, found.high) == (pytest.approx(theta + shift - half, abs=1e-9), pytest.approx(theta + shift + half, abs=1e-9))


def test_a_corrected_rate_stays_within_0_and_1() -> None:
    found = correct_rate(100, 100, detection=judge(45, 50, 45, 50)).corrected
    assert found.value == 1.0
    assert found.interval is not None
    assert found.interval.high == 1.0


@pytest.mark.parametrize(
    ("detection", "words", "needed"),
    [
        (judge(9, 12, 2, 3), "3 of 15 labels say bad", 50),
        (judge(9, 30, 0, 0), "0 of 30 labels say bad", None),
        (judge(14, 20, 11, 20), "cannot tell the judge from a coin", 64),
        (judge(10, 40, 10, 40), "no number of labels", None),
    ],
)
def test_labels_that_cannot_support_a_correction_are_refused(detection: DetectionRates, words: str, needed: int | None) -> None:
    found = correct_rate(70, 100, detection=detection)
    assert (found.corrected.value, found.corrected.interval, found.labels_needed) == (None, None, needed)
    assert words in found.corrected.reason
    assert found.raw.value == 0.7


def test_no_judged_record_has_no_rate() -> None:
    found = correct_rate(0, 0, detection=judge(20, 20, 20, 20))
    assert (found.raw.value, found.corrected.value) == (None, None)
    assert found.corrected.reason


def test_the_promised_labels_halve_the_interval_of_a_rate() -> None:
    now = correct_rate(60_000, 100_000, detection=judge(90, 100, 85, 100))
    assert now.labels_to_halve is not None
    more = now.labels_to_halve // 200
    then = correct_rate(60_000, 100_000, detection=judge(90 * more, 100 * more, 85 * more, 100 * more))
    widths = [found.corrected.interval.high - found.corrected.interval.low for found in (now, then) if found.corrected.interval]
    assert widths[1] / widths[0] == pytest.approx(0.5, abs=0.03)


def test_a_mean_is_shifted_by_how_people_differ_from_the_judge() -> None:
    draw = np.random.default_rng(1)
    judged, unlabelled = draw.random(200), draw.random(2000)
    found = correct_mean(judged - 0.1, judged, unlabelled=unlabelled)
    trust = judged.var(ddof=1) / np.concatenate([judged, unlabelled]).var(ddof=1) / 1.1
    expected = trust * unlabelled.mean() + (judged - 0.1 - trust * judged).mean()
    assert found.corrected.value == pytest.approx(expected, abs=1e-9)


def test_a_useless_judge_costs_nothing() -> None:
    labels, judged = np.tile([0.0, 1.0], 50), np.repeat([0.0, 1.0], 50)
    found = correct_mean(labels, judged, unlabelled=np.tile([0.0, 1.0], 500)).corrected
    expected = scipy.stats.ttest_1samp(labels, 0).confidence_interval(0.95)
    assert found.value == pytest.approx(labels.mean())
    assert found.interval is not None
    assert (found.interval.low, found.interval.high) == (
        pytest.approx(expected.low, abs=1e-9),
        pytest.approx(expected.high, abs=1e-9),
    )


def test_a_good_judge_shortens_the_interval() -> None:
    draw = np.random.default_rng(2)
    truth = draw.random(1100)
    judged = truth + draw.normal(0, 0.05, 1100)
    found = correct_mean(truth[:100], judged[:100], unlabelled=judged[100:])
    assert found.corrected.interval is not None
    assert found.corrected.interval.high - found.corrected.interval.low < 0.5 * 2 * 1.98 * truth[:100].std() / 10
    assert found.labels_to_halve is None


def test_too_few_labels_for_a_mean_are_refused() -> None:
    found = correct_mean(np.ones(5), np.ones(5), unlabelled=np.ones(50))
    assert (found.corrected.value, found.labels_needed) == (None, 20)
    assert "needs 20" in found.corrected.reason


@pytest.mark.parametrize(("judged", "value"), [([], None), ([0.5], 0.5)])
def test_too_few_records_have_a_raw_mean_without_interval(judged: list[float], value: float | None) -> None:
    found = correct_mean(np.array(judged), np.array(judged), unlabelled=np.empty(0)).raw
    assert (found.value, found.interval) == (value, None)
    assert found.reason


def test_labels_on_every_record_are_the_answer() -> None:
    labels = np.tile([0.0, 1.0, 1.0], 10)
    found = correct_mean(labels, 1 - labels, unlabelled=np.empty(0))
    assert found.corrected.value == pytest.approx(2 / 3)


@pytest.mark.parametrize("unlabelled", [np.full(10, 0.5), np.empty(0)])
@pytest.mark.parametrize("judged", [np.full(30, 0.5), np.linspace(0, 1, 30)])
def test_equal_labels_have_a_mean_and_no_interval(judged: np.ndarray, unlabelled: np.ndarray) -> None:
    found = correct_mean(np.ones(30), judged, unlabelled=unlabelled).corrected
    assert (found.value, found.interval) == (1.0, None)
    assert found.reason


@pytest.mark.parametrize("unlabelled", [np.full(10, 0.5), np.empty(0)])
def test_equal_labels_on_a_known_scale_leave_open_what_the_rule_of_three_does(unlabelled: np.ndarray) -> None:
    found = correct_mean(np.zeros(30), np.linspace(0, 1, 30), unlabelled=unlabelled, ends=(0.0, 1.0)).corrected
    assert found.interval is not None
    assert (found.value, found.interval.low, found.interval.high) == (0.0, 0.0, pytest.approx(1 - 0.025 ** (1 / 30)))


def test_a_corrected_mean_stays_on_a_known_scale() -> None:
    labels, judged = np.array([1.0] * 24 + [0.0]), np.array([1.0] * 20 + [0.0] * 5)
    found = correct_mean(labels, judged, unlabelled=np.ones(40), ends=(0.0, 1.0)).corrected
    assert found.interval is not None
    assert found.interval.high == 1.0
    assert correct_mean(labels, judged, unlabelled=np.ones(40)).corrected.interval.high > 1.0  # type: ignore[union-attr]
