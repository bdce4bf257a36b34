"""Policies by `metadata.policy_id`: what reaches the candidate, what reaches the judge, and what a grade says about it."""

import re
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from assay.core.canonical import canonical_json, sha256_hex
from assay.core.case import Attachment, Criterion, Message
from assay.core.outcome import FailureLabel, GradingFailure
from assay.grading import GRADING_METHODS, POLICIES, GradingSettings, graded_by, policies, resolve_policy, templates
from assay.grading.templates import load_template
from tests.grading.driving import (
    SETTINGS,
    batch_case,
    conversation_case,
    drive,
    golden_case,
    judged,
    mcq_case,
    reference_case,
    rubric_case,
)

BRIEF = GradingSettings(candidate="model", judges=("judge",), system_prompt="Be brief.")
ONE = (Criterion("law", "Names the law", "See Article 1", 3.0),)
MET = '{"criteria_met": true, "explanation": "It does."}'
GOOD = '{"score": 5, "justification": "Right."}'
CASES = {
    "prbench_v1": (rubric_case(criteria=ONE, policy_id="prbench_v1"), MET),
    "apexv1_extended_v1": (rubric_case(criteria=ONE, policy_id="apexv1_extended_v1"), '{"result": 1, "reason": "It does."}'),
    "lexam_oq_v1": (reference_case(policy_id="lexam_oq_v1"), '{"score": 0.75, "justification": "Mostly.", "label": ""}'),
    "lexam_mcq_v1": (mcq_case(policy_id="lexam_mcq_v1"), ""),
    "includebase_default_v1": (mcq_case(policy_id="includebase_default_v1"), ""),
    "lar_echr_mcq_v1": (mcq_case(policy_id="lar_echr_mcq_v1"), ""),
}
BENCHMARKS = [pytest.param(case, verdict, id=name) for name, (case, verdict) in CASES.items()]
DEFAULTS = [
    (golden_case(), GOOD),
    (batch_case(), GOOD),
    (mcq_case(), ""),
    (rubric_case(criteria=ONE), MET),
    (reference_case(), '{"score": 1.0, "justification": "Right."}'),
]


def asked(case, verdict, settings=BRIEF, **texts):
    """The candidate's messages."""
    return drive(case, judged(verdict, answer='{"answer": "B"}'), settings=settings, **texts).asks["candidate"].messages


@pytest.mark.parametrize(("case", "verdict"), BENCHMARKS)
def test_a_grade_names_the_policy_it_was_made_by(case, verdict) -> None:
    grade = drive(case, judged(verdict, answer='{"answer": "B"}')).grade
    assert (grade.policy, grade.passed, grade.flags) == (case.policy_id, True, ())
    assert grade.template in templates()


@pytest.mark.parametrize(("case", "verdict"), DEFAULTS)
def test_a_record_without_a_policy_has_the_default_one(case, verdict) -> None:
    assert drive(case, judged(verdict, answer='{"answer": "B"}')).grade.policy == "default"


@pytest.mark.parametrize(("case", "verdict"), BENCHMARKS)
def test_a_benchmark_is_asked_without_the_runs_system_prompt(case, verdict) -> None:
    assert {message.role for message in asked(case, verdict)} == {"user"}


def test_the_default_policy_sends_the_runs_system_prompt() -> None:
    assert asked(mcq_case(), "")[0] == Message("system", "Be brief.")


def test_prbench_sends_the_conversation_as_given_and_shows_all_of_it_to_the_judge() -> None:
    messages = (Message("user", "One"), Message("assistant", "Two"), Message("user", "Three"))
    driven = drive(rubric_case(criteria=ONE, messages=messages, policy_id="prbench_v1"), judged(MET), settings=BRIEF)
    assert driven.asks["candidate"].messages == messages
    assert "[user]\nOne\n\n[assistant]\nTwo\n\n[user]\nThree" in driven.asks["judge:law"].messages[1].content


def test_apex_sends_the_attachments_and_asks_for_a_result_of_0_or_1() -> None:
    case = rubric_case(criteria=ONE, policy_id="apexv1_extended_v1", attachments=(Attachment("a.txt", title="Statute"),))
    driven = drive(case, judged('{"result": 0, "reason": "It does not."}'), attachments={"a.txt": "Article 1"})
    assert driven.asks["candidate"].messages[0].content == "What is 2+2?\n\nAttachment: Statute\nArticle 1"
    assert driven.asks["judge:law"].reply_schema["properties"]["result"] == {"type": "integer", "enum": [0, 1]}
    assert (driven.grade.score, driven.grade.scores[0].justification) == (0.0, "It does not.")


def test_apex_judges_the_criterion_and_shows_its_description_as_background() -> None:
    case, verdict = CASES["apexv1_extended_v1"]
    text = drive(case, judged(verdict)).asks["judge:law"].messages[1].content
    assert " criterion begins]\nNames the law\n[" in text
    assert " background begins]\nSee Article 1\n[" in text


@pytest.mark.parametrize("said", ["true", '"1"', "2", "1.0", "null"])
def test_a_result_that_is_neither_0_nor_1_is_no_verdict(said: str) -> None:
    with pytest.raises(GradingFailure):
        drive(CASES["apexv1_extended_v1"][0], judged(f'{{"result": {said}, "reason": "x"}}'))


