"""Errors: their codes in the reference, problems in lines and counts, and exceptions of code of others."""

import pytest

from assay.core.errors import (
    AssayError,
    ReportedFailure,
    ServerProblem,
    StoreUnavailable,
    ThirdPartyCode,
    ThirdPartyError,
    counted_problems,
    in_one_line,
    listed,
)
from tests.test_house_rules import sections


def test_every_error_code_has_its_section_in_the_reference() -> None:
    assert sections("python.md") == [kind.code for kind in AssayError.__subclasses__()]


def test_problems_beyond_the_first_are_counted_and_stay_counted() -> None:
    lines = ["in a.json:", *listed([f"line {number}" for number in range(5)], 1_200, first=3)]
    assert lines == ["in a.json:", "line 0", "line 1", "line 2", "... and 1,197 more like these"]
    assert counted_problems(lines) == "1,200 problems"
    assert in_one_line(lines[:2]) == "in a.json: line 0"
    assert in_one_line(lines[:3]) == "2 problems: in a.json: line 0; line 1"


def test_a_hint_ends_in_resuming_only_where_something_can_be_done() -> None:
    full, gone = StoreUnavailable("disk full", remedy="free some space"), StoreUnavailable("not a ledger", hint="see the page")
    assert full.hint == "free some space, then try again"
    for problem in (full, gone):
        problem.ask_to_resume()
    assert (full.hint, gone.hint) == ("free some space, then resume the run", "see the page")


def test_a_refusal_lists_each_problem_of_the_service_in_a_line() -> None:
    errors = [
        {"line": 3, "column": 7, "path": "records[0].id", "message": "is used twice", "hint": "rename it", "parameter": "id"},
        {"key": "model", "message": "is unknown", "hint": "rename it"},
        "plain words",
    ]
    problem = ServerProblem("refused", details={"errors": errors, "record_errors": [{"message": "empty"}]})
    assert problem.problems == ("line 3, column 7: records[0].id: is used twice", "model: is unknown", "plain words", "empty")
    assert (problem.hints, problem.parameters) == (("rename it",), {"rename it": "id"})
    assert ServerProblem("alone", details={"errors": [{"message": "alone"}]}).problems == ()


@pytest.mark.parametrize("raised", [ValueError("no idea"), SystemExit(3)])
def test_what_code_of_others_raises_is_one_sentence_with_its_line(raised: BaseException) -> None:
    with (
        pytest.raises(ThirdPartyError, match=rf"^{type(raised).__name__}: {raised} \(test_errors.py:\d+\)$") as caught,
        ThirdPartyCode(),
    ):
        raise raised
    assert caught.value.problem is raised


@pytest.mark.parametrize("raised", [ReportedFailure("says so itself"), KeyboardInterrupt(), LookupError("ours")])
def test_failures_that_are_meant_and_interrupts_pass_through(raised: BaseException) -> None:
    with pytest.raises(type(raised)) as caught, ThirdPartyCode(LookupError):
        raise raised
    assert caught.value is raised
