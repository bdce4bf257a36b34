"""Facts of records in columns: filled one by one or at once, known early or late."""

from assay.metrics.summary import RecordColumns
from tests.metrics.documents import summarize, summarize_slices
from tests.metrics.test_summary import MIXED, graded, without_score


def test_columns_may_be_filled_record_by_record() -> None:
    columns = RecordColumns()
    for facts in MIXED:
        columns.append(facts)
    assert summarize(columns) == summarize(MIXED)


def test_what_only_a_late_record_knows_is_unknown_of_all_before_and_after() -> None:
    known = graded(5, cost=0.5, judge_latency_ms=7.0, cluster="c")
    summary = summarize([*[graded(4)] * 700, known, *[without_score("timeout", error_code="timeout")] * 300])
    assert summary["cost_usd"] == {"sum": 0.5, "mean": 0.5, "n_known": 1, "n_unknown": 1000}
    assert (summary["latency_ms"]["judge"]["n"], summary["errors"]) == (1, {"timeout": 300})
    assert (summary["n_scored"], summary["pass_rate_cluster_interval"]["n"]) == (701, 701)


def test_what_only_a_later_record_knows_stays_with_that_record() -> None:
    known = graded(4, latency_ms=70.0, cost=0.25, error_code="late", cluster="c", slices={"part": ("second",)})
    found = [graded(5, slices={"part": ("first",)}), known, graded(2, slices={"part": ("third",)})]
    first, second, third = sorted(summarize_slices(found)["slices"]["part"]["values"], key=lambda part: part["value"])
    assert [part["latency_ms"]["model"]["max"] for part in (first, second, third)] == [None, 70.0, None]
    assert [part["cost_usd"]["sum"] for part in (first, second, third)] == [None, 0.25, None]
    assert [part["errors"] for part in (first, second, third)] == [{}, {"late": 1}, {}]
