import json
import math
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.artifact_lines import CheckResultLine
from assay.core.runs import RunCounts
from assay.metrics.summary import RecordFacts
from tests.metrics.documents import summarize, summarize_slices


def graded(score: int, **more: object) -> RecordFacts:
    return RecordFacts(**{"position": 0, "status": "evaluated", **on_five(score), **more})  # type: ignore[arg-type]


def on_five(score: int) -> dict[str, object]:
    return {
        "score": (score - 1) / 4,
        "raw_score": score,
        "scale": "1-5",
        "passed": score >= 4,
        "label": "" if score >= 4 else "other",
    }


def without_score(status: str, **more: object) -> RecordFacts:
    return RecordFacts(**{"position": 0, "status": status, **more})  # type: ignore[arg-type]


MIXED = [
    graded(5, latency_ms=100.0, total_latency_ms=250.0, total_tokens=10, cost=0.5, slices={"tags": ("a", "b")}),
    graded(3, latency_ms=300.0, total_latency_ms=350.0, total_tokens=30, slices={"tags": ("a",)}),
    graded(4, latency_ms=200.0, total_latency_ms=300.0, slices={"tags": ()}),
    without_score("timeout", error_code="timeout", label="timeout_or_latency_exceeded", latency_ms=9999.0, slices={"tags": ("a",)}),
    without_score("evaluation_error", error_code="judge_parse_error", label="other", slices={"tags": ("b",)}),
    without_score("invalid_record", error_code="invalid_field_type"),
    without_score("cancelled", slices={"tags": ()}),
]


def test_counts_are_those_of_the_run() -> None:
    summary = summarize(MIXED)
    expected = RunCounts(
        total_records=7,
        valid_records=6,
        evaluated_records=3,
        failed_records=3,
        skipped_records=1,
        invalid_records=1,
        cancelled_records=1,
    )
    assert RunCounts(**{name: summary[name] for name in RunCounts.__struct_fields__}) == expected


def test_pass_rate_and_means_rest_on_evaluated_records_alone() -> None:
    summary = summarize(MIXED)
    assert (summary["pass_count"], summary["fail_count"], summary["pass_rate"]) == (2, 1, 2 / 3)
    assert (summary["score_mean"], summary["raw_score_mean"], summary["scale"]) == (0.75, 4.0, "1-5")
    assert (summary["n_scored"], summary["n_unscored"]) == (3, 3)


def test_bounds_say_what_the_unscored_records_could_change() -> None:
    summary = summarize(MIXED)
    assert summary["pass_rate_bounds"] == {"worst": 2 / 6, "best": 5 / 6, "n": 6}
    assert summary["score_mean_bounds"] == {"worst": 2.25 / 6, "best": 5.25 / 6, "n": 6}


def test_the_error_rate_counts_failed_and_cancelled_records_of_all() -> None:
    assert summarize(MIXED)["error_rate"] == 4 / 7


def test_latencies_are_those_of_evaluated_records_with_linear_percentiles() -> None:
    latency = summarize(MIXED)["latency_ms"]
    assert latency["model"] == {"n": 3, "p50": 200.0, "p95": 290.0, "mean": 200.0, "max": 300.0}
    assert latency["end_to_end"]["p95"] == 345.0
    assert latency["judge"] == {"n": 0, "p50": None, "p95": None, "mean": None, "max": None}


def test_unknown_tokens_and_costs_are_counted_not_taken_for_zero() -> None:
    summary = summarize(MIXED)
    assert summary["tokens"]["total"] == {"sum": 40, "mean": 20.0, "n_known": 2, "n_unknown": 3}
    assert summary["tokens"]["cached"] == {"sum": None, "mean": None, "n_known": 0, "n_unknown": 5}
    assert summary["cost_usd"] == {"sum": 0.5, "mean": 0.5, "n_known": 1, "n_unknown": 4}


def test_errors_labels_and_flags_are_counted() -> None:
    summary = summarize([*MIXED, graded(1, flags=("salvaged", "asked_again")), graded(5, flags=("salvaged",))])
    assert summary["errors"] == {"invalid_field_type": 1, "judge_parse_error": 1, "timeout": 1}
    assert summary["labels"] == {"other": 3, "timeout_or_latency_exceeded": 1}
    assert summary["flags"] == {"asked_again": 1, "salvaged": 2}


def test_the_distribution_of_a_five_point_scale_shows_empty_scores_too() -> None:
    levels = summarize(MIXED)["score_distribution"]["1-5"]
    assert [(level["score"], level["count"]) for level in levels] == [(1, 0), (2, 0), (3, 1), (4, 1), (5, 1)]