def test_an_exam_question_is_one_message_that_names_the_course() -> None:
    case = reference_case(policy_id="lexam_oq_v1", metadata={"course": "Criminal Law"}, model_context="facts")
    (message,) = asked(case, CASES["lexam_oq_v1"][1])
    assert '"Criminal Law"' in message.content
    assert message.content.endswith("Question:\nWhat is 2+2?\n\nContext:\nfacts")


@pytest.mark.parametrize("metadata", [{}, {"course": " "}, {"course": 7}])
def test_a_course_that_is_not_named_is_law(metadata: dict[str, object]) -> None:
    (message,) = asked(reference_case(policy_id="lexam_oq_v1", metadata=metadata), CASES["lexam_oq_v1"][1])
    assert 'course "law"' in message.content


def test_an_exam_is_judged_in_tenths_by_the_solution_and_the_course() -> None:
    case = reference_case(policy_id="lexam_oq_v1", metadata={"course": "Criminal Law"})
    driven = drive(case, judged('{"score": 0.65, "justification": "x", "label": "unfaithful_to_context"}'))
    text = driven.asks["judge:reference"].messages[1].content
    assert " course begins]\nCriminal Law\n" in text
    assert " reference begins]\nFour.\n" in text
    assert (driven.grade.score, driven.grade.passed) == (0.7, True)


@pytest.mark.parametrize(("case", "verdict"), [*BENCHMARKS, *DEFAULTS[2:]])
def test_context_always_reaches_candidate_and_judge(case, verdict) -> None:
    with_context = msgspec.structs.replace(case, model_context="the facts")
    driven = drive(with_context, judged(verdict, answer='{"answer": "B"}'))
    assert all("the facts" in ask.messages[-1].content for ask in driven.asks.values())


def test_a_policy_that_nobody_knows_is_flagged_and_graded_by_the_default_one() -> None:
    driven = drive(mcq_case(policy_id="house_v9"), judged("", answer="B"), settings=BRIEF)
    assert (driven.grade.policy, driven.grade.passed, driven.grade.flags) == ("default", True, ("unknown_policy",))
    assert driven.asks["candidate"].messages[0].role == "system"


def test_a_policy_for_another_task_is_flagged_and_graded_by_the_default_one() -> None:
    grade = drive(mcq_case(policy_id="lexam_oq_v1"), judged("", answer="none of them")).grade
    assert (grade.policy, grade.flags) == ("default", ("unsuitable_policy", "unparseable_answer"))


def test_every_template_of_every_policy_exists() -> None:
    styles = [style for policy in POLICIES.values() for style in (policy.criterion, policy.reference)]
    named = {style.template_id for style in styles} | {policy.question_template for policy in POLICIES.values()} - {""}
    assert named <= set(templates())
    assert all(load_template(name).sha256 == templates()[name] for name in named)


def test_a_policy_is_known_by_its_own_id() -> None:
    assert [policy.id for policy in POLICIES.values()] == list(POLICIES)
    assert resolve_policy("", "open")[0] is POLICIES["default"]


@pytest.mark.parametrize(
    ("case", "texts"),
    [
        (golden_case(), ("judge_1_5/1", "ask_again/1")),
        (batch_case(), ("judge_1_5/1", "ask_again/1", "criterion_overall/1")),
        (batch_case(criteria=(Criterion("clarity", "clarity"),)), ("judge_1_5/1", "ask_again/1", "criterion_clarity/1")),
        (mcq_case(), ("mcq_answer/1", "mcq_one/1")),
        (mcq_case(("A", "B")), ("mcq_answer/1", "mcq_several/1")),
        (reference_case(policy_id="lexam_oq_v1"), ("judge_exam/1", "exam_question/1", "ask_again/1")),
        (rubric_case(criteria=ONE, policy_id="prbench_v1"), ("judge_criterion/1", "ask_again/1")),
    ],
)
def test_the_hash_of_a_grade_covers_every_text_that_is_asked_with(case, texts) -> None:
    way = graded_by(case, SETTINGS)
    assert (way.template, *way.others) == texts
    assert way.template_sha256 == sha256_hex(canonical_json({name: templates()[name] for name in texts}))


@pytest.mark.parametrize("text", ["ask_again/1", "criterion_overall/1", "mcq_any/1", "tool_call/1"])
def test_the_hash_of_a_policy_covers_the_texts_of_its_tasks(text) -> None:
    assert text in POLICIES["default"].template_ids


def test_the_graded_by_grading_is_known_without_a_grade() -> None:
    case, _ = CASES["lexam_oq_v1"]
    way = graded_by(case, SETTINGS)
    assert (way.evaluator, way.template, way.policy) == ("judge_reference/1", "judge_exam/1", "lexam_oq_v1")
    assert graded_by(conversation_case(), SETTINGS) is None


def test_the_hash_of_a_policy_covers_what_it_asks_for() -> None:
    hashes = policies()
    assert len(set(hashes.values())) == len(POLICIES)
    changed = msgspec.structs.replace(POLICIES["lexam_oq_v1"], question_template="")
    assert changed.sha256 != hashes["lexam_oq_v1"]


def test_the_reference_page_has_every_policy_graded_by_grading_and_label() -> None:
    page = (Path(__file__).parent.parent.parent / "docs" / "reference" / "policies.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w/]+)` \|", page, flags=re.MULTILINE)
    evaluators = dict.fromkeys(evaluator for way in GRADING_METHODS.values() for evaluator in way.evaluators)
    assert rows == [*POLICIES, *evaluators, *get_args(FailureLabel)[1:]]
