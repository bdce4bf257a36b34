from typing import Any

import msgspec
import pytest

from assay.core.checks import ContainsCheck, EqualsCheck, ToolCalledCheck
from assay.core.graders import GraderPlan, JudgePrompt
from assay.core.model_call import FailedReply, Reply
from assay.core.outcome import GradingFailure
from assay.core.plan import PluginPlan
from assay.grading import GradingSettings, graded_by, needs_judge, start
from assay.grading.graders import settings_for
from tests.grading.driving import SETTINGS, drive, mcq_case, reference_case
from tests.grading.test_trajectory import turns

PROMPT = JudgePrompt(name="own.txt", sha256="cd" * 32, text="{{answer}}")
FORM = GraderPlan(name="form", kind="checks", checks=(EqualsCheck(name="exact"), ContainsCheck(name="has")))
HOUSE = GraderPlan(name="house", kind="judge", judge="J", prompt=PROMPT)
REFERENCE = GraderPlan(name="ref", kind="judge", judge="K")
PASS, FAIL = '{"verdict": "pass", "reason": "polite"}', '{"verdict": "fail", "reason": "rude"}'
TENTHS = '{"score": 0.8, "justification": "Nearly."}'


def settings(*graders: GraderPlan, primary: int = 0) -> GradingSettings:
    marked = tuple(msgspec.structs.replace(one, is_primary=number == primary) for number, one in enumerate(graders))
    return msgspec.structs.replace(SETTINGS, judges=("J", "K"), graders=marked)


def answering(replies: dict[str, str], answer: str = "Four."):
    return lambda ask: answer if ask.stage == "candidate" else replies[ask.model]


def test_the_candidate_is_asked_once_and_judges_side_by_side() -> None:
    driven = drive(reference_case(), answering({"J": PASS, "K": TENTHS}), settings=settings(FORM, HOUSE, REFERENCE))
    assert [[ask.call_id for ask in asks] for asks in driven.rounds] == [
        ["candidate"],
        ["judge:house:house", "judge:ref:reference"],
    ]
    assert [(one.name, one.status, one.passed, one.score) for one in driven.grade.graders] == [
        ("form", "graded", True, 1.0),
        ("house", "graded", True, 1.0),
        ("ref", "graded", True, 0.8),
    ]


@pytest.mark.parametrize(
    ("primary", "score", "evaluator"), [(0, 1.0, "checks/1"), (1, 0.0, "judge_prompt/1"), (2, 0.8, "judge_reference/1")]
)
def test_the_primary_grader_decides(primary: int, score: float, evaluator: str) -> None:
    grade = drive(
        reference_case(), answering({"J": FAIL, "K": TENTHS}), settings=settings(FORM, HOUSE, REFERENCE, primary=primary)
    ).grade
    assert (grade.score, grade.evaluator) == (score, evaluator)
    assert [check.name for check in grade.checks] == ["exact", "has"]


def test_an_error_of_another_grader_is_its_own() -> None:
    grade = drive(reference_case(), answering({"J": "no idea"}), settings=settings(FORM, HOUSE)).grade
    failed = grade.graders[1]
    assert grade.passed is True
    assert (failed.status, failed.error_code, failed.score) == ("error", "judge_parse_error", None)


def test_an_error_of_the_primary_grader_is_that_of_the_record_and_the_others_are_kept() -> None:
    with pytest.raises(GradingFailure) as failure:
        drive(reference_case(), answering({"J": "no idea", "K": TENTHS}), settings=settings(HOUSE, REFERENCE, FORM))
    assert failure.value.code == "judge_parse_error"
    assert [(one.name, one.status) for one in failure.value.graders] == [("house", "error"), ("ref", "graded"), ("form", "graded")]
    assert [check.passed for check in failure.value.checks] == [True, True]


def test_an_answer_that_cannot_be_assessed_is_no_error_of_its_grader() -> None:
    replies = {"J": '{"verdict": "cannot_assess", "reason": "no facts"}'}
    grade = drive(reference_case(), answering(replies), settings=settings(FORM, HOUSE)).grade
    assert (grade.graders[1].status, grade.graders[1].passed) == ("not_assessed", None)


