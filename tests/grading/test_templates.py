"""Prompt templates: each has a hash, slots are filled in one pass, and no template is invented."""

import pytest

from assay.core.case import Case, Criterion
from assay.core.model_call import Reply
from assay.grading import GradingSettings, start, templates
from assay.grading.templates import fill, load_template, texts_sha256
from tests.grading.driving import (
    GOOD,
    SETTINGS,
    drive,
    golden_case,
    judged,
    reference_case,
    rubric_case,
)
from tests.grading.test_hijack import ANSWERS


def test_every_template_has_a_hash_and_grades_name_theirs() -> None:
    assert all(len(sha256) == 64 for sha256 in templates().values())
    grade = drive(golden_case(), judged(GOOD)).grade
    assert (grade.template, grade.template_sha256) == ("judge_1_5/1", texts_sha256(("judge_1_5/1", "ask_again/1")))


def test_slots_are_filled_in_one_pass() -> None:
    assert fill("{{a}} {{b}}", {"a": "{{b}}", "b": "{{a}}"}) == "{{b}} {{a}}"


def test_a_template_that_does_not_exist_is_not_invented() -> None:
    with pytest.raises(KeyError):
        load_template("judge_1_5/0")


CRITERIA = (Criterion("law", "Names {{answer}}", "Article 1"), Criterion("slip", "Errs", "", -1.0))
ONE_CALL = GradingSettings(candidate="model", judges=("judge",), rubric_mode="one_call")
EVERY_TEMPLATE = [
    (golden_case(), SETTINGS),
    (rubric_case(criteria=CRITERIA), SETTINGS),
    (rubric_case(criteria=CRITERIA), ONE_CALL),
    (rubric_case(criteria=CRITERIA, policy_id="apexv1_extended_v1"), SETTINGS),
    (reference_case(), SETTINGS),
    (reference_case(policy_id="lexam_oq_v1", metadata={"course": "{{mark}}"}), SETTINGS),
]


@pytest.mark.parametrize(("case", "settings"), EVERY_TEMPLATE)
@pytest.mark.parametrize("answer", ANSWERS[:8])
def test_under_every_template_the_answer_stands_once_in_its_block(case: Case, settings: GradingSettings, answer: str) -> None:
    first = start(case, settings)
    next(first)
    for ask in first.send((Reply(text=answer),)):
        mark = ask.messages[1].content[1:17]
        block = f"[{mark} answer begins]\n{answer or '(the answer is empty)'}\n[{mark} answer ends]\n\n"
        assert ask.messages[1].content.count(block) == 1
        assert ask.messages[1].content.count(f"[{mark} answer ") == 2
        assert mark in ask.messages[0].content


def test_a_mark_differs_from_record_to_record_and_from_call_to_call() -> None:
    texts = [
        drive(golden_case(record_sha256=sha256), judged(GOOD)).asks["judge:rubric"].messages[1].content for sha256 in ("1", "2")
    ]
    assert len({text[:18] for text in texts}) == 2


def test_a_mark_that_stands_in_a_text_is_replaced_by_another() -> None:
    first = drive(golden_case(), judged(GOOD)).asks["judge:rubric"].messages[1].content
    mark = first[1:17]
    second = drive(golden_case(prompt=f"What is {mark}?"), judged(GOOD)).asks["judge:rubric"].messages[1].content
    assert second.startswith("[")
    assert second[1:17] != mark
