"""Outcomes by their names, and what counts as a grade of a custom grader."""

import numpy as np
import pytest

from assay.core.outcome import (
    CancelledOutcome,
    FailedOutcome,
    GradingFailure,
    InvalidOutcome,
    Judgement,
    Outcome,
    SkippedOutcome,
    judgement_of,
    record_status,
)


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (FailedOutcome(stage="candidate", code="timeout", message="late"), "timeout"),
        (FailedOutcome(stage="candidate", code="rate_limited", message="busy"), "evaluation_error"),
        (InvalidOutcome(code="invalid_field_type", message="no text"), "invalid_record"),
        (CancelledOutcome(), "cancelled"),
        (SkippedOutcome(code="limit"), "skipped"),
    ],
)
def test_a_record_without_a_grade_has_the_status_of_its_outcome(outcome: Outcome, status: str) -> None:
    assert record_status(outcome) == status


@pytest.mark.parametrize(
    ("returned", "judgement"),
    [
        (True, Judgement(score=1.0, passed=True, scale="0/1")),
        (False, Judgement(score=0.0, passed=False, scale="0/1")),
        (0.25, Judgement(score=0.25)),
        (1, Judgement(score=1.0)),
        (np.float64(0.5), Judgement(score=0.5)),
        (np.bool_(True), Judgement(score=1.0, passed=True, scale="0/1")),
        ({"score": 0.5, "justification": "half"}, Judgement(score=0.5, justification="half")),
        (Judgement(score=1.0, scale="0/1"), Judgement(score=1.0, scale="0/1")),
    ],
)
def test_numbers_words_of_truth_and_judgements_are_grades(returned: object, judgement: Judgement) -> None:
    assert judgement_of(returned) == judgement


@pytest.mark.parametrize(
    ("returned", "code", "reason"),
    [
        (None, "grader_no_result", "returned None"),
        ("1.0", "grader_invalid_result", "it returned str"),
        (1.5, "grader_invalid_result", "score is 1.5, which is not from 0 to 1"),
        (float("nan"), "grader_invalid_result", "score is nan, which is not from 0 to 1"),
        ({"score": 1, "note": "x"}, "grader_invalid_result", "unknown field `note`"),
        ({"score": 0.5, "scores": {"tone": 2}}, "grader_invalid_result", "tone is 2.0, which is not from 0 to 1"),
        (Judgement(score=0.5, scale="0/1"), "grader_invalid_result", "score is 0.5, which is neither 0 nor 1"),
    ],
)
def test_what_is_no_grade_fails_with_its_reason(returned: object, code: str, reason: str) -> None:
    with pytest.raises(GradingFailure, match=reason) as caught:
        judgement_of(returned)
    assert caught.value.code == code