def test_a_lost_call_of_any_judge_does_not_end_the_record() -> None:
    flow = start(reference_case(), settings(FORM, HOUSE))
    next(flow)
    (request,) = flow.send((Reply(text="Four."),))
    assert request.may_fail is True
    with pytest.raises(StopIteration) as end:
        flow.send((FailedReply(text="", code="timeout", message="late", attempts=3),))
    assert end.value.value.graders[1].error_message == "judge J: timeout after 3 attempts: late"


def test_checks_of_a_record_belong_to_the_first_grader_with_checks() -> None:
    second = GraderPlan(name="second", kind="checks", checks=(ContainsCheck(name="other", any=("x",)),))
    case = reference_case(metadata={"checks": [{"type": "length", "max": 1, "name": "short"}]})
    grade = drive(case, answering({}), settings=settings(second, FORM)).grade
    assert [check.name for check in grade.checks] == ["other", "short", "exact", "has"]
    judged = drive(case, answering({"J": PASS}), settings=settings(HOUSE, FORM)).grade
    assert [check.name for check in judged.checks] == ["exact", "has", "short"]


def test_a_record_without_anything_to_compare_with_fails_before_any_call_where_that_grader_is_primary() -> None:
    exact = GraderPlan(name="form", kind="checks", checks=(EqualsCheck(name="exact"),))
    with pytest.raises(GradingFailure) as failure:
        next(start(reference_case(references=()), settings(exact, HOUSE)))
    assert failure.value.code == "nothing_to_compare"
    grade = drive(reference_case(references=()), answering({"J": PASS}), settings=settings(HOUSE, exact)).grade
    assert [(one.name, one.status) for one in grade.graders] == [("house", "graded"), ("form", "error")]


def test_a_judge_without_a_prompt_grades_as_the_record_is_graded() -> None:
    grade = drive(mcq_case(), answering({}, answer="(B)"), settings=settings(REFERENCE)).grade
    assert (grade.evaluator, grade.passed) == ("mcq_exact/1", True)


def test_each_grader_has_settings_of_its_own() -> None:
    plugin = PluginPlan(kind="grader", name="own.py:polite", grades=True)
    asked = GraderPlan(name="polite", kind="plugin", plugin="own.py:polite")
    given = msgspec.structs.replace(settings(FORM, HOUSE, asked), grader_plugins={"own.py:polite": plugin})
    form, house, polite = (settings_for(one, given) for one in given.graders)
    assert (form.method, form.judges, form.takes_record_checks) == ("checks", (), True)
    assert (house.method, house.judges, house.takes_record_checks) == ("prompt", ("J",), False)
    assert (polite.grader, polite.method) == (plugin, None)


def test_a_record_without_a_grade_names_its_primary_grader() -> None:
    by = graded_by(reference_case(), settings(HOUSE, FORM))
    assert by is not None
    assert (by.evaluator, by.template) == ("judge_prompt/1", "own.txt/cdcdcdcdcdcd")


@pytest.mark.parametrize(("graders", "needs"), [((FORM,), False), ((FORM, HOUSE), True)])
def test_a_run_needs_a_judge_where_one_of_its_graders_is_one(graders: Any, *, needs: bool) -> None:
    assert needs_judge(reference_case(), settings(*graders)) is needs


def test_one_grader_follows_a_candidate_that_calls_tools_and_the_others_get_all_of_its_calls() -> None:
    called = GraderPlan(name="called", kind="checks", checks=(ToolCalledCheck(name="called", tool="search_trains"),))
    case = turns()[0]
    replies = iter(['{"tool": "search_trains", "input": {}}', "Here you are."])
    asked: list[str] = []

    def answering_steps(ask: Any) -> str:
        asked.append(ask.call_id)
        return next(replies, "Here you are.") if ask.stage == "candidate" else TENTHS

    again = msgspec.structs.replace(REFERENCE, name="again")
    grade = drive(case, answering_steps, settings=settings(called, REFERENCE, again)).grade
    assert asked.count("candidate") == 1
    assert [check.passed for check in grade.checks] == [True]
    assert [one.status for one in grade.graders] == ["graded"] * 3
