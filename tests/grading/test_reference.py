"""Answers judged by references."""

from tests.grading.driving import drive, judged, reference_case

GOOD = '{"score": 0.9, "justification": "The same."}'


def test_several_references_are_shown_together_and_numbered() -> None:
    prompt = drive(reference_case(references=("Four.", "4")), judged(GOOD)).asks["judge:reference"].messages[-1].content
    assert "(1)\nFour.\n\n(2)\n4" in prompt


def test_a_score_below_the_threshold_does_not_pass() -> None:
    grade = drive(reference_case(), judged('{"score": 0.6, "justification": "Half of it."}')).grade
    assert (grade.passed, grade.score, grade.evaluator, grade.label) == (False, 0.6, "judge_reference/1", "incorrect_answer")
