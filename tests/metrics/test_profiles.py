"""Profiles against an exact implementation of their formulas, and against figures worked out by hand."""

from typing import Any, get_args

import numpy as np
import pytest

from assay.core.outcome import CriterionResult
from assay.core.settings import ProfileId
from assay.core.summary import Interval
from assay.metrics.facts import RecordFacts
from assay.metrics.profiles import (
    PROFILES,
    CondensedRecords,
    Profile,
    UnscoredRecord,
    condense,
    headline,
    headline_figures,
    profile_of,
    score_range,
    score_record,
)
from tests.metrics import plain_profiles
from tests.metrics.documents import summarize, summarize_slices
from tests.metrics.plain_profiles import Answer, Benchmark

VECTORS = 250
SCALES = {"judge_1_5": "1-5", "lexam_open": "0-1"}
PINNED = {
    "prbench": ("1", "1d545f6689618fe8", "47c07f979bd9cb2f"),
    "prbench_normalized": ("1", "981db9a32b097b82", "a7f99e765012000d"),
    "healthbench": ("1", "75e927b7622aa69b", "ffa7806bca398968"),
    "apex_v1": ("1", "fb2c40d3c79ea866", "132df7eba20ac09e"),
    "lexam_open": ("1", "15dd88133158d2a7", "d5251ba5515d65b9"),
    "lexam_mcq": ("1", "c46033d615c25d39", "6c30ab4ddb4477b4"),
    "judge_1_5": ("1", "1e81e3f9cc73b800", "6caaed0d1da8ac0e"),
    "weighted_mean": ("1", "a1e596e4e9ac5f40", "12d144f187242ac9"),
}
"""Version and beginning of the hash, strict and compat."""
each_profile = pytest.mark.parametrize("name", PROFILES)
each_mode = pytest.mark.parametrize("is_compat", [False, True], ids=["strict", "compat"])


def named(name: str, *, is_compat: bool = False) -> Profile:
    profile = profile_of(name, is_compat=is_compat)
    assert profile is not None
    return profile


def marks(name: str, answer: Answer) -> list[CriterionResult]:
    scale = SCALES.get(name, "0/1")
    given = [({} if weight is None else {"weight": float(weight)}, verdict) for weight, verdict in answer or ()]
    return [
        CriterionResult(criterion=f"c{place}", value=verdict, scale=scale, **weight)
        for place, (weight, verdict) in enumerate(given)
    ]


def condensed(profile: Profile, benchmark: Benchmark) -> CondensedRecords:
    """One value for each record of a benchmark, by the product."""
    answers = [(place, answer) for place, record in enumerate(benchmark) for answer in record]
    scores = [plainly(score_record(profile, marks(profile.id, answer))) for _, answer in answers]
    return condense(
        profile,
        np.array([np.nan if score is None else score for score in scores]),
        rows=np.arange(len(answers), dtype=np.uint32),
        records=np.array([place for place, _ in answers]),
    )


def plainly(score: float | UnscoredRecord) -> float | None:
    return None if isinstance(score, UnscoredRecord) else score


# Against the exact implementation


@each_mode
@each_profile
def test_the_score_of_every_answer_is_that_of_the_formula(name: str, *, is_compat: bool) -> None:
    profile = named(name, is_compat=is_compat)
    answers = [answer for seed in range(VECTORS) for record in plain_profiles.made_up(name, seed) for answer in record]
    ours = [plainly(score_record(profile, marks(name, answer))) for answer in answers]
    exact = [plain_profiles.score(name, answer, is_compat=is_compat) for answer in answers]
    assert [score is None for score in ours] == [score is None for score in exact]
    assert [score for score in ours if score is not None] == pytest.approx(
        [float(score) for score in exact if score is not None], abs=1e-9
    )
    assert len(answers) > VECTORS


@each_mode
@each_profile
def test_the_headline_of_every_benchmark_is_that_of_the_formula(name: str, *, is_compat: bool) -> None:
    profile = named(name, is_compat=is_compat)
    benchmarks = [plain_profiles.made_up(name, seed) for seed in range(VECTORS)]
    exact = [plain_profiles.headline(name, benchmark, is_compat=is_compat) for benchmark in benchmarks]
    found = [condensed(profile, benchmark).values for benchmark in benchmarks]
    assert [len(values) for values in found] == [n for _, n in exact]
    ours = [headline(profile, values) for values in found]
    assert ours == [None if figure is None else pytest.approx(float(figure), abs=1e-9) for figure, _ in exact]


