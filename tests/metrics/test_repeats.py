"""pass@k, pass^k, variance and intervals of records that were asked several times, beside independent computations."""

from itertools import combinations
from math import comb, isclose, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from assay.metrics.facts import RecordFacts
from assay.metrics.intervals import cluster_interval, score_bounds, wilson
from assay.metrics.repeats import RepeatedAnswers, pass_at_k, pass_hat_k, variance_parts
from tests.metrics.documents import as_written, summarize, summarize_repeats, summarize_slices

Passes = list[list[int]]


def samples(passes: Passes, *, reasons: dict[tuple[int, int], str] | None = None) -> RepeatedAnswers:
    """Every inner list is a record with its answers, 1 for one that passes; `reasons` are those without a score."""
    lost = reasons or {}
    cells = [(record, number, passed) for record, answers in enumerate(passes) for number, passed in enumerate(answers)]
    return RepeatedAnswers(
        repeat=max(map(len, passes)),
        record=np.array([record for record, _, _ in cells], dtype=np.int64),
        score=np.array([nan if cell[:2] in lost else float(cell[2]) for cell in cells]),
        passed=np.array([float(passed) for _, _, passed in cells]),
        reason=tuple(lost.get(cell[:2], "") for cell in cells),
    )


def facts(passes: Passes, **changes: object) -> list[RecordFacts]:
    cells = [(record, passed) for record, answers in enumerate(passes) for passed in answers]
    given = {"status": "evaluated", "scale": "0-1", **changes}
    return [
        RecordFacts(
            position=place,
            score=float(passed),
            raw_score=float(passed),
            passed=bool(passed),
            record_id=f"r-{record}",
            is_repeated=True,
            **given,
        )  # type: ignore[arg-type]  # each test passes what its records need
        for place, (record, passed) in enumerate(cells)
    ]


@given(st.integers(1, 9), st.data())
def test_both_estimates_are_what_all_draws_of_k_answers_give(n: int, data: st.DataObject) -> None:
    passes, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    draws = [sum(draw) for draw in combinations([1] * passes + [0] * (n - passes), k)]
    assert isclose(pass_at_k(n, passes, k), sum(drawn > 0 for drawn in draws) / comb(n, k), abs_tol=1e-12)
    assert isclose(pass_hat_k(n, passes, k), sum(drawn == k for drawn in draws) / comb(n, k), abs_tol=1e-12)


def test_estimates_are_without_bias() -> None:
    chance, n, k = 0.3, 6, 3
    weights = [stats.binom.pmf(passes, n, chance) for passes in range(n + 1)]
    at = sum(weight * pass_at_k(n, passes, k) for passes, weight in enumerate(weights))
    hat = sum(weight * pass_hat_k(n, passes, k) for passes, weight in enumerate(weights))
    assert (at, hat) == (pytest.approx(1 - 0.7**3, abs=1e-12), pytest.approx(0.3**3, abs=1e-12))


def test_records_are_averaged_for_every_k() -> None:
    found = summarize_repeats(samples([[1, 1, 1], [1, 0, 0], [0, 0, 0]]))
    assert [entry["k"] for entry in found["pass_at_k"]] == [1, 2, 3]
    assert [entry["value"] for entry in found["pass_at_k"]] == pytest.approx([4 / 9, (1 + 2 / 3) / 3, 2 / 3])
    assert [entry["value"] for entry in found["pass_hat_k"]] == pytest.approx([4 / 9, 1 / 3, 1 / 3])
    assert [entry["records"] for entry in found["passes"]] == [1, 1, 0, 1]


def test_a_record_without_all_its_scores_is_left_out_and_counted() -> None:
    reasons = {(1, 2): "timeout", (2, 0): "judge_parse_error", (2, 1): "timeout"}
    found = summarize_repeats(samples([[1, 1, 1], [1, 1, 0], [0, 0, 0]], reasons=reasons))
    assert (found["n_records"], found["n_complete"], found["n_left_out"]) == (3, 1, 2)
    assert found["left_out"] == {"judge_parse_error": 1, "timeout": 1}
    assert found["pass_hat_k"][2]["value"] == 1.0


def test_a_record_of_which_the_run_has_only_some_answers_is_left_out() -> None:
    found = summarize_repeats(samples([[1, 1], [1]]))
    assert (found["n_complete"], found["left_out"]) == (1, {"not_in_run": 1})


def test_without_a_complete_record_everything_is_undefined() -> None:
    found = summarize_repeats(samples([[1, 1]], reasons={(0, 0): "timeout"}))
    assert {entry["value"] for entry in (*found["pass_at_k"], *found["pass_hat_k"])} == {None}
    assert found["variance"]["score"] == {"within": None, "between": None, "intraclass_correlation": None}


@given(st.integers(2, 8), st.integers(2, 5), st.integers(0, 10_000))
def test_variance_is_that_of_an_analysis_of_variance(records: int, repeat: int, seed: int) -> None:
    table = np.random.default_rng(seed).random((records, repeat))
    found = as_written(variance_parts(table.ravel(), np.repeat(np.arange(records), repeat)))
    ratio = stats.f_oneway(*table).statistic
    assert found["within"] == pytest.approx(table.var(axis=1, ddof=1).mean(), abs=1e-12)
    assert (repeat * found["between"] + found["within"]) / found["within"] == pytest.approx(ratio, rel=1e-9)