def test_many_different_scores_are_counted_in_ten_bins() -> None:
    facts = [
        RecordFacts(position=0, status="evaluated", score=n / 200, raw_score=n / 200, scale="0-1", passed=True)
        for n in range(1, 200, 2)
    ]
    bins = summarize(facts)["score_distribution"]["0-1"]
    assert (bins[0]["from"], bins[-1]["to"], [each["count"] for each in bins]) == (0.0, 1.0, [10] * 10)


def test_raw_means_of_different_scales_are_undefined() -> None:
    right = RecordFacts(position=0, status="evaluated", score=1.0, raw_score=1.0, scale="0/1", passed=True)
    share = RecordFacts(position=0, status="evaluated", score=0.5, raw_score=0.5, scale="0-1", passed=False)
    assert summarize([graded(5), right])["raw_score_mean"] is None
    assert summarize([graded(5), right])["score_mean"] == 1.0
    assert (summarize([share, right])["raw_score_mean"], summarize([share, right])["scale"]) == (0.75, "0-1")


def test_a_run_without_scores_has_no_rates() -> None:
    summary = summarize([without_score("timeout", error_code="timeout")] * 3)
    undefined = ("pass_rate", "pass_rate_interval", "score_mean", "score_mean_interval", "raw_score_mean", "scale")
    assert [summary[name] for name in undefined] == [None] * 6
    assert summary["pass_rate_bounds"] == {"worst": 0.0, "best": 1.0, "n": 3}


def test_a_run_without_records_is_all_undefined() -> None:
    summary = summarize([])
    assert (summary["total_records"], summary["pass_rate"], summary["error_rate"], summary["pass_rate_bounds"]) == (
        0,
        None,
        None,
        None,
    )
    assert summarize_slices([]) == {"slices_version": 2, "total_records": 0, "slices": {}}


def test_a_record_is_a_member_of_each_of_its_tags_or_of_none() -> None:
    tags = summarize_slices(MIXED)["slices"]["tags"]
    shown = [(entry["slice"], entry["value"], entry["total_records"], entry["n_scored"]) for entry in tags["values"]]
    assert shown == [("tags=a", "a", 3, 2), ("tags=b", "b", 2, 1), ("tags=(none)", None, 2, 1)]


def test_a_slice_has_everything_that_the_summary_has() -> None:
    whole = summarize(MIXED)
    one = summarize_slices(MIXED)["slices"]["tags"]["values"][0]
    assert set(whole) - {"flags", "assay_version"} == set(one) - {"slice", "value"}
    assert (one["pass_rate"], one["raw_score_mean"]) == (0.5, 4.0)


def test_a_tag_named_like_the_absence_of_tags_is_a_value_of_its_own() -> None:
    facts = [graded(5, slices={"tags": ("(none)",)}), graded(4, slices={"tags": ()})]
    assert [entry["value"] for entry in summarize_slices(facts)["slices"]["tags"]["values"]] == ["(none)", None]


def test_values_beyond_the_largest_500_are_counted() -> None:
    facts = [graded(5, slices={"id": (str(number),)}) for number in range(620)]
    found = summarize_slices(facts)["slices"]["id"]
    assert (found["n_values"], found["n_values_omitted"], len(found["values"])) == (620, 120, 500)


def test_a_slice_does_not_depend_on_the_other_slices() -> None:
    facts = [graded(1 + number % 5, slices={"tags": ("a",)}) for number in range(30)]
    more = [*facts, *(graded(2, slices={"tags": ("b",)}) for _ in range(90))]
    alone, among = (summarize_slices(given)["slices"]["tags"]["values"] for given in (facts, more))
    assert alone[0] == among[1]


def test_the_same_records_and_seed_give_the_same_bytes() -> None:
    facts = [graded(1 + number * 7 % 5) for number in range(5003)]
    assert json.dumps(summarize(facts, seed=3)) == json.dumps(summarize(iter(facts), seed=3))
    assert summarize(facts, seed=3)["score_mean_interval"] != summarize(facts, seed=4)["score_mean_interval"]


def test_clusters_widen_the_interval_when_their_records_agree() -> None:
    facts = [graded(5 if number % 10 < 5 else 1, cluster=str(number % 10)) for number in range(200)]
    summary = summarize(facts)
    clustered, plain = summary["pass_rate_cluster_interval"], summary["pass_rate_interval"]
    assert clustered["n"] == 10
    assert clustered["high"] - clustered["low"] > 2 * (plain["high"] - plain["low"])