@each_profile
def test_the_made_up_benchmarks_have_what_is_difficult(name: str) -> None:
    records = [record for seed in range(VECTORS) for record in plain_profiles.made_up(name, seed)]
    criteria = [answer for record in records for answer in record if answer is not None]
    weights = [[weight for weight, _ in answer] for answer in criteria]
    assert any(len(record) > 1 for record in records)
    assert any(None in record for record in records)
    assert any(None in (verdict for _, verdict in answer) for answer in criteria)
    assert any(None in one for one in weights)
    assert any(set(one) == {0} for one in weights)
    assert any(all(weight is not None and weight < 0 for weight in one) for one in weights)


# By hand


@pytest.mark.parametrize(
    ("name", "answer", "score"),
    [
        ("prbench", [(5, 1), (3, 0), (-4, 1)], 0.125),
        ("prbench", [(5, 0), (3, 0), (-4, 1)], -0.5),
        ("prbench_normalized", [(5, 1), (3, 0), (-4, 1)], 5 / 12),
        ("prbench_normalized", [(-4, 1), (-6, 0)], 0.6),
        ("healthbench", [(7, 1), (2, 1), (-8, 0), (1, 0)], 0.9),
        ("apex_v1", [(10, 1), (1, 0), (1, 1), (-5, 0)], 50.0),
        ("lexam_open", [(1, 0.7)], 0.7),
        ("lexam_mcq", [(1, 1)], 1.0),
        ("judge_1_5", [(1, 4), (1, 5), (9, 3)], 4.0),
        ("weighted_mean", [(3, 1), (1, 0)], 0.75),
        ("weighted_mean", [(3, 1), (-1, 0)], 1.5),
        ("weighted_mean", [(None, 1), (None, 0)], 0.5),
        ("apex_v1", [(-5, 1), (-1, 0)], 50.0),
        ("lexam_open", [(-1, 0.7)], 0.7),
        ("lexam_mcq", [(-1, 1)], 1.0),
        ("judge_1_5", [(-1, 4), (-2, 2)], 3.0),
    ],
)
def test_an_answer_has_the_score_that_one_works_out(name: str, answer: Answer, score: float) -> None:
    assert score_record(named(name), marks(name, answer)) == pytest.approx(score, abs=1e-12)


@pytest.mark.parametrize(
    ("name", "answer", "reason"),
    [
        ("prbench", [(-1, 1), (0, 1)], "no_positive_weight"),
        ("healthbench", [(-1, 1)], "no_positive_weight"),
        ("prbench_normalized", [(0, 1), (0, 0)], "no_weight"),
        ("weighted_mean", [(1, 1), (-1, 1)], "no_positive_weight"),
        ("weighted_mean", [(1, 1), (-2, 1)], "no_positive_weight"),
        ("weighted_mean", [(-1, 0), (-2, 1)], "no_positive_weight"),
        ("apex_v1", [(1, 1), (1, None)], "no_verdict"),
        ("lexam_open", [], "no_criteria"),
        ("prbench", [(1.7e308, 1), (1.7e308, 1)], "weights_too_large"),
        ("weighted_mean", [(1.7e308, 1), (-1.7e308, 0), (5e-324, 1)], "weights_too_large"),
    ],
)
def test_an_answer_without_a_score_says_why(name: str, answer: Answer, reason: str) -> None:
    assert score_record(named(name), marks(name, answer)) == UnscoredRecord(reason)


@pytest.mark.parametrize(
    ("name", "answer", "score"),
    [
        ("prbench", [(4, None), (4, 1), (-2, None)], 0.5),
        ("prbench_normalized", [(4, None), (4, 1), (-2, None)], 0.6),
        ("apex_v1", [(1, None), (1, 1)], 50.0),
        ("lexam_open", [(1, None)], 0.0),
        ("lexam_mcq", [(1, None)], 0.0),
        ("judge_1_5", [(1, None), (1, 5)], 3.0),
        ("weighted_mean", [(1, None), (3, 1)], 0.75),
    ],
)
def test_compat_counts_what_has_no_verdict_as_the_benchmark_does(name: str, answer: Answer, score: float) -> None:
    assert score_record(named(name, is_compat=True), marks(name, answer)) == pytest.approx(score, abs=1e-12)


def test_a_five_point_verdict_is_brought_to_the_scale_of_the_others() -> None:
    given = [
        CriterionResult(criterion="a", value=4.0, scale="1-5"),
        CriterionResult(criterion="b", value=1.0, scale="0/1", weight=3.0),
    ]
    assert score_record(named("weighted_mean"), given) == 0.9375


def figures(name: str, *scores: float | None, is_compat: bool = False, ids: str = "abcdefgh", **more: str) -> dict[str, Any]:
    given = [
        RecordFacts(
            place,
            "evaluated",
            record_id=ids[place],
            is_repeated=True,
            profile_score=score,
            profile_unscored="" if score is not None else "timeout",
            **more,
        )
        for place, score in enumerate(scores)
    ]
    found: dict[str, Any] = summarize(given, profile=named(name, is_compat=is_compat))["profile"]
    return found