def test_one_record_has_a_variance_within_but_none_between() -> None:
    found = as_written(variance_parts(np.array([0.0, 1.0]), np.array([4, 4])))
    assert found == {"within": 0.5, "between": None, "intraclass_correlation": None}


def test_answers_that_agree_say_no_more_than_one_answer_to_each_record() -> None:
    passes = [[1, 1, 1, 1]] * 6 + [[0, 0, 0, 0]] * 4
    by_record = summarize(facts(passes), repeat=4)["pass_rate_interval"]
    ten = wilson(6, 10)
    assert ten is not None
    assert (by_record["method"], by_record["n"]) == ("wilson_cluster", 10)
    assert (by_record["low"], by_record["high"]) == (pytest.approx(ten.low), pytest.approx(ten.high))


def test_records_that_all_pass_or_all_fail_count_once_each() -> None:
    always = cluster_interval(np.ones(30), np.repeat(np.arange(10), 3))
    ten = wilson(10, 10)
    assert always is not None
    assert ten is not None
    assert (always.low, always.high) == (pytest.approx(ten.low), 1.0)


@given(st.lists(st.lists(st.integers(0, 1), min_size=3, max_size=3), min_size=2, max_size=12))
def test_an_interval_of_a_rate_holds_the_rate_and_stays_a_rate(passes: Passes) -> None:
    values: NDArray[np.float64] = np.array(passes, dtype=np.float64).ravel()
    found = cluster_interval(values, np.repeat(np.arange(len(passes)), 3))
    assert found is not None
    assert 0 <= found.low <= values.mean() + 1e-12
    assert values.mean() - 1e-12 <= found.high <= 1


def test_one_record_has_no_interval() -> None:
    assert summarize(facts([[1, 0, 1]]), repeat=3)["pass_rate_interval"] is None


def test_the_interval_by_records_covers_the_true_rate_and_the_one_by_answers_does_not() -> None:
    generator = np.random.default_rng(7)
    groups, by_record, by_answer, trials = np.repeat(np.arange(40), 5), 0, 0, 400
    for _ in range(trials):
        chances = np.repeat(generator.beta(0.6, 0.4, 40), 5)
        passed = (generator.random(200) < chances).astype(np.float64)
        clustered, plain = cluster_interval(passed, groups), wilson(int(passed.sum()), 200)
        assert clustered is not None
        assert plain is not None
        by_record += clustered.low <= 0.6 <= clustered.high
        by_answer += plain.low <= 0.6 <= plain.high
    assert by_record / trials > 0.92
    assert by_answer / trials < 0.85


def test_the_mean_of_repeated_records_has_an_interval_by_records() -> None:
    scores = [[0.6, 0.7], [0.3, 0.5], [0.4, 0.3], [0.6, 0.7]]
    given = [
        RecordFacts(
            position=place, status="evaluated", score=score, scale="0-1", passed=True, record_id=str(record), is_repeated=True
        )
        for record, answers in enumerate(scores)
        for place, score in enumerate(answers, 2 * record)
    ]
    interval = summarize(given, repeat=2)["score_mean_interval"]
    low, high = score_bounds(np.array(scores).ravel(), (0.0, 1.0), clusters=np.repeat(np.arange(4), 2))
    assert (interval["method"], interval["n"]) == ("score_cluster", 4)
    assert (interval["low"], interval["high"]) == (pytest.approx(low, abs=1e-9), pytest.approx(high, abs=1e-9))


def test_scores_of_0_and_1_are_a_rate() -> None:
    found = summarize(facts([[1, 1], [0, 1], [0, 0], [1, 1]]), repeat=2)
    assert found["score_mean_interval"] == found["pass_rate_interval"]


def test_slices_have_intervals_by_records_too() -> None:
    found = summarize_slices(facts([[1, 1], [0, 0], [1, 0]], slices={"tags": ("a",)}))
    (value,) = found["slices"]["tags"]["values"]
    assert (value["pass_rate_interval"]["method"], value["pass_rate_interval"]["n"]) == ("wilson_cluster", 3)


def test_records_that_broke_their_contract_are_no_records_here() -> None:
    broken = [RecordFacts(position=place, status="invalid_record") for place in (4, 5)]
    found = summarize([*facts([[1, 1], [0, 0]]), *broken], repeat=2)
    assert (found["total_records"], found["repeats"]["n_records"]) == (6, 2)


def test_records_that_are_asked_once_have_no_block_of_repeats() -> None:
    once = [RecordFacts(0, "evaluated", 1.0, 1.0, "0-1", passed=True)]
    assert "repeats" not in summarize(once)
    assert summarize(once)["pass_rate_interval"]["method"] == "wilson"


def test_a_record_is_left_out_for_its_first_error_whichever_kind_that_is() -> None:
    lost = [
        RecordFacts(position, "timeout", record_id=record, is_repeated=True, error_code=code)
        for position, (record, code) in enumerate((("r-8", "timeout"), ("r-8", "refused"), ("r-9", "refused"), ("r-9", "timeout")))
    ]
    found = summarize([*lost, *facts([[1, 1]])], repeat=2)
    assert (found["repeats"]["left_out"], found["repeats"]["n_complete"]) == ({"refused": 1, "timeout": 1}, 1)
