"""What determines a grade before anything is asked: the settings, and whether a judge is needed."""

import pytest

from assay.core.outcome import GradingFailure
from assay.core.plan import PluginPlan
from assay.grading import (
    GradingSettings,
    MethodKind,
    is_judged,
    needs_judge,
)
from tests.grading.driving import (
    GOOD,
    SETTINGS,
    batch_case,
    conversation_case,
    drive,
    golden_case,
    judged,
    mcq_case,
    rubric_case,
)
from tests.grading.test_five_point import says
from tests.grading.test_methods import OURS


def test_the_pass_score_is_a_setting() -> None:
    easy = GradingSettings(candidate="model", judges=("judge",), case_pass_score=3)
    assert drive(golden_case(), judged(says(3)), settings=easy).grade.passed


def test_a_case_that_needs_a_judge_fails_without_one() -> None:
    with pytest.raises(GradingFailure) as failure:
        drive(golden_case(), judged(GOOD), settings=GradingSettings(candidate="model"))
    assert failure.value.code == "judge_missing"


def test_only_multiple_choice_needs_no_judge() -> None:
    assert [needs_judge(case, SETTINGS) for case in (mcq_case(), golden_case(), batch_case(), rubric_case())] == [
        False,
        True,
        True,
        True,
    ]


def test_a_task_without_a_way_of_grading_fails_when_driven() -> None:
    with pytest.raises(GradingFailure) as failure:
        drive(conversation_case(), judged(GOOD))
    assert failure.value.code == "unsupported_task"


@pytest.mark.parametrize("kind", [None, *OURS])
@pytest.mark.parametrize("asks_judges", [False, True])
def test_a_grader_decides_for_every_kind_whether_a_judge_is_needed(kind: MethodKind | None, *, asks_judges: bool) -> None:
    assert is_judged(kind, grader=PluginPlan(kind="grader", name="own", asks_judges=asks_judges)) == asks_judges


def test_what_cannot_be_graded_needs_no_judge() -> None:
    assert not is_judged(None, grader=None)