@pytest.mark.parametrize(
    ("name", "scores", "headline", "mean"),
    [
        ("prbench", (-0.5, 0.1), 0.0, -0.2),
        ("prbench", (0.5, -0.1), 0.2, 0.2),
        ("healthbench", (-0.5, 0.1), 0.0, -0.2),
        ("prbench_normalized", (0.25, 0.75), 0.5, 0.5),
        ("lexam_open", (0.7, 0.2), 45.0, 45.0),
        ("apex_v1", (50.0, 100.0), 75.0, 75.0),
    ],
)
def test_a_headline_is_clipped_where_the_benchmark_clips_it(
    name: str, scores: tuple[float, ...], headline: float, mean: float
) -> None:
    found = figures(name, *scores)
    assert (found["headline"], found["mean"]) == (pytest.approx(headline), pytest.approx(mean))


def test_an_interval_is_clipped_and_scaled_like_its_headline() -> None:
    clipped = figures("prbench", -0.9, -0.5, 0.4, 0.2)["headline_interval"]
    plain = figures("prbench_normalized", -0.9, -0.5, 0.4, 0.2)["headline_interval"]
    scaled = figures("lexam_open", -0.9, -0.5, 0.4, 0.2)["headline_interval"]
    assert plain["low"] < 0 < plain["high"]
    assert (clipped["low"], clipped["high"]) == (0.0, plain["high"])
    assert (scaled["low"], scaled["high"]) == (pytest.approx(100 * plain["low"]), pytest.approx(100 * plain["high"]))


def test_answers_to_one_record_are_one_value_of_the_interval() -> None:
    found = figures("apex_v1", 10.0, 20.0, 90.0, 50.0, 50.0, ids="aaabb")
    assert (found["headline"], found["n"], found["n_scored"]) == (35.0, 2, 5)
    assert found["headline_interval"]["n"] == 2
    assert figures("prbench", 0.1, 0.2, 0.6, 0.5, ids="aaab")["headline"] == pytest.approx(0.4)


def test_an_answer_that_failed_leaves_the_median_or_takes_its_record_with_it() -> None:
    strict = figures("apex_v1", 10.0, None, 30.0, 80.0, ids="aaab")
    compat = figures("apex_v1", 10.0, None, 30.0, 80.0, ids="aaab", is_compat=True)
    assert (strict["headline"], strict["n"]) == (50.0, 2)
    assert (compat["headline"], compat["n"]) == (80.0, 1)


def test_records_without_a_score_are_counted_by_reason_and_nothing_is_no_zero() -> None:
    found = figures("prbench", None, 0.5, None)
    assert (found["headline"], found["n"], found["n_scored"], found["n_unscored"], found["unscored"]) == (
        0.5,
        1,
        1,
        2,
        {"timeout": 2},
    )
    empty = figures("prbench", None)
    assert (empty["headline"], empty["headline_interval"], empty["n"]) == (None, None, 0)


@pytest.mark.parametrize(
    ("name", "answer", "worst", "best"),
    [
        ("prbench", [(5, None), (3, None), (-4, None)], -0.5, 1.0),
        ("prbench", [(-5, None)], None, None),
        ("healthbench", [(8, 1), (-4, 1)], -0.5, 1.0),
        ("prbench_normalized", [(5, None), (-4, None)], 0.0, 1.0),
        ("prbench_normalized", [(-5, None), (-4, None)], 0.0, 1.0),
        ("apex_v1", [(-5, None), (2, None)], 0.0, 100.0),
        ("lexam_open", [(1, None)], 0.0, 1.0),
        ("lexam_mcq", [(1, None)], 0.0, 1.0),
        ("judge_1_5", [(1, None), (1, None)], 1.0, 5.0),
        ("weighted_mean", [(3, None), (-1, None)], -0.5, 1.5),
        ("weighted_mean", [(-3, None)], None, None),
    ],
)
def test_what_a_record_could_have_had_follows_from_its_weights(
    name: str, answer: Answer, worst: float | None, best: float | None
) -> None:
    found = score_range(named(name), marks(name, answer))
    assert (found and found.worst, found and found.best) == (worst, best)


@each_profile
def test_no_verdicts_lead_out_of_the_range_of_a_record(name: str) -> None:
    answers = [answer for seed in range(VECTORS) for record in plain_profiles.made_up(name, seed) for answer in record if answer]
    given = [(score_range(named(name), marks(name, answer)), score_record(named(name), marks(name, answer))) for answer in answers]
    scored = [(found, score) for found, score in given if not isinstance(score, UnscoredRecord)]
    assert len(scored) > VECTORS
    assert all(found and found.worst - 1e-12 <= score <= found.best + 1e-12 for found, score in scored)


