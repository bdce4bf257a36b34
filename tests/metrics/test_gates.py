import pytest
from msgspec.structs import replace

from assay.core.settings import Gates
from assay.core.summary import GateCheck, GateResult, Summary
from assay.metrics.gates import check_gates
from assay.metrics.summary import RecordFacts, summarize


def run_of(*scores: int | None) -> Summary:
    """The summary of a run with these scores of 1 to 5; None is a record that failed."""
    return summarize(facts(score) for score in scores)


def facts(score: int | None) -> RecordFacts:
    if score is None:
        return RecordFacts(position=0, status="evaluation_error", error_code="judge_parse_error")
    return RecordFacts(position=0, status="evaluated", score=(score - 1) / 4, raw_score=score, scale="1-5", passed=score >= 4)


def test_a_run_without_gates_passes() -> None:
    assert check_gates(Gates(), run_of(1, None)) == GateResult(passed=True)


@pytest.mark.parametrize("gates", [Gates(), Gates(max_error_rate=1.0)])
def test_a_run_in_which_nothing_could_be_evaluated_does_not_pass(gates: Gates) -> None:
    found = check_gates(gates, run_of(None, None))
    assert (found.passed, found.reasons) == (False, ("nothing could be evaluated",))


def test_a_threshold_that_is_met_exactly_passes() -> None:
    summary = run_of(*[5] * 15, 4, 3, 3, 3, 3)
    found = check_gates(Gates(pass_rate=0.8, min_score=4.55, max_error_rate=0.0), summary)
    assert (found.passed, [(gate.name, gate.met) for gate in found.gates]) == (
        True,
        [("pass_rate", True), ("min_score", True), ("max_error_rate", True)],
    )


def test_every_gate_that_fails_is_a_reason() -> None:
    verdict = check_gates(Gates(pass_rate=0.8, min_score=3.5, max_error_rate=0.1), run_of(5, 5, 1, None))
    assert (verdict.passed, verdict.reasons) == (False, ("pass rate 0.67 is below 0.80", "error rate 0.25 is above 0.10"))
    assert verdict.gates == (
        GateCheck(name="pass_rate", threshold=0.8, value=2 / 3, met=False),
        GateCheck(name="min_score", threshold=3.5, value=11 / 3, met=True),
        GateCheck(name="max_error_rate", threshold=0.1, value=0.25, met=False),
    )


def test_a_low_mean_is_a_reason() -> None:
    assert check_gates(Gates(min_score=4.5), run_of(4, 4)).reasons == ("mean score 4.00 is below 4.50",)


def test_a_reason_has_the_digits_that_tell_its_numbers_apart() -> None:
    summary = replace(run_of(5), pass_rate=0.7996)
    assert check_gates(Gates(pass_rate=0.8), summary).reasons == ("pass rate 0.7996 is below 0.8000",)


@pytest.mark.parametrize(
    ("gates", "reason"),
    [
        (Gates(pass_rate=0.0), "pass rate is undefined: no record was evaluated"),
        (Gates(min_score=1.0), "mean score is undefined: no record was evaluated"),
    ],
)
def test_what_is_undefined_does_not_pass(gates: Gates, reason: str) -> None:
    found = check_gates(gates, run_of(None, None))
    assert (found.passed, found.reasons, [gate.met for gate in found.gates]) == (False, (reason,), [False])


def test_a_run_without_records_has_no_error_rate() -> None:
    assert check_gates(Gates(max_error_rate=1.0), run_of()).reasons == ("error rate is undefined: the run has no records",)


def test_a_mean_over_different_scales_does_not_pass() -> None:
    mcq = RecordFacts(position=0, status="evaluated", score=1.0, raw_score=1.0, scale="0/1", passed=True)
    verdict = check_gates(Gates(min_score=0.5), summarize([mcq, facts(5)]))
    assert verdict.reasons == ("mean score is undefined: records were graded on different scales",)


def test_rounding_in_the_last_digits_decides_no_gate() -> None:
    assert check_gates(Gates(pass_rate=0.3), replace(run_of(5), pass_rate=0.1 + 0.2 - 1e-12)).passed


def test_a_run_that_was_cancelled_passes_no_gate() -> None:
    assert check_gates(Gates(), run_of(1, None), is_cancelled=True).reasons == (
        "the run was cancelled: 1 of 2 records were evaluated",
    )


def test_gates_are_about_all_records_so_a_cancelled_run_has_no_result_for_any() -> None:
    gates = Gates(pass_rate=0.5)
    assert len(check_gates(gates, run_of(5, None)).gates) == 1
    assert check_gates(gates, run_of(5, None), is_cancelled=True).gates == ()
