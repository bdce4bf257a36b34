import pytest

from assay.core.case import Criterion, Message
from assay.grading import GradingSettings
from tests.grading.driving import GOOD, batch_case, drive, golden_case, judged

PANEL = GradingSettings(candidate="model", judges=("one", "two", "three"))


def says(score: int, **more: str) -> str:
    label = "".join(f', "{name}": "{value}"' for name, value in more.items())
    return f'{{"score": {score}, "justification": "because of {score}"{label}}}'


@pytest.mark.parametrize(("score", "passed"), [(1, False), (2, False), (3, False), (4, True), (5, True)])
def test_a_golden_case_passes_from_four(score: int, *, passed: bool) -> None:
    grade = drive(golden_case(), judged(says(score))).grade
    assert (grade.raw_score, grade.passed, grade.scale) == (score, passed, "1-5")
    assert grade.score == (score - 1) / 4
    assert grade.justification == f"because of {score}"


def test_passed_is_never_taken_from_the_judge() -> None:
    reply = '{"score": 1, "justification": "Bad.", "passed": true}'
    assert not drive(golden_case(), judged(reply)).grade.passed


def test_the_judge_sees_task_rubric_and_answer() -> None:
    ask = drive(golden_case(), judged(GOOD)).asks["judge:rubric"]
    system, user = ask.messages
    assert (ask.stage, ask.model, system.role) == ("judge", "judge", "system")
    assert all(text in user.content for text in ("What is 2+2?", "Says that the answer is 4.", "The answer is 4."))
    assert ask.reply_schema is not None
    assert ask.reply_schema["properties"]["score"]["enum"] == [1, 2, 3, 4, 5]


def test_a_conversation_is_shown_with_its_roles() -> None:
    messages = (Message("user", "Hello"), Message("assistant", "Hi"), Message("user", "2+2?"))
    ask = drive(batch_case(messages=messages), judged(GOOD)).asks["judge:overall"]
    assert "[user]\nHello\n\n[assistant]\nHi\n\n[user]\n2+2?" in ask.messages[1].content


def test_a_batch_record_without_criteria_is_judged_overall() -> None:
    driven = drive(batch_case(), judged(GOOD))
    assert list(driven.asks) == ["candidate", "judge:overall"]
    assert "Overall quality" in driven.asks["judge:overall"].messages[1].content


def test_a_reference_is_shown_where_there_is_one() -> None:
    with_one = drive(batch_case(references=("It is four.",)), judged(GOOD)).asks["judge:overall"]
    without = drive(batch_case(), judged(GOOD)).asks["judge:overall"]
    assert "It is four." in with_one.messages[1].content
    assert " reference begins]" not in without.messages[1].content


@pytest.mark.parametrize("name", ["accuracy", "clarity", "reasoning", "factuality", "overall"])
def test_every_criterion_has_a_rubric_for_each_score(name: str) -> None:
    ask = drive(batch_case(criteria=(Criterion(name, name),)), judged(GOOD)).asks[f"judge:{name}"]
    assert all(f"\n{score}: " in ask.messages[1].content for score in range(1, 6))


def test_several_criteria_are_asked_side_by_side_and_all_must_pass() -> None:
    case = batch_case(criteria=(Criterion("accuracy", "accuracy"), Criterion("clarity", "clarity")))
    driven = drive(case, lambda ask: {"judge:accuracy": says(5), "judge:clarity": says(3)}.get(ask.call_id, "4"))
    assert [ask.call_id for ask in driven.rounds[1]] == ["judge:accuracy", "judge:clarity"]
    assert (driven.grade.raw_score, driven.grade.score, driven.grade.passed) == (4.0, 0.75, False)
    assert [(score.criterion, score.score) for score in driven.grade.scores] == [("accuracy", 5.0), ("clarity", 3.0)]


def test_the_label_is_the_judges_for_a_case_that_does_not_pass() -> None:
    assert drive(golden_case(), judged(says(2, label="hallucinated_fact"))).grade.label == "hallucinated_fact"
    assert drive(golden_case(), judged(says(2))).grade.label == "other"
    assert drive(golden_case(), judged(says(5, label="other"))).grade.label == ""


def test_a_panel_takes_the_middle_vote_and_keeps_all() -> None:
    votes = {"one": says(5), "two": says(4), "three": says(1)}
    driven = drive(golden_case(), lambda ask: votes.get(ask.model, "4"), settings=PANEL)
    assert [ask.call_id for ask in driven.rounds[1]] == ["judge:rubric@one", "judge:rubric@two", "judge:rubric@three"]
    assert (driven.grade.raw_score, driven.grade.passed, driven.grade.flags) == (4.0, True, ("judges_disagree",))
    assert [(score.judge, score.score) for score in driven.grade.scores] == [("one", 5.0), ("two", 4.0), ("three", 1.0)]


def test_two_judges_who_disagree_give_the_lower_score() -> None:
    pair = GradingSettings(candidate="model", judges=("one", "two"))
    votes = {"one": says(5), "two": says(2)}
    assert drive(golden_case(), lambda ask: votes.get(ask.model, "4"), settings=pair).grade.raw_score == 2.0