@pytest.mark.parametrize("status", ["timeout", "cancelled", "skipped", "invalid_record", "evaluation_error"])
def test_a_score_of_a_record_that_was_not_evaluated_is_not_counted(status: str) -> None:
    summary = summarize([graded(5, status=status), graded(1)])
    assert (summary["pass_count"], summary["fail_count"], summary["raw_score_mean"]) == (0, 1, 1.0)


STATUS = st.sampled_from(["timeout", "cancelled", "skipped", "invalid_record", "evaluation_error"])
FACTS = st.one_of(st.integers(1, 5).map(graded), STATUS.map(without_score))


@given(st.lists(FACTS, max_size=40))
def test_no_number_is_nan_and_the_parts_make_the_whole(facts: list[RecordFacts]) -> None:
    summary = summarize(facts)
    json.dumps(summary, allow_nan=False)
    assert summary["total_records"] == summary["evaluated_records"] + summary["failed_records"] + summary["skipped_records"]
    assert summary["pass_count"] + summary["fail_count"] == summary["n_scored"] == summary["evaluated_records"]
    assert summary["n_scored"] + summary["n_unscored"] == summary["valid_records"]
    assert math.isclose(
        sum(level["count"] for levels in summary["score_distribution"].values() for level in levels), summary["n_scored"]
    )


def by_statsmodels(values: list[float], clusters: list[int] | None = None) -> float:
    """The standard error of a mean, as the intercept of a regression."""
    regression = import_module("statsmodels.api").OLS(np.array(values), np.ones(len(values)))
    robust = {} if clusters is None else {"cov_type": "cluster", "cov_kwds": {"groups": np.array(clusters)}}
    return float(regression.fit(**robust).bse[0])


SCORES = [5, 3, 4, 1, 2, 5, 5, 4, 2, 3, 1, 4]
CLUSTERS = [0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 4, 5]


def test_standard_errors_are_those_of_statsmodels() -> None:
    facts = [graded(score, cluster=str(cluster)) for score, cluster in zip(SCORES, CLUSTERS, strict=True)]
    found = summarize(facts)
    for name, values in {
        "pass_rate": [float(score >= 4) for score in SCORES],
        "score_mean": [(score - 1) / 4 for score in SCORES],
        "raw_score_mean": [float(score) for score in SCORES],
    }.items():
        assert found[f"{name}_standard_error"] == pytest.approx(by_statsmodels(values))
        assert found[f"{name}_cluster_standard_error"] == pytest.approx(by_statsmodels(values, CLUSTERS))


def test_a_slice_has_the_standard_errors_of_its_records() -> None:
    facts = [
        graded(score, slices={"tags": ("x",) if cluster < 3 else ("y",)}) for score, cluster in zip(SCORES, CLUSTERS, strict=True)
    ]
    (first, second) = summarize_slices(facts)["slices"]["tags"]["values"]
    assert (first["value"], second["value"]) == ("x", "y")
    assert first["score_mean_standard_error"] == pytest.approx(by_statsmodels([(score - 1) / 4 for score in SCORES[:8]]))
    assert second["pass_rate_standard_error"] == pytest.approx(by_statsmodels([float(score >= 4) for score in SCORES[8:]]))
    assert first["score_mean_cluster_standard_error"] is None


def test_answers_to_one_record_share_its_standard_error() -> None:
    facts = [graded(score, record_id=str(c), is_repeated=True) for score, c in zip(SCORES, CLUSTERS, strict=True)]
    expected = by_statsmodels([(score - 1) / 4 for score in SCORES], CLUSTERS)
    assert summarize(facts, repeat=2)["score_mean_standard_error"] == pytest.approx(expected)


@pytest.mark.parametrize("facts", [[], [graded(5)], [without_score("timeout")] * 3])
def test_fewer_than_two_scores_have_no_standard_error(facts: list[RecordFacts]) -> None:
    found = summarize(facts)
    names = [name for name in found if name.endswith("standard_error")]
    assert len(names) == 6
    assert all(found[name] is None for name in names)


def test_one_cluster_has_no_robust_standard_error() -> None:
    found = summarize([graded(5, cluster="a"), graded(1, cluster="a")])
    assert (found["pass_rate_standard_error"], found["pass_rate_cluster_standard_error"]) == (pytest.approx(0.5), None)


