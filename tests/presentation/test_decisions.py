"""Decisions on a run: met, missed or no result, each with its reason."""

import msgspec

from assay.presentation.decisions import decision_facts, decision_marks
from assay.presentation.run_report import RunReport
from assay.presentation.words import NO_GATES, UNFINISHED
from tests.surfaces.run_views import golden_view, manifest, result, unfinished_view


def lines(view: RunReport) -> list[tuple[str, str]]:
    return [(fact.label, fact.text) for fact in decision_facts(view)]


def with_gates(**gates: float) -> RunReport:
    return msgspec.structs.replace(golden_view(), result=result("r"), manifest=manifest(gates=gates))


def test_a_passed_gate_says_by_how_much() -> None:
    wanted = "pass rate 75.0 % (at least 50.0 %), mean score 3.75 (at least 3.50), error rate 33.3 % (at most 40.0 %)"
    assert lines(with_gates(pass_rate=0.5, min_score=3.5, max_error_rate=0.4)) == [("MET", wanted)]


def test_a_run_in_which_nothing_was_evaluated_is_no_pass() -> None:
    counts = msgspec.structs.replace(golden_view().result.counts, evaluated_records=0)
    view = msgspec.structs.replace(golden_view(), result=result("r", counts=counts))
    assert lines(view) == [("NO RESULT", "nothing could be evaluated")]


def test_without_gates_a_report_says_which_options_set_them() -> None:
    assert lines(with_gates()) == [("gates", "none set (--pass-rate, --min-score, --max-error-rate and --max-truncated set them)")]


def test_a_surface_may_word_a_reason_in_place_of_the_command_line() -> None:
    words = {NO_GATES: "set some", UNFINISHED: "{}: continue with run.resume()"}
    assert [found.reason for found in decision_marks(with_gates(), words)] == ["set some"]
    (unfinished,) = decision_marks(unfinished_view(), words)
    assert (unfinished.mark.text, unfinished.mark.kind) == ("UNFINISHED", "live")
    assert unfinished.reason.endswith(": continue with run.resume()")
