from typing import Any

import msgspec
import pytest

from assay.core.case import Criterion
from assay.core.checks import ContainsCheck, EqualsCheck, LatencyCheck, LengthCheck, PassShare
from assay.core.outcome import GradingFailure
from assay.grading import GradingSettings, needs_judge
from tests.grading.driving import SETTINGS, batch_case, drive, golden_case, judged, mcq_case, reference_case

TENTHS = '{"score": 0.8, "justification": "Nearly."}'
EXACT, SHORT = EqualsCheck(name="exact"), LengthCheck(name="short", max=10)


def settings(*checks: Any, **changes: Any) -> GradingSettings:
    return msgspec.structs.replace(SETTINGS, **{"checks": checks, "judges": (), **changes})


def test_checks_grade_alone_where_no_judge_is_named() -> None:
    driven = drive(reference_case(), judged("nobody is asked", answer="Four, I think."), settings=settings(EXACT, SHORT))
    grade = driven.grade
    assert [ask.stage for ask in driven.asks.values()] == ["candidate"]
    assert (grade.score, grade.passed, grade.scale, grade.evaluator, grade.label) == (
        0.0,
        False,
        "0-1",
        "checks/1",
        "incorrect_answer",
    )
    assert [(score.criterion, score.score) for score in grade.scores] == [("exact", 0.0), ("short", 0.0)]
    assert [(check.name, check.passed) for check in grade.checks] == [("exact", False), ("short", False)]
    assert grade.justification.startswith("0 of 2 checks passed; exact: ")


def test_the_score_is_the_share_of_the_weights() -> None:
    checks = (msgspec.structs.replace(EXACT, weight=3.0), SHORT)
    rule = PassShare(at_least=0.25)
    grade = drive(reference_case(), judged("", answer="Five."), settings=settings(*checks, pass_rule=rule)).grade
    assert (grade.score, grade.passed, grade.label) == (0.25, True, "")


def test_a_judge_grades_and_the_answer_must_pass_the_checks_too() -> None:
    driven = drive(reference_case(), judged(TENTHS), settings=settings(EXACT, judges=("judge",)))
    grade = driven.grade
    assert (grade.score, grade.passed, grade.evaluator) == (0.8, False, "judge_reference/1")
    assert [score.judge for score in grade.scores] == ["judge"]
    assert grade.label == "incorrect_answer"
    assert "exact: the answer 'The answer is 4.' is not 'Four.'" in grade.justification
    assert "Nearly." in grade.justification


def test_checks_that_pass_change_no_grade_of_a_judge() -> None:
    check = ContainsCheck(name="has", any=("4",))
    grade = drive(reference_case(), judged(TENTHS), settings=settings(check, judges=("judge",))).grade
    plain = drive(reference_case(), judged(TENTHS)).grade
    assert msgspec.structs.replace(grade, checks=()) == plain
    assert [result.passed for result in grade.checks] == [True]


def test_a_check_without_a_weight_is_reported_and_decides_nothing() -> None:
    check = msgspec.structs.replace(EXACT, weight=0.0)
    grade = drive(reference_case(), judged(TENTHS), settings=settings(check, judges=("judge",))).grade
    assert (grade.passed, [result.passed for result in grade.checks]) == (True, [False])


def test_multiple_choice_is_compared_and_checked() -> None:
    grade = drive(mcq_case(), judged("", answer="The answer is (B)."), settings=settings(SHORT)).grade
    assert (grade.score, grade.passed, grade.evaluator) == (1.0, False, "mcq_exact/1")


@pytest.mark.parametrize(
    ("case", "changes", "asks"),
    [
        (batch_case(metadata={"checks": [{"type": "is-json"}]}), {}, False),
        (batch_case(metadata={"checks": [{"type": "is-json"}]}, references=("4",)), {}, True),
        (batch_case(metadata={"checks": [{"type": "is-json"}]}, criteria=(Criterion("clarity", "clarity"),)), {}, True),
        (batch_case(metadata={"checks": [{"type": "is-json"}]}), {"criteria": ("clarity",)}, True),
        (golden_case(metadata={"checks": [{"type": "is-json"}]}), {}, True),
        (batch_case(), {"checks": (SHORT,)}, True),
        (batch_case(), {"checks": (SHORT,), "judges": ()}, False),
    ],
)
def test_a_record_with_checks_of_its_own_and_nothing_for_a_judge_costs_no_call(case: Any, changes: Any, *, asks: bool) -> None:
    assert needs_judge(case, msgspec.structs.replace(SETTINGS, **changes)) is asks


def test_a_records_checks_are_read_from_its_metadata() -> None:
    case = reference_case(metadata={"checks": [{"type": "equals", "value": "4", "name": "exact"}]})
    grade = drive(case, judged("", answer="4"), settings=settings(EXACT, SHORT)).grade
    assert [(check.name, check.passed) for check in grade.checks] == [("exact", True), ("short", True)]


def test_a_record_without_anything_to_compare_with_fails_before_any_call() -> None:
    asked: list[str] = []

    def answering(ask: Any) -> str:
        asked.append(ask.call_id)
        return "4"

    with pytest.raises(GradingFailure) as failure:
        drive(reference_case(references=()), answering, settings=settings(EXACT))
    assert (failure.value.code, asked) == ("nothing_to_compare", [])


def test_checks_of_what_is_not_known_give_no_grade() -> None:
    with pytest.raises(GradingFailure) as failure:
        drive(reference_case(), judged("", answer="4"), settings=settings(LatencyCheck(max_ms=1)))
    assert failure.value.code == "checks_undecided"
