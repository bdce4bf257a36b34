"""What a report knows of a run: failures in groups, the worst answers, and metrics as a type."""

import msgspec

from assay.core.outcome import Score
from assay.core.summary import Summary
from assay.presentation.run_report import badness, grouped, worst_record
from tests.surfaces.run_views import failure, golden_view, prediction, unfinished_view


def test_failures_are_grouped_by_what_went_wrong_errors_first() -> None:
    groups = grouped([failure("a", "not_passed", "other"), failure("b", "error", "timeout"), failure("c", "error", "timeout")])
    assert [(group.word, group.count, group.record_ids) for group in groups] == [("timeout", 2, ("b", "c")), ("other", 1, ("a",))]


def test_the_worst_records_say_what_cost_them_points() -> None:
    scores = [
        Score(criterion=name, score=value, scale="0-1", normalized=value, weight=weight, judge="j", justification=f"{name}!")
        for name, value, weight in (("a", 1.0, 2.0), ("b", 0.0, 1.0), ("c", 1.0, -5.0))
    ]
    found = worst_record(prediction("r", 2, "a: 1. a!", evaluator_scores=msgspec.to_builtins(scores)), None)
    assert found.why == "c: 1. c! b: 0. b!"
    assert worst_record(prediction("r", 2, "Says yes."), None).why == "Says yes."


def test_what_did_not_pass_comes_before_what_has_no_score_and_what_passed() -> None:
    cases = [prediction("passed", 5, ""), prediction("error", None, ""), prediction("poor", 2, ""), prediction("poorest", 1, "")]
    assert [case.record_id for case in sorted(cases, key=badness)] == ["poorest", "poor", "error", "passed"]


def test_metrics_are_a_type_and_an_unfinished_run_has_none() -> None:
    assert isinstance(golden_view().summary, Summary)
    assert unfinished_view().summary is None
