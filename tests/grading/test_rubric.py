import pytest

from assay.core.case import Criterion, Message
from assay.core.outcome import GradingFailure
from assay.grading.rubric import rubric_score
from tests.grading.driving import drive, judged, reference_case, rubric_case

CRITERIA = (
    Criterion("law", "Names the law", "Article 1", 10.0),
    Criterion("court", "Names the court", "", 5.0),
    Criterion("slip", "Errs", "", -5.0),
)


def met(*ids: str):
    """A judge who finds these criteria met and no others."""
    calls = {"candidate": "The answer is 4.", **{f"judge:{name}": '{"criteria_met": true, "explanation": "x"}' for name in ids}}
    return lambda ask: calls.get(ask.call_id, '{"criteria_met": false, "explanation": "x"}')


@pytest.mark.parametrize(
    ("ids", "score"), [(("law", "court"), 1.0), ((), 0.25), (("slip",), 0.0), (("law", "court", "slip"), 0.75), (("law",), 0.75)]
)
def test_a_rubric_score_is_the_share_of_what_can_be_reached(ids: tuple[str, ...], score: float) -> None:
    grade = drive(rubric_case(criteria=CRITERIA), met(*ids)).grade
    assert (grade.score, grade.raw_score, grade.scale) == (score, score, "0-1")
    assert grade.passed is (score >= 0.7)


def test_every_criterion_is_a_call_of_its_own_with_its_weight() -> None:
    driven = drive(rubric_case(criteria=CRITERIA, model_context="facts"), met("law"))
    assert [ask.call_id for ask in driven.rounds[1]] == ["judge:law", "judge:court", "judge:slip"]
    assert [(score.score, score.weight) for score in driven.grade.scores] == [(1.0, 10.0), (0.0, 5.0), (0.0, -5.0)]
    assert all("facts" in ask.messages[1].content for ask in driven.rounds[1])
    assert "Names the law\n\nArticle 1" in driven.asks["judge:law"].messages[1].content


def test_a_rubric_without_a_positive_weight_has_no_score_and_costs_no_call() -> None:
    with pytest.raises(GradingFailure) as failure:
        drive(rubric_case(criteria=(Criterion("slip", "Errs", "", -1.0),)), met())
    assert failure.value.code == "rubric_without_points"


def test_weights_and_findings_go_in_pairs() -> None:
    assert rubric_score((1.0, 1.0, 2.0), (1.0, 0.0, 1.0)) == 0.75


@pytest.mark.parametrize(
    ("said", "score", "passed"), [("0.7", 0.7, True), ("0.65", 0.7, True), ("0.6", 0.6, False), ("1", 1.0, True)]
)
def test_an_answer_is_compared_with_the_reference_in_tenths(said: str, score: float, *, passed: bool) -> None:
    grade = drive(reference_case(), judged(f'{{"score": {said}, "justification": "x"}}')).grade
    assert (grade.score, grade.passed, grade.scale) == (score, passed, "0-1")
    assert grade.label == ("" if passed else "incorrect_answer")


def test_several_references_are_numbered() -> None:
    driven = drive(reference_case(references=("Four.", "IV.")), judged('{"score": 1.0, "justification": "x"}'))
    assert "(1)\nFour.\n\n(2)\nIV." in driven.asks["judge:reference"].messages[1].content


@pytest.mark.parametrize(
    ("said", "task"),
    [
        ("Add two and two.", "[prompt]\nWhat is 2+2?\n\n[system]\nBe brief.\n\n[user]\nAdd two and two.\n"),
        ("Tell me: What is 2+2?", " task begins]\n[system]\nBe brief.\n\n[user]\nTell me: What is 2+2?\n"),
    ],
)
def test_a_judge_is_shown_the_prompt_where_the_messages_do_not_hold_it(said: str, task: str) -> None:
    case = reference_case(messages=(Message("system", "Be brief."), Message("user", said)))
    driven = drive(case, judged('{"score": 1.0, "justification": "x"}'))
    assert task in driven.asks["judge:reference"].messages[1].content
    assert [message.content for message in driven.asks["candidate"].messages] == ["Be brief.", said]


def test_exactly_the_threshold_is_reached_whatever_the_weights() -> None:
    assert rubric_score((-4.3, 4.1, 3.6), (0.0, 1.0, 0.0)) == 0.7


def test_weights_of_any_size_have_a_score() -> None:
    assert rubric_score((1e308, 1e308, -1e308), (1.0, 0.0, 0.0)) == pytest.approx(2 / 3)
