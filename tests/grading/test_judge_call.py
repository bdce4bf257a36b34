"""Calls of judges: one more attempt for a reply without a verdict, and ids that stay apart."""

import pytest

from assay.core.case import Criterion
from assay.core.outcome import GradingFailure
from tests.grading.driving import (
    GOOD,
    batch_case,
    drive,
    golden_case,
    judged,
    rubric_case,
)
from tests.grading.test_five_point import PANEL
from tests.grading.test_hijack import ANSWERS, arsenal


def test_only_the_judge_without_a_verdict_is_asked_again() -> None:
    votes = {"candidate": "4", "judge:rubric@two": "no idea"}
    driven = drive(golden_case(), lambda ask: votes.get(ask.call_id, GOOD), settings=PANEL)
    assert [ask.call_id for ask in driven.rounds[2]] == ["judge:rubric@two:again"]


def test_the_same_replies_give_the_same_asks_and_grade() -> None:
    first, second = (drive(batch_case(), judged(["nothing", GOOD])) for _ in range(2))
    assert first.rounds == second.rounds
    assert first.grade == second.grade


def test_call_ids_stay_apart_whatever_criteria_are_called() -> None:
    case = rubric_case(criteria=(Criterion("a", "x"), Criterion("a:again", "y"), Criterion("a@b", "z")))
    replies = ['{"criteria_met": true, "explanation": "x"}'] * 2 + ["nothing"] + ['{"criteria_met": true, "explanation": "x"}']
    driven = drive(case, judged(replies))
    assert len(driven.asks) == sum(map(len, driven.rounds))


OUTPUTS = arsenal("judge_outputs.json")


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_judge_that_repeats_the_answer_gives_no_score(answer: str) -> None:
    with pytest.raises(GradingFailure) as failure:
        drive(golden_case(), judged(answer, answer=answer))
    assert failure.value.code == "judge_parse_error"


@pytest.mark.parametrize("item", OUTPUTS, ids=[str(item["id"]) for item in OUTPUTS])
def test_an_awkward_judge_reply_is_read_as_listed(item: dict[str, object]) -> None:
    allowed = [item["expected"], *item.get("alternatives", [])]  # type: ignore[misc]  # a list where it is present
    try:
        found: dict[str, object] = {"score": drive(golden_case(), judged(str(item["judge_text"]))).grade.raw_score}
    except GradingFailure as failure:
        found = {"error": {"judge_parse_error": "judge_output_invalid"}[failure.code]}
    assert found in allowed