def test_a_headline_says_what_its_unscored_records_could_change() -> None:
    given = [
        RecordFacts(0, "evaluated", profile_score=0.5),
        RecordFacts(1, "timeout", profile_unscored="timeout", profile_worst=-0.9, profile_best=1.0),
        RecordFacts(2, "evaluation_error", profile_unscored="no_positive_weight"),
    ]
    found = summarize(given, profile=named("prbench"))["profile"]
    assert (found["headline"], found["n_unscored"]) == (0.5, 2)
    assert found["headline_bounds"] == {"worst": 0.0, "best": 0.75, "n": 2}


def test_a_headline_without_unscored_records_has_one_value() -> None:
    assert figures("prbench", 0.25, 0.75)["headline_bounds"] == {"worst": 0.5, "best": 0.5, "n": 2}
    assert figures("prbench", None)["headline_bounds"] is None


@each_mode
def test_bounds_fill_the_repeat_that_failed_and_keep_its_record(*, is_compat: bool) -> None:
    failed = RecordFacts(
        1, "timeout", record_id="a", is_repeated=True, profile_unscored="timeout", profile_worst=0.0, profile_best=100.0
    )
    graded = [
        RecordFacts(place, "evaluated", record_id=name, is_repeated=True, profile_score=score)
        for place, (score, name) in enumerate(((10.0, "a"), (30.0, "a"), (80.0, "b")))
    ]
    given = [failed, *graded]
    found = summarize(given, profile=named("apex_v1", is_compat=is_compat))["profile"]
    assert found["headline_bounds"] == {"worst": 45.0, "best": 55.0, "n": 2}


def test_a_record_that_broke_its_contract_takes_no_part() -> None:
    found = summarize([RecordFacts(0, "invalid_record"), RecordFacts(1, "evaluated", profile_score=0.5)], profile=named("prbench"))
    assert (found["profile"]["n_unscored"], found["profile"]["n"]) == (0, 1)


def test_every_slice_has_the_headline_of_its_records() -> None:
    given = [
        RecordFacts(place, "evaluated", profile_score=score, slices={"tags": (tag,)})
        for place, (score, tag) in enumerate([(0.5, "a"), (-0.5, "b"), (0.7, "a")])
    ]
    values = summarize_slices(given, profile=named("prbench"))["slices"]["tags"]["values"]
    assert {value["value"]: value["profile"]["headline"] for value in values} == {"a": pytest.approx(0.6), "b": 0.0}


def test_clusters_widen_the_interval_of_a_headline() -> None:
    given = [RecordFacts(place, "evaluated", profile_score=place % 2, cluster=str(place % 2)) for place in range(8)]
    found = summarize(given, profile=named("prbench"))["profile"]
    assert found["headline_cluster_interval"]["n"] == 2
    assert found["headline_cluster_interval"]["low"] <= found["headline_interval"]["low"]


def test_a_run_without_a_profile_says_so() -> None:
    assert summarize([RecordFacts(0, "evaluated", score=0.5)])["profile"] is None
    assert profile_of(None) is None


def test_repeats_in_any_order_come_to_the_same() -> None:
    scores, repeated = np.array([3.0, 1.0, 2.0, 9.0]), np.array([7, 7, 7, 1])
    forward = condense(named("apex_v1"), scores, rows=np.arange(4, dtype=np.uint32), records=repeated)
    backward = condense(named("apex_v1"), scores[::-1], rows=np.arange(4, dtype=np.uint32), records=repeated[::-1])
    assert sorted(forward.values) == sorted(backward.values) == [2.0, 9.0]


# Their names


def test_the_profiles_are_those_that_a_plan_may_name() -> None:
    assert set(PROFILES) == set(get_args(ProfileId))


def test_a_rule_that_changes_needs_another_version() -> None:
    assert {
        name: (profile.version, profile.sha256[:16], named(name, is_compat=True).sha256[:16]) for name, profile in PROFILES.items()
    } == PINNED


def test_strict_and_compat_have_hashes_of_their_own() -> None:
    hashes = {named(name, is_compat=is_compat).sha256 for name in PROFILES for is_compat in (False, True)}
    assert len(hashes) == 2 * len(PROFILES)


def test_the_interval_of_a_headline_ends_where_its_scale_does() -> None:
    profile = profile_of("weighted_mean")
    assert profile is not None
    wide = Interval(low=-0.2, high=1.1, method="t", n=3)
    shown = headline_figures(profile, np.array([0.2, 0.9]), interval=wide, clustered=None, errors=(None, None)).headline_interval
    assert shown is not None
    assert (shown.low, shown.high) == (-0.2, 1.0)


def test_a_headline_without_clusters_has_no_clustered_error() -> None:
    shown = figures("lexam_open", 1.0, 0.0, 1.0)
    assert shown["headline_standard_error"] is not None
    assert shown["headline_cluster_standard_error"] is None
