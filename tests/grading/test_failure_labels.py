"""The failure taxonomy: every grade that does not pass says why, in one word of the contract."""

import json
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.case import Criterion
from assay.core.outcome import FailureLabel
from tests.grading.driving import batch_case, drive, golden_case, judged, mcq_case, reference_case, rubric_case

LABELS = set(get_args(FailureLabel))
CRITERIA = tuple(Criterion(name, name, "", weight) for name, weight in (("one", 3.0), ("two", 1.0), ("bad", -2.0), ("idle", 0.0)))
PROPOSED = st.sampled_from([*sorted(LABELS), "nonsense", None, 7])


def carries_a_label(case, verdict: dict[str, object]) -> bool:
    grade = drive(case, judged(json.dumps(verdict), answer="C")).grade
    return grade.label in LABELS and bool(grade.label) is not grade.passed


@given(st.integers(1, 5), PROPOSED)
def test_on_the_scale_of_five(score: int, label: object) -> None:
    for case in (golden_case(), batch_case(criteria=(Criterion("clarity", "clarity"), Criterion("accuracy", "accuracy")))):
        assert carries_a_label(case, {"score": score, "justification": "x", "label": label})


@given(st.integers(0, 10), PROPOSED)
def test_by_reference(tenths: int, label: object) -> None:
    for policy in ("", "lexam_oq_v1"):
        assert carries_a_label(reference_case(policy_id=policy), {"score": tenths / 10, "justification": "x", "label": label})


@given(st.lists(st.booleans(), min_size=4, max_size=4), PROPOSED)
def test_by_rubric(met: list[bool], label: object) -> None:
    said = iter(json.dumps({"criteria_met": one, "explanation": "x", "label": label}) for one in met)
    grade = drive(rubric_case(criteria=CRITERIA), lambda ask: "4" if ask.stage == "candidate" else next(said)).grade
    assert grade.label in LABELS
    assert bool(grade.label) is not grade.passed


def test_by_comparison() -> None:
    assert carries_a_label(mcq_case(), {})
    assert carries_a_label(mcq_case(("C",)), {})


@pytest.mark.parametrize(
    ("label", "kept"), [("hallucinated_fact", "hallucinated_fact"), ("", "incorrect_answer"), ("x", "incorrect_answer")]
)
def test_a_judge_by_reference_may_say_what_is_wrong(label: str, kept: str) -> None:
    reply = json.dumps({"score": 0.1, "justification": "x", "label": label})
    assert drive(reference_case(policy_id="lexam_oq_v1"), judged(reply)).grade.label == kept


def test_a_judge_cannot_blame_the_clock() -> None:
    reply = json.dumps({"score": 2, "justification": "x", "label": "timeout_or_latency_exceeded"})
    assert drive(golden_case(), judged(reply)).grade.label == "other"
