"""What judges said, read from the log: the same as a grade where there is one, and what is left of a failure."""

import json

import msgspec
import pytest

from assay.core.case import Case, Criterion
from assay.core.outcome import Score
from assay.grading import UnknownCall, marks_of, results_from_log
from tests.grading.driving import GOOD, SETTINGS, drive, golden_case, judged, mcq_case, reference_case, rubric_case

CRITERIA = (Criterion("one", "Says four.", weight=3.0), Criterion("a:b@c", "Is rude.", weight=-2.0))
MET, UNMET = (json.dumps({"criteria_met": is_met, "explanation": "It is so."}) for is_met in (True, False))
CUT = '{"criteria_met": true, "explanation": "It is'
PANEL = msgspec.structs.replace(SETTINGS, judges=("a", "b"))
ONE_CALL = msgspec.structs.replace(SETTINGS, rubric_mode="one_call")


def heard(case: Case, *, is_first: bool = False, settings: object = SETTINGS, **replies: str) -> list[float | None]:
    named = {call.replace("__", ":"): text for call, text in replies.items()}
    marks = results_from_log(case, settings, replies=named, answer="Four.", is_first=is_first)  # type: ignore[arg-type]  # settings of a test
    return [mark.value for mark in marks]


@pytest.mark.parametrize("is_first", [False, True])
@pytest.mark.parametrize(
    ("case", "verdict"),
    [
        (rubric_case(criteria=CRITERIA), [MET, UNMET]),
        (reference_case(), ['{"score": 0.7, "justification": "Nearly."}']),
        (golden_case(), [GOOD]),
    ],
    ids=["rubric", "reference", "golden"],
)
def test_the_log_of_a_graded_record_says_what_its_grade_says(case: Case, verdict: list[str], *, is_first: bool) -> None:
    driven = drive(case, judged(list(verdict)))
    calls = [ask.call_id for ask in driven.asks.values() if ask.stage == "judge"]
    replies = dict(zip(calls, verdict, strict=True))
    assert results_from_log(case, SETTINGS, replies=replies, answer="The answer is 4.", is_first=is_first) == marks_of(
        driven.grade.scores
    )


def test_a_criterion_that_nobody_answered_for_has_no_value() -> None:
    assert heard(rubric_case(criteria=CRITERIA), judge__one=MET) == [1.0, None]


def test_a_second_reply_counts_unless_only_first_ones_do() -> None:
    case, replies = rubric_case(criteria=CRITERIA[:1]), {"judge__one": "Well.", "judge__one__again": MET}
    assert (heard(case, **replies), heard(case, is_first=True, **replies)) == ([1.0], [None])


def test_what_breaks_off_twice_is_salvaged_unless_only_first_replies_count() -> None:
    case, replies = rubric_case(criteria=CRITERIA[:1]), {"judge__one": CUT, "judge__one__again": CUT}
    assert (heard(case, **replies), heard(case, is_first=True, **replies)) == ([1.0], [None])
    assert heard(case, judge__one=CUT, judge__one__again=CUT.replace("true", "false")) == [None]
    assert heard(case, judge__one=CUT) == [None]


def test_a_first_reply_counts_as_it_was_said_and_a_grade_in_tenths() -> None:
    reply = '{"score": 0.85, "justification": "Nearly."}'
    assert heard(reference_case(), judge__reference=reply) == [0.9]
    assert heard(reference_case(), is_first=True, judge__reference=reply) == [0.85]
    assert heard(reference_case(), is_first=True, judge__reference=reply.replace("0.85", "85")) == [None]


def test_one_reply_for_all_criteria_has_a_value_for_each_or_none() -> None:
    case = rubric_case(criteria=CRITERIA)
    verdicts = [{"number": number, "criteria_met": number == 2, "explanation": "x"} for number in (1, 2)]
    assert heard(case, settings=ONE_CALL, judge__rubric=json.dumps({"verdicts": verdicts})) == [0.0, 1.0]
    assert heard(case, settings=ONE_CALL, judge__rubric=json.dumps({"verdicts": verdicts[:1]})) == [None, None]


def test_the_middle_vote_of_a_panel_counts_the_lower_one_of_two() -> None:
    case = rubric_case(criteria=CRITERIA[:1])
    votes = {"judge:one@a": MET, "judge:one@b": UNMET}
    assert [mark.value for mark in results_from_log(case, PANEL, replies=votes, answer="Four.")] == [0.0]
    assert [mark.value for mark in results_from_log(case, PANEL, replies={"judge:one@b": MET}, answer="Four.")] == [1.0]
    cast = [Score(criterion="one", score=score, scale="0/1", normalized=score, weight=3.0) for score in (1.0, 0.0)]
    assert [(mark.value, mark.weight) for mark in marks_of(cast)] == [(0.0, 3.0)]


def test_a_multiple_choice_question_has_one_mark_and_no_judge() -> None:
    assert heard(mcq_case()) == [None]


def test_a_reply_that_belongs_to_no_question_is_not_passed_over() -> None:
    with pytest.raises(UnknownCall, match="judge:three"):
        heard(rubric_case(criteria=CRITERIA), judge__one=MET, judge__three=MET)