def test_the_interval_of_a_five_point_mean_is_that_of_the_score_from_1_to_5() -> None:
    summary = summarize([graded(5)] * 5 + [graded(1)] * 5)
    interval = summary["raw_score_mean_interval"]
    # Wilson's interval of 5 in 10 is [0.236593, 0.763407].
    assert (summary["raw_score_mean"], interval["method"]) == (3.0, "wilson")
    assert (interval["low"], interval["high"]) == pytest.approx((1.946372, 4.053628), abs=1e-6)


@given(st.lists(st.integers(1, 5), min_size=2, max_size=150))
def test_the_interval_of_a_five_point_mean_holds_the_mean_and_stays_on_the_scale(scores: list[int]) -> None:
    summary = summarize(map(graded, scores))
    interval, scored = summary["raw_score_mean_interval"], summary["score_mean_interval"]
    assert 1 <= interval["low"] <= summary["raw_score_mean"] <= interval["high"] <= 5
    assert [(interval[end] - 1) / 4 for end in ("low", "high")] == pytest.approx([scored["low"], scored["high"]])


def test_the_interval_of_a_mean_from_0_to_1_is_that_of_the_score() -> None:
    facts = [RecordFacts(n, "evaluated", n / 8, n / 8, "0-1", passed=True) for n in range(9)]
    summary = summarize(facts)
    assert summary["raw_score_mean_interval"] == summary["score_mean_interval"]


def checked(*results: tuple[str, bool | None, float | None], **more: object) -> RecordFacts:
    lines = tuple(
        CheckResultLine(name=name, type="equals", passed=passed, score=score, reason="r") for name, passed, score in results
    )
    return graded(5, checks=lines, **more)


CHECKED = [
    checked(("exact", True, 1.0), ("kin", True, 0.75), slices={"tags": ("a",)}, cluster="x"),
    checked(("exact", False, 0.0), ("kin", False, 0.25), slices={"tags": ("a", "b")}, cluster="x"),
    checked(("exact", None, None), slices={"tags": ("b",)}, cluster="y"),
    checked(("kin", True, 1.0), slices={"tags": ("b",)}, cluster="z"),
    without_score("timeout", error_code="timeout"),
]


def test_a_slice_lists_only_the_checks_of_its_records() -> None:
    records = [checked(("exact", True, 1.0), slices={"tags": ("a",)}), checked(("kin", True, 1.0), slices={"tags": ("b",)})]
    values = summarize_slices(records)["slices"]["tags"]["values"]
    assert {part["value"]: list(part["checks"]) for part in values} == {"a": ["exact"], "b": ["kin"]}


def test_each_check_has_its_rate_over_the_records_that_have_a_result_of_it() -> None:
    checks = summarize(CHECKED)["checks"]
    assert list(checks) == ["exact", "kin"]
    exact, kin = checks["exact"], checks["kin"]
    assert (exact["n"], exact["n_unknown"], exact["pass_count"], exact["pass_rate"]) == (2, 1, 1, 0.5)
    low, high = import_module("statsmodels.stats.proportion").proportion_confint(1, 2, method="wilson")
    assert (exact["pass_rate_interval"]["low"], exact["pass_rate_interval"]["high"]) == (pytest.approx(low), pytest.approx(high))
    assert exact["pass_rate_cluster_interval"] is None
    assert (kin["n"], kin["pass_rate"], kin["score_mean"]) == (3, 2 / 3, 2 / 3)
    assert kin["pass_rate_cluster_interval"]["n"] == 2


def test_checks_are_in_every_slice_that_has_results_of_them() -> None:
    values = {one["value"]: one["checks"] for one in summarize_slices(CHECKED)["slices"]["tags"]["values"]}
    assert {value: {name: check["n"] for name, check in checks.items()} for value, checks in values.items()} == {
        "a": {"exact": 2, "kin": 2},
        "b": {"exact": 1, "kin": 2},
    }


def test_a_sum_of_tokens_is_a_whole_number_and_one_of_dollars_is_not() -> None:
    found = summarize(MIXED)
    assert json.dumps([found["tokens"]["total"]["sum"], found["cost_usd"]["sum"]]) == "[40, 0.5]"


def test_a_run_without_checks_has_no_figures_of_them() -> None:
    assert "checks" not in summarize(MIXED)


def test_answers_to_one_record_count_as_one_for_a_check() -> None:
    facts = [checked(("exact", number < 3, float(number < 3)), record_id=str(number // 2), is_repeated=True) for number in range(6)]
    interval = summarize(facts, repeat=2)["checks"]["exact"]["pass_rate_interval"]
    assert (interval["method"], interval["n"]) == ("wilson_cluster", 3)
